// The page's state in its address, so that a link, a reload and Back bring it again:
//
//   ?P=8&dtype=float32&memory.batch=4#check-yours~check-yours=CODE
//
// A control is named with its lab, some by short names; what stands at its default isn't named. Code
// comes after the section, packed, and only in a link that was copied.

import { MAX_PACKED, pack, unpack } from "./packed.js";
import { say } from "./words.js";

/** @typedef {import("./lab-control.js").LabControl} LabControl */

/** @type {Record<string, string>} */
const SHORT = { "mask.n_past": "P", "mask.n_new": "C", "mask.dtype": "dtype", "blind.bug": "bug" };
/** A control that rests for so long has settled: a drag makes one entry of the history. */
const SETTLED_MS = 500;

/**
 * @typedef {object} Cells
 * @property {() => Map<string, string>} edited name of each cell that was edited -> its text
 * @property {(name: string, text: string) => number | undefined} load the cell's number, if there is
 *   one of that name; runs nothing
 */

export class Address {
  /** By its name in a link: the controls of labs that are shown. @type {Map<string, LabControl>} */
  #controls = new Map();
  /** What is asked of labs that aren't shown yet. */
  #wanted = new URLSearchParams(location.search);
  #notice = /** @type {HTMLElement} */ (document.getElementById("link-notice"));
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #settling;
  #search = location.search;

  constructor() {
    addEventListener("popstate", () => this.#follow());
  }

  /**
   * A lab is shown: moves its controls where the address wants them.
   *
   * @param {string} lab
   * @param {Map<string, LabControl>} controls
   */
  add(lab, controls) {
    for (const [name, control] of controls) {
      const full = `${lab}.${name}`;
      this.#controls.set(SHORT[full] ?? full, control);
    }
    for (const name of [...this.#wanted.keys()]) {
      if (this.#controls.has(name)) {
        this.#show(name);
      } else if (name.startsWith(`${lab}.`)) {
        this.#wanted.delete(name);
        this.#tell(say("link.unknown", { name }));
      }
    }
    this.#write("replaceState");
  }

  /** A control has moved. */
  moved() {
    clearTimeout(this.#settling);
    this.#settling = setTimeout(() => this.#write("pushState"), SETTLED_MS);
  }

  /**
   * Puts code that the address brings into its cells, and shows the section that it names.
   *
   * @param {Cells} cells
   */
  async loadCode(cells) {
    const [section, ...codes] = location.hash.slice(1).split("~");
    for (const code of codes) {
      const [name, packed = ""] = code.split("=");
      this.#tell(await loaded(cells, name, packed));
    }
    if (codes.length > 0) {
      document.getElementById(section)?.scrollIntoView();
    }
  }

  /**
   * A link to all that is shown, with the cells that were edited.
   *
   * @param {Cells} cells
   * @returns {Promise<string>} without the code, after a notice, if that is too long
   */
  async link(cells) {
    this.#write("replaceState");
    const [section] = location.hash.slice(1).split("~");
    const codes = [];
    for (const [name, text] of cells.edited()) {
      codes.push(`~${name}=${await pack(text)}`);
    }
    const { length } = codes.join("");
    const fits = length <= MAX_PACKED;
    if (!fits) {
      this.#tell(say("link.code-too-long", { size: length, limit: MAX_PACKED }));
    }
    const hash = `${section}${fits ? codes.join("") : ""}`;
    const link = new URL(location.href);
    link.hash = hash;
    return link.href;
  }

  /** After Back or Forward, unless that only led to another section. */
  #follow() {
    if (location.search === this.#search) {
      return;
    }
    this.#search = location.search;
    this.#wanted = new URLSearchParams(location.search);
    for (const [name, control] of this.#controls) {
      if (this.#wanted.has(name)) {
        this.#show(name);
      } else {
        control.show(control.initial);
      }
    }
    this.#write("replaceState");
  }

  /** @param {string} name of a control that is shown and wanted */
  #show(name) {
    const asked = this.#wanted.get(name) ?? "";
    const shown = this.#controls.get(name)?.show(asked);
    this.#wanted.delete(name);
    if (shown !== asked) {
      this.#tell(say("link.clamped", { asked: `${name}=${asked}`, shown: `${name}=${shown}` }));
    }
  }

  /** @param {"pushState" | "replaceState"} method */
  #write(method) {
    clearTimeout(this.#settling);
    const state = new URLSearchParams(this.#wanted);
    for (const [name, control] of this.#controls) {
      if (control.text !== control.initial) {
        state.set(name, control.text);
      }
    }
    const search = state.size > 0 ? `?${state}` : "";
    if (search !== location.search) {
      history[method](null, "", location.pathname + search + location.hash);
      this.#search = search;
    }
  }

  /** @param {string} text */
  #tell(text) {
    const line = document.createElement("p");
    line.textContent = text;
    this.#notice.append(line);
    this.#notice.hidden = false;
  }
}

/**
 * @param {Cells} cells
 * @param {string} name
 * @param {string} packed
 * @returns {Promise<string>} what to say of it
 */
async function loaded(cells, name, packed) {
  try {
    const number = cells.load(name, await unpack(packed));
    return number === undefined ? say("link.unknown", { name }) : say("link.code", { number });
  } catch {
    return say("link.code-broken");
  }
}
