// The labs' questions to their Python: one in flight, and of each lab the latest that is wanted.

import { PythonWorker } from "./python-worker.js";

/**
 * @typedef {Record<string, number>} Values control name to its value
 * @typedef {unknown[]} State values of all outputs, in the document's order
 * @typedef {{id: number, answer: string}} Candidate something of the visitor's, and JSON of what it does
 * @typedef {{lab: string, values: Values, candidate?: Candidate}} Question
 * @typedef {Question & {state: State}} Answer
 *
 * @typedef {object} Listener
 * @property {(progress: import("./python.js").Progress) => void} progress
 * @property {() => void} ready
 * @property {(message: string) => void} failed
 * @property {(answer: Answer) => void} state
 */

export class LabPython {
  #worker;
  #listener;
  /** In flight. @type {Question | undefined} */
  #asked;
  /** Asked for meanwhile, by lab. @type {Map<string, Question>} */
  #wanted = new Map();

  /**
   * @param {string} workerUrl
   * @param {import("./python.js").PythonConfig} config
   * @param {Listener} listener
   */
  constructor(workerUrl, config, listener) {
    this.#listener = listener;
    this.#worker = new PythonWorker(workerUrl, config, (message) => this.#receive(message));
  }

  start() {
    this.#asked = undefined;
    this.#wanted.clear();
    this.#worker.start();
  }

  stop() {
    this.#worker.stop();
  }

  get started() {
    return this.#worker.started;
  }

  /** Python has started and takes questions. */
  get ready() {
    return this.#worker.ready;
  }

  /**
   * @param {string} lab
   * @param {Values} values
   * @param {Candidate} [candidate] what is drawn in place of what the page came with
   */
  ask(lab, values, candidate) {
    if (!this.ready) {
      return; // each lab asks when it is
    }
    this.#wanted.set(lab, { lab, values, candidate });
    if (!this.#asked) {
      this.#askNext();
    }
  }

  #askNext() {
    const [next] = this.#wanted.values();
    this.#asked = next;
    if (next) {
      const { lab, values, candidate } = next;
      this.#wanted.delete(lab);
      const answer = candidate?.answer ?? "null";
      this.#worker.post({ type: "set", lab, values, candidate: answer }, { answers: true });
    }
  }

  /** @param {import("./python-worker.js").Message} message */
  #receive(message) {
    if (message.type === "progress") {
      this.#listener.progress(/** @type {any} */ (message));
    } else if (message.type === "ready") {
      this.#listener.ready();
    } else if (message.type === "failed") {
      this.#listener.failed(message.message);
    } else {
      const asked = /** @type {Question} */ (this.#asked);
      this.#askNext();
      this.#listener.state({ ...asked, state: message.state });
    }
  }
}
