// The figures as tables: the same arrays that are drawn, for readers who prefer or need text.

import { element, heading } from "./cell-element.js";
import { say } from "./words.js";

/**
 * @typedef {string | number} Cell a text, a state, or the number of a row
 * @typedef {Record<string, Cell[]>} Columns of a data source
 * @typedef {Record<string, string>} Marks a cell's state -> its mark
 */

/**
 * Fills the tables of a lab (see site/templates/lab.html.j2), a folded one when it's opened.
 *
 * @param {string} lab
 * @param {(name: string) => Columns} output the present value of an output
 * @param {Marks} marks
 */
export function showTables(lab, output, marks) {
  const tables = document.querySelectorAll(`table[data-twin^="${lab}."]`);
  for (const table of /** @type {NodeListOf<HTMLTableElement>} */ (tables)) {
    const fold = table.closest("details");
    if (fold) {
      fold.ontoggle = () => showTables(lab, output, marks);
      if (!fold.open) {
        continue;
      }
    }
    const { twin = "", columns, words = "", matrix, names = "{}" } = table.dataset;
    const data = output(twin.slice(lab.length + 1));
    if (columns) {
      const shown = { ...data, ...inWords(data, words.split(" ")) };
      table.tBodies[0].replaceChildren(...listRows(shown, columns.split(" "), marks));
    } else if (matrix) {
      const [row, column, value] = matrix.split(" ");
      const cells = { rows: data[row], columns: data[column], values: data[value] };
      fillMatrix(table, cells, marks, JSON.parse(names));
    }
  }
}

/**
 * @param {Columns} data
 * @param {string[]} columns whose values are messages; "" is none
 * @returns {Columns} these alone, in the page's words
 */
function inWords(data, columns) {
  const said = columns.filter(Boolean).map((column) => {
    return [column, data[column].map((value) => value && say(String(value)))];
  });
  return Object.fromEntries(said);
}

/**
 * @param {Columns} data
 * @param {string[]} columns
 * @param {Marks} marks
 */
function listRows(data, [first, ...others], marks) {
  return data[first].map((name, i) =>
    row(heading("row", name), ...others.map((column) => cell(data[column][i], marks))),
  );
}

/**
 * @param {HTMLTableElement} table
 * @param {{rows: Cell[], columns: Cell[], values: Cell[]}} data
 *   one entry a cell, row by row
 * @param {Marks} marks
 * @param {Record<string, string>} names of rows and columns that aren't called by their values
 */
function fillMatrix(table, { rows, columns, values }, marks, names) {
  /** @param {Cell} value */
  const named = (value) => names[value] ?? value;
  const headings = [...new Set(columns)];
  const corner = /** @type {HTMLElement} */ (table.tHead?.rows[0].cells[0]);
  const made = [];
  for (let start = 0; start < values.length; start += headings.length) {
    const cells = values.slice(start, start + headings.length).map((value) => cell(value, marks));
    made.push(row(heading("row", named(rows[start])), ...cells));
  }
  table.tHead?.replaceChildren(
    row(corner, ...headings.map((value) => heading("col", named(value)))),
  );
  table.tBodies[0].replaceChildren(...made);
}

/** @param {HTMLElement[]} cells */
function row(...cells) {
  return element("tr", {}, cells);
}

/**
 * @param {Cell} value
 * @param {Marks} marks
 */
function cell(value, marks) {
  const className = value in marks ? String(value) : "";
  return element("td", { className }, [marks[value] ?? String(value)]);
}
