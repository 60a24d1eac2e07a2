// Offline use: a service worker keeps the site's files once the page has no other work.

import { sizeOf } from "./progress.js";
import { say } from "./words.js";

/** A worker that is asked and says nothing for so long was ended by the browser. */
const SILENCE_MS = 120_000;

/**
 * @typedef {object} OfflineConfig
 * @property {string} build that this page is of
 * @property {string} workerUrl absolute
 * @property {string} folder of the page's language
 */

export class Offline {
  #status = byId("offline-status");
  #update = byId("site-update");
  #config;
  /** One request at a time. @type {Promise<unknown>} */
  #queue = Promise.resolve();

  /** @param {OfflineConfig} config */
  constructor(config) {
    this.#config = config;
  }

  async start() {
    if (!navigator.serviceWorker) {
      return; // without HTTPS, or in a private window
    }
    try {
      const registration = await navigator.serviceWorker.register(this.#config.workerUrl);
      const again = () => this.#keepWhenIdle(registration);
      again();
      registration.addEventListener("updatefound", again);
      // Python has started or failed.
      new MutationObserver(again).observe(document.documentElement, {
        attributeFilter: ["data-runtime-state"],
      });
      document.addEventListener("visibilitychange", () => {
        if (document.visibilityState === "visible") {
          update(registration);
        }
      });
    } catch (error) {
      this.#failed(error);
    }
  }

  /** @param {ServiceWorkerRegistration} registration */
  #keepWhenIdle(registration) {
    if (document.documentElement.dataset.runtimeState !== "loading") {
      this.#queue = this.#queue
        .then(idle)
        .then(() => this.#keep(registration))
        .catch((error) => this.#failed(error));
    }
  }

  /** @param {ServiceWorkerRegistration} registration */
  async #keep(registration) {
    const python = document.documentElement.dataset.runtimeState === "live";
    const { build, folder } = this.#config;
    const keep = async () =>
      ask(await newest(registration), { type: "keep", build, folder, python }, (progress) =>
        this.#say("offline.saving", { size: sizeOf(progress) }),
      );
    let answer = await keep();
    if (answer.type === "other") {
      await update(registration); // this page may be newer than the worker, too
      answer = await keep();
    }
    if (answer.type === "kept") {
      this.#say(python ? "offline.available" : "offline.without-python");
    } else if (answer.type === "other") {
      this.#offerUpdate();
    } else {
      this.#say("offline.failed", { reason: answer.message });
    }
  }

  /** @param {unknown} error */
  #failed(error) {
    this.#say("offline.failed", { reason: error instanceof Error ? error.message : String(error) });
  }

  /** Nothing reloads by itself: a cell may be running. */
  #offerUpdate() {
    if (this.#update.hidden) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = say("offline.reload");
      button.addEventListener("click", () => location.reload());
      this.#update.hidden = false;
      this.#update.append(say("offline.update"), " ", button);
    }
  }

  /** @param {string} message @param {Record<string, string>} [args] */
  #say(message, args) {
    this.#status.textContent = say(message, args);
  }
}

/** @param {ServiceWorkerRegistration} registration */
async function newest({ installing, waiting, active }) {
  const found = /** @type {ServiceWorker} */ (installing ?? waiting ?? active);
  while (found.state === "installing") {
    await new Promise((resolve) => found.addEventListener("statechange", resolve, { once: true }));
  }
  return found.state === "redundant" && active ? active : found;
}

/**
 * @param {ServiceWorker} worker
 * @param {object} question
 * @param {(progress: {loaded: number, total: number}) => void} onProgress
 * @returns {Promise<{type: string, message: string}>}
 */
function ask(worker, question, onProgress) {
  const { port1, port2 } = new MessageChannel();
  return new Promise((resolve, reject) => {
    const giveUp = () => reject(new Error(`no answer for ${SILENCE_MS / 1000} seconds`));
    let patience = setTimeout(giveUp, SILENCE_MS);
    port1.onmessage = ({ data }) => {
      clearTimeout(patience);
      if (data.type === "progress") {
        patience = setTimeout(giveUp, SILENCE_MS);
        onProgress(data);
      } else {
        resolve(data);
      }
    };
    worker.postMessage(question, [port2]);
  });
}

/** @param {ServiceWorkerRegistration} registration */
async function update(registration) {
  await registration.update().catch(() => {}); // no network, perhaps
}

/** Resolves when the browser has time; Safari doesn't tell. */
function idle() {
  return new Promise((resolve) => {
    (window.requestIdleCallback ?? setTimeout)(resolve);
  });
}

/** @param {string} id */
const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));
