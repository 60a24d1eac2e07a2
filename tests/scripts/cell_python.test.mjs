// The page's side of the worker, with a worker that the test plays itself. Run by test_scripts.py.
// @ts-nocheck: Node's types are left out, so that the page's code can't use what only Node has.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { CellPython } from "../../site/js/cell-python.js";
import { fakeWorkers, workers } from "./fake_worker.mjs";

const CONFIG = { runtimeUrl: "runtime/", archives: [], packages: ["numpy"] };

let received = [];
let python;

beforeEach(() => {
  fakeWorkers();
  received = [];
  python = new CellPython("worker.js", CONFIG, (message) => received.push(message));
});

// A start is watched by a timer, which would keep Node waiting.
afterEach(() => python.stop());

const run = (id) => python.run({ id, number: 1, source: "x" });

test("the first run starts one worker, later ones use it", () => {
  assert.equal(workers.length, 0);
  run(1);
  run(2);
  assert.equal(workers.length, 1);
  const types = workers[0].posted.map(({ type, id }) => [type, id]);
  assert.deepEqual(types, [
    ["init", undefined],
    ["run", 1],
    ["run", 2],
  ]);
  assert.deepEqual(workers[0].posted[0].python.packages, ["numpy"]);
});

test("what an ended worker still says is dropped, what the new one says is not", () => {
  run(1);
  python.stop();
  run(2);
  assert.equal(workers[0].terminated, true);
  workers[0].say({ type: "output", id: 1, text: "late" });
  workers[0].say({ type: "ready" });
  assert.deepEqual(received, []);
  assert.equal(python.ready, false);
  workers[1].say({ type: "ready" });
  assert.deepEqual(
    received.map(({ type }) => type),
    ["ready"],
  );
  assert.equal(python.ready, true);
});

test("a worker that can't be loaded is a failure that names it", () => {
  run(1);
  workers[0].breakDown("");
  assert.deepEqual(received, [{ type: "failed", message: "worker.js can't be loaded" }]);
});

test("an uncaught error is a failure of the start, not of a Python that is ready", () => {
  run(1);
  workers[0].say({ type: "ready" });
  workers[0].breakDown("from a timer of the reader's own");
  assert.deepEqual(
    received.map(({ type }) => type),
    ["ready"],
  );
});

test("an ended worker's failure is dropped", () => {
  run(1);
  python.stop();
  run(2);
  workers[0].breakDown("late");
  assert.deepEqual(received, []);
});

test("after a failure the next start gets past the browser's cache and the snapshot", () => {
  run(1);
  workers[0].say({ type: "failed", message: "kvproof.tar: damaged" });
  assert.deepEqual(received, [{ type: "failed", message: "kvproof.tar: damaged" }]);
  assert.equal(workers[0].terminated, true);
  run(2);
  assert.equal(workers[0].posted[0].python.cache, undefined);
  assert.equal(workers[1].posted[0].python.cache, "reload");
  assert.equal(workers[1].posted[0].python.snapshot, undefined);
});

test("a start that falls silent is a failure, a long run is not", (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  run(1);
  t.mock.timers.tick(89_000);
  workers[0].say({ type: "progress", stage: "downloading" });
  t.mock.timers.tick(89_000);
  assert.deepEqual(
    received.map(({ type }) => type),
    ["progress"],
  );
  workers[0].say({ type: "ready" });
  t.mock.timers.tick(1_000_000);
  assert.equal(python.ready, true);
  python.stop();
  run(2);
  t.mock.timers.tick(90_000);
  assert.deepEqual(received.at(-1), {
    type: "failed",
    message: "no sign of life for 90 seconds",
  });
});
