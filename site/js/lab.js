// One lab on the page: prebuilt states first, Python's answers as soon as it is there, and a candidate
// of the visitor's in place of what the page came with.

import { CandidateBar } from "./candidate-bar.js";
import { LabDocument } from "./lab-document.js";
import { showGrids } from "./lab-grids.js";
import { showPassage } from "./lab-passage.js";
import { LabSteps } from "./lab-steps.js";
import { showTables } from "./lab-tables.js";
import { showTexts } from "./lab-texts.js";

/** The cells' Python may be busy: after so long a lab shows what it came with. */
const PATIENCE_MS = 300;

/**
 * @typedef {Record<string, number>} Values control name to its value
 * @typedef {unknown[]} State values of all outputs, in the document's order
 * @typedef {import("./candidate-bar.js").Candidate} Candidate
 * @typedef {import("./candidate-bar.js").Doings} Doings
 * @typedef {import("./python-worker.js").PythonWorker} PythonWorker
 *
 * @typedef {{states: Record<string, number[]>, pool: unknown[]}} Table
 *   control values joined by commas -> for each output, where its value is in the pool
 *
 * @typedef {object} LabData kvsite.wasm_inside.write_lab_data()
 * @property {import("./lab-document.js").Description} description
 * @property {Table} table
 * @property {import("./lab-tables.js").Marks} marks
 *
 * @typedef {object} Listener
 * @property {() => void} back takes the candidate away
 * @property {(reason: string) => void} failed Python can't answer this lab, which shows what was
 *   prebuilt
 */

export class Lab {
  #name;
  #document;
  #table;
  #marks;
  #python;
  #failed;
  #bar;
  #steps;
  /** @type {Candidate | undefined} */
  #candidate;
  /** Its answer takes so long that the lab shows what it came with. */
  #isLate = false;
  /** What the controls said last. @type {Values} */
  #values = {};
  /** Python has answered for the first time. */
  #isLive = false;

  /**
   * @param {string} dataUrl
   * @returns {Promise<LabData>}
   */
  static async fetch(dataUrl) {
    try {
      return await fetched(dataUrl);
    } catch {
      return fetched(dataUrl, { cache: "reload" }); // once more, past what the browser has kept
    }
  }

  /**
   * Shows a lab in its place on the page.
   *
   * @param {string} name
   * @param {LabData} data
   * @param {PythonWorker} python the labs'
   * @param {Listener} listener
   */
  static async show(name, data, python, listener) {
    return new Lab(name, await LabDocument.show(name, data.description), data, python, listener);
  }

  /**
   * @param {string} name
   * @param {LabDocument} labDocument
   * @param {LabData} data
   * @param {PythonWorker} python
   * @param {Listener} listener
   */
  constructor(name, labDocument, { table, marks }, python, { back, failed }) {
    this.#name = name;
    this.#document = labDocument;
    this.#table = table;
    this.#marks = marks;
    this.#python = python;
    this.#failed = failed;
    const section = /** @type {HTMLElement} */ (document.querySelector(`[data-lab="${name}"]`));
    this.#bar = CandidateBar.of(section, back);
    this.#document.onControls(() => this.#update());
    this.#steps = LabSteps.of(section, this.controls);
    this.#document.onControls(() => this.#steps?.moved());
    this.#update();
  }

  get controls() {
    return this.#document.controls;
  }

  /** @param {() => void} moved not told of each step while playing, but when that ends */
  onControls(moved) {
    this.#document.onControls(() => this.#steps?.isPlaying || moved());
    if (this.#steps) {
      this.#steps.onStop = moved;
    }
  }

  recolour() {
    this.#document.recolour();
  }

