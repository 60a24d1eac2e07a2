// A checker's report, drawn from its data. All of it is inserted as text.
//
// The build draws with this, too (kvsite/report.mjs): nothing but what `element` makes is used.

import { element, heading } from "./cell-element.js";
import { paragraph, say } from "./words.js";

/**
 * @typedef {{n_past: number, n_new: number, seen: boolean[][], expected: boolean[][]}} Influence
 *   kvproof.checking.report.Influence
 * @typedef {{text: string}} Message in the page's language
 * @typedef {Message & {action: string, argument: unknown}} Op
 * @typedef {{tokens: number[][], ops: Op[], lengths: number[] | null}} Case
 * @typedef {{kind: string, confidence: number, why: Message | null}} Alternative
 *
 * @typedef {object} Finding
 * @property {string} kind
 * @property {boolean} doubtful
 * @property {Case | null} case
 * @property {number | string} max_abs_error a string where it isn't finite
 * @property {Record<string, string>} written amounts
 * @property {Record<string, number>} first_bad
 * @property {Alternative[]} alternatives
 * @property {Message[]} evidence
 * @property {string} snippet
 * @property {number} confidence
 * @property {Influence | null} influence
 *
 * @typedef {object} Report kvproof.checking.Report
 * @property {string} decoder
 * @property {boolean} ok
 * @property {Message & {id: string}} verdict
 * @property {boolean} complete
 * @property {Finding[]} findings
 * @property {Message[]} checked
 * @property {Message[]} not_checked
 * @property {Message[]} notes
 * @property {Record<string, string>} written amounts
 * @property {string} dtype
 * @property {number} n_calls
 * @property {number} seconds
 * @property {Record<string, string>} meanings of the kinds that are named
 */

/** A cell of a mask: its class, as in the lab, its sign, and the message of what that means. */
const STATES = {
  history: ["●", "report.state.history"],
  chunk: ["●", "report.state.chunk"],
  "hidden-future": ["–", "report.state.hidden-future"],
  "wrongly-hidden": ["×", "report.state.wrongly-hidden"],
  "wrongly-seen": ["▲", "report.state.wrongly-seen"],
};

/** Operations whose argument is a number of tokens (kvproof.checking.cases). */
const TAKES_TOKENS = ["feed", "fork", "branch"];

/** @type {Record<string, string>} Signs of verdicts; of all others a question mark. */
const SIGNS = { "report.right": "✓", "report.right-so-far": "✓", "report.wrong": "✗" };

/** Where something is wrong, and the message of it. */
const PLACES = {
  row: "report.place.row",
  position: "report.place.position",
  layer: "report.place.layer",
};

/**
 * The verdict in one line.
 *
 * @param {Report} report
 */
export function summary({ ok, verdict, findings, meanings }) {
  if (ok) return say("report.nothing-wrong");
  if (!findings.length || findings[0].doubtful) {
    return say("report.untold-line", { verdict: sentence(verdict.text) });
  }
  return say("report.wrong-line", { meaning: meanings[findings[0].kind] });
}

/**
 * @param {Report} report
 * @param {string} text the same as plain text
 */
export function drawnReport(report, text) {
  const { findings, checked, not_checked, notes, ok, complete, meanings } = report;
  return element("div", { className: "report" }, [
    drawnVerdict(report),
    ...findings.map((finding) => drawnFinding(finding, meanings)),
    ...list(say("report.notes"), notes, true),
    ...list(say("report.checked"), checked, ok),
    ...list(say("report.not-checked"), not_checked, ok || (!complete && findings.length === 0)),
    copyable(say("report.text"), text, document.documentElement.lang),
  ]);
}

/**
 * The verdict, the first finding and what speaks for it: for a page that shows one in passing.
 *
 * @param {Report} report
 */
export function drawnInShort(report) {
  const facts = drawnFacts(report.findings[0], report.meanings, "h3");
  return element("div", { className: "report" }, [
    drawnVerdict(report),
    element("section", { className: "report-finding" }, facts),
  ]);
}

/** @param {Report} report */
function drawnVerdict({ decoder, verdict, n_calls, seconds, dtype, written }) {
  const sign = SIGNS[verdict.id] ?? "?";
  const line = element("p", { className: "report-verdict" }, [
    element("strong", {}, [`${sign} ${sentence(verdict.text)}`]),
    " ",
    element("code", {}, [decoder]),
  ]);
  line.dataset.sign = sign;
  const facts = say("report.facts", {
    calls: n_calls,
    seconds: seconds < 1 ? seconds.toPrecision(1) : seconds.toFixed(1),
    dtype,
    noise: written.noise,
    tolerance: written.tolerance,
  });
  return element("div", {}, [line, element("p", { className: "report-facts" }, [facts])]);
}

