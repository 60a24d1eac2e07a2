// The button that copies a link to what is shown.

import { paragraph, say } from "./words.js";

/** @param {() => Promise<import("./address.js").Link>} link */
export function startCopyLink(link) {
  const button = /** @type {HTMLElement} */ (document.getElementById("copy-link"));
  const said = /** @type {HTMLElement} */ (document.getElementById("copy-link-said"));
  button.hidden = false;
  button.addEventListener("click", async () => {
    const made = link();
    const copied = await copy(made.then(({ url }) => url.href)).then(
      () => true,
      () => false, // not permitted
    );
    const { url, leftOut } = await made;
    const sentences = [say(copied ? "link.copied" : "link.select"), ...(leftOut ? [leftOut] : [])];
    said.replaceChildren(paragraph(sentences), ...(copied ? [] : [selected(url.href)]));
  });
}

/** @param {Promise<string>} text */
async function copy(text) {
  if (window.ClipboardItem) {
    // Safari wants the copying to begin with the click; the text may follow.
    const blob = text.then((known) => new Blob([known], { type: "text/plain" }));
    await navigator.clipboard.write([new ClipboardItem({ "text/plain": blob })]);
  } else {
    await navigator.clipboard.writeText(await text);
  }
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
