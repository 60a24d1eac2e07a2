// Seconds of a check in the browser's Python under Node; prints them as JSON.
//
//   node bench_checker.mjs RUNTIME PROJECT ROUNDS

import path from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";

const [runtime, project] = process.argv.slice(2).map((p) => path.resolve(p));
const rounds = process.argv[4];
const { loadPyodide } = await import(pathToFileURL(path.join(runtime, "pyodide.mjs")).href);
const python = await loadPyodide({ indexURL: `${runtime}/` });
await python.loadPackage("numpy", { messageCallback: () => {} });
python.FS.mkdirTree("/project");
python.mountNodeFS("/project", project);
const seconds = python.runPython(`
import json, sys
sys.path.append("/project")
sys.dont_write_bytecode = True
from kvproof import REFERENCE, check
from kvproof.zoo import RightDecoder
reports = [check(RightDecoder(config=REFERENCE), seed, 300) for seed in range(${rounds})]
assert all(report.ok and report.complete for report in reports), reports[0]
json.dumps([report.seconds for report in reports])
`);
process.stdout.write(`${seconds}\n`);
process.exit(0); // Pyodide keeps handles open
