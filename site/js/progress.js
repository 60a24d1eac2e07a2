// How the start of Python is told.

import { say } from "./words.js";

/** @type {Record<string, string>} */
const STAGES = {
  downloading: "runtime.stage.downloading",
  starting: "runtime.stage.starting",
  importing: "runtime.stage.importing",
};

/** @param {string} stage */
export function stageWords(stage) {
  return say(STAGES[stage]);
}

/**
 * @param {{loaded: number, total: number}} progress in bytes
 * @returns {string} such as "3.1 of 9.6 MB"
 */
export function sizeOf({ loaded, total }) {
  /** @param {number} bytes */
  const megabytes = (bytes) => (bytes / 1e6).toFixed(1);
  return say("progress.size", { loaded: megabytes(loaded), total: megabytes(total) });
}
