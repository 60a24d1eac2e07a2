// A worker that the tests play themselves.
// @ts-nocheck: Node's types are left out, so that the page's code can't use what only Node has.

/** All workers that were started, in order. */
export const workers = [];

class FakeWorker extends EventTarget {
  posted = [];
  terminated = false;

  constructor() {
    super();
    workers.push(this);
  }

  postMessage(message) {
    this.posted.push(message);
  }

  terminate() {
    this.terminated = true;
  }

  say(data) {
    this.dispatchEvent(Object.assign(new Event("message"), { data }));
  }

  breakDown(message) {
    this.dispatchEvent(Object.assign(new Event("error"), { message }));
  }
}

/** Puts it in the place of the browser's class, with no worker started yet. */
export function fakeWorkers() {
  workers.length = 0;
  Object.assign(globalThis, { Worker: FakeWorker });
}
