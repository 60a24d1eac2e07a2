// A lab's Bokeh document on the page: its controls, its outputs, its words and its colours.

import { LabControl } from "./lab-control.js";
import { say } from "./words.js";

/**
 * @typedef {import("./lab.js").Values} Values
 * @typedef {import("./lab.js").State} State
 * @typedef {{id: string, attr: string}} Property a model's property
 *
 * @typedef {object} Description kvlab.session.Session.description()
 * @property {object} document
 * @property {Record<string, string>} roots place on the page to model ID
 * @property {Record<string, Property>} widgets
 * @property {Record<string, Property>} outputs
 *
 * @typedef {any} Model a BokehJS model
 */

/** The property of an axis that BokehJS reads by number. */
const TICK_LABELS = "major_label_overrides";

export class LabDocument {
  /** @type {Map<string, [Model, string]>} */
  #widgets;
  /** @type {[string, Model, string][]} */
  #outputs;
  #document;
  #views;

  /**
   * Draws the document's roots into the elements with the IDs `<lab>-<root>`.
   *
   * @param {string} lab
   * @param {Description} description
   */
  static async show(lab, description) {
    /** The global that the BokehJS scripts define. @type {any} */
    const { Bokeh } = window;
    if (!Bokeh?.Widgets) {
      throw new Error(`${Bokeh ? "bokeh-widgets" : "bokeh"}.min.js did not arrive`);
    }
    const roots = Object.entries(description.roots)
      .map(([name, id]) => [id, `${lab}-${name}`])
      .filter(([, element]) => document.getElementById(element));
    const places = roots.map(([, id]) => /** @type {HTMLElement} */ (document.getElementById(id)));
    const pictures = places.map((place) => [...place.childNodes]);
    for (const place of places) {
      place.replaceChildren();
    }
    const [view] = await Bokeh.embed
      .embed_items({ [lab]: description.document }, [
        { docid: lab, roots: Object.fromEntries(roots), root_ids: roots.map(([id]) => id) },
      ])
      .catch((/** @type {unknown} */ error) => {
        for (const [index, place] of places.entries()) {
          place.replaceChildren(...pictures[index]); // the static ones, rather than nothing
        }
        throw error;
      });
    const shown = new LabDocument(view.roots[0].model.document, description, view.roots);
    for (const root of view.roots) {
      clearToTheEdges(root);
    }
    shown.#word();
    shown.recolour();
    for (const place of places) {
      nameFigure(place);
      nameControl(place);
    }
    return shown;
  }

  /**
   * @param {any} bokehDocument
   * @param {Description} description
   * @param {any[]} views of its roots
   */
  constructor(bokehDocument, { widgets, outputs }, views) {
    this.#document = bokehDocument;
    this.#views = views;
    /** @param {Property} property @returns {[Model, string]} */
    const find = ({ id, attr }) => [bokehDocument.get_model_by_id(id), attr];
    this.#widgets = new Map(Object.entries(widgets).map(([name, p]) => [name, find(p)]));
    this.controls = new Map(
      [...this.#widgets].map(([name, [model, attr]]) => [name, new LabControl(model, attr)]),
    );
    this.#outputs = Object.entries(outputs).map(([name, p]) => [name, ...find(p)]);
  }

  /** @returns {Values} */
  get values() {
    return Object.fromEntries(
      [...this.#widgets].map(([name, [model, attr]]) => [name, model[attr]]),
    );
  }

  /** @param {() => void} changed */
  onControls(changed) {
    for (const [model, attr] of this.#widgets.values()) {
      model.properties[attr].change.connect(changed);
    }
  }

  /**
   * Sets all outputs, in place: replacing models would leak them.
   *
   * @param {State} state
   */
  apply(state) {
    /** @type {Map<Model, Record<string, unknown>>} */
    const changes = new Map();
    for (const [index, [, model, attr]] of this.#outputs.entries()) {
      const value = attr === TICK_LABELS ? byNumber(state[index]) : state[index];
      if (model[attr] !== value) {
        changes.set(model, { ...changes.get(model), [attr]: value });
      }
    }
    for (const [model, values] of changes) {
      model.setv(values); // both ends of a range at once: one repaint less
    }
  }

  /** @param {State} state @param {string} name */
  output(state, name) {
    return /** @type {any} */ (state[this.#outputs.findIndex(([output]) => output === name)]);
  }

  /** Colours each model by the concepts noted in its tags (see kvlab.palette.themed). */
  recolour() {
    /** @type {Map<string, string>} */
    const colours = new Map();
    /** @param {string} concept */
    const colour = (concept) => {
      const known = colours.get(concept) ?? colourOf(concept);
      colours.set(concept, known);
      return known;
    };
    this.#setNoted("themed", (concepts) =>
      Array.isArray(concepts) ? concepts.map(colour) : colour(concepts),
    );
    for (const view of this.#views) {
      view.repaint?.(); // now, since a printer doesn't wait for the next frame
    }
  }

  /** Puts the page's words where messages are noted (see kvlab.words.worded). */
  #word() {
    this.#setNoted("worded", (messages) => {
      if (typeof messages === "string") {
        return say(messages);
      }
      return Array.isArray(messages)
        ? messages.map((id) => (Array.isArray(id) ? [id[0], say(id[1])] : say(id)))
        : new Map([...messages].map(([position, id]) => [position, say(id)]));
    });
  }

