// The notebook on the page: a few editable Python cells that share their variables.

import { Specimens } from "./cell-specimens.js";
import { CellView } from "./cell-view.js";
import { CellsBar } from "./cells-bar.js";
import { PythonWorker } from "./python-worker.js";
import { paragraph, say } from "./words.js";

/**
 * @typedef {{workerUrl: string, specimensUrl: string} & import("./python.js").PythonConfig} CellsConfig
 * @typedef {import("./candidate-bar.js").Candidate} Candidate
 * @typedef {(candidate: Candidate | undefined) => void} Draw has the labs draw it, until there is none
 */

/** One cell: what is on the page, and what is known of its latest run. */
class Cell {
  /** @type {number | undefined} execution count, as in [1] */
  count;
  /** @type {{turn: number, texts: string[]} | undefined} the texts down to this cell when it ran */
  ran;
  /** @type {"" | "done" | "error" | "stopped" | "before"} how that ended; "before" a restart */
  outcome = "";

  /**
   * @param {number} number from 1
   * @param {CellView} view
   */
  constructor(number, view) {
    this.number = number;
    this.view = view;
  }

  /** Its run is of a Python that is gone. */
  forget() {
    this.count = undefined;
    this.ran = undefined;
    this.outcome = this.outcome && "before";
  }
}

export class Notebook {
  /** @type {Cell[]} */
  #cells = [];
  /** Of the cells that have one, by name. @type {Map<string, Specimens>} */
  #pickers = new Map();
  /** @type {Cell | undefined} */
  #running;
  /** Its Python has something else to do first. */
  #isBehind = false;
  /** @type {Cell[]} waiting after the running one */
  #queue = [];
  /** @type {Cell[]} what was wanted when Python failed to start */
  #unstarted = [];
  #turns = 0;
  #count = 0;
  #python;
  #bar;
  #specimensUrl;
  #draw;
  /** A cell has another text. */
  onEdited = () => {};

