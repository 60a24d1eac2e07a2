// A CodeMirror editor for one cell. Colours and sizes are in cells.css.

import { defaultKeymap, history, historyKeymap, isolateHistory } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import {
  bracketMatching,
  indentOnInput,
  indentUnit,
  syntaxHighlighting,
} from "@codemirror/language";
import { EditorState, Prec } from "@codemirror/state";
import { EditorView, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";
import { shownByNumber } from "./hidden-characters.js";

const STICKY_BAR = 96; // px

/**
 * @param {object} options
 * @param {HTMLElement} options.parent
 * @param {string} options.text
 * @param {string} options.label what a screen reader calls the editor
 * @param {string} options.helpId id of the element that explains the keys
 * @param {() => void} options.onEdit
 * @param {(move: boolean) => void} options.onRun Shift+Enter moves on, Ctrl or Cmd+Enter stays
 * @returns {EditorView}
 */
export function createEditor({ parent, text, label, helpId, onEdit, onRun }) {
  // No Tab binding on purpose: Tab leaves the editor, so nobody gets caught in it.
  const extensions = [
    Prec.highest(runKeys(onRun)),
    keymap.of([...defaultKeymap, ...historyKeymap]),
    history(),
    lineNumbers(),
    highlightSpecialChars(shownByNumber),
    python(),
    indentUnit.of("    "),
    indentOnInput(),
    bracketMatching(),
    syntaxHighlighting(classHighlighter),
    // The bar that sticks to the top of the window must not cover the cursor.
    EditorView.scrollMargins.of(() => ({ top: STICKY_BAR })),
    // The index changes nothing, but says to checkers that keys reach what scrolls here.
    EditorView.contentAttributes.of({
      "aria-label": label,
      "aria-describedby": helpId,
      tabindex: "0",
    }),
    EditorView.updateListener.of((update) => update.docChanged && onEdit()),
  ];
  return new EditorView({ parent, state: EditorState.create({ doc: text, extensions }) });
}

/** @param {(move: boolean) => void} onRun */
function runKeys(onRun) {
  /** @param {boolean} move */
  const runs = (move) => () => {
    onRun(move);
    return true;
  };
  return keymap.of([
    { key: "Shift-Enter", run: runs(true) },
    { key: "Ctrl-Enter", run: runs(false) },
    { key: "Cmd-Enter", run: runs(false) },
  ]);
}

/**
 * Replaces the whole text as one step that undo takes back.
 *
 * @param {EditorView} editor
 * @param {string} text
 */
export function setText(editor, text) {
  const { doc } = editor.state;
  if (doc.toString() !== text) {
    editor.dispatch({
      changes: { from: 0, to: doc.length, insert: text },
      annotations: isolateHistory.of("full"),
    });
  }
}
