// One lab on the page: prebuilt states first, Python's answers as soon as it is there.

import { LabDocument } from "./lab-document.js";
import { showTables } from "./lab-tables.js";
import { showTexts } from "./lab-texts.js";

/**
 * @typedef {import("./lab-python.js").Values} Values
 * @typedef {import("./lab-python.js").State} State
 *
 * @typedef {object} Candidate something of the visitor's, as one lab draws it
 * @property {number | undefined} id
 * @property {(values: Values) => void} ask answers by `draw`
 * @property {() => void} waitForPython nothing of it is drawn any more, or not yet
 *
 * @typedef {{states: Record<string, number[]>, pool: unknown[]}} Table
 *   control values joined by commas -> for each output, where its value is in the pool
 *
 * @typedef {object} LabData kvsite.wasm_inside.write_lab_data()
 * @property {import("./lab-document.js").Description} description
 * @property {Table} table
 * @property {import("./lab-tables.js").Marks} marks
 */

export class Lab {
  #name;
  #document;
  #table;
  #marks;
  #python;
  /** Asked for what is drawn in place of what the page came with. @type {Candidate | undefined} */
  #candidate;
  /** @type {(candidate: number | undefined) => void} */
  #told = () => {};
  /** @type {boolean | undefined} of Python's first answer; undefined before */
  equal;

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
   * @param {import("./lab-python.js").LabPython} python
   */
  static async show(name, data, python) {
    return new Lab(name, await LabDocument.show(name, data.description), data, python);
  }

  /**
   * @param {string} name
   * @param {LabDocument} labDocument
   * @param {LabData} data
   * @param {import("./lab-python.js").LabPython} python
   */
  constructor(name, labDocument, { table, marks }, python) {
    this.#name = name;
    this.#document = labDocument;
    this.#table = table;
    this.#marks = marks;
    this.#python = python;
    this.#document.onControls(() => this.#moved());
    this.fallBack();
  }

  get controls() {
    return this.#document.controls;
  }

  /** @param {() => void} moved */
  onControls(moved) {
    this.#document.onControls(moved);
  }

  /** Asks Python for what is on the screen. */
  ask() {
    if (this.#candidate && this.equal !== undefined) {
      this.#candidate.ask(this.#document.values);
    } else {
      this.#python.ask(this.#name, this.#document.values);
    }
  }

  /** @param {(candidate: number | undefined) => void} told id of the visitor's thing that is shown now */
  onShown(told) {
    this.#told = told;
  }

  /** @param {Candidate | undefined} candidate */
  use(candidate) {
    this.#candidate = candidate;
    if (this.#python.ready) {
      this.ask();
    } else {
      candidate?.waitForPython();
    }
  }

  /**
   * @param {Values} values
   * @param {string} [answer] what the visitor's thing does with them; none: what the page came with
   */
  draw(values, answer) {
    if (this.equal === undefined) {
      return; // Python is gone or new, and its first answer must be of what was prebuilt
    }
    const candidate = answer === undefined ? undefined : { id: this.#candidate?.id ?? 0, answer };
    this.#python.ask(this.#name, values, candidate);
  }

  /** Shows what was prebuilt. */
  fallBack() {
    this.equal = undefined;
    this.#candidate?.waitForPython();
    this.#show(this.#prebuilt(this.#document.values));
  }

  recolour() {
    this.#document.recolour();
  }

  /**
   * @param {Values} values
   * @param {State} state Python's answer to them
   * @param {number | undefined} candidate id of the visitor's thing that it is of
   */
  answered(values, state, candidate) {
    if (candidate !== undefined && candidate !== this.#candidate?.id) {
      return; // taken away meanwhile
    }
    if (this.equal === undefined) {
      if (JSON.stringify(values) !== JSON.stringify(this.#document.values)) {
        this.ask(); // moved meanwhile, and the table has shown it
        return;
      }
      this.equal = JSON.stringify(state) === JSON.stringify(this.#prebuilt(values));
      this.#candidate?.ask(values);
    }
    // While a slider is dragged, late answers are steps on the way; the last one is the present.
    this.#show(state, candidate);
  }

  #moved() {
    if (this.equal === undefined) {
      this.#show(this.#prebuilt(this.#document.values));
    } else {
      this.ask();
    }
  }

  /** @param {Values} values @returns {State} */
  #prebuilt(values) {
    const { states, pool } = this.#table;
    return states[Object.values(values).join(",")].map((index) => pool[index]);
  }

  /**
   * @param {State} state
   * @param {number} [candidate] id of the visitor's thing that it is of
   */
  #show(state, candidate) {
    this.#document.apply(state);
    showTexts(this.#name, this.#document.output(state, "texts"));
    showTables(this.#name, (name) => this.#document.output(state, name), this.#marks);
    this.#told(candidate);
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
