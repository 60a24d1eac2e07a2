"""Check yours, in a real browser: the report as it is drawn, and the picker of specimens."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from tests.site.conftest import check_errors, record_errors
from tests.site.lab_page import SAVE_DATA
from tests.site.test_cells import PYTHON_STARTS, Cells
from tests.site.test_page import CONTRAST, expect_accessible

import kvproof
from kvlab.formats import number
from kvproof.zoo import SPECIMENS
from kvsite.assets import SITE

STATES = {
    (True, True): {"history", "chunk"},
    (False, False): {"hidden-future"},
    (True, False): {"wrongly-hidden"},
    (False, True): {"wrongly-seen"},
}
"""(expected, seen) -> the classes that a cell of the second mask may have."""
SIGNS = {"history": "●", "chunk": "●", "hidden-future": "–", "wrongly-hidden": "×"}
SIGNS |= {"wrongly-seen": "▲"}


TOTAL = 1
"""Cells of the page."""


def open_cells(page: Page, site_url: str) -> Cells:
    page.set_viewport_size({"width": 600, "height": 800})
    page.goto(f"{site_url}en/check.html")
    cells = Cells(page, TOTAL)
    expect(cells.button("Restart")).to_be_visible()
    return cells


class CheckYours:
    """The cell with its picker and its report."""

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        self.page = cells.page
        self.cell = cells.cell(TOTAL)
        self.picker = cells.root.get_by_label("Or load a mistake that somebody has published")
        self.said = self.cell.get_by_role("status").first
        self.back = cells.button("Bring my text back")
        self.report = self.cell.locator(".report")

    @property
    def text(self) -> str:
        """The whole source: the editor itself draws only the lines on the screen."""
        return self.cell.locator("pre.cell-source").text_content() or ""

    def run(self) -> None:
        """To its end: the next number stands at the cell."""
        count = self.cell.locator(".cell-count")
        before = re.sub(r"\D", "", count.inner_text())
        self.cells.button(f"Run cell {TOTAL}").click()
        expect(count).to_have_text(re.compile(rf"^\[(?!{before}\])\d+\]$"), timeout=PYTHON_STARTS)
        self.cells.expect_state(TOTAL, "done")

    def pick(self, name: str) -> None:
        self.picker.select_option(name)
        expect(self.said).to_contain_text("is loaded")

    def masks(self) -> list[list[list[tuple[str, str]]]]:
        """Both masks: rows of (class, sign)."""
        tables = self.report.locator(".matrix")
        return [
            table.locator("tbody tr").evaluate_all(
                "rows => rows.map((row) => [...row.querySelectorAll('td')]"
                ".map((cell) => [cell.className, cell.textContent]))"
            )
            for table in tables.all()
        ]


@pytest.fixture(scope="module")
def shared(browser: Browser, site_url: str) -> Iterator[tuple[CheckYours, list[str]]]:
    errors: list[str] = []
    with browser.new_context(service_workers="block") as context:
        record_errors(context, errors)
        yield CheckYours(open_cells(context.new_page(), site_url)), errors


@pytest.fixture
def yours(shared: tuple[CheckYours, list[str]]) -> Iterator[CheckYours]:
    """With the text that it came with; its Python may run already."""
    one, errors = shared
    one.cells.button(f"Reset cell {TOTAL}").click()
    if one.back.is_visible():
        one.back.click()
        one.cells.button(f"Reset cell {TOTAL}").click()
    yield one
    one.page.emulate_media()
    one.page.set_viewport_size({"width": 600, "height": 800})
    seen = errors.copy()
    errors.clear()
    check_errors(seen, [])


def test_the_report_says_what_is_wrong_in_words_and_numbers(yours: CheckYours) -> None:
    yours.run()
    [finding] = report_of(None)["findings"]
    report = yours.report
    expect(report.locator(".report-verdict")).to_have_text("✗ Wrong MyDecoder")
    title = report.get_by_role("heading")
    expect(title).to_have_text(
        "The causal mask is pinned to the top left corner and hides the past MASK-TOPLEFT"
    )
    expect(yours.cells.status).to_have_text(
        f"Cell {TOTAL} is done. Wrong: the causal mask is pinned to the top left corner and "
        "hides the past."
    )
    case = report.locator(".report-case tr")
    expect(case).to_have_text([re.compile("^feed 1feed 1 ✗$"), "tokens00"])
    expect(report).to_contain_text(f"off by {number(finding['max_abs_error'])};")
    expect(report).to_contain_text("First wrong: position 1")
    for sentence in finding["evidence"]:
        expect(report.get_by_text(sentence["text"][1:])).not_to_have_count(0)
    for other in finding["alternatives"]:
        percent = f"{other['kind']} {100 * other['confidence']:.0f}%: "
        expect(report.get_by_role("listitem").filter(has_text=percent)).to_have_count(1)


NUMBER = re.compile(r"\d[\d.,]*(?:(?: |&nbsp;)×(?: |&nbsp;)10[⁻⁰¹²³⁴-⁹]+)?")
"""Seconds, and rounding, which are another Python's."""


