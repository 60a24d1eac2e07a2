// What wasm.mjs and report.mjs use of Node. Node's own types would let the page's code use what only Node has.

declare module "node:fs" {
  function readFileSync(path: string): Uint8Array;
  function writeFileSync(path: string, data: Uint8Array): void;
  export default { readFileSync, writeFileSync };
}

declare module "node:path" {
  function join(...parts: string[]): string;
  function resolve(...parts: string[]): string;
  export default { join, resolve };
}

declare module "node:process" {
  const argv: string[];
  const stdin: { setEncoding(encoding: "utf-8"): AsyncIterable<string> };
  const stdout: { write(text: string): boolean };
  function exit(code: number): never;
  export default { argv, stdin, stdout, exit };
}

declare module "node:url" {
  export function pathToFileURL(path: string): URL;
}
