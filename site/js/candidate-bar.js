// What a lab's page says of a candidate, the mask or decoder that a cell hands to draw(...): the names
// of what is drawn follow it, and a line says whose it is, or why it isn't drawn.

import { say } from "./words.js";

/**
 * @typedef {"mask" | "decoder"} Kind
 * @typedef {{error?: string} & Record<string, unknown>} Doings kvlab.candidate.Candidate.answer()
 *
 * @typedef {object} Candidate
 * @property {Kind} kind
 * @property {number} cell number of the one that it comes from
 * @property {(lab: string, values: import("./lab.js").Values) => Promise<Doings | undefined>} ask
 *   the cells' Python what it does in a lab's state; undefined: a later question took its place, or
 *   Python was ended
 */

const DRAWN = { mask: "candidate.mask", decoder: "candidate.decoder" };

export class CandidateBar {
  #section;
  #bar;
  #said;
  /** Whose the page says that the figures are. @type {Candidate | undefined} */
  #named;

  /**
   * @param {HTMLElement} section of a lab
   * @param {() => void} back takes the candidate away
   * @returns {CandidateBar | undefined} none where the lab can't draw one
   */
  static of(section, back) {
    const bar = /** @type {HTMLElement | null} */ (section.querySelector("[data-candidate-bar]"));
    return bar ? new CandidateBar(section, bar, back) : undefined;
  }

  /**
   * @param {HTMLElement} section
   * @param {HTMLElement} bar
   * @param {() => void} back
   */
  constructor(section, bar, back) {
    this.#section = section;
    this.#bar = bar;
    this.#said = /** @type {HTMLElement} */ (bar.querySelector("[data-candidate-said]"));
    bar.querySelector("button")?.addEventListener("click", back);
  }

  /** @param {boolean} wanted whether there is a candidate */
  show(wanted) {
    this.#bar.hidden = !wanted;
    this.#said.textContent = "";
  }

  /**
   * Why it isn't drawn.
   *
   * @param {string} message
   * @param {Record<string, string>} [args]
   */
  say(message, args) {
    this.#said.textContent = say(message, args);
  }

  /**
   * Names what is drawn.
   *
   * @param {Candidate | undefined} candidate none: what the page came with
   */
  name(candidate) {
    if (candidate !== this.#named) {
      this.#named = candidate;
      this.#rename(candidate);
    }
    if (candidate) {
      this.#said.textContent = say(DRAWN[candidate.kind], { cell: candidate.cell });
    }
  }

  /** @param {Candidate | undefined} candidate */
  #rename(candidate) {
    for (const element of this.#section.querySelectorAll("[data-candidate-mask]")) {
      const { dataset } = /** @type {HTMLElement} */ (element);
      dataset.before ??= element.textContent ?? "";
      const message = candidate?.kind === "mask" ? dataset.candidateMask : dataset.candidateDecoder;
      element.textContent = candidate
        ? say(message ?? "", { cell: candidate.cell })
        : dataset.before;
    }
    // The same for who hears a picture's name instead of reading its title.
    const title = this.#section.querySelector(":is(h3, h4)[data-candidate-mask]");
    for (const named of title?.closest("figure")?.querySelectorAll("[aria-label]") ?? []) {
      const { dataset } = /** @type {HTMLElement} */ (named);
      dataset.before ??= named.ariaLabel ?? "";
      named.ariaLabel = candidate ? (title?.textContent ?? "") : dataset.before;
    }
    for (const element of this.#section.querySelectorAll("[data-candidate-only]")) {
      /** @type {HTMLElement} */ (element).hidden = !candidate;
    }
  }
}
