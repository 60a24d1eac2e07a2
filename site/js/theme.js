// Light or dark: as the system, or as the reader chose. The style sheet reads `data-theme`.

import { kept } from "./storage.js";

/** @typedef {"" | "light" | "dark"} Theme "" follows the system */

/** @returns {Theme} */
export function keptTheme() {
  const theme = kept("theme");
  return theme === "light" || theme === "dark" ? theme : "";
}

/** @param {Theme} theme */
export function useTheme(theme) {
  if (theme) {
    document.documentElement.dataset.theme = theme;
  } else {
    delete document.documentElement.dataset.theme;
  }
}

/**
 * Calls back when the colours have changed, by the system, by the reader, or for the printer.
 *
 * @param {() => void} changed
 */
export function onThemeChange(changed) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  new MutationObserver(changed).observe(document.documentElement, {
    attributeFilter: ["data-theme"],
  });
  for (const [event, printing] of /** @type {const} */ ([
    ["beforeprint", true],
    ["afterprint", false],
  ])) {
    addEventListener(event, () => {
      document.documentElement.classList.toggle("printing", printing);
      changed();
    });
  }
}