  /**
   * Python is there: its first answer must be what was prebuilt, and then it takes over.
   *
   * @returns {Promise<boolean | undefined>} whether it was; undefined: there was none
   */
  async goLive() {
    const values = this.#document.values;
    const state = await this.#ask(values);
    if (!state) {
      return undefined;
    }
    if (!Array.isArray(state)) {
      this.#fail(state.error);
      return undefined;
    }
    if (JSON.stringify(values) !== JSON.stringify(this.#values)) {
      return this.goLive(); // moved meanwhile, and the table has shown it
    }
    this.#isLive = true;
    this.#show(state);
    if (this.#candidate) {
      this.#update();
    }
    return JSON.stringify(state) === JSON.stringify(this.#prebuilt(values));
  }

  /** Python is gone: shows what was prebuilt. */
  fallBack() {
    this.#isLive = false;
    this.#update();
  }

  /** @param {string} reason why Python can't answer */
  #fail(reason) {
    this.fallBack();
    this.#failed(reason);
  }

  /** @param {Candidate | undefined} candidate in place of the one before */
  use(candidate) {
    if (this.#bar && candidate !== this.#candidate) {
      this.#candidate = candidate;
      this.#isLate = false;
      this.#bar.show(candidate !== undefined);
      this.#update();
    }
  }

  /** Shows the state of the controls. */
  #update() {
    const values = this.#document.values;
    this.#values = values;
    if (!this.#isLive) {
      this.#show(this.#prebuilt(values));
      if (this.#candidate) {
        this.#bar?.say("candidate.needs-python");
      }
    } else if (this.#candidate) {
      this.#askCandidate(this.#candidate, values);
    } else {
      this.#draw(values);
    }
  }

  /**
   * First the cells' Python, which alone has the candidate and can be ended, then the labs'.
   *
   * @param {Candidate} candidate
   * @param {Values} values
   */
  async #askCandidate(candidate, values) {
    const patience = setTimeout(() => this.#waitForCells(), this.#isLate ? 0 : PATIENCE_MS);
    const doings = await candidate.ask(this.#name, values);
    clearTimeout(patience);
    if (!doings || candidate !== this.#candidate || !this.#isLive) {
      return;
    }
    const wasLate = this.#isLate;
    this.#isLate = false;
    const isLatest = values === this.#values;
    if (isLatest && doings.error !== undefined) {
      this.#refuse(doings.error, values);
    } else if (doings.error === undefined && (isLatest || !wasLate)) {
      this.#draw(values, candidate, doings); // while a slider is dragged, a step on the way
    }
  }

  /**
   * @param {string} reason why the candidate can't be drawn
   * @param {Values} values
   */
  #refuse(reason, values) {
    this.#bar?.say("candidate.failed", { reason });
    this.#draw(values);
  }

  #waitForCells() {
    this.#isLate = true;
    this.#bar?.say("candidate.waiting");
    this.#draw(this.#values);
  }

  /**
   * @param {Values} values
   * @param {Candidate} [candidate] none: what the page came with
   * @param {Doings} [doings] what the candidate does with the values
   */
  async #draw(values, candidate, doings) {
    const state = await this.#ask(values, doings);
    // While a slider is dragged, late answers are steps on the way; the last one is the present.
    if (!state || !this.#isLive || (candidate && candidate !== this.#candidate)) {
      return;
    }
    if (Array.isArray(state)) {
      this.#show(state, candidate);
    } else if (candidate) {
      this.#refuse(state.error, values);
    } else {
      this.#fail(state.error);
    }
  }

  /**
   * @param {Values} values
   * @param {Doings} [candidate] what one does with them
   * @returns {Promise<State | {error: string} | undefined>}
   */
  #ask(values, candidate) {
    const question = { type: "state", lab: this.#name, values, candidate };
    return this.#python.ask(this.#name, question);
  }

  /** @param {Values} values @returns {State} */
  #prebuilt(values) {
    const { states, pool } = this.#table;
    return states[Object.values(values).join(",")].map((index) => pool[index]);
  }

  /**
   * @param {State} state
   * @param {Candidate} [candidate] what is drawn in it, if not what the page came with
   */
  #show(state, candidate) {
    this.#document.apply(state);
    showTexts(this.#name, this.#document.output(state, "texts"));
    showPassage(this.#name, (name) => this.#document.output(state, name));
    showGrids(this.#name, (name) => this.#document.output(state, name), this.#marks);
    showTables(this.#name, (name) => this.#document.output(state, name), this.#marks);
    this.#bar?.name(candidate);
  }
}

/**
 * @param {string} url
 * @param {RequestInit} [options]
 * @returns {Promise<LabData>}
 */
async function fetched(url, options) {
  const response = await fetch(url, options);
  if (!response.ok) {
    throw new Error(`${url.split("/").pop()}: the server answered ${response.status}`);
  }
  return response.json();
}
