"""The editable cells in a real browser, from the first run to the ways in which they fail."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from kvsite.wheel import brought

PYTHON_STARTS = 120_000  # ms at most, on a slow machine; nothing here measures time
TOTAL = 4


class Cells:
    """The notebook on the page, as a reader uses it; cells count from 1."""

    def __init__(self, page: Page, total: int = TOTAL) -> None:
        self.page, self.total = page, total
        self.root = page.locator("main")
        self.status = self.root.locator(".cells-status")

    def cell(self, number: int) -> Locator:
        return self.root.locator("section.cell").nth(number - 1)

    def editor(self, number: int) -> Locator:
        return self.root.get_by_role("textbox", name=f"Cell {number} of {self.total}: ")

    def output(self, number: int) -> Locator:
        return self.root.get_by_role("region", name=f"Output of cell {number}")

    def button(self, name: str) -> Locator:
        return self.root.get_by_role("button", name=name, exact=True)

    def text(self, number: int) -> str:
        """The source as the editor holds it."""
        return "\n".join(self.cell(number).locator(".cm-line").all_inner_texts()).strip("\n")

    def write(self, number: int, source: str) -> None:
        """Replace a cell's text through the keyboard."""
        self.editor(number).focus()
        self.page.keyboard.press("ControlOrMeta+A")
        self.page.keyboard.insert_text(source)

    def run(self, number: int, source: str, state: str = "done") -> str:
        """Write and run a cell, wait for how it ends, give back its output."""
        self.write(number, source)
        self.page.keyboard.press("Control+Enter")
        self.expect_state(number, state)
        output = self.output(number)
        return output.inner_text() if output.is_visible() else ""

    def expect_state(self, number: int, state: str) -> None:
        expect(self.cell(number)).to_have_attribute("data-state", state, timeout=PYTHON_STARTS)

    def expect_counts(self, *counts: str) -> None:
        """Those of the first cells; the others haven't run."""
        wanted = [*counts, *["[ ]"] * (TOTAL - len(counts))]
        expect(self.root.locator(".cell-count")).to_have_text(wanted, timeout=PYTHON_STARTS)

    def expect_said(self, number: int, words: str) -> None:
        expect(self.cell(number).locator(".cell-state")).to_contain_text(words)


def open_cells(page: Page, site_url: str) -> Cells:
    # On a narrow window the lab waits for a click with its own Python.
    page.set_viewport_size({"width": 600, "height": 800})
    page.goto(f"{site_url}en/proof.html")
    cells = Cells(page)
    expect(cells.button("Run all")).to_be_visible()
    return cells


@pytest.fixture
def cells(page: Page, site_url: str) -> Cells:
    """The notebook as it comes."""
    return open_cells(page, site_url)


@pytest.fixture(scope="module")
def shared_cells(browser: Browser, site_url: str) -> Iterator[Cells]:
    with browser.new_context(service_workers="block") as context:
        cells = open_cells(context.new_page(), site_url)
        cells.run(1, "'started'")
        yield cells


@pytest.fixture
def started(shared_cells: Cells) -> Iterator[Cells]:
    """A notebook whose Python runs, with its first texts; the tests here don't mind its past."""
    shared_cells.button("Reset all").click()
    yield shared_cells
    page = shared_cells.page
    assert [message.text for message in page.console_messages() if message.type == "error"] == []
    assert page.page_errors() == []


def test_run_all_fills_in_every_cell_in_order(cells: Cells) -> None:
    cells.expect_counts("[ ]", "[ ]", "[ ]", "[ ]")
    cells.button("Run all").click()
    cells.expect_counts("[1]", "[2]", "[3]", "[4]")
    for number in range(1, TOTAL + 1):
        cells.expect_state(number, "done")
    expect(cells.output(1)).to_contain_text("scores  (1, 4, 2, 6)")
    expect(cells.output(2)).to_contain_text("top-left hides 8 of them: P*C = 8")
    expect(cells.output(3)).to_contain_text("rows projected: 8 with reuse, 36 without")
    expect(cells.output(4)).to_contain_text("no answer yet")


