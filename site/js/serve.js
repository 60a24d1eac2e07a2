// A worker's side of python-worker.js: starts Python, then answers one question after another.
//
// In:  {type: "init", python}, then {id, type, ...} for each question
// Out: {type: "progress", stage, loaded, total}, then {type: "ready"}, and {id, type: "answer", answer}
//      for each question, which is {error} where Python raises one; or {type: "failed", reason},
//      after which the page ends the worker

/**
 * @typedef {import("./python.js").PythonConfig} PythonConfig
 * @typedef {Record<string, (question: any) => unknown>} Answers by type of question
 */

/** @param {(config: PythonConfig) => Promise<Answers>} start */
export function serve(start) {
  /** @type {Answers} */
  let answers = {};
  self.addEventListener("message", async ({ data }) => {
    try {
      if (data.type === "init") {
        answers = await start(data.python);
        self.postMessage({ type: "ready" });
      } else {
        const answer = await answers[data.type](data);
        self.postMessage({ id: data.id, type: "answer", answer });
      }
    } catch (error) {
      console.info(error); // the whole of it
      const reason = lastLine(error);
      // What Python raises concerns one question: anything else is Python itself giving up.
      const isRaised = error instanceof Error && error.name === "PythonError";
      self.postMessage(
        data.id && isRaised
          ? { id: data.id, type: "answer", answer: { error: reason } }
          : { type: "failed", reason },
      );
    }
  });
}

/** @param {import("./python.js").Progress} progress */
export function tellProgress(progress) {
  self.postMessage({ type: "progress", ...progress });
}

/**
 * Of a Python traceback the last line says what happened.
 *
 * @param {unknown} error
 */
export function lastLine(error) {
  const message = error instanceof Error ? error.message : String(error);
  return message.trim().split("\n").pop() ?? "";
}
