// The bar above the cells: buttons for all of them, and one line on what Python is doing.

import { button, element } from "./cell-element.js";
import { sizeOf, stageWords } from "./progress.js";
import { say } from "./words.js";

export class CellsBar {
  /** Id of the line that explains the keys. */
  helpId = "cells-help";
  #status = element("p", { className: "cells-status" });
  // The bytes would be read out without end, so the live region hears only what changes rarely.
  #announcer = element("p", { className: "visually-hidden", role: "status" });
  #stage = "";
  #stop;
  #retry;

  /**
   * @param {Record<"runAll" | "stop" | "restart" | "resetAll" | "retry", () => void>} actions
   * @param {number} total of the cells
   */
  constructor(actions, total) {
    this.#stop = button(say("cells.stop"), actions.stop);
    this.#retry = button(say("cells.retry"), () => {
      this.#stop.focus(); // Retry is about to vanish and would take the focus with it.
      actions.retry();
    });
    const restart = button(say("cells.restart"), actions.restart);
    const runAll = button(say("cells.run-all"), actions.runAll, { className: "primary" });
    const resetAll = button(say("cells.reset-all"), actions.resetAll);
    // A single cell has buttons of its own for the others.
    const all = total > 1 ? [runAll, this.#stop, restart, resetAll] : [this.#stop, restart];
    const buttons = element("div", { className: "cells-buttons", role: "group" }, all);
    buttons.ariaLabel = say("cells.all");
    const line = element("div", { className: "cells-line" }, [this.#status, this.#retry]);
    this.element = element("div", { className: "cells-bar" }, [buttons, line, this.#announcer]);
    this.help = element("p", { className: "cells-help", id: this.helpId }, [say("cells.help")]);
    this.busy = false;
  }

  /**
   * A button that copies a link with the cells' code (copy-link.js).
   *
   * @param {string} section ID of what the link leads to
   */
  linksTo(section) {
    const said = element("span", { role: "status" });
    const line = element("p", { className: "links", hidden: true });
    line.dataset.links = section;
    line.append(
      button(say("link.copy"), () => {}),
      " ",
      said,
    );
    return line;
  }

  /** Whether there is something to stop. A disabled button would drop the keyboard's focus. */
  set busy(/** @type {boolean} */ busy) {
    this.#stop.ariaDisabled = String(!busy);
  }

  /** @param {string} text */
  say(text) {
    this.#show(text);
    this.#announcer.textContent = text;
  }

  /** @param {{stage: string, loaded?: number, total?: number}} progress loaded, total in bytes */
  progress({ stage, loaded = 0, total = 0 }) {
    const words = stageWords(stage);
    if (loaded < total) {
      this.#show(say("cells.loading", { stage: words, size: sizeOf({ loaded, total }) }));
    } else {
      this.#show(total ? stageWords("starting") : words);
    }
    if (stage !== this.#stage) {
      this.#stage = stage;
      this.#announcer.textContent = words;
    }
  }

  /** @param {string} text what failed; Retry stands beside it until something else is said */
  fail(text) {
    this.say(text);
    this.element.dataset.failed = "";
    this.#retry.hidden = false;
  }

  /** @param {string} text */
  #show(text) {
    this.#status.textContent = text;
    this.#retry.hidden = true;
    delete this.element.dataset.failed;
  }
}
