// What every page has: theme, language, and the table of contents where there is one.

import { keep, kept } from "./storage.js";
import { keptTheme, useTheme } from "./theme.js";

const theme = /** @type {HTMLSelectElement} */ (document.getElementById("theme"));
theme.value = keptTheme();
theme.addEventListener("change", () => {
  keep("theme", theme.value);
  useTheme(/** @type {import("./theme.js").Theme} */ (theme.value));
});

// A page in another language opens at the same place and state, which a page with labs knows better.
/** @param {HTMLAnchorElement} link */
function leadTo(link) {
  const address = link.href;
  const follow = () => {
    const place = { url: new URL(location.href) };
    document.dispatchEvent(new CustomEvent("kvproof:place", { detail: place }));
    link.href = address + place.url.search + place.url.hash;
  };
  for (const event of ["pointerenter", "focus", "click"]) {
    link.addEventListener(event, follow);
  }
}

const languages = /** @type {NodeListOf<HTMLAnchorElement>} */ (
  document.querySelectorAll("a[data-language]")
);
for (const link of languages) {
  leadTo(link);
  const { language = "" } = link.dataset;
  link.addEventListener("click", () => keep("language", language));
  // Nobody is sent elsewhere: the page in the language that was chosen is marked.
  link.classList.toggle("chosen", kept("language") === language);
}

// A file's whole address, wherever the site lies: pip takes it.
for (const place of /** @type {NodeListOf<HTMLElement>} */ (
  document.querySelectorAll("[data-address]")
)) {
  place.textContent = new URL(place.dataset.address ?? "", document.baseURI).href;
}

const contents = /** @type {HTMLDetailsElement | null} */ (document.getElementById("contents"));
contents?.addEventListener("click", ({ target }) => {
  if (target instanceof HTMLAnchorElement) {
    contents.open = false; // it lies over what was chosen
  }
});
contents?.addEventListener("keydown", ({ key }) => {
  if (key === "Escape") {
    contents.open = false;
    contents.querySelector("summary")?.focus();
  }
});
