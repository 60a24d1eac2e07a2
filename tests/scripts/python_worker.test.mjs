// The page's side of a worker, with one that the test plays itself. Run by test_scripts.py.
// @ts-nocheck: Node's types are left out, so that the page's code can't use what only Node has.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { PythonWorker } from "../../site/js/python-worker.js";
import { fakeWorkers, workers } from "./fake_worker.mjs";

const CONFIG = { runtimeUrl: "runtime/", archives: [], packages: ["numpy"], snapshot: {} };
const SILENT = "failed: no sign of life for 90 seconds";

let heard = [];
let python;

beforeEach(() => {
  fakeWorkers();
  heard = [];
  python = new PythonWorker("worker.js", CONFIG, {
    progress: ({ stage }) => heard.push(stage),
    ready: () => heard.push("ready"),
    failed: (reason) => heard.push(`failed: ${reason}`),
    said: ({ text }) => heard.push(text),
  });
});

// A start is watched by a timer, which would keep Node waiting.
afterEach(() => python.stop());

/** Asks, and notes the answer when it comes. */
function ask(topic, number, options) {
  python.ask(topic, { type: "double", topic, number }, options).then((answer) => {
    heard.push(`${topic} ${number}: ${answer}`);
  });
}

/** What a worker was asked, in order. */
const asked = ({ posted }) =>
  posted.filter(({ id }) => id).map(({ topic, number }) => `${topic} ${number}`);

/** The worker answers what it was asked last; the promise of that is settled. */
async function answer(worker = workers.at(-1)) {
  const { id, number } = worker.posted.at(-1);
  worker.say({ id, type: "answer", answer: 2 * number });
  await settled();
}

const settled = () => new Promise(setImmediate);

function startAndReady() {
  python.start();
  workers.at(-1).say({ type: "ready" });
}

test("what is asked before Python is ready waits for it", async () => {
  python.start();
  ask("mask", 1);
  assert.deepEqual(asked(workers[0]), []);
  workers[0].say({ type: "ready" });
  assert.deepEqual(asked(workers[0]), ["mask 1"]);
  await answer();
  assert.deepEqual(heard, ["ready", "mask 1: 2"]);
  assert.deepEqual(workers[0].posted[0].python.packages, ["numpy"]);
});

test("one question is in flight; of later ones on a topic only the latest is asked", async () => {
  startAndReady();
  for (const number of [1, 2, 3, 4]) {
    ask("mask", number);
  }
  assert.deepEqual(asked(workers[0]), ["mask 1"]);
  await answer();
  await answer();
  assert.deepEqual(asked(workers[0]), ["mask 1", "mask 4"]);
  assert.deepEqual(heard.slice(1), [
    "mask 2: undefined",
    "mask 3: undefined",
    "mask 1: 2",
    "mask 4: 8",
  ]);
});

test("topics take turns", async () => {
  startAndReady();
  ask("mask", 1);
  ask("blind", 5);
  ask("mask", 2);
  ask("blind", 6);
  await answer();
  await answer();
  await answer();
  assert.deepEqual(asked(workers[0]), ["mask 1", "blind 6", "mask 2"]);
});

test("it is said when a question begins, and what comes before its answer is heard", async () => {
  startAndReady();
  ask("mask", 1);
  ask("run", 2, { begun: () => heard.push("begun") });
  workers[0].say({ id: 1, type: "output", text: "printed" });
  workers[0].say({ id: 9, type: "output", text: "of another time" });
  await answer();
  assert.deepEqual(heard, ["ready", "printed", "begun", "mask 1: 2"]);
});

test("a stop leaves all unanswered, and what the ended worker still says is dropped", async () => {
  startAndReady();
  ask("mask", 1);
  ask("run", 2);
  python.stop();
  await settled();
  assert.deepEqual(heard.splice(0), ["ready", "mask 1: undefined", "run 2: undefined"]);
  assert.equal(workers[0].terminated, true);
  python.start();
  ask("run", 3);
  await answer(workers[0]);
  workers[0].say({ type: "ready" });
  workers[0].breakDown("late");
  assert.equal(python.ready, false);
  assert.deepEqual(heard, []);
});

test("a worker that can't be loaded is a failure that names it", () => {
  python.start();
  workers[0].breakDown("");
  assert.deepEqual(heard, ["failed: worker.js can't be loaded"]);
});

test("a browser without such workers is a failure", () => {
  globalThis.Worker = class {
    constructor() {
      throw new TypeError("no workers here");
    }
  };
  python.start();
  assert.deepEqual(heard, ["failed: TypeError: no workers here"]);
});

test("an uncaught error is a failure of the start, not of a Python that is ready", () => {
  startAndReady();
  workers[0].breakDown("from a timer of the reader's own");
  assert.deepEqual(heard, ["ready"]);
});

test("after a failure the next start gets past the browser's cache and the snapshot", () => {
  python.start();
  workers[0].say({ type: "failed", reason: "kvproof.tar: damaged" });
  assert.deepEqual(heard, ["failed: kvproof.tar: damaged"]);
  assert.equal(workers[0].terminated, true);
  python.start();
  const [first, second] = workers.map(({ posted }) => posted[0].python);
  assert.deepEqual([first.cache, second.cache], [undefined, "reload"]);
  assert.deepEqual([first.snapshot, second.snapshot], [{}, undefined]);
});

test("a start that falls silent is a failure, a patient question is not", (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  python.start();
  t.mock.timers.tick(89_000);
  workers[0].say({ type: "progress", stage: "downloading" });
  t.mock.timers.tick(89_000);
  workers[0].say({ type: "ready" });
  ask("run", 1, { patient: true });
  t.mock.timers.tick(1_000_000);
  assert.deepEqual(heard, ["downloading", "ready"]);
  python.start();
  t.mock.timers.tick(90_000);
  assert.equal(heard.at(-1), SILENT);
});

test("a question that is never answered is a failure", (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  startAndReady();
  t.mock.timers.tick(1_000_000); // nobody asked
  ask("mask", 1);
  t.mock.timers.tick(90_000);
  assert.deepEqual(heard, ["ready", SILENT]);
  assert.equal(workers[0].terminated, true);
});
