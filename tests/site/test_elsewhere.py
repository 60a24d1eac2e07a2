"""kvproof's wheel in a page of another origin, which has Pyodide and knows nothing of the site."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Page

from kvsite.paths import RUNTIME
from kvsite.serve import HOST

CHECK = """async (wheel) => {
  const { loadPyodide } = await import("/pyodide.mjs");
  const python = await loadPyodide();
  await python.loadPackage("micropip");
  return python.runPythonAsync(`
import micropip
await micropip.install("${wheel}")
import kvproof
from kvproof.zoo import RightDecoder
f"{kvproof.__version__} {kvproof.check(RightDecoder()).ok}"`);
}"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def elsewhere(built_site: Path) -> Iterator[str]:
    """Serves Pyodide as any host would, without the site's policy."""
    with ThreadingHTTPServer((HOST, 0), partial(Quiet, directory=str(RUNTIME))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{HOST}:{server.server_port}"
        server.shutdown()


def test_a_page_elsewhere_installs_our_wheel(
    page: Page, elsewhere: str, site_url: str, built_site: Path
) -> None:
    [wheel] = (built_site / "downloads").glob("*.whl")
    page.route("**/favicon.ico", lambda route: route.fulfill(body=""))
    page.goto(f"{elsewhere}/pyodide-lock.json")  # a document of that origin, with no script in it
    said = page.evaluate(CHECK, f"{site_url}downloads/{wheel.name}")
    assert said == f"{wheel.name.split('-')[1]} True"
