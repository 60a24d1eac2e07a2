// The labs' questions to their Python, with a worker that the test plays itself. Run by test_scripts.py.
// @ts-nocheck: Node's types are left out, so that the page's code can't use what only Node has.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { LabPython } from "../../site/js/lab-python.js";
import { fakeWorkers, workers } from "./fake_worker.mjs";

let heard = [];
let lab;

beforeEach(() => {
  fakeWorkers();
  heard = [];
  lab = new LabPython(
    "lab-worker.js",
    { archives: [], snapshot: {} },
    {
      progress: ({ stage }) => heard.push(stage),
      ready: () => heard.push("ready"),
      failed: (message) => heard.push(message),
      state: ({ lab: name, values }) => heard.push(`${name} ${values.n_past}`),
    },
  );
});

/** The histories that the worker was asked for. */
const asked = (worker) =>
  worker.posted
    .filter(({ type }) => type === "set")
    .map(({ lab: name, values }) => `${name} ${values.n_past}`);

const answer = (name, n_past) =>
  workers.at(-1).say({ type: "state", lab: name, values: { n_past }, state: [] });

test("one question is in flight, of the later ones only the latest is asked", (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  lab.start();
  workers[0].say({ type: "ready" });
  for (const n_past of [1, 2, 3, 4]) {
    lab.ask("mask", { n_past });
  }
  assert.deepEqual(asked(workers[0]), ["mask 1"]);
  answer("mask", 1);
  assert.deepEqual(asked(workers[0]), ["mask 1", "mask 4"]);
  answer("mask", 4);
  assert.deepEqual(asked(workers[0]), ["mask 1", "mask 4"]);
  assert.deepEqual(heard, ["ready", "mask 1", "mask 4"]);
});

test("of each lab the latest question is asked, in turn", (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  lab.start();
  workers[0].say({ type: "ready" });
  lab.ask("mask", { n_past: 1 });
  lab.ask("blind", { n_past: 5 });
  lab.ask("mask", { n_past: 2 });
  lab.ask("blind", { n_past: 6 });
  answer("mask", 1);
  answer("blind", 6);
  answer("mask", 2);
  assert.deepEqual(asked(workers[0]), ["mask 1", "blind 6", "mask 2"]);
  assert.deepEqual(heard, ["ready", "mask 1", "blind 6", "mask 2"]);
});

test("a question that is never answered is a failure", (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  lab.start();
  workers[0].say({ type: "ready" });
  t.mock.timers.tick(1_000_000); // nobody asked
  lab.ask("mask", { n_past: 1 });
  t.mock.timers.tick(90_000);
  assert.deepEqual(heard, ["ready", "no sign of life for 90 seconds"]);
  assert.equal(workers[0].terminated, true);
});

test("a new start asks anew and hears nothing of the old worker", (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  lab.start();
  lab.ask("mask", { n_past: 1 });
  workers[0].say({ type: "failed", message: "lab.tar: damaged" });
  lab.start();
  workers[0].say({ type: "state", lab: "mask", values: { n_past: 1 }, state: [] });
  lab.ask("mask", { n_past: 2 }); // dropped: it isn't ready, and each lab asks when it is
  workers[1].say({ type: "ready" });
  assert.deepEqual(asked(workers[1]), []);
  lab.ask("mask", { n_past: 3 });
  assert.deepEqual(asked(workers[1]), ["mask 3"]);
  assert.deepEqual(heard, ["lab.tar: damaged", "ready"]);
  assert.equal(workers[1].posted[0].python.cache, "reload");
  lab.start(); // leaves no timer behind that is not mocked
});
