// In pages of `build.py serve --watch` only: reloads the page when the site was built again.

const INTERVAL_MS = 300;
const STAMP = new URL("../.kvproof-stamp", import.meta.url);

async function tag() {
  const answer = await fetch(STAMP, { method: "HEAD", cache: "no-store" }).catch(() => null);
  return answer?.ok ? answer.headers.get("ETag") : null; // none while the server is away
}

const first = await tag();
setInterval(async () => {
  const now = await tag();
  if (now && now !== first) {
    location.reload();
  }
}, INTERVAL_MS);
