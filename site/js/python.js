// Starts Python in a worker: fetches its files with progress, and fails early with a clear reason.

import { unpackTar } from "./tar.js";

/** Time between two reports of a download's progress. */
const REPORT_MS = 100;

/**
 * @typedef {{url: string, bytes: number, gzip: boolean, hash?: string}} File
 *   bytes: as they come over the network; gzip: they lie there compressed, as `url` and ".gzip"; hash:
 *   SHA-256 in hexadecimal, of a file that is read whole and checked, since a damaged one would break
 *   something else later
 *
 * @typedef {object} PythonConfig
 * @property {string} runtimeUrl absolute URL of the folder with Pyodide, ending in "/"
 * @property {File[]} files in that folder
 * @property {File} library in that folder: Python's standard library, for a start without snapshot
 * @property {File[]} archives Python modules to unpack
 * @property {string[]} packages names of packages in the runtime's folder
 * @property {{memory: File, stdlib: File}} [snapshot] the interpreter's memory after its start, and
 *   what it then still needs of the standard library
 * @property {string} [refusal] what micropip says of what the site doesn't bring, with {name}, {wheels}
 * @property {string} [language] in which the checker's reports are shown
 * @property {RequestCache} [cache] how to use the browser's cache, "reload" after a failure
 *
 * @typedef {{stage: string, loaded?: number, total?: number}} Progress stages are "downloading",
 *   "starting" and "importing"
 * @typedef {any} Pyodide
 */

/**
 * @param {PythonConfig} config
 * @param {(progress: Progress) => void} onProgress
 * @returns {Promise<Pyodide>} Pyodide with the packages loaded and the archives on its path
 */
export async function startPython(config, onProgress) {
  keepToOwnOrigin();
  const downloads = new Downloads(config, onProgress);
  try {
    // loadPyodide can wait for ever on a broken file, so a failed download ends the wait.
    return await Promise.race([start(config, downloads, onProgress), downloads.failure]);
  } finally {
    downloads.end();
  }
}

/** A page's <meta> policy doesn't reach its workers: this keeps them to their own host. */
function keepToOwnOrigin() {
  const { fetch, location } = self;
  self.fetch = (input, init) => {
    const { origin, host } = new URL(input instanceof Request ? input.url : input, location.href);
    return origin === location.origin
      ? fetch(input, init)
      : Promise.reject(new TypeError(`this page asks no other host, not even ${host}`));
  };
}

/**
 * @param {PythonConfig} config
 * @param {Downloads} downloads
 * @param {(progress: Progress) => void} onProgress
 */
async function start(config, downloads, onProgress) {
  const archives = config.archives.map(({ url }) => downloads.bytes(url));
  const { loadPyodide } = await import(`${config.runtimeUrl}pyodide.mjs`);
  const pyodide = await loadCore(loadPyodide, config, downloads);
  onProgress({ stage: "starting" });
  await pyodide.loadPackage(config.packages, { messageCallback: () => {} });
  for (const [index, archive] of archives.entries()) {
    try {
      unpackTar(pyodide, await archive);
    } catch (error) {
      throw new Error(`${nameOf(config.archives[index].url)}: ${error}`);
    }
  }
  return pyodide;
}

/**
 * @param {(options: object) => Promise<Pyodide>} loadPyodide
 * @param {PythonConfig} config
 * @param {Downloads} downloads
 */
async function loadCore(loadPyodide, { runtimeUrl, snapshot }, downloads) {
  // Each call gets an options object of its own: Pyodide writes into it.
  if (snapshot) {
    try {
      const [_loadSnapshot] = await Promise.all([
        downloads.bytes(snapshot.memory.url),
        downloads.bytes(snapshot.stdlib.url),
      ]);
      const stdLibURL = snapshot.stdlib.url;
      const pyodide = await loadPyodide({ indexURL: runtimeUrl, stdLibURL, _loadSnapshot });
      pyodide.runPython("import random; random.seed()"); // else the same in every session
      return pyodide;
    } catch (error) {
      console.info("The memory snapshot can't be used, starting without it:", error);
    }
  }
  return loadPyodide({ indexURL: runtimeUrl });
}

/** @param {string} url */
function nameOf(url) {
  return url.split("/").pop();
}

/**
 * Unpacks a file while it arrives: the host would send it as it lies.
 *
 * @param {string} url
 * @param {Response} response
 */
function unpacked(url, response) {
  const body = /** @type {ReadableStream<any>} */ (response.body);
  const type = url.endsWith(".wasm") ? "application/wasm" : "application/octet-stream";
  return new Response(body.pipeThrough(new DecompressionStream("gzip")), {
    headers: { "Content-Type": type },
  });
}

