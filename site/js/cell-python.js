// The page's side of the cells' Python: a worker that is started when needed and thrown away to stop.

/**
 * @typedef {import("./python.js").PythonConfig} PythonConfig
 * @typedef {import("./cell-output.js").OutputKind} OutputKind
 * @typedef {{type: "progress"} & import("./python.js").Progress} ProgressMessage
 * @typedef {{type: "ready"}} ReadyMessage
 * @typedef {{type: "failed", message: string}} FailedMessage
 * @typedef {{type: "output", id: number, kind: OutputKind, text: string}} OutputMessage
 * @typedef {{type: "done", id: number, value?: string, error?: string}} DoneMessage
 * @typedef {{type: "crashed", id: number, message: string}} CrashedMessage
 * @typedef {ProgressMessage | ReadyMessage | FailedMessage | OutputMessage | DoneMessage
 *   | CrashedMessage} Message
 */

export class CellPython {
  /** @type {Worker | undefined} */
  #worker;
  /** Counts workers; a message of an earlier one may still be on its way and is dropped. */
  #epoch = 0;
  #ready = false;
  #config;
  #workerUrl;
  #receive;

  /**
   * @param {string} workerUrl
   * @param {PythonConfig} config
   * @param {(message: Message) => void} receive
   */
  constructor(workerUrl, config, receive) {
    this.#workerUrl = workerUrl;
    this.#config = config;
    this.#receive = receive;
  }

  get ready() {
    return this.#ready;
  }

  /** @param {{id: number, number: number, source: string}} run */
  run(run) {
    this.#worker ??= this.#start();
    this.#worker.postMessage({ type: "run", ...run });
  }

  /** Ends the worker with all its variables; the next run starts a new one. */
  stop() {
    this.#worker?.terminate();
    this.#worker = undefined;
    this.#ready = false;
    this.#epoch += 1;
  }

  #start() {
    this.#epoch += 1;
    const epoch = this.#epoch;
    const worker = new Worker(this.#workerUrl, { type: "module", name: "cells" });
    worker.addEventListener("message", ({ data }) => {
      if (data.epoch === this.#epoch) {
        this.#ready ||= data.type === "ready";
        this.#receive(data);
      }
    });
    worker.addEventListener("error", (event) => {
      if (epoch === this.#epoch && !this.#ready) {
        const message = event.message || `${this.#workerUrl} could not be loaded`;
        this.#receive({ type: "failed", message });
      }
    });
    worker.postMessage({ type: "init", epoch, python: this.#config });
    return worker;
  }
}
