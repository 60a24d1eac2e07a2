// The figures as tables: the same arrays that are drawn, for readers who prefer or need text.

/**
 * @typedef {{key: number[], query: number[], state: string[]}} Cells
 * @typedef {{position: number[], offset: number[], top_left: number[]}} Rows
 */

/** What a cell's mark is called in text. @type {Record<string, string>} */
const MARKS = { history: "●", chunk: "●", "hidden-future": "–", "wrongly-hidden": "×" };

/** @param {(name: string) => any} output the present value of an output */
export function showTables(output) {
  for (const details of document.querySelectorAll("details[data-table]")) {
    const name = details.getAttribute("data-table") ?? "";
    const table = /** @type {HTMLTableElement} */ (details.querySelector("table"));
    if (name === "errors") {
      table.tBodies[0].replaceChildren(...errorRows(output("errors.rows")));
    } else {
      fillMask(table, output(`${name}-mask.cells`));
    }
  }
}

/**
 * @param {HTMLTableElement} table
 * @param {Cells} cells
 */
function fillMask(table, { key, query, state }) {
  const columns = Math.max(...key) + 1;
  const head = [cell("th", "query \\ key"), ...key.slice(0, columns).map((k) => cell("th", k))];
  const rows = [];
  for (let start = 0; start < state.length; start += columns) {
    const marks = state.slice(start, start + columns).map((name) => {
      const mark = cell("td", MARKS[name]);
      mark.className = name;
      return mark;
    });
    rows.push(row(cell("th", query[start]), ...marks));
  }
  table.tHead?.replaceChildren(row(...head));
  table.tBodies[0].replaceChildren(...rows);
}

/** @param {Rows} rows */
function errorRows({ position, offset, top_left }) {
  return position.map((p, i) => row(cell("th", p), cell("td", offset[i]), cell("td", top_left[i])));
}

/** @param {HTMLElement[]} cells */
function row(...cells) {
  const element = document.createElement("tr");
  element.append(...cells);
  return element;
}

/**
 * @param {"th" | "td"} tag
 * @param {string | number} text
 */
function cell(tag, text) {
  const element = document.createElement(tag);
  element.textContent = String(text);
  return element;
}
