// The mask lab on the page: prebuilt states first, Python's answers as soon as it is there.

import { LabDocument } from "./lab-document.js";
import { LabPython } from "./lab-python.js";
import { showTables } from "./lab-tables.js";
import { sizeOf } from "./progress.js";

/**
 * @typedef {import("./lab-python.js").Values} Values
 * @typedef {import("./lab-python.js").State} State
 * @typedef {{states: Record<string, number[]>, pool: unknown[]}} Table
 *   control values joined by commas -> for each output, where its value is in the pool
 * @typedef {{key: string[], text: string[], value: string[]}} Texts
 *
 * @typedef {object} LabConfig
 * @property {string} dataUrl
 * @property {string} workerUrl
 * @property {import("./python.js").PythonConfig} python
 */

/** @param {LabConfig} config */
export async function startLab(config) {
  const response = await fetch(config.dataUrl);
  if (!response.ok) {
    const name = config.dataUrl.split("/").pop();
    throw new Error(`${name}: the server answered ${response.status}`);
  }
  const { description, table, marks } = await response.json();
  return new Lab(config, await LabDocument.show(description), table, marks);
}

class Lab {
  #document;
  #table;
  #marks;
  #python;
  #live = false;
  #status = new Status(() => this.startPython());

  /**
   * @param {LabConfig} config
   * @param {LabDocument} labDocument
   * @param {Table} table
   * @param {import("./lab-tables.js").Marks} marks
   */
  constructor(config, labDocument, table, marks) {
    this.#document = labDocument;
    this.#table = table;
    this.#marks = marks;
    this.#python = new LabPython(config.workerUrl, config.python, {
      progress: (progress) => this.#status.loading(progress),
      ready: () => this.#python.ask(this.#document.values),
      failed: (message) => this.#failed(message),
      state: (values, state) => this.#answered(values, state),
    });
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", () => this.#document.recolour());
    this.#document.recolour();
    this.#document.onControls(() => this.#moved());
    this.#show(this.#prebuilt(this.#document.values));
    this.#status.prebuilt();
  }

  startPython() {
    this.#status.loading({ stage: "downloading" });
    this.#python.start();
  }

  #moved() {
    if (this.#live) {
      this.#python.ask(this.#document.values);
    } else {
      this.#show(this.#prebuilt(this.#document.values));
    }
  }

  /** @param {Values} values @param {State} state */
  #answered(values, state) {
    const present = JSON.stringify(values) === JSON.stringify(this.#document.values);
    if (!this.#live && !present) {
      this.#python.ask(this.#document.values); // moved meanwhile, and the table has shown it
      return;
    }
    if (!this.#live) {
      this.#live = true;
      this.#status.live(JSON.stringify(state) === JSON.stringify(this.#prebuilt(values)));
    }
    // While a slider is dragged, late answers are steps on the way; the last one is the present.
    this.#show(state);
  }

  /** @param {string} message */
  #failed(message) {
    this.#status.failed(message, this.#live);
    this.#live = false;
    this.#show(this.#prebuilt(this.#document.values));
  }

  /** @param {Values} values @returns {State} */
  #prebuilt(values) {
    const { states, pool } = this.#table;
    return states[Object.values(values).join(",")].map((index) => pool[index]);
  }

  /** @param {State} state */
  #show(state) {
    this.#document.apply(state);
    showTexts(this.#document.output(state, "texts"));
    showTables((name) => this.#document.output(state, name), this.#marks);
  }
}

/** @param {Texts} texts */
function showTexts({ key, text, value }) {
  for (const [index, name] of key.entries()) {
    for (const element of document.querySelectorAll(`[data-readout="${name}"]`)) {
      element.textContent = text[index];
      if (value[index]) {
        element.setAttribute("data-value", value[index]);
      }
    }
  }
}

/** Says where the numbers come from. */
class Status {
  #line = byId("runtime-status");
  // Bytes would be read out without end, so the live region hears only what changes rarely.
  #announcer = byId("runtime-announcer");
  #progress = /** @type {HTMLProgressElement} */ (byId("runtime-progress"));
  #button = byId("runtime-button");
  #stage = "";

  /** @param {() => void} start */
  constructor(start) {
    this.#button.addEventListener("click", start);
  }

  prebuilt() {
    this.#set("prebuilt", "Prebuilt: these numbers were computed when the page was built.");
    this.#offer("Start Python here");
  }

  /** @param {import("./python.js").Progress} progress */
  loading({ stage, loaded = 0, total = 0 }) {
    if (stage !== this.#stage) {
      this.#stage = stage;
      this.#set("loading", `Prebuilt numbers for now. Python: ${stage}`);
    }
    this.#progress.hidden = false;
    this.#button.hidden = true;
    if (total) {
      this.#line.textContent = `Prebuilt numbers for now. Python: ${stage} ${sizeOf({ loaded, total })}`;
      this.#progress.max = total;
      this.#progress.value = loaded;
    } else {
      this.#progress.removeAttribute("value");
    }
  }

  /** @param {boolean} same */
  live(same) {
    this.#set(
      "live",
      same
        ? "Live: Python in this page recomputed what you see, and every number is equal."
        : "Live: Python in this page recomputed what you see; it differs from the prebuilt numbers.",
    );
    document.documentElement.dataset.liveEqualsPrebuilt = String(same);
  }

  /**
   * @param {string} message
   * @param {boolean} wasLive
   */
  failed(message, wasLive) {
    const what = wasLive ? "Python stopped working" : "Python could not start";
    this.#set("failed", `${what}: ${message}. The prebuilt numbers still work.`);
    this.#offer("Retry");
  }

  /** @param {string} action */
  #offer(action) {
    this.#button.textContent = action;
    this.#button.hidden = false;
  }

  /**
   * @param {"prebuilt" | "loading" | "live" | "failed"} state
   * @param {string} text
   */
  #set(state, text) {
    if (document.documentElement.dataset.runtimeState !== state || state === "prebuilt") {
      performance.mark(`kvproof:${state}`);
    }
    if (state !== "loading") {
      this.#stage = "";
    }
    document.documentElement.dataset.runtimeState = state;
    this.#line.textContent = text;
    this.#announcer.textContent = text;
    this.#progress.hidden = true;
    this.#button.hidden = true;
  }
}

/** @param {string} id */
function byId(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}
