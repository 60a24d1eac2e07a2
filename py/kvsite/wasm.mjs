// Builds what the browser's Python needs, with that very Python under Node (see wasm.py).
//
//   node wasm.mjs RUNTIME SOURCES PROJECT INSIDE OUT
//
// RUNTIME: Pyodide and its wheels; SOURCES: third-party packages as .py; PROJECT: our packages;
// INSIDE: wasm_inside.py; OUT: the folder to fill.

import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [runtime, sources, project, inside, out] = process.argv.slice(2).map((p) => path.resolve(p));
const { loadPyodide } = await import(pathToFileURL(path.join(runtime, "pyodide.mjs")).href);

// panel.io.pyodide looks for the browser's request class when it is imported; Node has none.
globalThis.XMLHttpRequest ??= class {};

/** @param {object} [options] */
async function start(options) {
  const python = await loadPyodide({ indexURL: `${runtime}/`, ...options });
  python.FS.mkdirTree("/out");
  python.mountNodeFS("/out", out);
  return python;
}

/** @param {any} python */
async function tools(python) {
  await python.loadPackage("numpy", { messageCallback: () => {} });
  python.FS.writeFile("/home/pyodide/wasm_inside.py", fs.readFileSync(inside));
  return python.pyimport("wasm_inside");
}

/** @param {string} line */
const say = (line) => process.stdout.write(`${line}\n`);

async function compilePackages() {
  const python = await start();
  const inside = await tools(python);
  for (const [place, folder] of [["/sources", sources], ["/project", project]]) {
    python.FS.mkdirTree(place);
    python.mountNodeFS(place, folder);
    python.runPython(`import sys; sys.path.append("${place}"); sys.dont_write_bytecode = True`);
  }
  inside.import_lab();
  const count = inside.write_packages_archive("/sources", "/out/packages.zip");
  inside.write_project_archive("/project", ["kvproof", "kvlab"], "/out/kvproof.zip");
  say(`compiled ${count} modules`);
}

async function fillTable() {
  const python = await start();
  const inside = await tools(python);
  // Only what the browser gets: a module that was left out by mistake fails here, not there.
  for (const name of ["packages.zip", "kvproof.zip"]) {
    python.unpackArchive(new Uint8Array(fs.readFileSync(path.join(out, name))), "zip");
  }
  say(`filled ${inside.write_lab_data("/out/mask_lab.json")} states`);
}

async function takeSnapshot() {
  const python = await start({ _makeSnapshot: true });
  python.runPython("import " + SNAPSHOT_MODULES.join(", "));
  const snapshot = python.makeMemorySnapshot();
  fs.writeFileSync(path.join(out, "snapshot.bin"), snapshot);
  say(`snapshot of ${(snapshot.length / 1e6).toFixed(1)} MB`);
}

// Standard-library modules that NumPy, Bokeh and Panel import.  Extension modules can't be inside.
const SNAPSHOT_MODULES = ["json"];

try {
  await compilePackages();
  await fillTable();
  await takeSnapshot();
  process.exit(0); // Pyodide keeps handles open
} catch (error) {
  // Only the message: Node would print the minified line of Pyodide as well, a megabyte long.
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
}
