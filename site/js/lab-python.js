// The page's side of the lab's Python: a worker, one question in flight, the latest one kept.

/** A start without any word for so long counts as failed. */
const SILENCE_MS = 90_000;

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
  #workerUrl;
  #config;
  #listener;
  /** @type {Worker | undefined} */
  #worker;
  /** Counts workers: a message of an earlier one may still be on its way and is dropped. */
  #epoch = 0;
  #sent = 0;
  #answered = 0;
  #failures = 0;
  /** @type {Values | undefined} asked for while another question was in flight */
  #wanted;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #watchdog;

  /**
   * @param {string} workerUrl
   * @param {import("./python.js").PythonConfig} config
   * @param {Listener} listener
   */
  constructor(workerUrl, config, listener) {
    this.#workerUrl = workerUrl;
    this.#config = config;
    this.#listener = listener;
  }

  start() {
    this.#stop();
    const epoch = this.#epoch;
    this.#worker = new Worker(this.#workerUrl, { type: "module", name: "lab" });
    this.#worker.addEventListener("message", ({ data }) => {
      if (data.epoch === this.#epoch) {
        this.#receive(data);
      }
    });
    this.#worker.addEventListener("error", (event) => {
      if (epoch === this.#epoch) {
        this.#fail(event.message || "the worker's script can't be loaded");
      }
    });
    // After a failure the browser may have kept a broken file, so a retry asks the server anew.
    const cache = this.#failures ? "reload" : "default";
    this.#worker.postMessage({ type: "init", epoch, python: { ...this.#config, cache } });
    this.#watch();
  }

  /** @param {Values} values */
  ask(values) {
    this.#wanted = values;
    this.#askNext();
  }

  #askNext() {
    if (this.#wanted && this.#answered === this.#sent) {
      this.#sent += 1;
      this.#worker?.postMessage({ type: "set", id: this.#sent, values: this.#wanted });
      this.#wanted = undefined;
    }
  }

  /** @param {any} data */
  #receive(data) {
    this.#watch();
    if (data.type === "progress") {
      this.#listener.progress(data);
    } else if (data.type === "ready") {
      clearTimeout(this.#watchdog);
      this.#listener.ready();
    } else if (data.type === "failed") {
      this.#fail(data.message);
    } else {
      clearTimeout(this.#watchdog);
      this.#answered = data.id;
      this.#listener.state(data.values, data.state);
      this.#askNext();
    }
  }

  #watch() {
    clearTimeout(this.#watchdog);
    this.#watchdog = setTimeout(
      () => this.#fail(`no sign of life for ${SILENCE_MS / 1000} seconds`),
      SILENCE_MS,
    );
  }

  /** @param {string} message */
  #fail(message) {
    this.#failures += 1;
    this.#stop();
    this.#listener.failed(message);
  }

  #stop() {
    clearTimeout(this.#watchdog);
    this.#worker?.terminate();
    this.#worker = undefined;
    this.#epoch += 1;
    this.#sent = this.#answered = 0;
    this.#wanted = undefined;
  }
}
