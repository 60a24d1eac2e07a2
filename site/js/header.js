// The header of every page: theme and language.

import { keep, kept } from "./storage.js";
import { chooseTheme, keptTheme } from "./theme.js";

const theme = /** @type {HTMLSelectElement} */ (document.getElementById("theme"));
theme.value = keptTheme();
theme.addEventListener("change", () =>
  chooseTheme(/** @type {import("./theme.js").Theme} */ (theme.value)),
);

// A page in another language opens at the same place and state.
const languages = /** @type {NodeListOf<HTMLAnchorElement>} */ (
  document.querySelectorAll("a[data-language]")
);
for (const link of languages) {
  const address = link.href;
  const follow = () => {
    link.href = address + location.search + location.hash;
  };
  for (const event of ["pointerenter", "focus", "click"]) {
    link.addEventListener(event, follow);
  }
  const { language = "" } = link.dataset;
  link.addEventListener("click", () => keep("language", language));
  // Nobody is sent elsewhere: the page in the language that was chosen is marked.
  link.classList.toggle("chosen", kept("language") === language);
}
