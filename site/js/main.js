// The entry of a page with labs or cells: prebuilt figures, then live Python, and the editable cells.

import { Address } from "./address.js";
import { Notebook } from "./cells.js";
import { startCopyLinks } from "./copy-link.js";
import { Labs } from "./labs.js";
import { Offline } from "./offline.js";
import { say } from "./words.js";

/** Who has touched nothing for so long, but stays, gets Python for what comes next. */
const STAYED_MS = 3000;
/** Small or metered devices decide for themselves when to load some megabytes of Python. */
const WAIT_FOR_CLICK = "(max-width: 40rem)";

const config = JSON.parse(document.getElementById("site-config")?.textContent ?? "");
/** @param {string} path */
const absolute = (path) => new URL(config.root + path, document.baseURI).href;

/** @param {any} python a PythonConfig with relative URLs */
function located(python) {
  /** @param {import("./python.js").File} file */
  const file = (file) => ({ ...file, url: absolute(file.url) });
  const { runtimeUrl, files, library, archives, snapshot } = python;
  return {
    ...python,
    runtimeUrl: absolute(runtimeUrl),
    files: files.map(file),
    library: file(library),
    archives: archives.map(file),
    snapshot: snapshot && { memory: file(snapshot.memory), stdlib: file(snapshot.stdlib) },
  };
}

const address = new Address();
const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const labs = config.labs ? shownLabs() : undefined;

function shownLabs() {
  const dataUrls = Object.entries(config.labs.dataUrls);
  return new Labs(
    {
      dataUrls: Object.fromEntries(dataUrls.map(([name, url]) => [name, absolute(String(url))])),
      workerUrl: absolute(config.labs.workerUrl),
      python: located(config.labs.python),
    },
    (name, lab) => {
      address.add(name, lab.controls);
      lab.onControls(() => address.moved());
    },
  );
}

/** @param {Labs} labs */
async function showFirst(labs) {
  const first = /** @type {HTMLElement} */ (main.querySelector("[data-lab]"));
  await labs.show(first.dataset.lab ?? "");
  const saveData = /** @type {any} */ (navigator).connection?.saveData;
  if (!saveData && !matchMedia(WAIT_FOR_CLICK).matches) {
    startWhenWanted(labs);
  }
}

/**
 * Python comes for readers who move something, or who stay; on other people's pages only for the former.
 *
 * @param {Labs} labs
 */
function startWhenWanted(labs) {
  const waiting = new AbortController();
  const start = () => {
    waiting.abort();
    labs.startPython();
  };
  const { signal } = waiting;
  for (const controls of main.querySelectorAll(".lab :is(.controls, .player)")) {
    controls.addEventListener("pointerdown", start, { signal });
    controls.addEventListener("keydown", start, { signal });
  }
  if (!config.isEmbedded) {
    const stayed = () => document.visibilityState === "visible" && start();
    const timer = setTimeout(() => {
      stayed();
      document.addEventListener("visibilitychange", stayed, { signal });
    }, STAYED_MS);
    signal.addEventListener("abort", () => clearTimeout(timer));
  }
}

/** @param {unknown} error */
function sayFailed(error) {
  document.documentElement.dataset.runtimeState = "failed";
  const status = /** @type {HTMLElement} */ (document.getElementById("runtime-status"));
  const reason = error instanceof Error ? error.message : String(error);
  status.textContent = say("runtime.lab-failed", { reason });
  const retry = /** @type {HTMLElement} */ (document.getElementById("runtime-button"));
  retry.textContent = say("runtime.retry");
  retry.hidden = false;
  retry.addEventListener("click", () => location.reload());
}

function shownCells() {
  return new Notebook(
    main,
    {
      workerUrl: absolute(config.cells.workerUrl),
      specimensUrl: absolute(config.cells.specimensUrl),
      ...located(config.cells.python),
      refusal: say("cells.no-wheel", {
        name: "{name}",
        wheels: "{wheels}",
        kvproof: absolute(config.cells.wheelUrl),
      }),
    },
    (candidate) => labs?.use(candidate),
  );
}

// The lab comes first: it is what a visitor sees.
await (labs && showFirst(labs).catch(sayFailed));
const cells = config.cells ? shownCells() : undefined;
startCopyLinks(address, (lab) => absolute(`${config.folder}/embed/${lab}.html`));
if (cells) {
  cells.onEdited = () => address.edited(cells);
  await address.followCode(cells);
}
document.addEventListener("kvproof:place", (event) => {
  /** @type {CustomEvent<{url: URL}>} */ (event).detail.url = address.linkNow().url;
});
if (config.offline && !config.isEmbedded) {
  await new Offline({
    ...config.offline,
    folder: config.folder,
    workerUrl: absolute(config.offline.workerUrl),
  }).start();
}
