// Runs the labs' Python: the same Panel documents that the page shows, answering the controls.
//
// In:  {type: "init", epoch, python}, then {type: "set", lab, values, candidate}
// Out: {epoch, type}: "progress" {stage, loaded, total}, "ready", "failed" {message},
//      and for each set "state" {state}

import { startPython } from "./python.js";

/** @typedef {{answer: (values: string, candidate: string) => string}} Session kvlab.session.Session */

let epoch = 0;
/** @type {((lab: string) => Session) | undefined} */
let newSession;
/** A lab's session is made with its first question. @type {Map<string, Session>} */
const sessions = new Map();

self.addEventListener("message", async ({ data }) => {
  try {
    if (data.type === "init") {
      epoch = data.epoch;
      newSession = await start(data.python);
      send({ type: "ready" });
    } else if (newSession) {
      const { lab, values, candidate } = data;
      const session = sessions.get(lab) ?? newSession(lab);
      sessions.set(lab, session);
      send({ type: "state", state: JSON.parse(session.answer(JSON.stringify(values), candidate)) });
    }
  } catch (error) {
    console.info(error); // the whole of it
    send({ type: "failed", message: lastLine(error) });
  }
});

/**
 * @param {import("./python.js").PythonConfig} config
 * @returns {Promise<(lab: string) => Session>}
 */
async function start(config) {
  const python = await startPython(config, (progress) => send({ type: "progress", ...progress }));
  send({ type: "progress", stage: "importing" });
  try {
    python.pyimport("kvlab.unused").leave_out();
    python.pyimport("panel"); // all labs need it; what only one needs comes with its session
    return python.pyimport("kvlab.labs").new_session;
  } catch (error) {
    console.info(error);
    throw new Error(`${config.archives[0].url.split("/").pop()} is damaged: ${lastLine(error)}`);
  }
}

/**
 * Of a Python traceback the last line says what happened.
 *
 * @param {unknown} error
 */
function lastLine(error) {
  const message = error instanceof Error ? error.message : String(error);
  return message.trim().split("\n").pop();
}

/** @param {object} message */
function send(message) {
  self.postMessage({ epoch, ...message });
}
