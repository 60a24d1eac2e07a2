"""The service worker: the site without its host, new versions, and the way out."""

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.site.lab_page import (
    PYTHON_STARTS,
    SAVE_DATA,
    Lab,
    OpenPage,
    PrebuiltTable,
    State,
    open_fold,
)

from kvsite.browser import launch_options
from kvsite.offline import NAME, contents, write_service_worker
from kvsite.paths import DIST
from kvsite.serve import HOST, Handler, Server, start_server


@contextmanager
def plain_server(root: Path) -> Iterator[str]:
    """The site below a path of ``python -m http.server``, which knows nothing of it."""
    (root / "sub").mkdir()
    (root / "sub" / "path").symlink_to(DIST)

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer((HOST, 0), partial(Quiet, directory=str(root))) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield f"http://{HOST}:{server.server_port}/sub/path/"
        server.shutdown()
        thread.join()


def count_sent(server: Server) -> Counter[str]:
    """How often the server sends each of its files from now on, unchanged ones left out."""
    sent: Counter[str] = Counter()

    class CountingHandler(Handler):
        def send_response(self, code: int, message: str | None = None) -> None:
            sent[self.path.lstrip("/")] += code == HTTPStatus.OK
            super().send_response(code, message)

    server.RequestHandlerClass = CountingHandler
    return sent


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    return open_page(service_workers="allow")


@pytest.fixture
def other_build(tmp_path: Path) -> Path:
    """The same site with another start page, as another build."""
    folder = tmp_path / "other"
    shutil.copytree(DIST, folder, copy_function=os.link)
    index = folder / "en" / "index.html"
    text = index.read_text().replace("<h1", "<h1 data-other-build", 1)
    index.unlink()
    index.write_text(text.replace(build_of(DIST), "other"))
    (folder / NAME).unlink()
    write_service_worker(folder, "other")
    return folder


def build_of(folder: Path) -> str:
    return (folder / NAME).read_text().split('"build": "')[1].split('"')[0]


def expect_kept(page: Page, text: str = "Available offline.") -> None:
    expect(page.locator("#offline-status")).to_have_text(text, timeout=PYTHON_STARTS)


def kept_urls(page: Page) -> list[str]:
    urls: list[str] = page.evaluate(
        """async () => {
          const caches_ = await Promise.all((await caches.keys()).map((name) => caches.open(name)));
          const keys = await Promise.all(caches_.map((cache) => cache.keys()));
          return keys.flat().map(({ url }) => url);
        }"""
    )
    return urls


def test_without_its_host_the_site_works_and_python_starts(
    page: Page, table: PrebuiltTable, tmp_path: Path
) -> None:
    lab = Lab(page)
    with plain_server(tmp_path) as url:
        lab.open(f"{url}en/")
        lab.expect_runtime("live")
        expect_kept(page)
    page.context.set_offline(True)
    page.add_init_script(SAVE_DATA)  # Python waits, so that the table is seen to answer
    page.goto(f"{url}en/?P=3#positions")
    page.locator("#mask-lab").scroll_into_view_if_needed()
    lab.expect_state(State(3, 2))  # the lab is there
    state = State(7, 3, "float32")
    lab.move_to(state)
    assert lab.readouts() == table.readouts(state)
    lab.button.click()
    lab.expect_runtime("live")
    expect(lab.status).to_contain_text("every number is equal")
    open_fold(page)
    page.get_by_role("button", name="Run cell 1").click()
    expect(page.locator("section.cell")).to_have_attribute(
        "data-state", "done", timeout=PYTHON_STARTS
    )
    for other in ("proof.html", "notebook.html", "api.html"):
        page.goto(f"{url}en/{other}")
        expect(page.locator("h1").first).to_be_visible()


def test_nothing_is_sent_twice(browser: Browser, tmp_path: Path) -> None:
    """With a browser's cache on disk, as it has outside of tests."""
    options = {**launch_options(), "user_data_dir": tmp_path}
    with (
        start_server(DIST) as server,
        browser.browser_type.launch_persistent_context(**options) as context,
    ):
        sent = count_sent(server)
        page = context.new_page()
        Lab(page).open(f"{server.url}en/").expect_runtime("live")
        expect_kept(page)
    assert {path: n for path, n in sent.items() if n > 1} == {}
    assert {NAME, *contents(DIST)["python"]} <= sent.keys()


