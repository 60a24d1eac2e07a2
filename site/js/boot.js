// A classic script, which runs before anything is drawn: the theme, and the way to what has moved. It
// is also the only kind that runs from file://, where no module does: says so there.

import { keptTheme, useTheme } from "./theme.js";

document.documentElement.classList.add(location.protocol === "file:" ? "from-file" : "js");
useTheme(keptTheme());

/**
 * The page that an address of the first page means today, by code for a cell, a section, or a lab's
 * controls: much of what was on it has a page of its own.
 *
 * @param {Record<string, string>} places ID of a section or lab, or "~" and a cell's name -> page
 */
function pageMeant(places) {
  const [section, ...codes] = location.hash.slice(1).replaceAll(/%7e/gi, "~").split("~");
  const cells = codes.map((code) => `~${code.split("=")[0]}`);
  const controls = section ? [] : [...new URLSearchParams(location.search).keys()];
  const labs = controls.map((name) => `${name.split(".")[0]}-lab`);
  return [...cells, section, ...labs].map((name) => places[name]).find(Boolean);
}

function leadOn() {
  const places = document.getElementById("site-places")?.textContent;
  const page = places && pageMeant(JSON.parse(places));
  const own = /** @type {HTMLLinkElement} */ (document.querySelector("link[rel=canonical]"));
  if (page) {
    location.replace(new URL(`${page}.html${location.search}${location.hash}`, own.href));
  }
}

leadOn();
addEventListener("hashchange", leadOn);
