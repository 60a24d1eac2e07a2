// The bar above the cells: buttons for all of them, and one line on what Python is doing.

import { button, element } from "./cell-element.js";
import { sizeOf } from "./progress.js";

const HELP =
  "Shift+Enter runs a cell and moves on, Ctrl+Enter (⌘ Enter) runs it and stays. " +
  "Tab leaves the editor, as does Escape, then Tab; Ctrl+] (⌘ ]) indents.";

export class CellsBar {
  /** Id of the line that explains the keys. */
  helpId = "cells-help";
  #status = element("p", { className: "cells-status" });
  // The bytes would be read out without end, so the live region hears only what changes rarely.
  #announcer = element("p", { className: "cells-announcer", role: "status" });
  #stage = "";
  #stop;
  #retry;

  /** @param {Record<"runAll" | "stop" | "restart" | "resetAll" | "retry", () => void>} actions */
  constructor(actions) {
    this.#stop = button("Stop", actions.stop);
    this.#retry = button("Retry", () => {
      this.#stop.focus(); // Retry is about to vanish and would take the focus with it.
      actions.retry();
    });
    const buttons = element("div", { className: "cells-buttons", role: "group" }, [
      button("Run all", actions.runAll, { className: "primary" }),
      this.#stop,
      button("Restart", actions.restart),
      button("Reset all", actions.resetAll),
    ]);
    buttons.ariaLabel = "All cells";
    const line = element("div", { className: "cells-line" }, [this.#status, this.#retry]);
    this.element = element("div", { className: "cells-bar" }, [buttons, line, this.#announcer]);
    this.help = element("p", { className: "cells-help", id: this.helpId }, [HELP]);
    this.busy = false;
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
    if (loaded < total) {
      this.#show(`${stage} Python ${sizeOf({ loaded, total })}`);
    } else {
      this.#show(total ? "starting Python" : stage);
    }
    if (stage !== this.#stage) {
      this.#stage = stage;
      this.#announcer.textContent = stage;
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