def test_python_is_kept_only_when_it_was_started(page: Page, site_url: str) -> None:
    page.add_init_script(SAVE_DATA)
    lab = Lab(page).open(f"{site_url}en/")
    expect_kept(
        page, "Text and figures are available offline; Python is kept once it has been started."
    )
    python = contents(DIST)["python"]
    assert not [url for url in kept_urls(page) if url.removeprefix(site_url) in python]
    lab.button.click()
    lab.expect_runtime("live")
    expect_kept(page)
    assert python.keys() <= {url.removeprefix(site_url) for url in kept_urls(page)}


def test_an_update_is_offered_and_what_it_replaces_is_deleted(
    page: Page, other_build: Path
) -> None:
    page.add_init_script(SAVE_DATA)
    with start_server(DIST) as server:
        Lab(page).open(f"{server.url}en/")
        expect(page.locator("#offline-status")).to_contain_text("available offline")
        page.reload()  # now the worker controls the page
        old = contents(DIST)["pages"]["en/index.html"]
        assert [url for url in kept_urls(page) if url.endswith(f"?{old}")]

        server.folder = other_build.resolve()
        page.evaluate("() => { document.dispatchEvent(new Event('visibilitychange')); }")
        notice = page.locator("#site-update")
        expect(notice).to_contain_text("A new version")
        expect(page.locator("h1[data-other-build]")).to_have_count(0)  # not by itself
        notice.get_by_role("button").click()
        expect(page.locator("h1[data-other-build]")).to_be_visible()
        expect(page.locator("#offline-status")).to_contain_text("available offline")
        expect(notice).to_be_hidden()
        page.wait_for_function(
            """async (old) => {
              const names = await caches.keys();
              const keys = await Promise.all(names.map(async (n) => (await caches.open(n)).keys()));
              return !keys.flat().some(({ url }) => url.endsWith(`?${old}`));
            }""",
            arg=old,
        )


def test_a_page_that_is_newer_than_its_worker_says_nothing(page: Page, other_build: Path) -> None:
    page.add_init_script(SAVE_DATA)
    with start_server(DIST) as server:
        Lab(page).open(f"{server.url}en/")
        expect(page.locator("#offline-status")).to_contain_text("available offline")
        server.folder = other_build.resolve()
        page.reload()
        expect(page.locator("h1[data-other-build]")).to_be_visible()
        expect(page.locator("#offline-status")).to_contain_text("available offline")
        expect(page.locator("#site-update")).to_be_hidden()


def test_a_build_without_it_takes_everything_away(
    page: Page, other_build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVPROOF_OFFLINE", "0")
    write_service_worker(other_build, "other")
    page.add_init_script(SAVE_DATA)
    with start_server(DIST) as server:
        Lab(page).open(f"{server.url}en/")
        expect(page.locator("#offline-status")).to_contain_text("available offline")
        server.folder = other_build.resolve()
        page.goto(f"{server.url}en/api.html")
        page.wait_for_function(
            """async () => !(await navigator.serviceWorker.getRegistrations()).length
              && !(await caches.keys()).length"""
        )


def test_a_full_disk_is_said(page: Page, site_url: str) -> None:
    page.add_init_script(SAVE_DATA)
    session = page.context.new_cdp_session(page)
    origin = site_url.rstrip("/")
    session.send("Storage.overrideQuotaForOrigin", {"origin": origin, "quotaSize": 100_000})
    Lab(page).open(f"{site_url}en/")
    expect(page.locator("#offline-status")).to_contain_text("can't be kept for offline use: ")


def test_a_worker_that_never_answers_is_given_up(page: Page, site_url: str) -> None:
    page.add_init_script(SAVE_DATA)
    page.add_init_script("ServiceWorker.prototype.postMessage = () => { window.asked = true; };")
    page.clock.install()
    Lab(page).open(f"{site_url}en/")
    page.wait_for_function("() => window.asked")
    page.clock.fast_forward("02:10")
    expect(page.locator("#offline-status")).to_contain_text("no answer for 120 seconds")
