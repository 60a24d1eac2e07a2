// Builds what the browser's Python needs, with that very Python under Node (see wasm.py).
//
//   node wasm.mjs libraries RUNTIME LIBRARIES STORED PROJECT INSIDE OUT SOURCES
//   node wasm.mjs labs RUNTIME LIBRARIES STORED PROJECT INSIDE OUT LAB...
//   node wasm.mjs packages RUNTIME LIBRARIES STORED PROJECT INSIDE OUT
//
// RUNTIME: Pyodide and its wheels; LIBRARIES: what the task "libraries" has made; STORED: what
// kvlab.stored reads; PROJECT: our packages; INSIDE: wasm_inside.py; OUT: the folder to fill;
// SOURCES: third-party packages as .py.

import fs from "node:fs";
import path from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { unpackTar } from "../../site/js/tar.js";

const [task, ...others] = process.argv.slice(2);
const [runtime, libraries, stored, project, inside, out] = others.map((p) => path.resolve(p));
const more = others.slice(6);
const { loadPyodide } = await import(pathToFileURL(path.join(runtime, "pyodide.mjs")).href);

// panel.io.pyodide looks for the browser's request class when it is imported; Node has none.
/** @type {any} */ (globalThis).XMLHttpRequest ??= class {};

/** Smallest block that zeroing tries to fill, in bytes. */
const SMALLEST_BLOCK = 16;
const LARGEST_BLOCK = 1 << 20;

/** @param {object} [options] */
async function start(options) {
  const python = await loadPyodide({ indexURL: `${runtime}/`, ...options });
  python.FS.mkdirTree("/out");
  python.mountNodeFS("/out", out);
  return python;
}

/** @param {any} python */
function tools(python) {
  python.FS.writeFile("/home/pyodide/wasm_inside.py", fs.readFileSync(inside));
  return python.pyimport("wasm_inside");
}

/**
 * Puts our modules on Python's path, what kvlab.stored reads, and more.
 *
 * @param {any} python
 * @param {Record<string, string>} [folders]
 */
function mount(python, folders = {}) {
  const all = { "/stored": stored, "/project": project, ...folders };
  for (const [place, folder] of Object.entries(all)) {
    python.FS.mkdirTree(place);
    python.mountNodeFS(place, folder);
    python.runPython(`import sys; sys.path.append("${place}"); sys.dont_write_bytecode = True`);
  }
}

async function compileLibraries() {
  const python = await start();
  const atStart = python.runPython("import sys; list(sys.modules)");
  await python.loadPackage("numpy", { messageCallback: () => {} });
  const numpy = python.runPython(
    "import numpy, pathlib; str(pathlib.Path(numpy.__file__).parents[1])",
  );
  mount(python, { "/sources": more[0] });
  const tool = tools(python);
  tool.import_labs();
  tool.write_stdlib(atStart, "/out/stdlib.zip");
  tool.write_libraries(["/sources", numpy], "/out/libraries.tar");
}

async function fillTables() {
  // Just as in the browser: a module that was left out by mistake fails here, not there.
  const python = await start({
    stdLibURL: path.join(libraries, "stdlib.zip"),
    _loadSnapshot: fs.readFileSync(path.join(libraries, "snapshot.bin")),
  });
  unpackTar(python, new Uint8Array(fs.readFileSync(path.join(libraries, "libraries.tar"))));
  mount(python);
  const tool = tools(python);
  for (const lab of more) {
    tool.write_lab(lab, "/project", "/out");
  }
}

async function writePackages() {
  const python = await start();
  mount(python);
  tools(python).write_packages("/project", "/stored", "/out");
}

async function takeSnapshot() {
  const python = await start({ _makeSnapshot: true });
  // Python must look at the zip that is there after the restore, not remember this one's contents.
  python.runPython("import gc, zipimport; zipimport._zip_directory_cache.clear(); gc.collect()");
  zeroFreeMemory(python._module);
  const snapshot = python.makeMemorySnapshot();
  fs.writeFileSync(path.join(out, "snapshot.bin"), snapshot);
}

/**
 * Fills the heap's free blocks with zeros, since rubbish in them compresses badly: it claims blocks
 * of ever smaller sizes, each until the heap would have to grow.
 *
 * @param {any} module
 */
function zeroFreeMemory(module) {
  const heapEnd = () => module.HEAPU32[module._emscripten_get_sbrk_ptr() >> 2];
  const claimed = [];
  for (let size = LARGEST_BLOCK; size >= SMALLEST_BLOCK; size /= 2) {
    for (let end = heapEnd(); ; ) {
      const block = module._malloc(size);
      if (heapEnd() !== end) {
        module._free(block);
        break;
      }
      module.HEAPU8.fill(0, block, block + size);
      claimed.push(block);
    }
  }
  for (const block of claimed) {
    module._free(block);
  }
}

/** @type {Record<string, () => Promise<void>>} */
const tasks = {
  libraries: () => compileLibraries().then(takeSnapshot),
  labs: fillTables,
  packages: writePackages,
};
try {
  await tasks[task]();
  process.exit(0); // Pyodide keeps handles open
} catch (error) {
  // Only the message: Node would print the minified line of Pyodide as well, a megabyte long.
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
}
