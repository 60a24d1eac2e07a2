// The page's entry: prebuilt figures, then live Python, and the editable cells.

import { Address } from "./address.js";
import { Notebook } from "./cells.js";
import { startCopyLink } from "./copy-link.js";
import { Labs } from "./labs.js";
import { Offline } from "./offline.js";
import { say } from "./words.js";

/** What a visitor sees first. */
const FIRST_LAB = "story";
/** Small or metered devices decide for themselves when to load some megabytes of Python. */
const WAIT_FOR_CLICK = "(max-width: 40rem)";

const config = JSON.parse(document.getElementById("site-config")?.textContent ?? "");
/** @param {string} path */
const absolute = (path) => new URL(config.root + path, document.baseURI).href;

/** @param {any} python a PythonConfig with relative URLs */
function located(python) {
  /** @param {import("./python.js").File} file */
  const file = (file) => ({ ...file, url: absolute(file.url) });
  const { runtimeUrl, library, archives, snapshot } = python;
  return {
    ...python,
    runtimeUrl: absolute(runtimeUrl),
    library: file(library),
    archives: archives.map(file),
    snapshot: snapshot && { memory: file(snapshot.memory), stdlib: file(snapshot.stdlib) },
  };
}

const address = new Address();
/** None on a page that has only cells. */
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
  const saveData = /** @type {any} */ (navigator).connection?.saveData;
  await labs.show(FIRST_LAB, { python: !saveData && !matchMedia(WAIT_FOR_CLICK).matches });
}

/** @param {unknown} error */
function sayFailed(error) {
  document.documentElement.dataset.runtimeState = "failed";
  const status = /** @type {HTMLElement} */ (document.getElementById("runtime-status"));
  const reason = error instanceof Error ? error.message : String(error);
  const shown = document.querySelector('[data-readout="story.state"]')?.textContent ?? "";
  status.textContent = say("runtime.cannot-move", { reason, shown });
  const retry = /** @type {HTMLElement} */ (document.getElementById("runtime-button"));
  retry.textContent = say("runtime.retry");
  retry.hidden = false;
  retry.addEventListener("click", () => location.reload());
}

// The lab comes first: it is what a visitor sees.
await (labs && showFirst(labs).catch(sayFailed));
const cells = new Notebook(
  /** @type {HTMLElement} */ (document.getElementById("cells")),
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
startCopyLink(() => address.link());
cells.onEdited = () => address.edited(cells);
await address.followCode(cells);
document.addEventListener("kvproof:place", (event) => {
  /** @type {CustomEvent<{url: URL}>} */ (event).detail.url = address.linkNow().url;
});
if (config.offline) {
  await new Offline({
    ...config.offline,
    folder: config.folder,
    workerUrl: absolute(config.offline.workerUrl),
  }).start();
}
