// A classic script, which runs before anything is drawn: the theme. It is also the only kind that
// runs from file://, where no module does: says so there.

import { keptTheme, useTheme } from "./theme.js";

document.documentElement.classList.add(location.protocol === "file:" ? "from-file" : "js");
useTheme(keptTheme());

// The checker has a page of its own: links with code for it, or with a broken decoder, lead there.
function leadToChecker() {
  const page = /** @type {HTMLLinkElement | null} */ (
    document.querySelector("link[rel=canonical]")
  );
  const isForIt = location.hash.replaceAll(/%7e/gi, "~").includes("~check-yours=");
  if (page && isForIt && !page.href.endsWith("/check.html")) {
    location.replace(new URL(`check.html${location.hash}`, page.href));
  }
}

leadToChecker();
addEventListener("hashchange", leadToChecker);
