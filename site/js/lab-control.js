// A control of a lab as a link names it: a slider's number, or a choice's name in any language.

/** @typedef {any} Model a BokehJS model */

export class LabControl {
  #model;
  #attr;
  /** Names of the choices; a slider has none. @type {string[] | undefined} */
  #choices;

  /**
   * @param {Model} model whose labels, if it has some, are still message IDs
   * @param {string} attr of its value; "active" is an index into the labels
   */
  constructor(model, attr) {
    this.#model = model;
    this.#attr = attr;
    const names = /** @type {(string | [string, string])[] | undefined} */ (
      model.labels ?? model.options
    );
    this.#choices = names?.map((name) => [name].flat()[0].split(".").at(-1) ?? "");
    this.initial = this.text;
  }

  /** Of a slider. @returns {number} */
  get first() {
    return this.#model.start;
  }

  /** Of a slider. @returns {number} */
  get last() {
    return this.#model.end;
  }

  get text() {
    const value = this.#model[this.#attr];
    return this.#attr === "active" ? (this.#choices?.[value] ?? "") : String(value);
  }

  /**
   * Moves the control where a link wants it, or as near as it goes.
   *
   * @param {string} text
   * @returns {string} where it is now
   */
  show(text) {
    const value = this.#choices ? this.#chosen(text) : this.#within(text);
    if (value !== undefined) {
      this.#model[this.#attr] = value;
    }
    return this.text;
  }

  /** @param {string} text */
  #chosen(text) {
    const index = this.#choices?.indexOf(text) ?? -1;
    if (index < 0) {
      return undefined;
    }
    return this.#attr === "active" ? index : text;
  }

  /** @param {string} text */
  #within(text) {
    const number = text.trim() === "" ? Number.NaN : Number(text);
    if (Number.isNaN(number)) {
      return undefined;
    }
    const { start, end, step } = this.#model;
    const nearest =
      start + Math.round((Math.min(end, Math.max(start, number)) - start) / step) * step;
    return Math.min(end, nearest);
  }
}