/**
 * @param {Finding} finding
 * @param {Record<string, string>} meanings
 */
function drawnFinding(finding, meanings) {
  const others = finding.alternatives.map(({ kind, confidence, why }) => {
    const args = { percent: percent(confidence), meaning: meanings[kind] };
    const said = why
      ? say("report.alternative-why", { ...args, why: why.text })
      : say("report.alternative", args);
    return element("li", {}, [element("code", {}, [kind]), ` ${said}`]);
  });
  return element("section", { className: "report-finding" }, [
    ...drawnFacts(finding, meanings, "h4"),
    ...(others.length
      ? [
          element("p", { className: "report-label" }, [
            say("report.alternatives", { percent: percent(finding.confidence) }),
          ]),
          element("ul", {}, others),
        ]
      : []),
    ...(finding.snippet ? [copyable(say("report.snippet"), finding.snippet, "en")] : []),
  ]);
}

/**
 * Its name, where it is seen, and what speaks for it.
 *
 * @param {Finding} finding
 * @param {Record<string, string>} meanings
 * @param {"h3" | "h4"} tag of its heading, in a section or of a cell
 */
function drawnFacts(finding, meanings, tag) {
  const { kind, evidence, influence } = finding;
  return [
    element(tag, {}, [sentence(meanings[kind]), " ", element("code", {}, [kind])]),
    ...(finding.case ? [drawnCase(finding.case, finding.first_bad)] : []),
    ...amounts(finding),
    ...(influence ? [drawnInfluence(influence)] : []),
    element("p", { className: "report-label" }, [say("report.evidence")]),
    element(
      "ul",
      {},
      evidence.map(({ text }) => element("li", {}, [sentence(text)])),
    ),
  ];
}

/**
 * The operations side by side, below each the tokens that it takes, a line a row.
 *
 * @param {Case} smallest
 * @param {Record<string, number>} firstBad
 */
function drawnCase({ tokens, ops, lengths }, firstBad) {
  let next = 0;
  const columns = ops.map(({ action, argument }) => {
    const size = TAKES_TOKENS.includes(action) ? Number(argument) : 0;
    const start = next;
    next += size;
    return tokens.map((row, index) => {
      const pads = start === 0 && lengths ? size - lengths[index] : 0;
      const shown = row
        .slice(start, start + size)
        .map((token, i) => (i < pads ? say("report.pad") : token));
      return shown.join(" ");
    });
  });
  const heads = ops.map(({ text }, index) => {
    const isBad = index === firstBad.operation;
    const head = heading("col", isBad ? `${text} ✗` : text);
    if (isBad) {
      head.className = "bad";
    }
    return head;
  });
  const rows = tokens.map((_, row) => [
    heading("row", tokens.length > 1 ? say("report.row", { number: row }) : say("report.tokens")),
    ...columns.map((texts) => element("td", {}, [texts[row]])),
  ]);
  return table("report-case", say("report.case"), [heading("col", ""), ...heads], rows);
}

/** @param {Finding} finding */
function amounts({ case: smallest, max_abs_error, written, first_bad }) {
  if (max_abs_error === 0) {
    return [];
  }
  const off =
    typeof max_abs_error === "number"
      ? say("report.off", { error: written.max_abs_error, tolerance: written.tolerance })
      : say("report.not-comparable");
  const severalRows = smallest !== null && smallest.tokens.length > 1;
  const where = Object.entries(PLACES)
    .filter(([name]) => name in first_bad && (name !== "row" || severalRows))
    .map(([name, message]) => say(message, { number: first_bad[name] }));
  const first = say("report.first-wrong", { places: where.join(say("report.place-gap")) });
  return [element("p", {}, [where.length ? paragraph([off, first]) : off])];
}

