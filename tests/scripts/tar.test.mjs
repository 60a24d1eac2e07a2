// Archives, unpacked into a file system that the test plays itself. Run by test_scripts.py.
// @ts-nocheck: Node's types are left out, so that the page's code can't use what only Node has.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { unpackTar } from "../../site/js/tar.js";

const LONG = "a".repeat(80);
const FILES = {
  "one.py": "print(1)\n",
  "empty.py": "",
  "package/block.bin": "x".repeat(512),
  [`${LONG}/${LONG}/deep.py`]: "y".repeat(513),
};

/** What the system's own tar makes of the files. */
function archive() {
  const folder = mkdtempSync(path.join(tmpdir(), "tar-test-"));
  try {
    for (const [name, text] of Object.entries(FILES)) {
      mkdirSync(path.join(folder, path.dirname(name)), { recursive: true });
      writeFileSync(path.join(folder, name), text);
    }
    const file = path.join(folder, "archive.tar");
    execFileSync("tar", ["--format=ustar", "-cf", file, "-C", folder, ...Object.keys(FILES)]);
    return new Uint8Array(readFileSync(file));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function fakePyodide() {
  const files = {};
  const folders = [];
  const FS = {
    mkdirTree: (folder) => folders.push(folder),
    writeFile: (name, bytes) => {
      assert.ok(folders.includes(path.posix.dirname(name)), `${name} has a folder`);
      files[name] = new TextDecoder().decode(bytes);
    },
  };
  return { FS, files, runPython: () => {} };
}

test("every file of another tar's archive arrives whole, under its long name too", () => {
  const pyodide = fakePyodide();
  unpackTar(pyodide, archive());
  const expected = Object.entries(FILES).map(([name, text]) => [`/kvproof/${name}`, text]);
  assert.deepEqual(pyodide.files, Object.fromEntries(expected));
});

test("an archive with a broken header is refused, and the place is named", () => {
  const broken = archive();
  broken[1024 + 257] ^= 1; // the second file's header stands after one header and one block
  assert.throws(() => unpackTar(fakePyodide(), broken), /damaged at byte 1024/);
});