def test_before_it_runs_the_report_is_there_as_it_will_be(page: Page, site_url: str) -> None:
    """Drawn when the page was built, as the page draws it; it is of the text that it came with."""
    yours = CheckYours(open_cells(page, site_url))
    output = yours.cells.output(TOTAL)
    expect(output).to_contain_text("computed when the page was built")
    before = yours.report.evaluate("report => report.outerHTML")
    yours.cells.write(TOTAL, yours.text.replace("keys <= rows", "keys <= n_past + rows"))
    expect(output).to_be_hidden()
    yours.cells.button(f"Reset cell {TOTAL}").click()
    expect(output).to_be_visible()
    place = yours.report.locator("details").filter(has_text="See it yourself in Python")
    place.locator("summary").click()
    page.evaluate(REFUSE)
    place.get_by_role("button", name="Copy").click()
    expect(place.get_by_role("status")).to_contain_text("copy with Ctrl+C")
    yours.run()
    expect(output).not_to_contain_text("computed when the page was built")
    after = yours.report.evaluate("report => report.outerHTML")
    assert NUMBER.sub("#", before) == NUMBER.sub("#", after)
    assert before.count("<td") == after.count("<td") > 10


def test_the_text_and_the_snippet_can_be_copied(yours: CheckYours) -> None:
    yours.run()
    page = yours.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for title, words in (
        ("See it yourself in Python", "import numpy as np\ndef array(logits):"),
        ("The whole report as text", "MyDecoder: wrong\n"),
    ):
        place = yours.report.locator("details").filter(has_text=title)
        place.locator("summary").click()
        place.get_by_role("button", name="Copy").click()
        expect(place.get_by_role("status")).to_have_text("Copied.")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith(words)
        assert copied == place.locator("pre").text_content()


REFUSE = "() => { navigator.clipboard.writeText = () => Promise.reject(new Error('refused')); }"


def test_without_the_permission_the_text_is_selected(yours: CheckYours) -> None:
    yours.run()
    page = yours.page
    page.evaluate(REFUSE)
    place = yours.report.locator("details").filter(has_text="See it yourself in Python")
    place.locator("summary").click()
    place.get_by_role("button", name="Copy").click()
    expect(place.get_by_role("status")).to_contain_text("copy with Ctrl+C")
    assert page.evaluate("getSelection().toString()") == place.locator("pre").text_content()
    page.evaluate("() => { delete navigator.clipboard.writeText; }")


def test_a_right_decoder_gets_a_verdict_with_its_limits(yours: CheckYours) -> None:
    text = yours.text
    assert text.count("seen = keys <= rows") == 1
    yours.cells.write(TOTAL, text.replace("seen = keys <= rows", "seen = keys <= n_past + rows"))
    yours.run()
    expect(yours.report.locator(".report-verdict")).to_have_text(
        "✓ Right, as far as it was checked MyDecoder"
    )
    expect(yours.cells.status).to_have_text(f"Cell {TOTAL} is done. Nothing wrong was found.")
    unlocked = yours.report.get_by_role("listitem").filter(has_text="crop: taking tokens back")
    expect(unlocked).to_be_visible()
    expect(yours.report.locator(".matrix")).to_have_count(0)


def report_of(name: str | None) -> dict[str, Any]:
    """The report of a specimen, or of the page's decoder, as this test's own Python makes it."""
    if name is None:
        names: dict[str, Any] = {}
        source = (SITE / "cells" / "06_check_yours.py").read_text()
        exec(source.replace("kvproof.check(MyDecoder())", ""), names)
    make = names["MyDecoder"] if name is None else SPECIMENS[name].make
    report: dict[str, Any] = kvproof.check(make()).to_dict()
    return report


