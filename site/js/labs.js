// All labs of the page: each is loaded when it comes near the screen, and one Python serves them.

import { Lab } from "./lab.js";
import { LabPython } from "./lab-python.js";
import { LabStatus } from "./lab-status.js";
import { onThemeChange } from "./theme.js";
import { say } from "./words.js";

/** How far below the screen a lab is loaded, so that it is there before its reader. */
const NEAR = "0px 0px 100% 0px";

/**
 * @typedef {object} LabsConfig
 * @property {Record<string, string>} dataUrls of each lab
 * @property {string} workerUrl
 * @property {import("./python.js").PythonConfig} python
 */

export class Labs {
  /** @type {Map<string, Lab>} */
  #labs = new Map();
  #status = new LabStatus(() => this.startPython());
  #dataUrls;
  #shown;
  #python;

  /**
   * @param {LabsConfig} config
   * @param {(name: string, lab: Lab) => void} shown is told of each lab
   */
  constructor({ dataUrls, workerUrl, python }, shown) {
    this.#dataUrls = dataUrls;
    this.#shown = shown;
    this.#python = new LabPython(workerUrl, python, {
      progress: (progress) => this.#status.loading(progress),
      ready: () => this.#each((lab) => lab.ask()),
      failed: (message) => this.#failed(message),
      state: (answer) => this.#answered(answer),
    });
    onThemeChange(() => this.#each((lab) => lab.recolour()));
  }

  /**
   * Shows the first lab, which a visitor sees first, and from then on the others.
   *
   * @param {string} first
   * @param {{python: boolean}} starts whether Python starts without being asked to
   */
  async show(first, { python }) {
    this.#showOthersNear(first);
    const data = await Lab.fetch(this.#dataUrls[first]);
    if (python) {
      this.startPython(); // it has another processor, and needn't wait until the lab is drawn
    }
    try {
      await this.#place(first, data);
    } catch (error) {
      this.#python.stop();
      throw error;
    }
    this.#status.prebuilt({ loading: python });
  }

  /** @param {string} first */
  #showOthersNear(first) {
    const near = new IntersectionObserver(
      (entries) => {
        for (const { isIntersecting, target } of entries) {
          if (isIntersecting) {
            near.unobserve(target);
            this.#loadLater(/** @type {HTMLElement} */ (target).dataset.lab ?? "");
          }
        }
      },
      { rootMargin: NEAR },
    );
    for (const section of document.querySelectorAll(`[data-lab]:not([data-lab="${first}"])`)) {
      near.observe(section);
    }
  }

  /** Starts Python unless it has started. */
  needPython() {
    if (!this.#python.started) {
      this.startPython();
    }
  }

  startPython() {
    this.#status.loading({ stage: "downloading" });
    this.#python.start();
  }

  /** @param {string} name */
  async #load(name) {
    await this.#place(name, await Lab.fetch(this.#dataUrls[name]));
  }

  /**
   * @param {string} name
   * @param {import("./lab.js").LabData} data
   */
  async #place(name, data) {
    const lab = await Lab.show(name, data, this.#python);
    this.#labs.set(name, lab);
    this.#shown(name, lab);
    this.#status.source(name, say("runtime.prebuilt"));
    if (this.#python.ready) {
      lab.ask();
    }
  }

  /** @param {string} name */
  async #loadLater(name) {
    try {
      await this.#load(name);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#status.source(name, say("runtime.lab-failed", { reason }));
    }
  }

  /** @param {import("./lab-python.js").Answer} answer */
  #answered({ lab: name, values, candidate, state }) {
    const lab = /** @type {Lab} */ (this.#labs.get(name));
    const before = lab.equal;
    lab.answered(values, state, candidate?.id);
    if (before === undefined && lab.equal !== undefined) {
      this.#status.live(name, lab.equal);
    }
  }

  /** @param {string} message */
  #failed(message) {
    this.#status.failed(message);
    for (const [name, lab] of this.#labs) {
      lab.fallBack();
      this.#status.source(name, say("runtime.prebuilt"));
    }
  }

  /** @param {(lab: Lab) => void} act */
  #each(act) {
    for (const lab of this.#labs.values()) {
      act(lab);
    }
  }
}