/** @param {Influence} influence */
function drawnInfluence({ n_past, n_new, seen, expected }) {
  /** @type {Set<string>} */
  const states = new Set();
  /**
   * @param {string} title
   * @param {(row: number, key: number) => boolean} moves
   */
  const mask = (title, moves) => {
    const rows = expected.map((wanted, row) => [
      heading("row", n_past + row),
      ...wanted.map((isWanted, key) => {
        const state = stateOf(moves(row, key), isWanted, key < n_past);
        states.add(state);
        const cell = element("td", { className: state }, [STATES[state][0]]);
        return cell;
      }),
    ]);
    const head = [
      heading("col", say("report.corner")),
      ...expected[0].map((_, key) => heading("col", key)),
    ];
    return table("matrix", title, head, rows);
  };
  const masks = [
    mask(say("report.expected"), (row, key) => expected[row][key]),
    mask(say("report.seen"), (row, key) => seen[row][key]),
  ];
  const legend = Object.entries(STATES)
    .filter(([state]) => states.has(state))
    .map(([state, [mark, message]]) => {
      const swatch = element("span", { className: `swatch ${state}` }, [mark]);
      return element("li", {}, [swatch, ` ${say(message)}`]);
    });
  const args = { rows: n_new, differences: differences(seen, expected) };
  const caption = n_past
    ? say("report.influence.after", { ...args, P: n_past })
    : say("report.influence.empty", args);
  return element("figure", { className: "report-influence" }, [
    element("figcaption", {}, [caption]),
    element("div", { className: "report-masks" }, masks),
    element("ul", { className: "legend" }, legend),
  ]);
}

/**
 * @param {boolean} moves
 * @param {boolean} wanted
 * @param {boolean} isPast
 * @returns {keyof typeof STATES}
 */
function stateOf(moves, wanted, isPast) {
  if (moves !== wanted) {
    return wanted ? "wrongly-hidden" : "wrongly-seen";
  }
  return !wanted ? "hidden-future" : isPast ? "history" : "chunk";
}

/**
 * @param {boolean[][]} seen
 * @param {boolean[][]} expected
 */
function differences(seen, expected) {
  /** @param {boolean} wanted */
  const count = (wanted) =>
    expected.flatMap((row, i) => row.filter((cell, j) => cell === wanted && seen[i][j] !== wanted))
      .length;
  const parts = [];
  if (count(true)) {
    parts.push(say("report.missing", { count: count(true) }));
  }
  if (count(false)) {
    parts.push(say("report.excess", { count: count(false) }));
  }
  return parts.join(say("report.place-gap"));
}

/**
 * @param {string} className
 * @param {string} title
 * @param {HTMLElement[]} head
 * @param {HTMLElement[][]} rows
 */
function table(className, title, head, rows) {
  const made = element("table", { className }, [
    element("caption", {}, [title]),
    element("thead", {}, [element("tr", {}, head)]),
    element(
      "tbody",
      {},
      rows.map((cells) => element("tr", {}, cells)),
    ),
  ]);
  // Scrolls by itself where the screen is narrow, with the keyboard, too.
  return element("div", { className: "scroll", role: "region", ariaLabel: title, tabIndex: 0 }, [
    made,
  ]);
}

/**
 * @param {string} title
 * @param {Message[]} said
 * @param {boolean} open
 */
function list(title, said, open) {
  const items = said.map(({ text }) => element("li", {}, [text]));
  return items.length ? [folded(title, [element("ul", {}, items)], open)] : [];
}

/**
 * @param {string} title
 * @param {HTMLElement[]} content
 */
function folded(title, content, open = false) {
  const made = element("details", {}, [element("summary", {}, [title]), ...content]);
  /** @type {HTMLDetailsElement} */ (made).open = open;
  return made;
}

/**
 * @param {string} title
 * @param {string} text
 * @param {string} lang of the text
 */
function copyable(title, text, lang) {
  const pre = element("pre", { role: "region", ariaLabel: title, tabIndex: 0, lang }, [text]);
  const copy = element("button", {}, [say("report.copy")]);
  const said = element("span", { role: "status" });
  return folded(title, [element("div", { className: "report-copy" }, [copy, said]), pre]);
}

/**
 * After a click somewhere in what holds a report: one on a button to copy does that.
 *
 * @param {Event} event
 */
export async function copyOnClick({ target }) {
  const copy = /** @type {Element} */ (target).closest(".report-copy button");
  const pre = copy?.closest("details")?.querySelector("pre");
  if (copy?.nextElementSibling && pre) {
    const isCopied = await copied(pre.textContent ?? "", pre);
    copy.nextElementSibling.textContent = isCopied ? say("report.copied") : say("report.select");
  }
}

/**
 * @param {string} text
 * @param {HTMLElement} pre where it stands
 */
async function copied(text, pre) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection()?.selectAllChildren(pre); // not permitted: the reader's own keys still work
    return false;
  }
}

/** @param {string} text */
function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** @param {number} share */
function percent(share) {
  return `${Math.round(100 * share)}%`;
}