@pytest.mark.parametrize("name", [None, "mask-skipped-past"])
def test_the_masks_are_those_of_the_report(yours: CheckYours, name: str | None) -> None:
    """The second leaks."""
    if name:
        yours.pick(name)
    yours.run()
    influence = report_of(name)["findings"][0]["influence"]
    expected, seen = yours.masks()
    assert len(expected) == len(seen) == influence["n_new"]
    for row, (wanted, moved) in enumerate(
        zip(influence["expected"], influence["seen"], strict=True)
    ):
        assert [sign == "●" for _, sign in expected[row]] == wanted
        for key, (state, sign) in enumerate(seen[row]):
            assert state in STATES[wanted[key], moved[key]]
            assert sign == SIGNS[state]


@pytest.mark.parametrize("name", ["row-perm-inverse", "pad-mask-decode"])
def test_a_picked_specimen_runs_and_is_named(yours: CheckYours, name: str) -> None:
    yours.pick(name)
    assert yours.text.startswith(f"# {name}, from the zoo")
    yours.run()
    specimen = SPECIMENS[name]
    expect(yours.report.get_by_role("heading")).to_contain_text(specimen.kind)
    finding = report_of(name)["findings"][0]
    case = yours.report.locator(".report-case")
    heads = case.locator("thead th").all_text_contents()
    assert [head.removesuffix(" ✗") for head in heads] == [
        op["text"] for op in finding["case"]["ops"]
    ]
    assert (
        heads.index(next(h for h in heads if h.endswith("✗"))) == finding["first_bad"]["operation"]
    )
    rows = [row.locator("td").all_text_contents() for row in case.locator("tbody tr").all()]
    lengths = finding["case"]["lengths"]
    for index, (row, tokens) in enumerate(zip(rows, finding["case"]["tokens"], strict=True)):
        shown = " ".join(row).split()
        n_pads = 0 if lengths is None else finding["case"]["ops"][0]["argument"] - lengths[index]
        assert shown == ["pad"] * n_pads + [str(token) for token in tokens[n_pads:]]


def test_what_was_written_is_never_lost(yours: CheckYours) -> None:
    original = yours.text
    yours.cells.write(TOTAL, "mine = 1")
    yours.pick("mask-topleft")
    expect(yours.said).to_contain_text("Yours is kept")
    yours.cells.editor(TOTAL).focus()
    yours.page.keyboard.press("ControlOrMeta+Z")
    assert yours.text == "mine = 1", "undo brings it back"
    yours.pick("pos-reset-learned")
    yours.pick("pos-reset-rope")
    yours.back.click()
    assert yours.text == "mine = 1", "and so does the button, over several specimens"
    expect(yours.back).to_be_hidden()
    expect(yours.picker).to_be_focused()
    yours.cells.button(f"Reset cell {TOTAL}").click()
    assert yours.text == original
    expect(yours.picker).to_have_value("")


def test_the_picker_follows_undo_and_reset(yours: CheckYours) -> None:
    yours.pick("mask-topleft")
    expect(yours.back).to_be_hidden()
    yours.cells.editor(TOTAL).focus()
    yours.page.keyboard.press("ControlOrMeta+Z")
    expect(yours.picker).to_have_value("")
    yours.page.keyboard.press("ControlOrMeta+Shift+Z")
    expect(yours.picker).to_have_value("mask-topleft")


def test_the_picker_works_with_the_keyboard_alone(yours: CheckYours) -> None:
    keyboard = yours.page.keyboard
    yours.picker.focus()
    keyboard.type("mask-value-s")
    expect(yours.said).to_have_text("mask-value-small is loaded. Run the cell.")
    keyboard.press("Tab")
    expect(yours.cells.button(f"Reset cell {TOTAL}")).to_be_focused()
    keyboard.press("Tab")
    keyboard.press("Enter")
    yours.cells.expect_state(TOTAL, "done")
    expect(yours.report.locator(".report-verdict")).to_have_text("✗ Wrong MaskValueSmall")


def test_a_missing_zoo_is_told_and_asked_for_again(
    page: Page, site_url: str, expected_errors: list[str]
) -> None:
    expected_errors += ["specimens"]
    yours = CheckYours(open_cells(page, site_url))
    original = yours.text
    page.route("**/specimens.*.json", lambda route: route.abort())
    yours.picker.select_option("mask-topleft")
    expect(yours.said).to_contain_text("The zoo can't be loaded")
    expect(yours.picker).to_have_value("")
    assert yours.text == original
    page.unroute("**/specimens.*.json")
    yours.pick("mask-topleft")
    assert "class MaskTopleft(RightDecoder):" in yours.text


