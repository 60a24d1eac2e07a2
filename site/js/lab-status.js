// Says where the labs' numbers come from: one line for the page, and one of a lab's own where that differs.

import { sizeOf, stageWords } from "./progress.js";
import { say } from "./words.js";

export class LabStatus {
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

  /**
   * The first lab answers its controls, and Python can be had.
   *
   * @param {number} bytes that this will fetch at most
   */
  prebuilt(bytes) {
    performance.mark("kvproof:prebuilt");
    this.#set("prebuilt", say("runtime.prebuilt"));
    this.#offer(say("runtime.start-size", { size: Math.round(bytes / 1e6) }));
  }

  /** @param {import("./python.js").Progress} progress */
  loading({ stage, loaded = 0, total = 0 }) {
    const words = stageWords(stage);
    if (stage !== this.#stage) {
      this.#stage = stage;
      this.#set("loading", say("runtime.loading", { stage: words }));
    }
    this.#progress.hidden = false;
    this.#button.hidden = true;
    if (total) {
      const bytes = `${words} ${sizeOf({ loaded, total })}`;
      this.#line.textContent = say("runtime.loading", { stage: bytes });
      this.#progress.max = total;
      this.#progress.value = loaded;
    } else {
      this.#progress.removeAttribute("value");
    }
  }

  /**
   * Python has answered a lab for the first time.
   *
   * @param {string} lab
   * @param {boolean} equal whether the answer is what was prebuilt
   */
  live(lab, equal) {
    const text = say(equal ? "runtime.live-equal" : "runtime.live-differs");
    this.source(lab, equal ? "" : text);
    sectionOf(lab).dataset.live = String(equal);
    const { dataset } = document.documentElement;
    if (dataset.runtimeState === "failed") {
      return; // the first lab, of which this line speaks, isn't live
    }
    const allEqual = equal && dataset.liveEqualsPrebuilt !== "false";
    if (dataset.runtimeState !== "live" || String(allEqual) !== dataset.liveEqualsPrebuilt) {
      this.#set("live", text);
    }
    dataset.liveEqualsPrebuilt = String(allEqual);
  }

  /** @param {string} reason */
  failed(reason) {
    const wasLive = document.documentElement.dataset.runtimeState === "live";
    this.#fail(say(wasLive ? "runtime.stopped-working" : "runtime.start-failed", { reason }));
  }

  /**
   * Python can't answer one lab: the first, of which Python's line speaks, or another.
   *
   * @param {string} lab
   * @param {string} reason
   */
  labFailed(lab, reason) {
    const text = say("runtime.stopped-working", { reason });
    delete sectionOf(lab).dataset.live;
    if (lineOf(lab)) {
      this.source(lab, text);
    } else {
      this.#fail(text);
    }
  }

  /** @param {string} lab whose numbers are what was prebuilt, as the page's line says */
  fellBack(lab) {
    this.source(lab, "");
    delete sectionOf(lab).dataset.live;
  }

  /**
   * @param {string} lab
   * @param {string} text what the page's line doesn't say; "" for nothing
   */
  source(lab, text) {
    const line = lineOf(lab);
    if (line) {
      line.textContent = text;
    }
  }

  /** @param {string} text */
  #fail(text) {
    this.#set("failed", text);
    this.#offer(say("runtime.retry"));
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
    const { dataset } = document.documentElement;
    if (dataset.runtimeState !== state && state !== "prebuilt") {
      performance.mark(`kvproof:${state}`);
    }
    if (state !== "loading") {
      this.#stage = "";
    }
    if (state !== "live") {
      delete dataset.liveEqualsPrebuilt;
    }
    dataset.runtimeState = state;
    this.#line.textContent = text;
    this.#announcer.textContent = text;
    this.#progress.hidden = true;
    this.#button.hidden = true;
  }
}

/** @param {string} lab */
function sectionOf(lab) {
  return /** @type {HTMLElement} */ (document.querySelector(`[data-lab="${lab}"]`));
}

/** @param {string} lab any but the first has one */
function lineOf(lab) {
  return document.querySelector(`[data-source="${lab}"]`);
}

/** @param {string} id */
function byId(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}
