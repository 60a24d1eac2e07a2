"""The lab on a broken host: it says what failed, keeps working without Python, and can retry.

The files come from a real server with the real caching headers, so that a retry must also get
past what the browser has kept.
"""

import re
import threading
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Literal

import pytest
from playwright.sync_api import Page, expect
from tests.site.lab_page import (
    DEFAULT,
    PYTHON_STARTS,
    SAVE_DATA,
    Lab,
    PrebuiltTable,
    State,
    open_fold,
)

from kvsite.paths import DIST
from kvsite.serve import FALLBACK_TYPE, MIME_TYPES, Handler, start_server

FAILED_WITHIN = 20_000
"""Milliseconds: after so long at most a visitor must know."""

Fault = Literal["missing", "short", "cut", "corrupt", "spoilt", "late", "stalled"]
"""404; half of it with a matching length; half of it with the full length; a wrong byte in each
kilobyte; some in its middle; the second half when the test lets it go; no answer at all."""


class FaultySite:
    """A server of the site, and what is wrong with its files now."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.faults: dict[str, Fault] = {}
        self.late_half = threading.Event()
        self.closing = threading.Event()

    def fault(self, path: str) -> Fault | None:
        """What is wrong with the file at a URL path; patterns match whole paths."""
        found = [fault for pattern, fault in self.faults.items() if fnmatch(path, f"/{pattern}")]
        return found[0] if found else None


def faulty_handler(site: FaultySite) -> type[Handler]:
    class FaultyHandler(Handler):
        def do_GET(self) -> None:  # noqa: N802 (the name that http.server calls)
            match site.fault(self.path):
                case None:
                    super().do_GET()
                case "missing":
                    self.path = "/missing"
                    super().do_GET()
                case "stalled":
                    site.closing.wait()
                case fault:
                    self.send_broken(fault)
            self.close_connection = True

        def send_broken(self, fault: Fault) -> None:
            file = DIST / self.path.lstrip("/")
            whole = file.read_bytes()
            half = whole[: len(whole) // 2]
            changed = {"corrupt": corrupted, "spoilt": spoilt}.get(fault)
            body = half if changed is None else changed(whole)
            promised = whole if fault in ("cut", "late") else body
            self.send_response(200)
            self.send_header("Content-Type", MIME_TYPES.get(file.suffix, FALLBACK_TYPE))
            self.send_header("Cache-Control", self._caching(file))
            self.send_header("Content-Length", str(len(promised)))
            self.end_headers()
            self.wfile.write(body)
            if fault == "late":
                site.late_half.wait()
                self.wfile.write(whole[len(half) :])

    return FaultyHandler


def corrupted(content: bytes) -> bytes:
    changed = bytearray(content)
    changed[512::1024] = bytes(byte ^ 0xFF for byte in changed[512::1024])
    return bytes(changed)


def spoilt(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes(64) + content[middle + 64 :]


@pytest.fixture
def faulty_site() -> Iterator[FaultySite]:
    with start_server(DIST) as server:
        site = FaultySite(server.url)
        server.RequestHandlerClass = faulty_handler(site)
        yield site
        site.late_half.set()
        site.closing.set()


def expect_load_errors(page_errors: list[str]) -> None:
    """The browser itself logs files that it can't use; nothing else may have gone wrong."""
    browsers_own = r"^console: (Failed to load resource|Refused to execute script|Failed to find)"
    bokehs_own = r"^uncaught: Cannot find Bokeh \S+ You have to load it prior to loading plugins"
    # Pyodide goes on without its standard library for as long as its worker isn't ended yet.
    pyodides_own = r"^console: .*what arrived is damaged|^console: .*/runtime/\w+/pyodide\S*\.mjs$"
    expected = f"{browsers_own}|{bokehs_own}|{pyodides_own}"
    others = [error for error in page_errors if not re.search(expected, error, re.DOTALL)]
    assert not others
    page_errors.clear()


RETRIED = [
    ("runtime/*/pyodide.asm.wasm.gzip", "short"),
    ("runtime/*/pyodide-lock.json", "missing"),
    ("assets/libraries.*.tar.gzip", "corrupt"),
    ("assets/lab-worker.*.js", "missing"),
]
"""A whole start each, so only one of each kind: large, small, ours, and the worker itself."""