def test_keys_run_and_move_or_stay(started: Cells) -> None:
    started.write(1, "6 * 7")
    started.page.keyboard.press("Shift+Enter")
    expect(started.editor(2)).to_be_focused()
    expect(started.output(1)).to_have_text("42")
    started.run(2, "'stay'")
    expect(started.editor(2)).to_be_focused()
    started.write(TOTAL, "'last'")
    started.page.keyboard.press("Shift+Enter")
    started.expect_state(TOTAL, "done")
    expect(started.editor(TOTAL)).to_be_focused()
    assert started.text(1) == "6 * 7", "the keys must not change the text"


def test_variables_go_from_cell_to_cell_until_a_restart(started: Cells) -> None:
    started.run(1, "x = 41")
    assert started.run(2, "x + 1") == "42"
    started.button("Restart").click()
    expect(started.status).to_contain_text("Variables are lost")
    started.expect_counts("[ ]", "[ ]", "[ ]", "[ ]")
    expect(started.output(2)).to_have_text("42")
    started.expect_said(2, "from before the restart")
    assert "NameError: name 'x' is not defined" in started.run(2, "x + 1", "error")
    started.expect_counts("[ ]", "[1]", "[ ]", "[ ]")


def test_run_all_stops_at_the_first_error(started: Cells) -> None:
    started.write(2, "1 / 0")
    started.write(3, "1234 * 1000")
    started.button("Run all").click()
    started.expect_state(2, "error")
    expect(started.status).to_contain_text("Cell 2: ZeroDivisionError: division by zero")
    expect(started.status).to_contain_text("Cell 3 wasn't run. Cell 4 wasn't run.")
    expect(started.cell(3)).not_to_contain_text("1234000")


def test_a_cell_is_stale_after_an_edit_of_its_own_or_an_edit_or_run_above(cells: Cells) -> None:
    cells.run(1, "x = 1")
    cells.run(2, "x")
    cells.run(3, "'free'")
    cells.write(2, "x + 1")
    cells.expect_state(1, "done")
    cells.expect_said(2, "stale: edited since it ran")
    cells.expect_said(3, "stale: a cell above was edited or run since")
    cells.expect_state(4, "idle")
    cells.write(2, "x")
    cells.expect_state(2, "done")
    cells.expect_state(3, "done")
    cells.run(1, "x = 1")
    cells.expect_said(2, "stale: a cell above was edited or run since")
    cells.run(2, "x")
    cells.expect_counts("[4]", "[5]", "[3]", "[ ]")


def test_a_running_cell_has_stop_beside_it(cells: Cells) -> None:
    """Cells stand far apart, and the bar is above the first of them."""
    cells.write(3, "while True:\n    pass")
    cells.button("Run cell 3").click()
    cells.expect_state(3, "running")
    expect(cells.button("Run cell 3")).to_have_count(0)
    cells.button("Stop cell 3").click()
    cells.expect_state(3, "stopped")
    expect(cells.button("Run cell 3")).to_have_text("Run")


def test_stop_ends_an_endless_loop_and_says_what_is_lost(started: Cells) -> None:
    started.run(1, "x = 1")
    started.write(2, "print('begun')\nwhile True:\n    pass")
    started.page.keyboard.press("Control+Enter")
    expect(started.output(2)).to_have_text("begun\n")
    started.expect_state(2, "running")
    started.button("Run cell 3").click()
    started.expect_state(3, "queued")
    started.button("Stop").click()
    started.expect_state(2, "stopped")
    started.expect_state(3, "idle")
    started.expect_state(1, "before")
    expect(started.status).to_have_text(re.compile("Stopped cell 2. Variables are lost"))
    started.expect_counts("[ ]", "[ ]", "[ ]", "[ ]")
    assert "NameError" in started.run(1, "x", "error")
    assert started.run(2, "'runs again'") == "'runs again'"


def test_a_loop_that_prints_for_ever_leaves_the_page_alive(started: Cells) -> None:
    started.write(1, "while True:\n    print('spam')")
    started.page.keyboard.press("Control+Enter")
    notice = started.output(1).get_by_text("output cut after 2,000 lines")
    expect(notice).to_be_attached(timeout=PYTHON_STARTS)
    started.expect_state(1, "running")
    started.write(2, "'typed meanwhile'")
    assert started.text(2) == "'typed meanwhile'"
    started.button("Stop").click()
    started.expect_state(1, "stopped")
    assert started.output(1).inner_text().count("spam") == 2_000
    assert started.run(2, "'runs'") == "'runs'"


