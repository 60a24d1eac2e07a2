// Characters that can't be seen. In code they can hide what it does: text that seems to stand elsewhere
// (right to left), two names that look the same.

/** Controls but for tab and line end, formats, separators, and what fonts show nothing of. */
const HIDDEN = /(?![\t\n])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

/** For CodeMirror's highlightSpecialChars(). */
export const shownByNumber = {
  specialChars: HIDDEN,
  render: (/** @type {number} */ code) =>
    Object.assign(document.createElement("span"), {
      className: "hidden-character",
      textContent: numberOf(code),
    }),
};

/** @param {string} text */
export function countHidden(text) {
  return text.match(HIDDEN)?.length ?? 0;
}

/** @param {string} text with the numbers in the place of such characters */
export function uncovered(text) {
  return text.replace(HIDDEN, (character) => numberOf(character.codePointAt(0) ?? 0));
}

/** @param {number} code */
function numberOf(code) {
  return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}