@pytest.mark.parametrize(
    ("file", "fault", "says"),
    [
        (
            "runtime/*/pyodide.asm.wasm.gzip",
            "short",
            r"pyodide\.asm\.wasm: \d+ of \d+ bytes arrived",
        ),
        ("runtime/*/pyodide.asm.wasm.gzip", "cut", r"pyodide\.asm\.wasm: \d+ of \d+ bytes arrived"),
        ("runtime/*/pyodide.asm.wasm.gzip", "corrupt", r"pyodide\.asm\.wasm"),
        ("runtime/*/pyodide.mjs", "missing", r"pyodide\.mjs"),
        ("runtime/*/pyodide.asm.mjs", "missing", r"pyodide\.asm\.mjs"),
        ("runtime/*/pyodide-lock.json", "missing", r"pyodide-lock\.json: the server answered 404"),
        ("assets/libraries.*.tar.gzip", "corrupt", r"libraries\.\w+\.tar: what arrived is damaged"),
        ("assets/lab-worker.*.js", "missing", r"lab-worker\.\w+\.js"),
    ],
)
def test_a_broken_file_is_named_the_table_works_and_retry_helps(
    page: Page,
    faulty_site: FaultySite,
    table: PrebuiltTable,
    page_errors: list[str],
    file: str,
    fault: Fault,
    says: str,
) -> None:
    faulty_site.faults[file] = fault
    lab = Lab(page).open(faulty_site.url)
    lab.expect_runtime("failed", timeout=FAILED_WITHIN)
    expect(lab.status).to_have_text(re.compile(says))
    expect(lab.status).to_contain_text("The prebuilt numbers still work")
    state = State(5, 3, "float32")
    lab.move_to(state)
    assert lab.readouts() == table.readouts(state)
    expect(lab.button).to_have_text("Retry")
    if (file, fault) in RETRIED:
        faulty_site.faults.clear()
        lab.button.click()
        lab.expect_runtime("live")
        lab.expect_state(state)
        lab.move_to(DEFAULT)
        assert lab.readouts() == table.readouts(DEFAULT)
        expect(lab.button).to_be_hidden()
    expect_load_errors(page_errors)


WHOLE_STDLIB = "/python_stdlib.zip"
"""The plain start reads it; a start from the snapshot does without."""


@pytest.mark.parametrize(
    ("file", "fault"),
    [
        ("assets/snapshot.*.bin.gzip", "missing"),
        ("assets/snapshot.*.bin.gzip", "spoilt"),
        ("assets/stdlib.*.zip.gzip", "spoilt"),
    ],
)
def test_without_the_snapshot_python_starts_all_the_same(
    page: Page, faulty_site: FaultySite, page_errors: list[str], file: str, fault: Fault
) -> None:
    faulty_site.faults[file] = fault
    lab = Lab(page)
    with page.expect_request(lambda request: request.url.endswith(WHOLE_STDLIB)):
        lab.open(faulty_site.url)
    lab.expect_runtime("live")
    expect(lab.status).to_contain_text("every number is equal")
    expect_load_errors(page_errors)


def test_a_download_that_nobody_waits_for_says_nothing_any_more(
    page: Page, faulty_site: FaultySite, page_errors: list[str]
) -> None:
    """Half of the snapshot is given up, and the rest arrives when Python is live without it."""
    faulty_site.faults |= {
        "assets/snapshot.*.bin.gzip": "late",
        "assets/stdlib.*.zip.gzip": "short",
    }
    lab = Lab(page).open(faulty_site.url)
    lab.expect_runtime("live")
    with page.expect_event("requestfinished", lambda done: "/assets/snapshot." in done.url):
        faulty_site.late_half.set()
    lab.move_to(State(7, 3))  # through the worker, after whatever it had to say
    assert lab.html.get_attribute("data-runtime-state") == "live"
    expect_load_errors(page_errors)


@pytest.mark.parametrize("file", ["assets/story_lab.*.json", "assets/bokeh-widgets.*.js"])
def test_without_the_table_or_its_scripts_the_default_stays_readable(
    page: Page, faulty_site: FaultySite, page_errors: list[str], file: str
) -> None:
    faulty_site.faults[file] = "missing"
    page.goto(faulty_site.url)
    lab = Lab(page)
    lab.expect_runtime("failed", timeout=FAILED_WITHIN)
    name = file.split("*")[0].removeprefix("assets/")
    expect(lab.status).to_have_text(re.compile(re.escape(name)))
    expect(lab.readout("top-left-error")).to_have_text("0.699")
    for mask in ("offset", "top-left"):
        expect(page.locator(f"#mask-{mask}-mask")).to_contain_text("●")

    faulty_site.faults.clear()
    lab.button.click()
    lab.expect_runtime("live")
    expect_load_errors(page_errors)


