// Translation by patterns: exact ones first, places, lists of names, and what stays as it is.
// @ts-nocheck: Node's types are left out, so that the page's code can't use what only Node has.

import assert from "node:assert/strict";
import { test } from "node:test";

import { translator } from "../../site/js/sentences.js";

const translated = translator({
  "one call": "一次",
  "crop one, then one by one": "裁剪后逐个",
  "one by one": "逐个",
  "fails: {failing}; passes: {passing}": "失败：{failing}。通过：{passing}",
  "fails: {failing}": "失败：{failing}",
  "{n} of {all} cases": "{all} 种中的 {n} 种",
  "row {row} (see {what})": "第 {row} 行（见 {what}）",
});

test("a sentence without places is looked up, another has no translation", () => {
  assert.equal(translated("one call"), "一次");
  assert.equal(translated("two calls"), null);
  assert.equal(translated("toString"), null);
});

test("the first pattern that fits counts, and signs of a pattern mean themselves", () => {
  assert.equal(translated("fails: one call; passes: one by one"), "失败：一次。通过：逐个");
  assert.equal(translated("fails: one call"), "失败：一次");
  assert.equal(translated("row 3 (see x)"), "第 3 行（见 x）");
  assert.equal(translated("row 3 see x"), null);
});

test("what stands in a place is translated, a list name by name", () => {
  assert.equal(translated("fails: 3 of 7 cases"), "失败：7 种中的 3 种");
  const list = "fails: one call, crop one, then one by one, one by one";
  assert.equal(translated(list), "失败：一次；裁剪后逐个；逐个");
  assert.equal(translated("fails: one call, 7"), "失败：one call, 7");
});
