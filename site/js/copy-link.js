// The button that copies a link to what is shown.

import { say } from "./words.js";

/** @param {() => Promise<string>} link */
export function startCopyLink(link) {
  const button = /** @type {HTMLElement} */ (document.getElementById("copy-link"));
  const said = /** @type {HTMLElement} */ (document.getElementById("copy-link-said"));
  button.hidden = false;
  button.addEventListener("click", async () => {
    const address = await link();
    try {
      await navigator.clipboard.writeText(address);
      said.textContent = say("link.copied");
    } catch {
      said.replaceChildren(say("link.select"), " ", selected(address)); // not permitted
    }
  });
}

/** @param {string} address */
function selected(address) {
  const field = document.createElement("input");
  field.readOnly = true;
  field.value = address;
  field.ariaLabel = say("link.copy");
  requestAnimationFrame(() => field.select());
  return field;
}
