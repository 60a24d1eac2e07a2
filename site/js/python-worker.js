// The page's side of a worker with Python: starts it, asks it one question at a time, ends it.

/** A worker that owes a word and says nothing for so long counts as failed. */
const SILENCE_S = 90;
/** Waited for in steps: a machine that sleeps takes none, and that is no silence. */
const STEP_S = 10;

/**
 * @typedef {import("./python.js").PythonConfig} PythonConfig
 * @typedef {{type: string} & Record<string, any>} Message
 *
 * @typedef {object} Listener
 * @property {(progress: import("./python.js").Progress) => void} progress
 * @property {() => void} ready
 * @property {(reason: string) => void} failed Python can't start, broke or fell silent; its worker is
 *   ended by then
 * @property {(message: any) => void} [said] something else than the answer to what was asked
 *
 * @typedef {object} Options
 * @property {boolean} [patient] the answer may take as long as it likes
 * @property {() => void} [begun] it is asked now
 *
 * @typedef {{question: Message, answer: (answer: any) => void} & Options} Asked
 */

export class PythonWorker {
  #url;
  #python;
  #listener;
  /** What an earlier one still says is dropped. @type {Worker | undefined} */
  #worker;
  #ready = false;
  #failures = 0;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #watchdog;
  #id = 0;
  /** In flight. @type {Asked | undefined} */
  #asked;
  /** Asked for meanwhile, by topic. @type {Map<string, Asked>} */
  #waiting = new Map();

  /**
   * @param {string} url of the worker's script (see serve.js)
   * @param {PythonConfig} python
   * @param {Listener} listener
   */
  constructor(url, python, listener) {
    this.#url = url;
    this.#python = python;
    this.#listener = listener;
  }

  get started() {
    return this.#worker !== undefined;
  }

  /** Python has started and answers. */
  get ready() {
    return this.#ready;
  }

  start() {
    this.stop();
    /** @type {Worker} */
    let worker;
    try {
      worker = new Worker(this.#url, { type: "module" });
    } catch (error) {
      this.#fail(String(error)); // a browser without module workers, or a policy that forbids them
      return;
    }
    this.#worker = worker;
    worker.addEventListener("message", ({ data }) => {
      if (worker === this.#worker && data?.type) {
        this.#received(data); // code in a cell can post what it likes
      }
    });
    worker.addEventListener("error", (event) => {
      if (worker === this.#worker && !this.#ready) {
        this.#fail(event.message || `${this.#url.split("/").pop()} can't be loaded`);
      }
    });
    worker.postMessage({ type: "init", python: this.#config });
    this.#watch();
  }

  /** Whoever waits for an answer gets none. */
  stop() {
    clearInterval(this.#watchdog);
    this.#worker?.terminate();
    this.#worker = undefined;
    this.#ready = false;
    const unanswered = this.#asked
      ? [this.#asked, ...this.#waiting.values()]
      : this.#waiting.values();
    this.#asked = undefined;
    this.#waiting = new Map();
    for (const { answer } of unanswered) {
      answer(undefined);
    }
  }

  /**
   * One question is in flight; of those on one topic that wait meanwhile only the latest is asked.
   *
   * @param {string} topic
   * @param {Message} question its type is the name of what answers it in the worker
   * @param {Options} [options]
   * @returns {Promise<any>} undefined: a later question took its place, or Python was ended
   */
  ask(topic, question, options) {
    return new Promise((answer) => {
      this.#waiting.get(topic)?.answer(undefined);
      this.#waiting.set(topic, { question, answer, ...options });
      this.#askNext();
    });
  }

  #askNext() {
    const [next] = this.#waiting;
    if (!this.#ready || this.#asked || !next) {
      return;
    }
    const [topic, asked] = next;
    this.#waiting.delete(topic);
    this.#asked = asked;
    this.#id += 1;
    this.#worker?.postMessage({ ...asked.question, id: this.#id });
    asked.begun?.();
    if (!asked.patient) {
      this.#watch();
    }
  }

  /** After a failure: past what the browser has kept, and without the snapshot, which may hang. */
  get #config() {
    return this.#failures === 0
      ? this.#python
      : { ...this.#python, cache: /** @type {const} */ ("reload"), snapshot: undefined };
  }

  /** @param {Message} message */
  #received(message) {
    if (message.type === "progress") {
      this.#watch();
      this.#listener.progress(/** @type {any} */ (message));
    } else if (message.type === "ready") {
      clearInterval(this.#watchdog);
      this.#ready = true;
      this.#listener.ready();
      this.#askNext();
    } else if (message.type === "failed") {
      this.#fail(message.reason);
    } else if (message.id === this.#id && this.#asked) {
      this.#answered(message, this.#asked);
    } // else it is of an earlier question, which left something behind that still prints
  }

  /**
   * @param {Message} message
   * @param {Asked} asked
   */
  #answered(message, asked) {
    if (message.type === "answer") {
      clearInterval(this.#watchdog);
      this.#asked = undefined;
      this.#askNext();
      asked.answer(message.answer);
    } else {
      this.#listener.said?.(message);
    }
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

  /** @param {string} reason */
  #fail(reason) {
    this.#failures += 1;
    this.stop();
    this.#listener.failed(reason);
  }
}
