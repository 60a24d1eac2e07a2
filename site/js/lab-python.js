// The labs' questions to their Python: one in flight, and of each lab the latest that is wanted.

import { PythonWorker } from "./python-worker.js";

/**
 * @typedef {Record<string, number>} Values control name to its value
 * @typedef {unknown[]} State values of all outputs, in the document's order
 *
 * @typedef {object} Listener
 * @property {(progress: import("./python.js").Progress) => void} progress
 * @property {() => void} ready
 * @property {(message: string) => void} failed
 * @property {(lab: string, values: Values, state: State) => void} state
 */

export class LabPython {
  #worker;
  #listener;
  #asking = false;
  /** Asked for while another question was in flight. @type {Map<string, [Values, string]>} */
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
    this.#asking = false;
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
   * @param {string} [own] JSON of what something of the visitor's does in this call
   */
  ask(lab, values, own = "null") {
    this.#wanted.set(lab, [values, own]);
    if (!this.#asking) {
      this.#askNext();
    }
  }

  #askNext() {
    const [next] = this.#wanted;
    this.#asking = next !== undefined;
    if (next) {
      const [lab, [values, own]] = next;
      this.#wanted.delete(lab);
      this.#worker.post({ type: "set", lab, values, own }, { answers: true });
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
      this.#askNext();
      this.#listener.state(message.lab, message.values, message.state);
    }
  }
}
