// Runs the labs' Python: the same Panel documents that the page shows, answering the controls.

import { startPython } from "./python.js";
import { serve, tellProgress } from "./serve.js";

/**
 * @typedef {{answer: (values: string, candidate: string) => string}} Session kvlab.session.Session
 *
 * @typedef {object} Question type "state": a lab's outputs at its control values
 * @property {string} lab
 * @property {import("./lab.js").Values} values
 * @property {object | null} [candidate] what a candidate does there (see candidate-bar.js)
 */

serve(async (config) => {
  const python = await startPython(config, tellProgress);
  tellProgress({ stage: "importing" });
  python.pyimport("kvlab.unused").leave_out();
  python.pyimport("panel"); // all labs need it; what only one needs comes with its session
  const { new_session } = python.pyimport("kvlab.labs");
  /** A lab's session is made with its first question. @type {Map<string, Session>} */
  const sessions = new Map();
  return {
    /** @param {Question} question */
    state({ lab, values, candidate = null }) {
      const session = sessions.get(lab) ?? new_session(lab);
      sessions.set(lab, session);
      return JSON.parse(session.answer(JSON.stringify(values), JSON.stringify(candidate)));
    },
  };
});