  /**
   * Makes the static cells in `root` editable.
   *
   * @param {HTMLElement} root with a `section.cell` for each cell, in a `.cells` or several
   * @param {CellsConfig} config
   * @param {Draw} draw
   */
  constructor(root, { workerUrl, specimensUrl, ...config }, draw) {
    this.#specimensUrl = specimensUrl;
    this.#draw = draw;
    const sections = [...root.querySelectorAll("section.cell")];
    const python = { ...config, language: document.documentElement.lang.toLowerCase() };
    this.#python = new PythonWorker(workerUrl, python, {
      progress: (progress) => this.#bar.progress(progress),
      ready: () => this.#bar.say(say("cells.ready")),
      failed: (reason) => this.#fail(reason),
      said: ({ kind, text }) => this.#running?.view.output.add(kind, text),
    });
    const actions = {
      runAll: () => this.runAll(),
      stop: () => this.stop(),
      restart: () => this.restart(),
      resetAll: () => this.resetAll(),
      retry: () => this.#run(this.#unstarted),
    };
    this.#bar = new CellsBar(actions, sections.length);
    const place = /** @type {HTMLElement} */ (root.querySelector(".cells"));
    place.prepend(this.#bar.element, this.#bar.help);
    place.append(this.#bar.linksTo(sectionOf(place)));
    for (const [index, section] of sections.entries()) {
      this.#add(/** @type {HTMLElement} */ (section), index + 1, sections.length);
    }
    this.#bar.say(say("cells.first-run"));
    this.#show();
  }

  /** Name of each cell that was edited -> its text. */
  edited() {
    const edited = this.#cells.filter(({ view }) => view.text !== view.original);
    return new Map(edited.map(({ view }) => [view.name, view.text]));
  }

  /**
   * Puts a text into a cell, and runs nothing; undo works.
   *
   * @param {string} name of the cell
   * @param {string} text
   * @returns {number | undefined} the cell's number, if there is one of that name
   */
  load(name, text) {
    const cell = this.#cells.find(({ view }) => view.name === name);
    cell?.view.load(text);
    return cell?.number;
  }

  /**
   * Loads a broken decoder of the zoo into a cell, and runs nothing; undo works.
   *
   * @param {string} name of the cell
   * @param {string} specimen
   * @returns {Promise<boolean>} whether there is such a cell and such a specimen
   */
  async pick(name, specimen) {
    const picker = this.#pickers.get(name);
    return picker !== undefined && (await picker.pick(specimen));
  }

  /** All cells from the top, in order, whatever waits already. */
  runAll() {
    const [first, ...others] = this.#cells;
    this.#queue = this.#running === first ? others : [first, ...others];
    this.#next();
  }

  /** Ends the running cell by ending its worker: works without SharedArrayBuffer. */
  stop() {
    const running = this.#running;
    if (running) {
      this.#end();
      this.#bar.say(say("cells.stopped", { number: running.number }));
    }
  }

  restart() {
    this.#end();
    this.#bar.say(say("cells.restarted"));
  }

  /** Brings back the original texts; undo works in each editor. */
  resetAll() {
    for (const cell of this.#cells) {
      cell.view.reset();
    }
    this.#bar.say(say("cells.reset-done"));
  }

  /**
   * @param {HTMLElement} section
   * @param {number} number
   * @param {number} total
   */
  #add(section, number, total) {
    const place = { number, total, helpId: this.#bar.helpId };
    /** @type {Specimens | undefined} */
    let specimens;
    const view = new CellView(section, place, {
      edited: () => {
        specimens?.edited();
        this.#show();
        this.onEdited();
      },
      run: (move) => {
        this.#run([cell]);
        if (move) {
          this.#cells[number]?.view.focus();
        }
      },
      stop: () => this.stop(),
    });
    const picker = /** @type {HTMLElement | null} */ (section.querySelector(".specimens"));
    specimens = picker ? new Specimens(picker, this.#specimensUrl, view) : undefined;
    if (specimens) {
      this.#pickers.set(view.name, specimens);
    }
    const cell = new Cell(number, view);
    this.#cells.push(cell);
  }

  /** @param {Cell[]} cells */
  #run(cells) {
    this.#queue.push(...cells.filter((cell) => !this.#queue.includes(cell)));
    this.#next();
  }

  #next() {
    if (!this.#running && this.#queue.length > 0) {
      this.#begin(/** @type {Cell} */ (this.#queue.shift()));
    }
    this.#show();
  }

  /** @param {Cell} cell */
  async #begin(cell) {
    this.#running = cell;
    this.#isBehind = true;
    this.#turns += 1;
    const texts = this.#cells.slice(0, cell.number).map(({ view }) => view.text);
    cell.ran = { turn: this.#turns, texts };
    cell.count = undefined;
    cell.outcome = "";
    cell.view.output.clear();
    if (!this.#python.started) {
      this.#python.start();
    }
    const question = { type: "run", number: cell.number, source: cell.view.text };
    const begun = () => {
      this.#isBehind = false;
      this.#show();
    };
    /** @type {import("./cells-worker.js").Result | undefined} */
    const result = await this.#python.ask("run", question, { patient: true, begun });
    if (result?.crashed !== undefined) {
      this.#crash(cell, result.crashed);
    } else if (result) {
      this.#finish(cell, result);
    } // else it was stopped
  }

  /**
   * @param {Cell} cell
   * @param {import("./cells-worker.js").Result} result
   */
  #finish(cell, { value, report, candidate, error }) {
    this.#running = undefined;
    this.#count += 1;
    cell.count = this.#count;
    cell.outcome = error === undefined ? "done" : "error";
    if (error === undefined) {
      this.#bar.say(say("cells.done", { number: cell.number }));
    } else {
      cell.view.output.add("error", error);
      const failed = say("cells.failed", { number: cell.number, error: lastLine(error) });
      const skipped = this.#queue.splice(0).map(({ number }) => say("cells.skipped", { number }));
      this.#bar.say(paragraph([failed, ...skipped]));
    }
    if (value !== undefined) {
      cell.view.output.add("value", value);
    }
    cell.view.output.draw();
    if (report !== undefined) {
      const verdict = cell.view.output.drawReport(report);
      this.#bar.say(paragraph([say("cells.done", { number: cell.number }), verdict]));
    }
    if (candidate !== undefined) {
      /** @type {Candidate["ask"]} */
      const ask = (lab, values) =>
        this.#python.ask(lab, { type: "candidate", lab, values }, { patient: true });
      this.#draw({ kind: candidate, cell: cell.number, ask });
    }
    this.#next();
  }

  /** @param {string} reason */
  #fail(reason) {
    this.#unstarted = this.#running ? [this.#running, ...this.#queue] : [];
    this.#end();
    for (const cell of this.#unstarted) {
      cell.outcome = "";
    }
    this.#bar.fail(say("cells.start-failed", { reason }));
    this.#show();
  }

  /**
   * @param {Cell} cell
   * @param {string} reason
   */
  #crash(cell, reason) {
    cell.view.output.add("error", say("cells.crash", { reason }));
    this.#end();
    this.#bar.say(say("cells.crashed", { number: cell.number }));
  }

  /** Ends Python; its outputs stay and are marked. */
  #end() {
    this.#python.stop();
    this.#draw(undefined);
    for (const cell of this.#cells) {
      cell.forget();
    }
    if (this.#running) {
      this.#running.outcome = "stopped";
    }
    this.#running = undefined;
    this.#queue = [];
    this.#count = 0;
    this.#show();
  }

  #show() {
    this.#bar.busy = this.#running !== undefined;
    for (const cell of this.#cells) {
      cell.view.show(...this.#stateOf(cell));
    }
  }

  /**
   * @param {Cell} cell
   * @returns {[count: string, name: string, text: string]}
   */
  #stateOf(cell) {
    if (cell === this.#running) {
      return ["[*]", "running", say(this.#progress)];
    }
    if (this.#queue.includes(cell)) {
      return ["[*]", "queued", say("cells.state.queued")];
    }
    const count = `[${cell.count ?? " "}]`;
    const why = this.#staleness(cell);
    if (why) {
      return [count, "stale", say(why)];
    }
    const { outcome } = cell;
    return outcome ? [count, outcome, say(OUTCOMES[outcome])] : [count, "idle", ""];
  }

  /** Of the running cell. */
  get #progress() {
    if (!this.#python.ready) {
      return "cells.state.waiting";
    }
    return this.#isBehind ? "cells.state.behind" : "cells.state.running";
  }

  /**
   * @param {Cell} cell
   * @returns {string} the message that says why, or ""
   */
  #staleness({ number, ran, view }) {
    if (!ran) {
      return "";
    }
    if (ran.texts.at(-1) !== view.text) {
      return "cells.state.edited";
    }
    const above = this.#cells.slice(0, number - 1);
    const changed = above.some(
      (cell, index) => cell.view.text !== ran.texts[index] || (cell.ran?.turn ?? 0) > ran.turn,
    );
    return changed ? "cells.state.above" : "";
  }
}

const OUTCOMES = {
  done: "cells.state.done",
  error: "cells.state.error",
  stopped: "cells.state.stopped",
  before: "cells.state.before",
};

/**
 * @param {HTMLElement} place
 * @returns {string} ID of the heading that it stands below
 */
function sectionOf(place) {
  const headings = [...document.querySelectorAll("main h2[id]")];
  const isBefore = (/** @type {Element} */ heading) =>
    heading.compareDocumentPosition(place) & Node.DOCUMENT_POSITION_FOLLOWING;
  return headings.findLast(isBefore)?.id ?? "";
}

/** @param {string} text */
function lastLine(text) {
  return text.slice(text.lastIndexOf("\n") + 1).slice(0, 200);
}
