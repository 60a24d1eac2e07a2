// Runs the cells' Python. The page starts this worker with the first run and ends it to stop one.
//
// In:  {type: "init", epoch, python}, then {type: "run", id, number, source}, and when a run was of a
//      mask or a decoder for the labs, {type: "candidate", candidate, lab, values}
// Out: {epoch, type}: "progress" {stage, loaded, total}, "ready", "failed" {message},
//      for a run {id}: "output" {kind, text}, "done" {value, report, candidate, error}, "crashed"
//      {message}, and "candidate" {candidate, lab, values, answer}

import { startPython } from "./python.js";

/**
 * @typedef {object} CellResult kvlab.cell_runner.CellResult, seen from JavaScript
 * @property {string | undefined} value
 * @property {string | undefined} report
 * @property {string | undefined} candidate
 * @property {string | undefined} error
 * @property {() => void} destroy
 *
 * @typedef {object} CellRunner kvlab.cell_runner.CellRunner, seen from JavaScript
 * @property {(source: string, number: number) => Promise<CellResult>} run
 * @property {(values: string, lab: string) => string} answer_candidate
 *
 * @typedef {{runner: CellRunner, loadImports: (source: string) => Promise<void>}} Python
 * @typedef {{id: number, number: number, source: string}} Run
 * @typedef {{candidate: number, lab: string, values: object}} CandidateQuestion
 */

let epoch = 0;
let runId = 0;
/** @type {Promise<Python | void>} */
let starting = Promise.resolve();

self.addEventListener("message", async ({ data }) => {
  if (data.type === "init") {
    epoch = data.epoch;
    starting = start(data.python).catch((error) =>
      send({ type: "failed", message: reason(error) }),
    );
    return;
  }
  const python = await starting;
  if (python && data.type === "candidate") {
    answerCandidate(python, data);
  } else if (python) {
    await run(python, data);
  }
});

/**
 * @param {import("./python.js").PythonConfig} config
 * @returns {Promise<Python>}
 */
async function start(config) {
  const pyodide = await startPython(config, (progress) => send({ type: "progress", ...progress }));
  self.addEventListener("unhandledrejection", (event) => reportCrash(pyodide, event.reason));
  // input() is then an EOFError; it would look for the page's prompt() otherwise.
  pyodide.setStdin({ stdin: () => null });
  const { CellRunner } = pyodide.pyimport("kvlab.cell_runner");
  const runner = CellRunner((/** @type {string} */ kind, /** @type {string} */ text) =>
    send({ type: "output", id: runId, kind, text }),
  );
  /** @param {string} source */
  const loadImports = async (source) => {
    await pyodide.loadPackagesFromImports(source, {
      messageCallback: () => {}, // it speaks English, and the packages are small
      errorCallback: (/** @type {string} */ text) =>
        send({ type: "output", id: runId, kind: "stderr", text: `${text}\n` }),
    });
    if ("micropip" in pyodide.loadedPackages) {
      pyodide.pyimport("kvlab.cell_packages").keep_to_the_site(config.refusal);
    }
  };
  send({ type: "ready" });
  return { runner, loadImports };
}

/**
 * @param {Python} python
 * @param {Run} request
 */
async function run({ runner, loadImports }, { id, number, source }) {
  runId = id;
  try {
    await loadImports(source);
    const result = await runner.run(source, number);
    const { value, report, candidate, error } = result;
    send({ type: "done", id, value, report, candidate, error });
    result.destroy();
  } catch (error) {
    // The runner catches what Python raises: this is Pyodide itself giving up (memory, stack).
    send({ type: "crashed", id, message: reason(error) });
  }
}

/**
 * @param {Python} python
 * @param {CandidateQuestion} question
 */
function answerCandidate({ runner }, { candidate, lab, values }) {
  let answer;
  try {
    answer = runner.answer_candidate(JSON.stringify(values), lab);
  } catch (error) {
    // It catches whatever the visitor's code raises: this is Pyodide giving up.
    answer = JSON.stringify({ error: reason(error).trim().split("\n").pop() });
  }
  send({ type: "candidate", candidate, lab, values, answer });
}

/**
 * A stack overflow within Pyodide surfaces here and not in the run that caused it, whose promise
 * then never settles. Other unhandled rejections leave Python alive and are no business of ours.
 *
 * @param {import("./python.js").Pyodide} pyodide
 * @param {unknown} error
 */
function reportCrash(pyodide, error) {
  try {
    pyodide.runPython("None");
  } catch {
    send({ type: "crashed", id: runId, message: reason(error) });
  }
}

/** @param {object} message */
function send(message) {
  self.postMessage({ epoch, ...message });
}

/** @param {unknown} error */
function reason(error) {
  return error instanceof Error ? error.message : String(error);
}
