// Draws checker's reports as HTML, with the very code that draws them in the page. See report.py.
//
// Reads {messages, lang, reports: {name: {report, text, inShort}}} and writes {name: HTML}.

import process from "node:process";

/** @type {Record<string, string>} A property whose attribute has another name. */
const ATTRIBUTES = { className: "class", ariaLabel: "aria-label", tabIndex: "tabindex" };

/** As much of an element as `element` in site/js/cell-element.js asks for. */
class Part {
  dataset = {};
  #tag;
  /** @type {(Part | string)[]} */
  #children = [];

  /** @param {string} tag */
  constructor(tag) {
    this.#tag = tag;
  }

  /** @param {(Part | string)[]} children */
  append(...children) {
    this.#children.push(...children);
  }

  /** @returns {string} */
  toString() {
    const { dataset, ...properties } = this;
    const own = Object.entries(properties).map(([name, value]) => attribute(name, value));
    const data = Object.entries(dataset).map(([name, value]) => attribute(`data-${name}`, value));
    const inside = this.#children.map((one) => (typeof one === "string" ? escaped(one) : one));
    return `<${this.#tag}${own.join("")}${data.join("")}>${inside.join("")}</${this.#tag}>`;
  }
}

/**
 * @param {string} name of a property
 * @param {string | number | boolean} value
 */
function attribute(name, value) {
  const key = ATTRIBUTES[name] ?? name;
  if (typeof value === "boolean") {
    return value ? ` ${key}` : "";
  }
  return ` ${key}="${escaped(String(value))}"`;
}

/** @param {string} text */
function escaped(text) {
  /** @type {Record<string, string>} */
  const signs = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text.replace(/[&<>"]/g, (sign) => signs[sign]);
}

let question = "";
for await (const piece of process.stdin.setEncoding("utf-8")) {
  question += piece; // read at once, a pipe that isn't full yet would be an error
}
const { messages, lang, reports } = JSON.parse(question);
/** @type {any} */ (globalThis).document = {
  /** @param {string} tag */
  createElement: (tag) => new Part(tag),
  getElementById: () => ({ textContent: JSON.stringify(messages) }),
  documentElement: { lang },
};
const { drawnInShort, drawnReport } = await import("../../site/js/cell-report.js");
const drawn = Object.entries(reports).map(([name, { report, text, inShort }]) => {
  const made = inShort ? drawnInShort(report) : drawnReport(report, text);
  return [name, String(made)];
});
process.stdout.write(JSON.stringify(Object.fromEntries(drawn)));
