// Runs the lab's Python: the same Panel document that the page shows, answering the sliders.
//
// In:  {type: "init", epoch, python}, then {type: "set", id, values}
// Out: {epoch, type}: "progress" {stage, loaded, total}, "ready", "failed" {message},
//      and for a set {id, values}: "state" {state}

import { startPython } from "./python.js";

/** @typedef {{answer: (values: string) => string}} Session kvlab.session.Session */

let epoch = 0;
/** @type {Session | undefined} */
let session;

self.addEventListener("message", async ({ data }) => {
  try {
    if (data.type === "init") {
      epoch = data.epoch;
      session = await startSession(data.python);
      send({ type: "ready" });
    } else if (session) {
      const state = JSON.parse(session.answer(JSON.stringify(data.values)));
      send({ type: "state", id: data.id, values: data.values, state });
    }
  } catch (error) {
    console.info(error); // the whole of it
    send({ type: "failed", message: lastLine(error) });
  }
});

/**
 * @param {import("./python.js").PythonConfig} config
 * @returns {Promise<Session>}
 */
async function startSession(config) {
  const python = await startPython(config, (progress) => send({ type: "progress", ...progress }));
  send({ type: "progress", stage: "importing Panel" });
  try {
    const { Session } = python.pyimport("kvlab.session");
    const { MaskLab } = python.pyimport("kvlab.mask_lab");
    return Session(MaskLab);
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