/** @param {ArrayBuffer} content */
async function hashOf(content) {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", content));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Counts the bytes of known files while they arrive, whoever asks for them. */
class Downloads {
  #fetch = self.fetch;
  #instantiate = WebAssembly.instantiateStreaming;
  #loaded = 0;
  #total = 0;
  #reported = Number.NEGATIVE_INFINITY;
  /** By absolute URL. @type {Map<string, File>} */
  #known;
  /** URL to the end of its download, and what went wrong. @type {Map<string, Promise<Error | void>>} */
  #counts = new Map();
  /** Whoever asks for a checked file later gets the same bytes. @type {Map<string, Promise<ArrayBuffer>>} */
  #checked = new Map();
  /** URLs of files that the start does without if it must. */
  #optional;
  /** Failures that are told already. @type {WeakSet<Error>} */
  #told = new WeakSet();
  #onProgress;
  #cache;
  /** @type {(error: Error) => void} */
  #fail = () => {};
  /** Rejects when a known file can't be had whole. @type {Promise<never>} */
  failure = new Promise((_, reject) => {
    this.#fail = reject;
  });

  /**
   * @param {PythonConfig} config
   * @param {(progress: Progress) => void} onProgress
   */
  constructor({ runtimeUrl, files, library, archives, snapshot, cache }, onProgress) {
    this.#cache = cache;
    this.#optional = Object.values(snapshot ?? {}).map(({ url }) => url);
    const known = [...files, library, ...archives, ...Object.values(snapshot ?? {})];
    this.#known = new Map(known.map((file) => [file.url, file]));
    this.#onProgress = onProgress;
    self.fetch = (input, init) => this.#counted(input, init);
    // Pyodide logs that a module is damaged, and then waits for ever.
    const wasm = `${runtimeUrl}pyodide.asm.wasm`;
    WebAssembly.instantiateStreaming = (source, imports) =>
      this.#instantiate.call(WebAssembly, source, imports).catch(async (error) => {
        await this.#counts.get(wasm); // that it is cut off says more than what that breaks
        throw this.#failed(wasm, error.message);
      });
    // It also drops promises of downloads, whose failures are told here.
    self.addEventListener("unhandledrejection", (event) => {
      if (this.#told.has(event.reason)) {
        event.preventDefault();
      }
    });
  }

  end() {
    self.fetch = this.#fetch;
    WebAssembly.instantiateStreaming = this.#instantiate;
    this.#checked.clear(); // 30 MB that nobody reads any more
    this.#onProgress = () => {}; // a snapshot that wasn't waited for may still arrive
    this.failure.catch(() => {}); // a failure after the end concerns nobody
  }

  /** @param {string} url */
  async bytes(url) {
    return new Uint8Array(await (await self.fetch(url)).arrayBuffer());
  }

  /**
   * @param {RequestInfo | URL} input
   * @param {RequestInit} [init]
   */
  async #counted(input, init) {
    const url = input instanceof Request ? input.url : String(input);
    const file = this.#known.get(url);
    if (!file) {
      return this.#fetch.call(self, input, init);
    }
    if (!file.hash) {
      return this.#begun(file, init);
    }
    const content = this.#checked.get(url) ?? this.#whole(file, init);
    this.#checked.set(url, content);
    return new Response(await content);
  }

  /**
   * @param {File} file
   * @param {RequestInit} [init]
   */
  async #begun({ url, bytes, gzip }, init) {
    this.#total += bytes;
    this.#tell(); // what is there so far is no longer all
    const options = { ...init, cache: this.#cache };
    const response = await this.#fetch
      .call(self, gzip ? `${url}.gzip` : url, options)
      .catch((error) => {
        throw this.#failed(url, error.message);
      });
    if (!response.ok) {
      throw this.#failed(url, `the server answered ${response.status}`);
    }
    this.#counts.set(url, this.#count(url, response.clone(), bytes));
    return gzip ? unpacked(url, response) : response;
  }

  /**
   * @param {File} file
   * @param {RequestInit} [init]
   */
  async #whole(file, init) {
    const response = await this.#begun(file, init);
    const content = await response.arrayBuffer().catch(() => new ArrayBuffer(0));
    const cutOff = await this.#counts.get(file.url);
    if (cutOff) {
      throw cutOff;
    }
    // Browsers have no hashes for a page that came over plain HTTP from another machine.
    if (self.isSecureContext && (await hashOf(content)) !== file.hash) {
      throw this.#failed(file.url, "what arrived is damaged");
    }
    return content;
  }

  /**
   * Reads a copy, so that whoever asked has the original, as it arrives.
   *
   * @param {string} url
   * @param {Response} copy
   * @param {number} expected
   */
  async #count(url, copy, expected) {
    const reader = /** @type {ReadableStream<Uint8Array>} */ (copy.body).getReader();
    let received = 0;
    try {
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        received += part.value.byteLength;
        this.#loaded += part.value.byteLength;
        this.#report();
      }
    } catch {
      // The byte count below says it better than the browser's "network error".
    }
    return received === expected
      ? undefined
      : this.#failed(url, `${received} of ${expected} bytes arrived`);
  }

  /** Not every one of a thousand parts: telling the page takes time from both. */
  #report() {
    const now = performance.now();
    if (now - this.#reported > REPORT_MS) {
      this.#reported = now;
      this.#tell();
    }
  }

  #tell() {
    this.#onProgress({ stage: "downloading", loaded: this.#loaded, total: this.#total });
  }

  /**
   * @param {string} url
   * @param {string} reason
   */
  #failed(url, reason) {
    const error = new Error(`${nameOf(url)}: ${reason}`);
    this.#told.add(error);
    if (!this.#optional.includes(url)) {
      this.#fail(error);
    }
    return error;
  }
}
