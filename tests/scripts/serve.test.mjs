// A worker's side: which errors concern one question, and which end Python. Run by test_scripts.py.
// @ts-nocheck: Node's types are left out, so that the page's code can't use what only Node has.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

class PythonError extends Error {
  name = "PythonError"; // as Pyodide's
}

const ANSWERS = {
  double: ({ number }) => 2 * number,
  divide: () => {
    throw new PythonError("Traceback (most recent call last):\n  ...\nZeroDivisionError: 1 / 0\n");
  },
  overflow: () => {
    throw new RangeError("Maximum call stack size exceeded");
  },
};

let posted;
let worker;

beforeEach(async () => {
  posted = [];
  worker = new EventTarget();
  worker.postMessage = (message) => posted.push(message);
  globalThis.self = worker;
  const { serve } = await import("../../site/js/serve.js");
  serve(async ({ broken }) => {
    if (broken) {
      throw new PythonError("ImportError: numpy");
    }
    return ANSWERS;
  });
  console.info = () => {};
});

async function asked(data) {
  worker.dispatchEvent(Object.assign(new Event("message"), { data }));
  await new Promise(setImmediate);
  return posted.splice(0);
}

test("what Python raises is the answer to one question, and the next is answered", async () => {
  assert.deepEqual(await asked({ type: "init", python: {} }), [{ type: "ready" }]);
  assert.deepEqual(await asked({ id: 1, type: "divide" }), [
    { id: 1, type: "answer", answer: { error: "ZeroDivisionError: 1 / 0" } },
  ]);
  assert.deepEqual(await asked({ id: 2, type: "double", number: 3 }), [
    { id: 2, type: "answer", answer: 6 },
  ]);
});

test("what isn't Python's is the end of it", async () => {
  await asked({ type: "init", python: {} });
  const reason = "Maximum call stack size exceeded";
  assert.deepEqual(await asked({ id: 1, type: "overflow" }), [{ type: "failed", reason }]);
});

test("a start that raises has failed", async () => {
  const reason = "ImportError: numpy";
  assert.deepEqual(await asked({ type: "init", python: { broken: true } }), [
    { type: "failed", reason },
  ]);
});
