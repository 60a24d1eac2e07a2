// The cells' Python: a worker that is started with the first run and thrown away to stop one.

import { PythonWorker } from "./python-worker.js";

/**
 * @typedef {import("./cell-output.js").OutputKind} OutputKind
 * @typedef {{type: "progress"} & import("./python.js").Progress} ProgressMessage
 * @typedef {{type: "ready"}} ReadyMessage
 * @typedef {{type: "failed", message: string}} FailedMessage
 * @typedef {{type: "output", id: number, kind: OutputKind, text: string}} OutputMessage
 * @typedef {{type: "done", id: number, value?: string, report?: string,
 *   own?: import("./own.js").Kind, error?: string}} DoneMessage
 * @typedef {{type: "own"} & import("./own.js").Answer} OwnMessage
 * @typedef {{type: "crashed", id: number, message: string}} CrashedMessage
 * @typedef {ProgressMessage | ReadyMessage | FailedMessage | OutputMessage | DoneMessage
 *   | CrashedMessage | OwnMessage} Message
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
   * @param {number} own id of the run that it comes from
   * @param {string} lab
   * @param {import("./lab-python.js").Values} values
   */
  askOwn(own, lab, values) {
    this.post({ type: "own", own, lab, values }, { answers: false });
  }
}
