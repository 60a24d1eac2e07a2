// Runs the cells' Python. The page starts this worker with the first run and ends it to stop one.

import { startPython } from "./python.js";
import { lastLine, serve, tellProgress } from "./serve.js";

/**
 * @typedef {object} Result of a run: kvlab.cell_runner.CellResult, or that Python gave up
 * @property {string} [value]
 * @property {object} [report]
 * @property {import("./candidate-bar.js").Kind} [candidate]
 * @property {string} [error]
 * @property {string} [crashed]
 */

serve(async (config) => {
  const pyodide = await startPython(config, tellProgress);
  // input() is then an EOFError; it would look for the page's prompt() otherwise.
  pyodide.setStdin({ stdin: () => null });
  pyodide.pyimport("os").environ.set("KVPROOF_LANGUAGE", config.language);
  let running = 0;
  /** @type {(kind: string, text: string) => void} */
  const write = (kind, text) => self.postMessage({ id: running, type: "output", kind, text });
  const runner = pyodide.pyimport("kvlab.cell_runner").CellRunner(write);
  /** @type {(reason: string) => void} */
  let crash = () => {};
  self.addEventListener("unhandledrejection", ({ reason }) => {
    if (isGone(pyodide)) {
      crash(message(reason));
    }
  });
  /** @param {string} source */
  const loadImports = async (source) => {
    await pyodide.loadPackagesFromImports(source, {
      messageCallback: () => {}, // it speaks English, and the packages are small
      errorCallback: (/** @type {string} */ text) => write("stderr", `${text}\n`),
    });
    if ("micropip" in pyodide.loadedPackages) {
      pyodide.pyimport("kvlab.cell_packages").keep_to_the_site(config.refusal);
    }
  };

  return {
    /**
     * @param {{id: number, source: string, number: number}} question
     * @returns {Promise<Result>}
     */
    async run({ id, source, number }) {
      running = id;
      /** @type {Promise<Result>} */
      const crashed = new Promise((resolve) => {
        crash = (reason) => resolve({ crashed: reason });
      });
      const result = loadImports(source)
        .then(() => runner.run(source, number))
        .then(read)
        // The runner catches what Python raises: this is Pyodide itself giving up (memory, stack).
        .catch((/** @type {unknown} */ error) => ({ crashed: message(error) }));
      return Promise.race([result, crashed]);
    },

    /** What the last candidate does in a state of a lab. @param {{lab: string, values: object}} question */
    candidate({ lab, values }) {
      try {
        return JSON.parse(runner.answer_candidate(lab, JSON.stringify(values)));
      } catch (error) {
        return { error: lastLine(error) }; // Pyodide giving up again
      }
    },
  };
});

/**
 * @param {any} result kvlab.cell_runner.CellResult
 * @returns {Result}
 */
function read(result) {
  const { value, report, candidate, error } = result;
  result.destroy();
  return { value, report: report && JSON.parse(report), candidate, error };
}

/**
 * A stack overflow within Pyodide surfaces as an unhandled rejection and not in the run that caused
 * it, whose promise then never settles. Others leave Python alive and are no business of ours.
 *
 * @param {import("./python.js").Pyodide} pyodide
 */
function isGone(pyodide) {
  try {
    pyodide.runPython("None");
    return false;
  } catch {
    return true;
  }
}

/** @param {unknown} error */
function message(error) {
  return error instanceof Error ? error.message : String(error);
}
