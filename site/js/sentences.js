// The checker's sentences in the page's language (see site/texts/checker/zh.toml).

/**
 * Translates by patterns: English with {places} -> the same in another language.
 *
 * @param {Record<string, string>} patterns of several that fit the first one counts
 * @returns {(sentence: string) => string | null} null: no pattern fits
 */
export function translator(patterns) {
  const open = Object.keys(patterns)
    .filter((english) => english.includes("{"))
    .map((english) => ({ shape: shapeOf(english), said: patterns[english] }));

  /**
   * @param {string} sentence
   * @returns {string | null}
   */
  function translated(sentence) {
    if (Object.hasOwn(patterns, sentence)) {
      return patterns[sentence];
    }
    for (const { shape, said } of open) {
      const args = shape.exec(sentence)?.groups;
      if (args) {
        return said.replace(/\{(\w+)\}/g, (_, place) => part(args[place]));
      }
    }
    return null;
  }

  /**
   * What stands in a place: a sentence, a list of some, or what is the same in any language.
   *
   * @param {string} text
   * @returns {string}
   */
  function part(text) {
    return listed(text) ?? translated(text) ?? text;
  }

  /**
   * Names joined by commas, some of which have commas themselves: the longest name counts.
   *
   * @param {string} text
   */
  function listed(text) {
    const pieces = text.split(", ");
    const found = [];
    for (let start = 0; start < pieces.length; ) {
      let end = pieces.length;
      while (end > start && !Object.hasOwn(patterns, pieces.slice(start, end).join(", "))) {
        end -= 1;
      }
      if (end === start) {
        return null;
      }
      found.push(patterns[pieces.slice(start, end).join(", ")]);
      start = end;
    }
    return found.join("；");
  }

  return translated;
}

/** @param {string} english */
function shapeOf(english) {
  const source = english
    .split(/\{(\w+)\}/)
    .map((piece, i) => (i % 2 ? `(?<${piece}>.+?)` : piece.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")))
    .join("");
  return new RegExp(`^${source}$`, "su");
}
