// Takes the place of the service worker in a build without offline use (KVPROOF_OFFLINE=0): browsers
// that had the other one delete what it kept, and then have none.

const worker = /** @type {any} */ (self);

worker.addEventListener("install", () => worker.skipWaiting());

worker.addEventListener("activate", (/** @type {any} */ event) => event.waitUntil(leave()));

async function leave() {
  await caches.delete(`kvproof ${worker.registration.scope}`);
  await worker.registration.unregister();
}

export {}; // a module for the type checker, so that its names are its own