def test_stdout_stderr_and_value_are_told_apart(started: Cells) -> None:
    started.run(1, "import sys\nprint('out')\nprint('err', file=sys.stderr)\n'a\\nb', 'value'")
    blocks = started.output(1).locator("pre")
    expect(blocks).to_have_text(["out\n", "err\n", "('a\\nb', 'value')"])
    kinds = blocks.evaluate_all("blocks => blocks.map((block) => block.dataset.kind)")
    assert kinds == ["stdout", "stderr", "value"]


def test_html_is_shown_as_text(started: Cells) -> None:
    html = "<img src=x onerror=alert(1)><b>bold</b>"
    assert html in started.run(1, f"print('{html}')")
    assert html in started.run(2, f"'{html}'")
    assert html in started.run(3, f"raise ValueError('{html}')", "error")
    assert "1 <b>2</b>" in started.run(4, "1 <b>2</b>", "error")
    assert started.root.locator(".cell-output").locator("img, b").count() == 0


def test_micropip_installs_what_the_site_brings(started: Cells) -> None:
    names = [package.split()[0] for package in brought()]
    assert set(names) > {"kvproof", "packaging"}
    source = f"import micropip\nawait micropip.install({names})\nimport {', '.join(names)}\n"
    shown = started.run(1, f"{source}[module.__version__ for module in ({', '.join(names)})]")
    assert shown == str([package.split()[1] for package in brought()])


def test_micropip_installs_our_wheel_by_its_address(started: Cells) -> None:
    link = started.page.locator("a[href$='.whl']")
    address = link.evaluate("link => link.href")
    source = f"import micropip\nawait micropip.install({address!r}, reinstall=True)\n"
    assert address in started.run(1, f"{source}micropip.list()['kvproof'].source")


@pytest.mark.parametrize(
    "wanted", ["no-such-package", "https://example.org/tomli-2.0.1-py3-none-any.whl"]
)
def test_micropip_says_why_another_package_cannot_be_had(wanted: str, started: Cells) -> None:
    error = started.run(1, f"import micropip\nawait micropip.install({wanted!r})", "error")
    assert error.splitlines()[-1].startswith(f"LookupError: {wanted} can't be had here.")
    assert f"brings only {', '.join(brought())}." in error
    assert "site-packages/micropip" not in error
    refused = started.run(1, "import micropip\nawait micropip.install('numpy<2')", "error")
    assert "already installed" in refused, "what micropip knows better stays its own"


def test_the_standard_library_is_whole(started: Cells) -> None:
    modules = "difflib, fractions, http.cookies, statistics, unittest.mock, wave, xml.dom.minidom"
    assert started.run(1, f"import {modules}\nfractions.Fraction(1, 3)") == "Fraction(1, 3)"


def test_reading_the_keyboard_is_an_error_and_not_a_hang(started: Cells) -> None:
    assert "EOFError" in started.run(1, "input('name?')", "error")


def test_reset_brings_the_original_text_back(started: Cells) -> None:
    originals = [started.text(number) for number in range(1, 5)]
    started.write(1, "x = 1")
    started.write(3, "y = 1")
    started.button("Reset cell 1").click()
    assert [started.text(1), started.text(3)] == [originals[0], "y = 1"]
    started.editor(1).focus()
    started.page.keyboard.press("ControlOrMeta+Z")
    assert started.text(1) == "x = 1", "a reset can be undone"
    started.button("Reset all").click()
    assert [started.text(number) for number in range(1, 5)] == originals


def test_the_notebook_works_with_the_keyboard_alone(started: Cells) -> None:
    keyboard = started.page.keyboard
    started.button("Run all").focus()
    for name in ["Stop", "Restart", "Reset all", "Reset cell 1", "Run cell 1"]:
        keyboard.press("Tab")
        expect(started.button(name)).to_be_focused()
    keyboard.press("Tab")
    expect(started.editor(1)).to_be_focused()
    keyboard.press("ControlOrMeta+A")
    keyboard.insert_text("print('by hand')")
    keyboard.press("Control+Enter")
    started.expect_state(1, "done")
    keyboard.press("Escape")
    keyboard.press("Tab")
    expect(started.output(1)).to_be_focused()
    keyboard.press("Shift+Tab")
    expect(started.editor(1)).to_be_focused()
    keyboard.press("Shift+Tab")
    expect(started.button("Run cell 1")).to_be_focused()
    count = started.cell(1).locator(".cell-count")
    before = count.inner_text()
    keyboard.press("Space")
    expect(count).not_to_have_text(before)


