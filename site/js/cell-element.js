// Helpers to make elements.

/**
 * @param {string} tag
 * @param {Partial<HTMLElement>} properties
 * @param {(Node | string)[]} children strings become text, never HTML
 * @returns {HTMLElement}
 */
export function element(tag, properties, children = []) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/**
 * @param {string} text
 * @param {() => void} onclick
 * @param {Partial<HTMLElement>} properties
 */
export function button(text, onclick, properties = {}) {
  return element("button", { ...properties, onclick }, [text]);
}

/**
 * Of a table; nothing is the heading of nothing.
 *
 * @param {"row" | "col"} scope
 * @param {string | number} text
 */
export function heading(scope, text) {
  const made = /** @type {HTMLTableCellElement} */ (
    element(text === "" ? "td" : "th", {}, [`${text}`])
  );
  if (text !== "") {
    made.scope = scope;
  }
  return made;
}
