// What a lab says of its state: read-outs and sentences.

import { paragraph, say } from "./words.js";

/**
 * @typedef {{key: string[], message: string[], args: Record<string, string>[], value: string[]}} Texts
 *   kvlab.words.columns()
 */

/**
 * @param {string} lab
 * @param {Texts} texts
 */
export function showTexts(lab, { key, message, args, value }) {
  /** @type {Map<string, string[]>} */
  const paragraphs = new Map();
  for (const [index, name] of key.entries()) {
    const sentences = paragraphs.get(name) ?? [];
    paragraphs.set(name, [...sentences, say(message[index], args[index])]);
  }
  for (const [name, sentences] of paragraphs) {
    const text = paragraph(sentences);
    for (const element of document.querySelectorAll(`[data-readout="${lab}.${name}"]`)) {
      if (element.textContent !== text) {
        element.textContent = text; // what stays the same needn't be laid out again
      }
      const number = value[key.indexOf(name)];
      if (number) {
        element.setAttribute("data-value", number);
      }
    }
  }
}
