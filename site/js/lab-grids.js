// Tables that are pictures: steps downwards and words across, and tables with bars and curves in them.
// Cells stay and change, so that a style sheet can let them fade.

import { say } from "./words.js";

/**
 * @typedef {Record<string, any[]>} Columns of a data source
 * @typedef {(name: string) => Columns} Output the present value of an output
 * @typedef {import("./lab-tables.js").Marks} Marks
 */

/**
 * @param {string} lab
 * @param {Output} output
 * @param {Marks} marks
 */
export function showGrids(lab, output, marks) {
  /** @param {string} [name] of a lab's output */
  const data = (name = "") => output(name.slice(lab.length + 1));
  for (const table of tables(`table[data-grid^="${lab}."]`)) {
    showGrid(table, data(table.dataset.grid), data(table.dataset.words), marks);
  }
  for (const table of tables(`table[data-chart^="${lab}."]`)) {
    showChart(table, data(table.dataset.chart), marks);
  }
}

/** @param {string} selector */
function tables(selector) {
  return /** @type {NodeListOf<HTMLTableElement>} */ (document.querySelectorAll(selector));
}

/**
 * @param {HTMLTableElement} table
 * @param {Columns} cells
 * @param {Columns} words
 * @param {Marks} marks
 */
function showGrid(table, { state, now }, words, marks) {
  const headings = [...(table.tHead?.rows[0].cells ?? [])].slice(1);
  for (const [index, heading] of headings.entries()) {
    setClass(heading, words.state[index]);
    const place = /** @type {HTMLElement} */ (heading.firstElementChild);
    setText(place, words.word[index] && say(words.word[index]));
  }
  for (const [index, row] of [...table.tBodies[0].rows].entries()) {
    const start = index * headings.length;
    setClass(row, now[start] ? "now" : "");
    if (now[start]) {
      row.setAttribute("aria-current", "step");
    } else {
      row.removeAttribute("aria-current");
    }
    for (const [column, cell] of [...row.cells].slice(1).entries()) {
      const shown = state[start + column];
      setClass(cell, shown);
      setText(cell, marks[shown] ?? "");
    }
  }
}

/**
 * @param {HTMLTableElement} table
 * @param {Columns} data
 * @param {Marks} marks
 */
function showChart(table, data, marks) {
  const columns = (table.dataset.kinds ?? "").split(" ").map((column) => column.split(":"));
  const [body] = table.tBodies;
  const length = data[columns[0][0]].length;
  while (body.rows.length > length) {
    body.deleteRow(-1);
  }
  while (body.rows.length < length) {
    body.append(body.rows[0].cloneNode(true));
  }
  for (const [index, row] of [...body.rows].entries()) {
    for (const [column, [name, kind]] of columns.entries()) {
      fill(row.cells[column], kind, data[name][index], marks);
    }
  }
}

/**
 * The same as `chart_cell` of site/templates/lab.html.j2.
 *
 * @param {HTMLTableCellElement} cell
 * @param {string} kind
 * @param {any} value
 * @param {Marks} marks
 */
function fill(cell, kind, value, marks) {
  if (kind === "word") {
    setText(cell, say(value));
  } else if (value === "") {
    setClass(cell, "");
    cell.replaceChildren();
  } else if (kind === "state") {
    const swatch = cell.querySelector("span") ?? cell.appendChild(document.createElement("span"));
    setClass(swatch, `swatch ${value}`);
    setText(swatch, marks[value]);
  } else if (kind === "bar") {
    setClass(cell, "bar");
    cell.style.setProperty("--share", `${value[1]}%`);
    setText(cell, value[0]);
  } else if (kind === "curve") {
    cell.querySelector("path")?.setAttribute("d", value);
  } else {
    setText(cell, value);
  }
}

/**
 * @param {HTMLElement} element
 * @param {string} name
 */
function setClass(element, name) {
  if (element.className !== name) {
    element.className = name;
  }
}

/**
 * @param {HTMLElement} element
 * @param {string} text
 */
function setText(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}
