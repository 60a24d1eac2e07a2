// The page's state in its address, so that a link, a reload and Back bring it again:
//
//   ?P=8&dtype=float32&memory.batch=4#check-yours~check-yours=CODE
//   #check-yours~check-yours=zoo:alias-fork
//
// A control is named with its lab, some by short names; what stands at its default isn't named. Code
// comes after the section, packed, and only in a link that was copied.

import { button, element } from "./cell-element.js";
import { countHidden } from "./hidden-characters.js";
import { canPack, MAX_PACKED, pack, unpack } from "./packed.js";
import { paragraph, say } from "./words.js";

/** @typedef {import("./lab-control.js").LabControl} LabControl */

/** Before the name of a broken decoder, where packed code would stand; no code has a colon. */
const ZOO = "zoo:";
/** What a link says wrongly mustn't bury the page: lines that are shown, letters of what it asks for. */
const MOST_LINES = 6;
const MOST_LETTERS = 60;

/** @type {Record<string, string>} */
const SHORT = { "mask.n_past": "P", "mask.n_new": "C", "mask.dtype": "dtype", "blind.bug": "bug" };
/** Controls that older links name: what they chose is no more, so the lab shows its beginning. */
const RETIRED = new Set(["stepper.tokens", "stepper.first", "stepper.chunk", "memory.batch"]);
/** A control that rests for so long has settled: a drag makes one entry of the history. */
const SETTLED_MS = 500;

/**
 * @typedef {object} Cells
 * @property {() => Map<string, string>} edited name of each cell that was edited -> its text
 * @property {(name: string, text: string) => number | undefined} load the cell's number, if there is
 *   one of that name; runs nothing
 * @property {(name: string, specimen: string) => Promise<boolean>} pick loads a broken decoder of the
 *   zoo into a cell, false if there is no such cell or specimen; runs nothing
 *
 * @typedef {{url: URL, leftOut: string}} Link and why code isn't in it, "" if all is
 */

export class Address {
  /** By its name in a link: the controls of labs that are shown. @type {Map<string, LabControl>} */
  #controls = new Map();
  /** What is asked of labs that aren't shown yet. */
  #wanted = new URLSearchParams(location.search);
  #notice = new Notice(/** @type {HTMLElement} */ (document.getElementById("link-notice")));
  /** Code that the address holds, by its cell. @type {Map<string, {code: string, text: string | undefined}>} */
  #brought = new Map();
  /** Of the cells that were edited, as a link holds it. */
  #code = "";
  #isEdited = false;
  #packing = Promise.resolve();
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
    for (const name of new Set(this.#wanted.keys())) {
      if (this.#controls.has(name)) {
        this.#show(name);
      } else if (name.startsWith(`${lab}.`)) {
        this.#wanted.delete(name);
        if (!RETIRED.has(name)) {
          this.#notice.add(say("link.unknown", { name: brief(name) }));
        }
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
   * Puts code that the address brings into its cells, now and when another link is opened here.
   *
   * @param {Cells} cells
   */
  async followCode(cells) {
    addEventListener("hashchange", () => this.#loadCode(cells));
    await this.#loadCode(cells);
  }

  /**
   * A cell's text has changed: if the address brought another, that must no longer stand there, but
   * what it brought for other cells stays.
   *
   * @param {Cells} cells
   */
  edited(cells) {
    const edited = cells.edited();
    this.#packing = this.#packing.then(async () => {
      this.#code = canPack ? await packed(edited) : "";
      this.#isEdited = edited.size > 0;
    });
    const before = this.#brought.size;
    for (const [name, { text }] of this.#brought) {
      if (edited.get(name) !== text) {
        this.#brought.delete(name);
      }
    }
    if (this.#brought.size < before) {
      const codes = [...this.#brought].map(([name, { code }]) => `~${name}=${code}`);
      const hash = hashParts()[0] + codes.join("");
      history.replaceState(null, "", location.pathname + location.search + (hash && `#${hash}`));
    }
  }

  /** @param {Cells} cells */
  async #loadCode(cells) {
    const [section, ...codes] = hashParts();
    if (codes.length === 0) {
      return;
    }
    this.#brought.clear();
    this.#notice.clear();
    for (const code of codes) {
      const [name, text = ""] = code.split("=");
      const said = text.startsWith(ZOO)
        ? await this.#picked(cells, name, text)
        : await this.#loaded(cells, name, text);
      if (said) {
        this.#notice.add(said);
      }
    }
    document.getElementById(section)?.scrollIntoView();
  }

  /**
   * @param {Cells} cells
   * @param {string} name
   * @param {string} code
   * @returns {Promise<string>} what to say of it
   */
  async #loaded(cells, name, code) {
    if (!canPack) {
      return say("link.no-code");
    }
    try {
      const text = await unpack(code);
      const number = cells.load(name, text);
      if (number === undefined) {
        return say("link.unknown", { name: brief(name) });
      }
      this.#brought.set(name, { code, text });
      const count = countHidden(text);
      const hidden = count ? [say("link.code-hidden", { count })] : [];
      return paragraph([say("link.code", { number }), ...hidden]);
    } catch {
      return say("link.code-broken");
    }
  }

  /**
   * @param {Cells} cells
   * @param {string} name
   * @param {string} code with the name of a specimen
   * @returns {Promise<string>} what to say of it: nothing of what is picked, since the cell does
   */
  async #picked(cells, name, code) {
    const specimen = code.slice(ZOO.length);
    if (!(await cells.pick(name, specimen))) {
      return say("link.unknown", { name: brief(`${name}=${specimen}`) });
    }
    this.#brought.set(name, { code, text: cells.edited().get(name) });
    return "";
  }