  /**
   * @param {"themed" | "worded"} kind of note in a model's tags
   * @param {(noted: any) => unknown} value what to set a property to
   */
  #setNoted(kind, value) {
    for (const model of this.#document._all_models.values()) {
      for (const { [kind]: notes = {} } of model.tags) {
        for (const [attr, noted] of Object.entries(notes)) {
          model[attr] = value(noted);
        }
      }
    }
  }
}

/**
 * An axis looks for a tick's label under its number, and JSON has made strings of them: a label
 * under a string would leave the old one where it is.
 *
 * @param {any} labels
 */
function byNumber(labels) {
  return new Map(Object.entries(labels).map(([tick, label]) => [Number(tick), label]));
}

/**
 * BokehJS moves its pen by half a pixel and then clears the canvas from there on, so that its first
 * line and column keep what they have, such as a label of the figure's first layout.
 *
 * @param {any} view of a root; of a figure, if it has a canvas
 */
function clearToTheEdges({ canvas_view }) {
  for (const layer of canvas_view ? [canvas_view.primary, canvas_view.overlays] : []) {
    const { canvas } = layer;
    layer.clear = () =>
      layer.undo_transform((/** @type {CanvasRenderingContext2D} */ pen) =>
        pen.clearRect(0, 0, canvas.width, canvas.height),
      );
  }
}

/**
 * A canvas says nothing, so its place becomes a named picture with the sentence beside it.
 *
 * @param {HTMLElement} place with `data-label` and `data-describedby`
 */
function nameFigure(place) {
  const { label, describedby } = place.dataset;
  if (label && describedby) {
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", label);
    place.setAttribute("aria-describedby", describedby);
  }
}

/**
 * Gives a slider the name and the spoken value that Panel leaves out.
 *
 * @param {HTMLElement} place with `data-label`, and `data-unit` for the value
 */
function nameControl(place) {
  const handle = place.firstElementChild?.shadowRoot?.querySelector("[role=slider]");
  const { label, unit } = place.dataset;
  if (!handle || !label) {
    return;
  }
  handle.setAttribute("aria-label", label);
  punctuate(handle.getRootNode(), label);
  const speak = () => {
    const value = `${unit} ${Number(handle.getAttribute("aria-valuenow"))}`;
    if (handle.getAttribute("aria-valuetext") !== value) {
      handle.setAttribute("aria-valuetext", value);
    }
  };
  speak();
  // The slider writes "4.00" after each move.
  new MutationObserver(speak).observe(handle, { attributeFilter: ["aria-valuetext"] });
}

/**
 * BokehJS writes "title: " before a slider's value in every language, and anew with each move.
 *
 * @param {Node} root of the slider
 * @param {string} label
 */
function punctuate(root, label) {
  const title = /** @type {ShadowRoot} */ (root).querySelector(".bk-slider-title");
  const write = () => {
    if (title?.firstChild) {
      title.firstChild.textContent = say("labs.before-value", { label });
    }
  };
  if (title) {
    write();
    new MutationObserver(write).observe(title, { childList: true });
  }
}

/**
 * The present colour of a concept, as the style sheet defines it for light and dark.
 *
 * @param {string} concept
 */
function colourOf(concept) {
  const probe = document.body.appendChild(document.createElement("span"));
  probe.style.color = `var(--${concept})`;
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
