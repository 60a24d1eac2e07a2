// The page's side of the worker, with a worker that the test plays itself. Run by test_cell_python.py.
// @ts-nocheck: Node's types are left out, so that the page's code can't use what only Node has.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { CellPython } from "../../site/js/cell-python.js";

const CONFIG = { runtimeUrl: "runtime/", archives: [], packages: ["numpy"] };

let workers = [];
let received = [];
let python;

class FakeWorker extends EventTarget {
  posted = [];
  terminated = false;

  constructor() {
    super();
    workers.push(this);
  }

  postMessage(message) {
    this.posted.push(message);
  }

  terminate() {
    this.terminated = true;
  }

  say(data) {
    const message = { epoch: this.posted[0].epoch, ...data };
    this.dispatchEvent(Object.assign(new Event("message"), { data: message }));
  }

  breakDown(message) {
    this.dispatchEvent(Object.assign(new Event("error"), { message }));
  }
}

beforeEach(() => {
  workers = [];
  received = [];
  Object.assign(globalThis, { Worker: FakeWorker });
  python = new CellPython("worker.js", CONFIG, (message) => received.push(message));
});

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
  assert.deepEqual(received, [{ type: "failed", message: "worker.js could not be loaded" }]);
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
