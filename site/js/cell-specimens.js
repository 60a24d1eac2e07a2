// The picker of broken decoders: loads one into a cell's editor, and loses nothing that was written
// there.

import { button } from "./cell-element.js";
import { paragraph, say } from "./words.js";

export class Specimens {
  #select;
  #said;
  #back;
  #url;
  #view;
  /** @type {Promise<Record<string, {heads: Record<string, string>, code: string}>> | undefined} */
  #sources;
  /** Texts that came with the page, and their names. @type {Map<string, string>} */
  #known = new Map();
  #written = "";

  /**
   * @param {HTMLElement} root with a labelled select, whose values are names or "" for the text that
   *   the cell came with, and a place to say something
   * @param {string} url of the specimens: name -> kvsite.specimens.Source
   * @param {import("./cell-view.js").CellView} view
   */
  constructor(root, url, view) {
    this.#select = /** @type {HTMLSelectElement} */ (root.querySelector("select"));
    this.#said = /** @type {HTMLElement} */ (root.querySelector("[role=status]"));
    this.#back = button(say("specimens.bring-back"), () => this.#bringBack(), { hidden: true });
    this.#url = url;
    this.#view = view;
    this.#known.set(view.text, "");
    this.#said.after(this.#back);
    this.#select.addEventListener("change", () => this.#load(this.#select.value));
  }

  /**
   * As if a visitor had picked it.
   *
   * @param {string} name
   * @returns {Promise<boolean>} whether there is such a specimen
   */
  async pick(name) {
    if (!name || ![...this.#select.options].some(({ value }) => value === name)) {
      return false;
    }
    this.#select.value = name;
    await this.#load(name);
    return true;
  }

  /** After an edit, which may be an undo or a reset. */
  edited() {
    const name = this.#known.get(this.#view.text);
    if (name !== undefined) {
      this.#select.value = name;
    }
  }

  /** @param {string} name */
  async #load(name) {
    let text = this.#view.original;
    try {
      text = name ? inItsLanguage((await this.#fetched())[name]) : text;
    } catch (error) {
      this.#sources = undefined;
      this.#select.value = this.#known.get(this.#view.text) ?? "";
      this.#said.textContent = say("specimens.failed", { reason: String(error) });
      return;
    }
    if (name !== this.#select.value) {
      return; // another one was picked meanwhile
    }
    const before = this.#view.text;
    this.#known.set(text, name);
    if (!this.#known.has(before)) {
      this.#written = before;
      this.#back.hidden = false;
    }
    this.#view.load(text);
    const loaded = name
      ? say("specimens.loaded", { name: this.#label })
      : say("specimens.loaded-original");
    const kept = this.#back.hidden ? [] : [say("specimens.kept")];
    this.#said.textContent = paragraph([loaded, ...kept]);
  }

  #bringBack() {
    this.#select.focus(); // the button is about to vanish and would take the focus with it
    this.#back.hidden = true;
    this.#view.load(this.#written);
    this.#said.textContent = say("specimens.is-back");
  }

  /** What the page calls the one that is chosen. */
  get #label() {
    return this.#select.selectedOptions[0].text;
  }

  #fetched() {
    this.#sources ??= fetch(this.#url).then((response) => {
      if (!response.ok) {
        throw new Error(`status ${response.status}`);
      }
      return response.json();
    });
    return this.#sources;
  }
}

/** @param {{heads: Record<string, string>, code: string}} source */
function inItsLanguage({ heads, code }) {
  return `${heads[document.documentElement.lang]}\n${code}`;
}
