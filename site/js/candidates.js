// A mask or a decoder that a cell defines, in the labs: the cells' Python says what it does in a state
// of a lab, the lab's Python draws that.  What the page says of a lab follows what is drawn in it.

import { say } from "./words.js";

/** The cells' Python may be busy: after so long a lab shows what it came with. */
const PATIENCE_MS = 300;

/**
 * @typedef {import("./lab-python.js").Values} Values
 * @typedef {"mask" | "decoder"} Kind
 *
 * @typedef {object} Candidate of the visitor's
 * @property {number} id of the run that it comes from
 * @property {Kind} kind
 * @property {number} cell its number
 * @property {(lab: string, values: Values) => void} ask the cells' Python, which answers later
 *
 * @typedef {object} Answer
 * @property {number} candidate the candidate's id
 * @property {string} lab
 * @property {Values} values
 * @property {string} answer kvlab.candidate.Candidate.answer()
 */

export class Candidates {
  /** Labs that can draw it. @type {Map<string, CandidateInLab>} */
  #labs = new Map();
  /** @type {Candidate | undefined} */
  #candidate;
  #startPython;

  /** @param {() => void} startPython starts the labs' Python unless it has started */
  constructor(startPython) {
    this.#startPython = startPython;
  }

  /**
   * A lab is shown; it can draw something of the visitor's if it has a bar for it.
   *
   * @param {string} name
   * @param {import("./lab.js").Lab} lab
   */
  add(name, lab) {
    const section = /** @type {HTMLElement} */ (document.querySelector(`[data-lab="${name}"]`));
    const bar = /** @type {HTMLElement | null} */ (section.querySelector("[data-candidate-bar]"));
    if (bar) {
      const place = new CandidateInLab(name, lab, section, bar);
      bar.querySelector("button")?.addEventListener("click", () => this.end());
      this.#labs.set(name, place);
      place.begin(this.#candidate);
    }
  }

  /** @param {Candidate} candidate */
  begin(candidate) {
    this.#candidate = candidate;
    for (const lab of this.#labs.values()) {
      lab.begin(candidate);
    }
    this.#startPython();
  }

  /** Back to what the page came with; nothing happens if it is there already. */
  end() {
    if (this.#candidate) {
      this.#candidate = undefined;
      for (const lab of this.#labs.values()) {
        lab.begin(undefined);
      }
    }
  }

  /** @param {Answer} answer */
  answered({ candidate, lab, values, answer }) {
    if (candidate === this.#candidate?.id) {
      this.#labs.get(lab)?.answered(values, answer);
    }
  }
}

/** What is asked for one lab, one question at a time, and what its page says. */
class CandidateInLab {
  #name;
  #lab;
  #section;
  #bar;
  #said;
  /** @type {Candidate | undefined} */
  #candidate;
  /** In flight. @type {Values | undefined} */
  #asked;
  /** Asked for meanwhile. @type {Values | undefined} */
  #wanted;
  /** Whose the page says that the figures are, by ID. @type {number | undefined} */
  #named;
  /** The answer takes so long that the lab shows what it came with. */
  #late = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #patience;

  /**
   * @param {string} name
   * @param {import("./lab.js").Lab} lab
   * @param {HTMLElement} section
   * @param {HTMLElement} bar
   */
  constructor(name, lab, section, bar) {
    this.#name = name;
    this.#lab = lab;
    this.#section = section;
    this.#bar = bar;
    this.#said = /** @type {HTMLElement} */ (bar.querySelector("[data-candidate-said]"));
    lab.onShown((id) => this.#entitle(id));
  }

  /** @param {Candidate | undefined} candidate in place of the one before */
  begin(candidate) {
    if (candidate === this.#candidate) {
      return;
    }
    this.#candidate = candidate;
    this.#asked = undefined;
    this.#wanted = undefined;
    clearTimeout(this.#patience);
    this.#bar.hidden = !candidate;
    this.#said.textContent = "";
    this.#lab.use(candidate && this);
  }

  /** Of what the lab shall draw. */
  get id() {
    return this.#candidate?.id;
  }

  /** And no longer for the cells: they are asked again when it is there. */
  waitForPython() {
    clearTimeout(this.#patience);
    this.#asked = undefined;
    this.#wanted = undefined;
    this.#say("candidate.needs-python");
  }

  /** @param {Values} values */
  ask(values) {
    this.#wanted = values;
    if (!this.#asked) {
      this.#askNext();
    } else if (this.#late) {
      this.#lab.draw(values);
    }
  }

  #askNext() {
    this.#asked = this.#wanted;
    this.#wanted = undefined;
    this.#late = false;
    if (this.#asked) {
      this.#candidate?.ask(this.#name, this.#asked);
      this.#patience = setTimeout(() => this.#waitForCells(), PATIENCE_MS);
    }
  }

  #waitForCells() {
    this.#late = true;
    this.#say("candidate.waiting");
    this.#lab.draw(/** @type {Values} */ (this.#wanted ?? this.#asked));
  }

  /**
   * @param {Values} values
   * @param {string} answer
   */
  answered(values, answer) {
    clearTimeout(this.#patience);
    const { error } = JSON.parse(answer);
    if (!this.#wanted && error !== undefined) {
      this.#say("candidate.failed", { reason: error });
      this.#lab.draw(values);
    } else if (error === undefined && !(this.#wanted && this.#late)) {
      this.#lab.draw(values, answer); // while a slider is dragged, a step on the way
    }
    this.#askNext();
  }

  /**
   * @param {string} message
   * @param {Record<string, string>} [args]
   */
  #say(message, args) {
    this.#said.textContent = say(message, args);
  }

  /**
   * Names what is drawn: something of the visitor's, or what the page came with.
   *
   * @param {number | undefined} id of the candidate
   */
  #entitle(id) {
    const candidate = id === undefined ? undefined : this.#candidate;
    if (id !== this.#named) {
      this.#named = id;
      this.#rename(candidate);
    }
    if (candidate) {
      this.#say(candidate.kind === "mask" ? "candidate.mask" : "candidate.decoder", {
        cell: String(candidate.cell),
      });
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
    const title = this.#section.querySelector("h3[data-candidate-mask]");
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
