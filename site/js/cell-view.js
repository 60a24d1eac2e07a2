// One cell on the page: its editor, its buttons, its state and its output.

import { createEditor, setText } from "./cell-editor.js";
import { button, element } from "./cell-element.js";
import { CellOutput } from "./cell-output.js";
import { uncovered } from "./hidden-characters.js";
import { say } from "./words.js";

export class CellView {
  #section;
  #source;
  #editor;
  #count = element("span", { className: "cell-count" });
  #state = element("span", { className: "cell-state" });
  #run;
  #number;

  /**
   * Turns a static cell into an editable one, in place.
   *
   * @param {HTMLElement} section with its name in `data-cell`, title in `data-title`, code in `pre.cell-source > code`
   * @param {{number: number, total: number, helpId: string}} place
   * @param {{edited: () => void, run: (move: boolean) => void, stop: () => void}} actions
   */
  constructor(section, { number, total, helpId }, { edited, run, stop }) {
    const pre = /** @type {HTMLElement} */ (section.querySelector("pre.cell-source"));
    this.#section = section;
    this.#number = number;
    this.#run = button("", () => (this.#isRunning ? stop() : run(false)), { className: "primary" });
    this.name = section.dataset.cell ?? "";
    this.#source = /** @type {HTMLElement} */ (pre.querySelector("code"));
    this.original = (this.#source.textContent ?? "").trimEnd();
    this.output = new CellOutput(
      say("cells.output", { number }),
      section.querySelector(".prebuilt-output"),
    );
    const box = element("div", { className: "cell-box" }, [this.#head(number)]);
    pre.replaceWith(box);
    this.#editor = createEditor({
      parent: box,
      text: this.original,
      label: say("cells.label", { number, total, title: section.dataset.title ?? "" }),
      helpId,
      onRun: run,
      onEdit: () => {
        this.#source.textContent = uncovered(this.text);
        this.output.edited(this.text === this.original);
        edited();
      },
    });
    // The plain source stays for print: an editor draws only the lines that are on the screen.
    box.append(pre, this.output.element);
  }

  /** @param {number} number */
  #head(number) {
    return element("div", { className: "cell-head" }, [
      this.#count,
      this.#state,
      button(say("cells.reset"), () => this.reset(), {
        ariaLabel: say("cells.reset-label", { number }),
      }),
      this.#run,
    ]);
  }

  get #isRunning() {
    return this.#section.dataset.state === "running";
  }

  get text() {
    return this.#editor.state.doc.toString();
  }

  /** Brings back the text that the page came with; undo works. */
  reset() {
    this.load(this.original);
  }

  /**
   * Puts another text in place of the one that is there, in sight; undo works.
   *
   * @param {string} text
   */
  load(text) {
    const fold = this.#section.closest("details");
    if (fold) {
      fold.open = true;
    }
    setText(this.#editor, text);
  }

  focus() {
    this.#editor.focus();
    this.#section.scrollIntoView({ block: "nearest" });
  }

  /**
   * @param {string} count such as "[1]"
   * @param {string} name the state as the style sheet knows it
   * @param {string} text the state in words
   */
  show(count, name, text) {
    this.#section.dataset.state = name;
    const number = this.#number;
    this.#run.textContent = say(this.#isRunning ? "cells.stop" : "cells.run");
    this.#run.ariaLabel = this.#isRunning
      ? say("cells.stop-label", { number })
      : say("cells.run-label", { number });
    this.#count.textContent = count;
    this.#state.textContent = text;
  }
}
