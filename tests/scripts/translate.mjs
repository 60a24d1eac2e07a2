// Reads {patterns, sentences} and writes the translations: the page's own script, for other tests.
// @ts-nocheck: Node's types are left out, so that the page's code can't use what only Node has.

import { readFileSync } from "node:fs";

import { translator } from "../../site/js/sentences.js";

const { patterns, sentences } = JSON.parse(readFileSync(0, "utf-8"));
process.stdout.write(JSON.stringify(sentences.map(translator(patterns))));
