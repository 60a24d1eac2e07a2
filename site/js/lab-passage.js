// A text in words: each shows whether it lies in the cache, is new, or isn't part of this state's text.

/**
 * @param {string} lab
 * @param {(name: string) => import("./lab-tables.js").Columns} output the present value of an output
 */
export function showPassage(lab, output) {
  for (const place of document.querySelectorAll(`[data-passage^="${lab}."]`)) {
    const { passage = "" } = /** @type {HTMLElement} */ (place).dataset;
    const { state } = output(passage.slice(lab.length + 1));
    for (const [index, name] of state.entries()) {
      const shown = place.children[index];
      if (shown.className !== name) {
        shown.className = String(name);
      }
    }
  }
}
