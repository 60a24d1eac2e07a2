// The page's side of a worker with Python: started, watched while it owes a word, ended to stop it.

/** A worker that owes a word and says nothing for so long counts as failed. */
const SILENCE_S = 90;
/** Waited for in steps: a machine that sleeps takes none, and that is no silence. */
const STEP_S = 10;

/**
 * @typedef {import("./python.js").PythonConfig} PythonConfig
 * @typedef {{type: string} & Record<string, any>} Message
 */

export class PythonWorker {
  #url;
  #python;
  #receive;
  /** @type {Worker | undefined} */
  #worker;
  /** Counts workers: a message of an earlier one may still be on its way and is dropped. */
  #epoch = 0;
  #ready = false;
  #failures = 0;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #watchdog;

  /**
   * @param {string} url of the worker's script
   * @param {PythonConfig} python
   * @param {(message: Message) => void} receive gets the worker's messages, and {type: "failed",
   *   message} when it can't start or falls silent; it is ended by then
   */
  constructor(url, python, receive) {
    this.#url = url;
    this.#python = python;
    this.#receive = receive;
  }

  get started() {
    return this.#worker !== undefined;
  }

  /** Python has started and takes messages. */
  get ready() {
    return this.#ready;
  }

  start() {
    this.stop();
    const epoch = this.#epoch;
    this.#worker = new Worker(this.#url, { type: "module" });
    this.#worker.addEventListener("message", ({ data }) => {
      if (data?.epoch === this.#epoch) {
        this.#received(data);
      }
    });
    this.#worker.addEventListener("error", (event) => {
      if (epoch === this.#epoch && !this.#ready) {
        this.#fail(event.message || `${this.#url.split("/").pop()} can't be loaded`);
      }
    });
    this.#worker.postMessage({ type: "init", epoch, python: this.#config });
    this.#watch();
  }

  /**
   * @param {object} message
   * @param {{answers: boolean}} expect whether an answer must come soon
   */
  post(message, { answers }) {
    this.#worker?.postMessage(message);
    if (answers) {
      this.#watch();
    }
  }

  stop() {
    clearInterval(this.#watchdog);
    this.#worker?.terminate();
    this.#worker = undefined;
    this.#ready = false;
    this.#epoch += 1;
  }

  /** After a failure: past what the browser has kept, and without the snapshot, which may hang. */
  get #config() {
    return this.#failures === 0
      ? this.#python
      : { ...this.#python, cache: /** @type {const} */ ("reload"), snapshot: undefined };
  }

  /** @param {Message} message */
  #received(message) {
    clearInterval(this.#watchdog);
    if (message.type === "failed") {
      this.#fail(message.message);
      return;
    }
    this.#ready ||= message.type === "ready";
    if (!this.#ready) {
      this.#watch();
    }
    this.#receive(message);
  }

  #watch() {
    clearInterval(this.#watchdog);
    let left = SILENCE_S;
    this.#watchdog = setInterval(() => {
      left -= STEP_S;
      if (left <= 0) {
        this.#fail(`no sign of life for ${SILENCE_S} seconds`);
      }
    }, STEP_S * 1000);
  }

  /** @param {string} message */
  #fail(message) {
    this.#failures += 1;
    this.stop();
    this.#receive({ type: "failed", message });
  }
}