@pytest.mark.parametrize(
    ("file", "fault", "says"),
    [
        ("runtime/*/numpy-*.whl", "missing", r"numpy-\S+\.whl"),
        ("runtime/*/python_stdlib.zip", "spoilt", r"python_stdlib\.zip: what arrived is damaged"),
        # Small enough for the browser to keep it: the retry must ask past its cache.
        ("assets/kvproof.*.tar.gzip", "short", r"kvproof\.\w+\.tar: \d+ of \d+ bytes arrived"),
    ],
)
def test_a_broken_file_stops_the_cells_until_it_is_back(
    page: Page,
    faulty_site: FaultySite,
    page_errors: list[str],
    file: str,
    fault: Fault,
    says: str,
) -> None:
    faulty_site.faults[file] = fault
    page.add_init_script(SAVE_DATA)
    page.goto(faulty_site.url)
    open_fold(page)
    cells = page.locator(".cells")
    cells.get_by_role("button", name="Run cell 1").click()
    expect(cells.locator(".cells-status")).to_have_text(
        re.compile(f"didn't start: {says}"), timeout=FAILED_WITHIN
    )

    faulty_site.faults.clear()
    cells.get_by_role("button", name="Retry").click()
    cell = cells.locator("section.cell")
    expect(cell).to_have_attribute("data-state", "done", timeout=PYTHON_STARTS)
    expect_load_errors(page_errors)


def test_without_workers_the_figures_move_and_the_cells_say_why_they_cannot_run(
    page: Page, site_url: str, table: PrebuiltTable
) -> None:
    page.add_init_script("window.Worker = class { constructor() { throw new Error('forbidden') } }")
    lab = Lab(page).open(site_url)
    lab.expect_runtime("failed")
    state = State(5, 3, "float32")
    lab.move_to(state)
    assert lab.readouts() == table.readouts(state)
    open_fold(page)
    cells = page.locator(".cells")
    for button in ("Run cell 1", "Retry"):
        cells.get_by_role("button", name=button).click()
        expect(cells.locator(".cells-status")).to_contain_text("didn't start: Error: forbidden")


ASKED_NONSENSE = """
window.Worker = class extends Worker {
  postMessage(message, ...rest) {
    super.postMessage(message.lab === "LAB" ? { ...message, values: {} } : message, ...rest);
  }
};
"""
"""One lab's questions raise a KeyError in Python."""


@pytest.mark.parametrize("name", ["story", "stepper"])
def test_a_lab_that_python_cannot_answer_leaves_the_others_live(
    page: Page, site_url: str, table: PrebuiltTable, name: str
) -> None:
    page.add_init_script(ASKED_NONSENSE.replace("LAB", name))
    lab = Lab(page).open(f"{site_url}en/")
    lab.expect_runtime("failed" if name == "story" else "live")
    other = "stepper" if name == "story" else "blind"
    page.locator("#stepper-lab").scroll_into_view_if_needed()
    page.locator(f"#{other}-lab").scroll_into_view_if_needed()
    live = page.locator(f"#{other}-lab")
    expect(live).to_have_attribute("data-live", "true", timeout=PYTHON_STARTS)
    expect(live.locator("[data-source]")).to_be_empty()
    broken = lab.status if name == "story" else page.locator(f'[data-source="{name}"]')
    expect(broken).to_contain_text("Python stopped working: KeyError")
    lab.move_to(State(5, 3, "float32"))
    assert lab.readouts() == table.readouts(State(5, 3, "float32"))
    lab.expect_runtime("failed" if name == "story" else "live")


def test_a_server_that_falls_silent_is_given_up(
    page: Page, faulty_site: FaultySite, table: PrebuiltTable
) -> None:
    # All that the worker asks for: a sign of life during the leap below would begin a new wait.
    for file in ("runtime/*/*", "assets/snapshot.*", "assets/stdlib.*", "assets/*.tar.gzip"):
        faulty_site.faults[file] = "stalled"
    page.clock.install()
    lab = Lab(page).open(faulty_site.url)
    lab.expect_runtime("loading")
    page.clock.fast_forward("05:00:00")  # a lid that was closed is no silence
    page.clock.run_for("01:15")
    lab.expect_runtime("loading")
    page.clock.run_for("00:10")
    lab.expect_runtime("failed", timeout=FAILED_WITHIN)
    expect(lab.status).to_contain_text("no sign of life")
    lab.move_to(State(2, 2))
    assert lab.readouts() == table.readouts(State(2, 2))
