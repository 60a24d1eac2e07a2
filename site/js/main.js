// The page's entry: prebuilt figures, then live Python, and the editable cells.

import { startCells } from "./cells.js";
import { startLab } from "./lab.js";

/** Small or metered devices decide for themselves when to load some megabytes of Python. */
const WAIT_FOR_CLICK = "(max-width: 40rem)";

const config = JSON.parse(document.getElementById("site-config")?.textContent ?? "");
/** @param {string} path */
const absolute = (path) => new URL(path, document.baseURI).href;

/** @param {any} python a PythonConfig with relative URLs */
function located(python) {
  /** @param {import("./python.js").File} file */
  const file = (file) => ({ ...file, url: absolute(file.url) });
  const { runtimeUrl, archives, snapshot } = python;
  return {
    ...python,
    runtimeUrl: absolute(runtimeUrl),
    archives: archives.map(file),
    snapshot: snapshot && { memory: file(snapshot.memory), stdlib: file(snapshot.stdlib) },
  };
}

async function showLab() {
  const lab = await startLab({
    dataUrl: absolute(config.lab.dataUrl),
    workerUrl: absolute(config.lab.workerUrl),
    python: located(config.lab.python),
  });
  const saveData = /** @type {any} */ (navigator).connection?.saveData;
  if (!saveData && !matchMedia(WAIT_FOR_CLICK).matches) {
    lab.startPython();
  }
}

/** @param {unknown} error */
function sayFailed(error) {
  document.documentElement.dataset.runtimeState = "failed";
  const status = /** @type {HTMLElement} */ (document.getElementById("runtime-status"));
  const reason = error instanceof Error ? error.message : error;
  const shown = document.querySelector("[data-readout=state]")?.textContent;
  status.textContent = `The figures can't move: ${reason}. They show ${shown}.`;
  const retry = /** @type {HTMLElement} */ (document.getElementById("runtime-button"));
  retry.textContent = "Retry";
  retry.hidden = false;
  retry.addEventListener("click", () => location.reload());
}

// The lab comes first: it is what a visitor sees.
await showLab().catch(sayFailed);
startCells(/** @type {HTMLElement} */ (document.getElementById("cells")), {
  workerUrl: absolute(config.cells.workerUrl),
  specimensUrl: absolute(config.cells.specimensUrl),
  ...located(config.cells.python),
});
