// Keeps the site for offline use: the file that the site's root serves as `service-worker.js`.
//
// What is in the cache doesn't change: a file's name holds a hash of its content or, for a page, its
// key does.  So builds share one cache, and a new build deletes what it doesn't list.
//
// In:  {type: "keep", build, folder, python} with a port
// Out: on the port: "progress" {loaded, total}, then "kept", "other" (build than the asking page's)
//      or "failed" {message}

/**
 * @typedef {Record<string, number>} Sizes path in the site -> bytes
 * @typedef {object} Site written before this script by kvsite/offline.py
 * @property {string} build
 * @property {Sizes} files what pages load, Python left out
 * @property {Sizes} python what Python is started with
 * @property {Record<string, string>} pages path -> hash of the content
 */

const worker = /** @type {any} */ (self);
/** @type {Site} */
const { build, files, python, pages } = worker.SITE;
/** @type {string} */
const scope = worker.registration.scope;
const CACHE = `kvproof ${scope}`; // other sites of the same host have other scopes

worker.addEventListener("activate", (/** @type {any} */ event) => event.waitUntil(dropOldFiles()));

worker.addEventListener("fetch", (/** @type {any} */ event) => {
  const { request } = event;
  const path = pathOf(request.url);
  if (request.method !== "GET" || path === undefined || request.headers.has("range")) {
    return;
  }
  if (path in pages || request.cache === "reload") {
    event.respondWith(networkFirst(request, path));
  } else if (path in files || path in python) {
    event.respondWith(cacheFirst(request, path));
  }
});

worker.addEventListener("message", (/** @type {any} */ event) => {
  const [port] = event.ports;
  if (event.data.build !== build) {
    port.postMessage({ type: "other" });
    return;
  }
  event.waitUntil(
    keep(event.data, (message) => port.postMessage(message)).catch((error) =>
      port.postMessage({ type: "failed", message: error.message }),
    ),
  );
});

/**
 * @param {string} url
 * @returns {string | undefined} path in the site of a page or file
 */
function pathOf(url) {
  const { origin, pathname } = new URL(url);
  const path = origin + pathname;
  return path.startsWith(scope)
    ? path.slice(scope.length).replace(/(^|\/)$/, "$1index.html")
    : undefined;
}

/** @param {string} path */
const keyOf = (path) => scope + path + (path in pages ? `?${pages[path]}` : "");

/** @param {string} path */
async function kept(path) {
  const cache = await caches.open(CACHE);
  return cache.match(keyOf(path));
}

/**
 * @param {Request} request
 * @param {string} path
 */
async function cacheFirst(request, path) {
  return (await kept(path)) ?? fetch(request);
}

/**
 * @param {Request} request
 * @param {string} path
 */
async function networkFirst(request, path) {
  try {
    return await fetch(request);
  } catch (error) {
    const response = await kept(path);
    if (response) {
      return response;
    }
    throw error;
  }
}

/**
 * Keeps what the pages of a language need, and Python if it was started: nobody on a small device
 * gets it unasked.
 *
 * @param {{folder: string, python: boolean}} wanted
 * @param {(message: object) => void} answer
 */
async function keep(wanted, answer) {
  await takeOver();
  const cache = await caches.open(CACHE);
  const own = Object.keys(pages).filter((path) => path.startsWith(`${wanted.folder}/`));
  const paths = ["index.html", ...own, ...Object.keys({ ...files, ...(wanted.python && python) })];
  const there = new Set((await cache.keys()).map(({ url }) => url));
  const missing = paths.filter((path) => !there.has(keyOf(path)));
  const total = missing.reduce((sum, path) => sum + bytesOf(path), 0);
  let loaded = 0;
  for (const path of missing) {
    await cache.put(keyOf(path), await wholeFile(path));
    loaded += bytesOf(path);
    answer({ type: "progress", loaded, total });
  }
  answer({ type: "kept" });
}

/** @param {string} path of a file; pages are small */
const bytesOf = (path) => files[path] ?? python[path] ?? 0;

/**
 * What the page has just loaded comes out of the browser's own cache.
 *
 * @param {string} path
 */
async function wholeFile(path) {
  const url = scope + path.replace(/index\.html$/, "");
  const response = await fetch(url, { cache: path in pages ? "no-cache" : "force-cache" });
  const name = path.split("/").pop();
  if (!response.ok) {
    throw new Error(`${name}: the server answered ${response.status}`);
  }
  const { size } = await response.clone().blob();
  if (!(path in pages) && size !== bytesOf(path)) {
    throw new Error(`${name}: ${size} of ${bytesOf(path)} bytes arrived`);
  }
  return response;
}

/** The worker of a new build waits until no page of the old one is open, except the asking one. */
async function takeOver() {
  const windows = await worker.clients.matchAll({ type: "window", includeUncontrolled: true });
  const own = windows.filter((/** @type {{url: string}} */ { url }) => url.startsWith(scope));
  if (own.length === 1) {
    await worker.skipWaiting();
  }
}

async function dropOldFiles() {
  const cache = await caches.open(CACHE);
  const known = new Set([...Object.keys({ ...files, ...python, ...pages })].map(keyOf));
  for (const request of await cache.keys()) {
    if (!known.has(request.url)) {
      await cache.delete(request);
    }
  }
}

export {}; // a module for the type checker, so that its names are its own