def test_a_screen_reader_hears_the_end_of_a_run_and_not_its_output(started: Cells) -> None:
    started.run(1, "for i in range(100): print(i)")
    expect(started.root.locator(".cells-bar [role=status]")).to_have_text("Cell 1 is done.")
    expect(started.output(1)).not_to_have_attribute("aria-live", re.compile(".*"))
    helped_by = started.editor(1).get_attribute("aria-describedby")
    expect(started.page.locator(f"#{helped_by}")).to_contain_text("Escape, then Tab")


def test_an_idle_stop_button_does_nothing_and_says_so(cells: Cells) -> None:
    stop = cells.button("Stop")
    expect(stop).to_have_attribute("aria-disabled", "true")
    stop.dispatch_event("click")
    expect(cells.status).to_have_text("Python starts with the first run.")


def test_code_scrolls_inside_its_own_box_on_a_narrow_screen(started: Cells) -> None:
    started.page.set_viewport_size({"width": 320, "height": 640})
    started.run(1, f"print('{'x' * 200}')")
    widths = started.root.evaluate("root => [root.scrollWidth, root.clientWidth]")
    assert widths[0] <= widths[1] <= 320
    scroller = started.cell(1).locator(".cm-scroller")
    assert scroller.evaluate("box => box.scrollWidth > box.clientWidth")
    started.page.set_viewport_size({"width": 600, "height": 800})


def test_print_shows_the_edited_code_and_hides_the_buttons(started: Cells) -> None:
    started.run(1, "print('on paper')")
    started.page.emulate_media(media="print")
    expect(started.cell(1).locator("pre.cell-source")).to_be_visible()
    expect(started.cell(1).locator("pre.cell-source")).to_have_text("print('on paper')")
    expect(started.output(1)).to_have_text("on paper\n")
    expect(started.cell(1).locator(".cm-editor")).to_be_hidden()
    expect(started.root.locator("button:visible")).to_have_count(0)
    started.page.emulate_media(media="screen")


def test_loading_shows_bytes_and_can_be_stopped(cells: Cells) -> None:
    held: list[Route] = []
    cells.page.route("**/*.wasm.gzip", lambda route: held.append(route))
    cells.button("Run cell 1").click()
    expect(cells.status).to_have_text(re.compile(r"downloading Python \d+\.\d of \d+\.\d\sMB"))
    cells.expect_said(1, "waiting for Python")
    cells.button("Stop").click()
    cells.expect_state(1, "stopped")
    cells.page.unroute_all(behavior="ignoreErrors")
    assert cells.run(2, "'runs'") == "'runs'"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("**/pyodide.asm.wasm.gzip", "pyodide.asm.wasm: Failed to fetch"),
        ("**/cells-worker*.js", "can't be loaded"),
    ],
)
def test_a_failed_start_says_what_failed_and_retry_runs_what_waited(
    cells: Cells, url: str, reason: str
) -> None:
    cells.page.route(url, lambda route: route.abort())
    cells.button("Run all").click()
    expect(cells.status).to_contain_text("Python didn't start: ", timeout=PYTHON_STARTS)
    expect(cells.status).to_contain_text(reason)
    cells.expect_counts("[ ]", "[ ]", "[ ]", "[ ]")
    cells.write(1, "'typed meanwhile'")
    cells.page.unroute(url)
    cells.button("Retry").click()
    cells.expect_counts("[1]", "[2]", "[3]", "[4]")
    expect(cells.output(1)).to_have_text("'typed meanwhile'")
    expect(cells.button("Retry")).to_be_hidden()


def test_a_crash_of_python_ends_the_run_and_the_next_one_starts_anew(
    cells: Cells, expected_errors: list[str]
) -> None:
    expected_errors += ["fatal error", "Maximum call stack size exceeded"]
    source = "class Loop:\n    def __repr__(self): return repr(self)\nLoop()"
    crashed = cells.run(2, source, "stopped")
    assert crashed.startswith("Python crashed: ")
    expect(cells.status).to_contain_text("Cell 2 crashed Python. Variables are lost")
    assert cells.run(2, "'runs'") == "'runs'"
