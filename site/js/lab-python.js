// The lab's questions to its Python: one in flight, and the latest one that is wanted.

import { PythonWorker } from "./python-worker.js";

/**
 * @typedef {Record<string, number>} Values control name to its value
 * @typedef {unknown[]} State values of all outputs, in the document's order
 *
 * @typedef {object} Listener
 * @property {(progress: import("./python.js").Progress) => void} progress
 * @property {() => void} ready
 * @property {(message: string) => void} failed
 * @property {(values: Values, state: State) => void} state
 */

export class LabPython {
  #worker;
  #listener;
  #asking = false;
  /** @type {Values | undefined} asked for while another question was in flight */
  #wanted;

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
    this.#wanted = undefined;
    this.#worker.start();
  }

  /** @param {Values} values */
  ask(values) {
    this.#wanted = values;
    if (!this.#asking) {
      this.#askNext();
    }
  }

  #askNext() {
    const values = this.#wanted;
    this.#wanted = undefined;
    this.#asking = values !== undefined;
    if (values) {
      this.#worker.post({ type: "set", values }, { answers: true });
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
      this.#listener.state(message.values, message.state);
    }
  }
}
