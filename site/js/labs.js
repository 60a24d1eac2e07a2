// All labs of the page: each is loaded when it comes near the screen, and one Python serves them.

import { Lab } from "./lab.js";
import { LabStatus } from "./lab-status.js";
import { PythonWorker } from "./python-worker.js";
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
  #bytes;
  #shown;
  #python;
  /** @type {import("./lab.js").Candidate | undefined} */
  #candidate;

  /**
   * @param {LabsConfig} config
   * @param {(name: string, lab: Lab) => void} shown is told of each lab
   */
  constructor({ dataUrls, workerUrl, python }, shown) {
    this.#dataUrls = dataUrls;
    this.#bytes = bytesToStart(python);
    this.#shown = shown;
    this.#python = new PythonWorker(workerUrl, python, {
      progress: (progress) => this.#status.loading(progress),
      ready: () => this.#each((lab, name) => this.#goLive(lab, name)),
      failed: (reason) => this.#failed(reason),
    });
    onThemeChange(() => this.#each((lab) => lab.recolour()));
  }

  /**
   * Shows the first lab, which a visitor sees first, and from then on the others.
   *
   * @param {string} first
   */
  async show(first) {
    this.#showOthersNear(first);
    await this.#place(first, await Lab.fetch(this.#dataUrls[first]));
    this.#status.prebuilt(this.#bytes);
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

  /**
   * Draws a candidate in all labs that can, and starts Python for it.
   *
   * @param {import("./lab.js").Candidate | undefined} candidate none: back to what the page came with
   */
  use(candidate) {
    this.#candidate = candidate;
    this.#each((lab) => lab.use(candidate));
    if (candidate) {
      this.startPython();
    }
  }

  /** Unless it has started. */
  startPython() {
    if (this.#python.started) {
      return;
    }
    performance.mark("kvproof:asked");
    this.#status.loading({ stage: "downloading" });
    this.#python.start();
  }

  /**
   * @param {string} name
   * @param {import("./lab.js").LabData} data
   */
  async #place(name, data) {
    const lab = await Lab.show(name, data, this.#python, {
      back: () => this.use(undefined),
      failed: (reason) => this.#status.labFailed(name, reason),
    });
    this.#labs.set(name, lab);
    this.#shown(name, lab);
    lab.use(this.#candidate);
    if (this.#python.ready) {
      this.#goLive(lab, name);
    }
  }

  /** @param {string} name */
  async #loadLater(name) {
    try {
      await this.#place(name, await Lab.fetch(this.#dataUrls[name]));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#status.source(name, say("runtime.lab-failed", { reason }));
    }
  }

  /**
   * @param {Lab} lab
   * @param {string} name
   */
  async #goLive(lab, name) {
    const equal = await lab.goLive();
    if (equal !== undefined) {
      this.#status.live(name, equal);
    }
  }

  /** @param {string} reason */
  #failed(reason) {
    this.#status.failed(reason);
    this.#each((lab, name) => {
      lab.fallBack();
      this.#status.fellBack(name);
    });
  }

  /** @param {(lab: Lab, name: string) => void} act */
  #each(act) {
    for (const [name, lab] of this.#labs) {
      act(lab, name);
    }
  }
}

/**
 * @param {import("./python.js").PythonConfig} python
 * @returns {number} bytes that a start from the snapshot fetches: it reads no packages and not the
 *   whole library
 */
function bytesToStart({ files, library, archives, snapshot }) {
  const runtime = files.filter(({ url }) => url !== library.url && !url.endsWith(".whl"));
  const all = [...runtime, ...archives, ...Object.values(snapshot ?? {})];
  return all.reduce((sum, { bytes }) => sum + bytes, 0);
}
