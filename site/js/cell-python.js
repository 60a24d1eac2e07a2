// The cells' Python: a worker that is started with the first run and thrown away to stop one.

import { PythonWorker } from "./python-worker.js";

/**
 * @typedef {import("./cell-output.js").OutputKind} OutputKind
 * @typedef {{type: "progress"} & import("./python.js").Progress} ProgressMessage
 * @typedef {{type: "ready"}} ReadyMessage
 * @typedef {{type: "failed", message: string}} FailedMessage
 * @typedef {{type: "output", id: number, kind: OutputKind, text: string}} OutputMessage
 * @typedef {{type: "done", id: number, value?: string, report?: string,
 *   candidate?: import("./candidates.js").Kind, error?: string}} DoneMessage
 * @typedef {{type: "candidate"} & import("./candidates.js").Answer} CandidateMessage
 * @typedef {{type: "crashed", id: number, message: string}} CrashedMessage
 * @typedef {ProgressMessage | ReadyMessage | FailedMessage | OutputMessage | DoneMessage
 *   | CrashedMessage | CandidateMessage} Message
 */

export class CellPython extends PythonWorker {
  /** @param {{id: number, number: number, source: string}} run */
  run(run) {
    if (!this.started) {
      this.start();
    }
    this.post({ type: "run", ...run }, { answers: false }); // a cell may take as long as it likes
  }

  /**
   * @param {number} candidate id of the run that it comes from
   * @param {string} lab
   * @param {import("./lab-python.js").Values} values
   */
  askCandidate(candidate, lab, values) {
    this.post({ type: "candidate", candidate, lab, values }, { answers: false });
  }
}