@pytest.mark.parametrize("data", ["{}", "[]", "{'ok': True}", "{'findings': [{}], 'ok': False}"])
def test_what_only_pretends_to_be_a_report_is_shown_as_text(yours: CheckYours, data: str) -> None:
    mime = "application/vnd.kvproof.report+json"
    yours.cells.write(
        TOTAL,
        "class Fake:\n    def _repr_mimebundle_(self):\n"
        f"        return {{'text/plain': '<b>fake</b>', {mime!r}: {data}}}\nFake()",
    )
    yours.run()
    expect(yours.cells.output(TOTAL)).to_have_text("<b>fake</b>")


def test_html_in_a_report_is_text(yours: CheckYours) -> None:
    html = "<img src=x onerror=alert(1)>"
    yours.cells.write(
        TOTAL,
        "import kvproof\nclass Bad:\n    vocab_size, max_length = 5, 5\n"
        f"    def full(self, tokens): raise ValueError('{html}')\n    step = full\n"
        f"Bad.__name__ = '{html}'\nkvproof.check(Bad())",
    )
    yours.run()
    expect(yours.report.locator(".report-verdict")).to_have_text(f"✗ Wrong {html}")
    expect(yours.report.get_by_role("listitem").first).to_contain_text(html)
    expect(yours.report.locator("img")).to_have_count(0)


def test_the_report_meets_the_guidelines_in_light_and_dark(yours: CheckYours) -> None:
    yours.pick("mask-skipped-past")
    yours.run()
    for details in yours.report.locator("details").all():
        details.evaluate("details => { details.open = true; }")
    for scheme in ("light", "dark"):
        yours.page.emulate_media(color_scheme=scheme)
        expect_accessible(yours.page, None if scheme == "light" else CONTRAST)


def test_a_phone_scrolls_masks_in_their_own_box(yours: CheckYours) -> None:
    yours.page.set_viewport_size({"width": 320, "height": 640})
    wide = yours.text.replace("seen = keys <= rows", "seen = keys <= LONGEST + rows")
    yours.cells.write(TOTAL, wide)  # no mask: drawn with twelve columns
    yours.run()
    output = yours.cells.output(TOTAL)
    assert output.evaluate("box => box.scrollWidth <= box.clientWidth")
    expect(yours.report.locator(".matrix").first.locator("thead th")).to_have_count(13)
    widths = yours.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert widths == [320, 320]
    for box in yours.report.locator(".scroll").all():
        assert box.evaluate("box => box.getBoundingClientRect().right <= innerWidth")
    assert right_edge(yours.picker) <= 320


def right_edge(place: Locator) -> float:
    edge: float = place.evaluate("place => place.getBoundingClientRect().right")
    return edge


def test_on_paper_the_signs_are_dark(yours: CheckYours) -> None:
    yours.run()
    yours.page.emulate_media(media="print")
    cells = yours.report.locator(".matrix td")
    colours = cells.evaluate_all(
        "cells => cells.map((cell) => [getComputedStyle(cell).color, "
        "getComputedStyle(cell).backgroundColor].join())"
    )
    assert set(colours) == {"rgb(0, 0, 0),rgba(0, 0, 0, 0)"}
    expect(yours.picker).to_be_hidden()


def test_a_chinese_report_has_no_english_sentence(page: Page, site_url: str) -> None:
    page.add_init_script(SAVE_DATA)
    page.goto(f"{site_url}zh-hant/check.html#check-yours")
    page.get_by_role("button", name=f"執行第 {TOTAL} ").click()
    report = page.locator(".cells .report")
    expect(report).to_be_visible(timeout=PYTHON_STARTS)
    expect(report).to_contain_text("5 個 token 之後，3 個一塊，各查詢最遠看到 token")
    expect(report.locator("li[lang=en]")).to_have_count(0)
    assert report.locator("li").count() > 10
    page.locator("#specimen").select_option("alias-fork")
    source = page.locator(".cell:has(#specimen) pre.cell-source")
    expect(source).to_contain_text(re.compile("^# 分叉回傳的是同一個物件，選自錯誤標本庫。"))
    expect(page.locator(".specimens-said")).to_contain_text("「分叉回傳的是同一個物件」")
