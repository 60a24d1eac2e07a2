// In a Pyodide that knows nothing of the site: installs a wheel by its address, checks a decoder.
//
//   node install_wheel.mjs RUNTIME WHEEL_URL DECODER

import path from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";

const [runtime, wheel, decoder] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(path.join(runtime, "pyodide.mjs")).href);
const python = await loadPyodide({ indexURL: `${runtime}/` });
await python.loadPackage("micropip", { messageCallback: () => {} });
await python.runPythonAsync(`
import micropip
await micropip.install("${wheel}")
import kvproof
${decoder}
print(kvproof.__version__, kvproof.__file__)
print(kvproof.check(Decoder()))
`);
process.exit(0); // Pyodide keeps handles open
