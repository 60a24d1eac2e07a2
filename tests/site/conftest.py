"""The built site in a real browser, on pages that tolerate no error.

A test fails at its end if any of its pages or their workers logged an error, threw, left a
rejection unhandled, or asked another host for something.  A test that provokes errors on purpose
lists them in ``expected_errors``.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from tests.site.lab_page import DEFAULT, SAVE_DATA, Lab, OpenPage, PrebuiltTable

from kvsite.browser import launch_options
from kvsite.paths import DIST
from kvsite.serve import HOST, start_server

expect.set_options(timeout=30_000)  # nothing here measures time, and a busy machine is slow


class SharedLab:
    """One open lab, prebuilt or live, lent to test after test."""

    def __init__(self, context: BrowserContext, url: str, runtime: str) -> None:
        self._errors: list[str] = []
        self._runtime = runtime
        record_errors(context, self._errors)
        self.lab = Lab(context.new_page()).open(url)

    def lend(self) -> Iterator[Lab]:
        """Give the lab away at its default state, then check what happened to it."""
        self.lab.expect_runtime(self._runtime)
        self.lab.page.emulate_media()
        self.lab.move_to(DEFAULT)
        yield self.lab
        seen = self._errors.copy()
        self._errors.clear()
        check_errors(seen, [])


@pytest.fixture(scope="session", autouse=True)
def site_url(built_site: Path) -> Iterator[str]:
    """Where the built site is served."""
    with start_server(built_site) as server:
        yield server.url


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**launch_options())
        yield browser
        browser.close()


@pytest.fixture
def page_errors() -> list[str]:
    """What went wrong on the test's pages so far."""
    return []


@pytest.fixture
def expected_errors() -> list[str]:
    """Patterns of the errors that a test provokes: each must come, and no others may."""
    return []


@pytest.fixture
def open_page(
    browser: Browser, page_errors: list[str], expected_errors: list[str]
) -> Iterator[OpenPage]:
    """Makes pages in fresh contexts; takes the options of Playwright's ``new_context``.

    Service workers are for tests of offline use, ``open_page(service_workers="allow")``: requests
    that they make and answer are hidden from a test.
    """
    contexts = []

    def new_page(**options: Any) -> Page:
        context = browser.new_context(**{"service_workers": "block", **options})
        contexts.append(context)
        record_errors(context, page_errors)
        return context.new_page()

    yield new_page
    for context in contexts:
        context.close()
    check_errors(page_errors, expected_errors)


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    """A page of a desktop's size."""
    return open_page()


@pytest.fixture(scope="session")
def shared_labs(browser: Browser, site_url: str) -> Iterator[dict[str, SharedLab]]:
    """A prebuilt and a live lab, for all tests that don't mind what was done on it before."""
    options: dict[str, Any] = {"service_workers": "block"}
    with browser.new_context(**options) as asking, browser.new_context(**options) as starting:
        asking.add_init_script(SAVE_DATA)
        contexts = {"prebuilt": asking, "live": starting}
        yield {name: SharedLab(context, site_url, name) for name, context in contexts.items()}


@pytest.fixture
def prebuilt_lab(shared_labs: dict[str, SharedLab]) -> Iterator[Lab]:
    """The lab before any Python, at its default state."""
    yield from shared_labs["prebuilt"].lend()


@pytest.fixture(params=["prebuilt", "live"])
def lab(request: pytest.FixtureRequest, shared_labs: dict[str, SharedLab]) -> Iterator[Lab]:
    """Runs a test twice: with states from the table, and with Python's answers."""
    yield from shared_labs[request.param].lend()


@pytest.fixture(scope="session")
def table() -> PrebuiltTable:
    [file] = (DIST / "assets").glob("mask_lab.*.json")
    return PrebuiltTable(json.loads(file.read_text()))


def record_errors(context: BrowserContext, errors: list[str]) -> None:
    """Append to ``errors`` whatever goes wrong on the context's pages and in their workers."""
    context.on(
        "console",
        lambda message: (
            errors.append(f"console: {message.text} {message.location.get('url')}")
            if message.type == "error"
            else None
        ),
    )
    context.on("weberror", lambda error: errors.append(f"uncaught: {error.error}"))
    context.on(
        "request",
        lambda request: (
            None if is_own(request.url) else errors.append(f"another host: {request.url}")
        ),
    )


def is_own(url: str) -> bool:
    """True if nothing leaves the machine for this URL; a data URL has no host."""
    return urlsplit(url).hostname in (None, HOST)


def check_errors(errors: list[str], expected: list[str]) -> None:
    unexpected = [e for e in errors if not any(re.search(pattern, e) for pattern in expected)]
    assert not unexpected, "the page had errors:\n" + "\n".join(unexpected)
    missing = [p for p in expected if not any(re.search(p, error) for error in errors)]
    assert not missing, f"expected errors that didn't come: {missing}"
