// A mask or a decoder that a cell defines, in the mask lab: the cells' Python says what it does in a
// call, the lab's Python draws that.

import { say } from "./words.js";

/**
 * @typedef {import("./lab-python.js").Values} Values
 * @typedef {"mask" | "decoder"} Kind
 *
 * @typedef {object} Lab the mask lab, as far as it matters here
 * @property {(own: Own | undefined) => void} use
 * @property {(values: Values, answer: string) => void} draw
 */

const TITLES = { mask: "mask.own.mask-title", decoder: "mask.own.decoder-title" };

export class Own {
  #lab;
  #bar = /** @type {HTMLElement} */ (document.querySelector("[data-own-bar]"));
  #legend = /** @type {HTMLElement} */ (document.querySelector("[data-own-legend]"));
  #said = /** @type {HTMLElement} */ (this.#bar.querySelector("[data-own-said]"));
  /** @type {((values: Values) => void) | undefined} asks the cells' Python */
  #post;
  /** @type {Values | undefined} asked for while another question was in flight */
  #wanted;
  #asking = false;
  #about = "";

  /** @param {Lab} lab */
  constructor(lab) {
    this.#lab = lab;
    this.#bar.querySelector("button")?.addEventListener("click", () => this.end());
  }

  /**
   * @param {Kind} kind
   * @param {number} cell its number
   * @param {(values: Values) => void} post
   */
  begin(kind, cell, post) {
    this.#post = post;
    this.#asking = false;
    this.#about = say(TITLES[kind]);
    this.#entitle(this.#about, say("mask.own.rule", { cell }), say("mask.own.column"));
    this.#say("");
    this.#lab.use(this);
  }

  /** Back to what the page came with; nothing happens if it is there already. */
  end() {
    if (this.#post) {
      this.#post = undefined;
      this.#wanted = undefined;
      this.#entitle();
      this.#show(false);
      this.#lab.use(undefined);
    }
  }

  /** @param {Values} values */
  ask(values) {
    this.#wanted = values;
    if (!this.#asking) {
      this.#askNext();
    }
  }

  /**
   * @param {Values} values
   * @param {string} answer kvlab.own.Own.answer()
   */
  answered(values, answer) {
    if (!this.#post) {
      return;
    }
    const { error } = JSON.parse(answer);
    if (error === undefined) {
      this.#lab.draw(values, answer);
    }
    this.#say(error === undefined ? "" : say("mask.own.failed", { reason: error }));
    this.#askNext();
  }

  #askNext() {
    const values = this.#wanted;
    this.#wanted = undefined;
    this.#asking = values !== undefined;
    if (values) {
      this.#post?.(values);
    }
  }

  /** @param {string} failure */
  #say(failure) {
    this.#show(true);
    this.#said.textContent = failure || this.#about;
  }

  /** @param {boolean} shown what belongs to something of the visitor's alone */
  #show(shown) {
    this.#bar.hidden = !shown;
    this.#legend.hidden = !shown;
  }

  /**
   * Writes over what the page says of the wrong mask; without texts, restores that.
   *
   * @param {string} [title]
   * @param {string} [rule]
   * @param {string} [column]
   */
  #entitle(title, rule, column) {
    const texts = { title, rule, column };
    for (const [name, text] of Object.entries(texts)) {
      for (const place of document.querySelectorAll(`[data-own="${name}"]`)) {
        const element = /** @type {HTMLElement} */ (place);
        element.dataset.before ??= element.textContent ?? "";
        element.textContent = text ?? element.dataset.before;
      }
    }
  }
}
