// What one cell has written. All of it is inserted as text.

import { element } from "./cell-element.js";
import { copyOnClick, drawnReport, summary } from "./cell-report.js";

/** @typedef {"stdout" | "stderr" | "notice" | "value" | "error"} OutputKind */

export class CellOutput {
  element;
  /** @type {{kind: string, text: string}[]} */
  #waiting = [];
  #frame = 0;
  #prebuilt;

  /**
   * @param {string} label
   * @param {Element | null} prebuilt what the cell writes as it stands, until it runs
   */
  constructor(label, prebuilt) {
    this.element = element("div", {
      className: "cell-output",
      role: "region",
      ariaLabel: label,
      tabIndex: 0,
      hidden: !prebuilt,
    });
    this.#prebuilt = prebuilt;
    if (prebuilt) {
      this.element.append(prebuilt);
    }
    this.element.addEventListener("click", copyOnClick);
  }

  /**
   * What was prebuilt is of one text only.
   *
   * @param {boolean} isThatText whether it stands in the cell
   */
  edited(isThatText) {
    if (this.#prebuilt?.isConnected) {
      this.element.hidden = !isThatText;
    }
  }

  clear() {
    this.#waiting = [];
    this.element.replaceChildren();
    this.element.hidden = true;
  }

  /**
   * Shown with the next frame: a cell may write much faster than a page can be drawn.
   *
   * @param {OutputKind} kind
   * @param {string} text
   */
  add(kind, text) {
    this.#waiting.push({ kind, text });
    this.#frame ||= requestAnimationFrame(() => this.draw());
  }

  /**
   * Draws a report in place of the value that says the same as text.
   *
   * @param {any} report a cell-report.js Report
   * @returns {string} the verdict in one line, "" if it is no report
   */
  drawReport(report) {
    const value = this.element.querySelector("[data-kind=value]");
    try {
      value?.replaceWith(drawnReport(report, value.textContent ?? ""));
      return summary(report);
    } catch {
      return ""; // Somebody's own object says that it is a report and isn't one: its text is there.
    }
  }

  /** Shows at once what waits for the next frame. */
  draw() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    for (const { kind, text } of this.#waiting.splice(0)) {
      const last = this.element.lastElementChild;
      if (last instanceof HTMLElement && last.dataset.kind === kind) {
        last.append(text);
      } else {
        const block = element("pre", {}, [text]);
        block.dataset.kind = kind;
        this.element.append(block);
      }
    }
    this.element.hidden = this.element.childElementCount === 0;
    if (this.element.querySelector("[data-kind=error]")) {
      this.element.scrollTop = this.element.scrollHeight; // the error stands at the end
    }
  }
}