  /**
   * A link to all that is shown, with the cells that were edited.
   *
   * @param {string} section ID of the place that it leads to
   * @returns {Promise<Link>}
   */
  async link(section) {
    await this.#packing;
    return this.linkNow(section);
  }

  /**
   * The same at once; what was typed in the last few milliseconds may be missing.
   *
   * @param {string} section the one that is read, unless another is wanted
   * @returns {Link}
   */
  linkNow(section = sectionRead()) {
    this.#write("replaceState");
    const leftOut = this.#leftOut();
    const url = new URL(location.href);
    url.hash = section + (leftOut ? "" : this.#code);
    return { url, leftOut };
  }

  #leftOut() {
    if (this.#isEdited && !canPack) {
      return say("link.no-code");
    }
    const size = this.#code.length;
    return size > MAX_PACKED ? say("link.code-too-long", { size, limit: MAX_PACKED }) : "";
  }

  /** After Back or Forward, unless that only led to another section. */
  #follow() {
    if (location.search === this.#search) {
      return;
    }
    this.#search = location.search;
    this.#wanted = new URLSearchParams(location.search);
    this.#notice.clear();
    for (const [name, control] of this.#controls) {
      if (this.#wanted.has(name)) {
        this.#show(name);
      } else {
        control.show(control.initial);
      }
    }
    this.#forgetMove(); // what Back has moved is no new step
    this.#write("replaceState");
  }

  /** @param {string} name of a control that is shown and wanted */
  #show(name) {
    const asked = this.#wanted.get(name) ?? "";
    const shown = this.#controls.get(name)?.show(asked);
    this.#wanted.delete(name);
    if (shown !== asked) {
      this.#notice.add(
        say("link.clamped", { asked: brief(`${name}=${asked}`), shown: `${name}=${shown}` }),
      );
    }
  }

  /** @param {"pushState" | "replaceState"} method */
  #write(method) {
    const how = this.#settling === undefined ? method : "pushState"; // a move is a step of its own
    this.#forgetMove();
    const state = new URLSearchParams(this.#wanted);
    for (const [name, control] of this.#controls) {
      if (control.text !== control.initial) {
        state.set(name, control.text);
      }
    }
    const search = state.size > 0 ? `?${state}` : "";
    if (search !== location.search) {
      history[how](null, "", location.pathname + search + location.hash);
      this.#search = search;
    }
  }

  /** Nothing is to be written when the controls have settled. */
  #forgetMove() {
    clearTimeout(this.#settling);
    this.#settling = undefined;
  }
}

/** What a link asked for and isn't there: lines that can be closed. */
class Notice {
  #element;
  /** @type {Set<string>} */
  #said = new Set();
  #more = element("p", {});
  #close = button("×", () => this.#closed(), { ariaLabel: say("link.close") });

  /** @param {HTMLElement} element */
  constructor(element) {
    this.#element = element;
  }

  /** @param {string} text */
  add(text) {
    if (this.#said.has(text)) {
      return;
    }
    this.#said.add(text);
    const more = this.#said.size - MOST_LINES;
    this.#more.textContent = say("link.more", { count: more });
    this.#element.append(more > 0 ? this.#more : element("p", {}, [text]), this.#close);
    this.#element.hidden = false;
  }

  clear() {
    this.#said.clear();
    this.#element.replaceChildren();
    this.#element.hidden = true;
  }

  #closed() {
    const main = /** @type {HTMLElement} */ (this.#element.closest("main"));
    main.tabIndex = -1;
    main.focus({ preventScroll: true }); // or the button would take the focus with it
    this.clear();
  }
}

/** @param {string} asked */
function brief(asked) {
  return asked.length > MOST_LETTERS ? `${asked.slice(0, MOST_LETTERS)}…` : asked;
}

/** @param {Map<string, string>} texts by the names of their cells */
async function packed(texts) {
  let code = "";
  for (const [name, text] of texts) {
    code += `~${name}=${await pack(text)}`;
  }
  return code;
}

/** The section and the codes that the address names; mail programs escape the sign between them. */
function hashParts() {
  return location.hash.slice(1).replaceAll(/%7e/gi, "~").split("~");
}

/** ID of the last lab or heading above the middle of the window; at the top, what the address names. */
function sectionRead() {
  if (scrollY < innerHeight / 2) {
    return hashParts()[0];
  }
  const headings = [...document.querySelectorAll("main :is(h2, h3)[id]")];
  const above = headings.findLast(
    (heading) => heading.getBoundingClientRect().top < innerHeight / 2,
  );
  return (above?.closest("[data-lab]") ?? above)?.id ?? "";
}
