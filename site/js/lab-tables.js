// The figures as tables: the same arrays that are drawn, for readers who prefer or need text.

/**
 * @typedef {{key: number[], query: number[], state: string[]}} Cells
 * @typedef {{position: number[], offset: number[], top_left: number[]}} Rows
 */

/** @typedef {Record<string, string>} Marks a cell's state -> its mark */

/**
 * @param {(name: string) => any} output the present value of an output
 * @param {Marks} marks
 */
export function showTables(output, marks) {
  for (const details of document.querySelectorAll("details[data-table]")) {
    const name = details.getAttribute("data-table") ?? "";
    const table = /** @type {HTMLTableElement} */ (details.querySelector("table"));
    if (name === "errors") {
      table.tBodies[0].replaceChildren(...errorRows(output("errors.rows")));
    } else {
      fillMask(table, output(`${name}-mask.cells`), marks);
    }
  }
}

/**
 * @param {HTMLTableElement} table
 * @param {Cells} cells
 * @param {Marks} marks
 */
function fillMask(table, { key, query, state }, marks) {
  const columns = Math.max(...key) + 1;
  const head = ["query \\ key", ...key.slice(0, columns)].map((text) => heading("col", text));
  const rows = [];
  for (let start = 0; start < state.length; start += columns) {
    const cells = state.slice(start, start + columns).map((name) => {
      const cell = data(marks[name]);
      cell.className = name;
      return cell;
    });
    rows.push(row(heading("row", query[start]), ...cells));
  }
  table.tHead?.replaceChildren(row(...head));
  table.tBodies[0].replaceChildren(...rows);
}

/** @param {Rows} rows */
function errorRows({ position, offset, top_left }) {
  return position.map((p, i) => row(heading("row", p), data(offset[i]), data(top_left[i])));
}

/** @param {HTMLElement[]} cells */
function row(...cells) {
  const element = document.createElement("tr");
  element.append(...cells);
  return element;
}

/**
 * @param {"row" | "col"} scope
 * @param {string | number} text
 */
function heading(scope, text) {
  const element = document.createElement("th");
  element.scope = scope;
  element.textContent = String(text);
  return element;
}

/** @param {string | number} text */
function data(text) {
  const element = document.createElement("td");
  element.textContent = String(text);
  return element;
}
