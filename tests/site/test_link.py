"""The page's state in its address: links, reloads and Back bring it again; code is never run."""

import base64
import random
import re
import zlib
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.site.lab_page import DEFAULT, PYTHON_STARTS, SAVE_DATA, Lab, OpenPage, State, open_fold
from tests.site.test_page import expect_accessible

CODE = "print('a link', 6 * 7)"


@pytest.fixture
def open_lab(page: Page, site_url: str) -> Any:
    """Opens the page with something after its address."""
    page.add_init_script(SAVE_DATA)
    return lambda rest: Lab(page).open(site_url + rest)


def expect_search(page: Page, search: str) -> None:
    page.wait_for_function("search => location.search === search", arg=search)


def notices(page: Page) -> list[str]:
    return page.locator("#link-notice p").all_inner_texts()


def packed(text: str) -> str:
    """As site/js/packed.js packs it."""
    raw = zlib.compressobj(wbits=-15)
    data = raw.compress(text.encode()) + raw.flush()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


# --- Controls -----------------------------------------------------------------------------------


def test_a_link_brings_a_state_and_a_reload_brings_it_again(open_lab: Any) -> None:
    lab = open_lab("?P=12&C=6&dtype=float32&P=3")  # of two, the first counts
    lab.expect_state(State(12, 6, "float32"))
    assert lab.control_values() == State(12, 6, "float32")
    lab.page.reload()
    lab.expect_state(State(12, 6, "float32"))
    assert notices(lab.page) == []
    expect_search(lab.page, "?P=12&C=6&dtype=float32")


def test_settled_moves_are_in_the_address_and_back_takes_them_back(open_lab: Any) -> None:
    lab = open_lab("")
    expect_search(lab.page, "")
    lab.slider("n_past").press("ArrowRight")
    lab.slider("n_past").press("ArrowRight")
    expect_search(lab.page, "?P=6")
    lab.radio("float32").check()
    expect_search(lab.page, "?P=6&dtype=float32")
    lab.page.go_back()
    lab.expect_state(State(6, 2))
    lab.page.go_back()  # both steps of the slider at once
    lab.expect_state(DEFAULT)
    assert lab.control_values() == DEFAULT
    lab.page.go_forward()
    lab.expect_state(State(6, 2))
    expect(lab.slider("n_past")).to_have_attribute("aria-valuetext", "history 6")
    lab.page.wait_for_timeout(1000)  # what Back and Forward have moved is no new step
    lab.page.go_forward()
    lab.expect_state(State(6, 2, "float32"))


def test_the_default_needs_no_words(open_lab: Any) -> None:
    lab = open_lab("?P=4&C=2&dtype=float64")
    expect_search(lab.page, "")
    lab.expect_state(DEFAULT)


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ({"P": "99", "C": "many", "dtype": "int3"}, {"P": "32", "C": "2", "dtype": "float64"}),
        ({"P": "-1", "C": "<b>"}, {"P": "0", "C": "2"}),
        ({"P": "5.4", "C": ""}, {"P": "5", "C": "2"}),
    ],
)
def test_bad_values_are_clamped_and_said(
    open_lab: Any, asked: dict[str, str], shown: dict[str, str]
) -> None:
    lab = open_lab(f"?{urlencode(asked)}")
    lab.expect_state(State(int(shown["P"]), 2))
    expect(lab.page.locator("#link-notice")).to_be_visible()
    assert notices(lab.page) == [
        f"The link asked for {name}={value}; shown is {name}={shown[name]}."
        for name, value in asked.items()
    ]
    expect_search(lab.page, f"?P={shown['P']}")
    expect_accessible(lab.page)


def test_a_control_that_does_not_exist_is_said_and_other_peoples_words_stay(open_lab: Any) -> None:
    lab = open_lab("?mask.heads=3&source=mail")
    expect(lab.page.locator("#link-notice")).to_be_visible()
    assert notices(lab.page) == ["The link names mask.heads, which this page doesn't know."]
    expect_search(lab.page, "?source=mail")


def test_a_link_cannot_bury_the_page(open_lab: Any) -> None:
    names = [f"mask.{number}{'x' * 100}" for number in range(300)]
    lab = open_lab(f"?{urlencode(dict.fromkeys(names, '1'))}")
    expect(lab.page.locator("#link-notice p")).to_have_count(7)
    assert notices(lab.page)[-1] == "And 294 more of this kind."
    assert max(map(len, notices(lab.page))) < 120
    expect_search(lab.page, "")


def test_a_lab_below_gets_its_state_when_it_comes_near(open_lab: Any) -> None:
    lab = open_lab("?bug=pos-reset-rope")
    lab.slider("n_new").press("ArrowRight")
    lab.page.wait_for_function("() => new URLSearchParams(location.search).get('C') === '3'")
    blind = lab.page.locator("#blind-lab")
    blind.scroll_into_view_if_needed()
    expect(blind.get_by_role("combobox")).to_have_value("positions restart at 0: RoPE")
    words = lab.page.evaluate("() => Object.fromEntries(new URLSearchParams(location.search))")
    assert words == {"C": "3", "bug": "pos-reset-rope"}
    assert notices(lab.page) == []


def test_a_step_to_a_section_takes_no_move_back(open_lab: Any) -> None:
    lab = open_lab("")
    lab.slider("n_past").press("ArrowRight")
    lab.page.locator("#contents summary").click()
    lab.page.locator("#contents").get_by_role("link", name="What to test").click()  # not settled
    expect_search(lab.page, "?P=5")
    assert lab.page.evaluate("() => location.hash") == "#summary"
    lab.expect_state(State(5, 2))


def test_the_language_switch_keeps_state_section_and_edited_code(open_lab: Any) -> None:
    lab = open_lab("?P=9#breaking")
    open_fold(lab.page)
    cell(lab.page, 1).get_by_role("textbox").fill(CODE)
    lab.page.locator("#breaking").scroll_into_view_if_needed()
    lab.page.locator("#breaking").evaluate("place => place.scrollIntoView()")
    lab.page.get_by_role("link", name="简体中文").click()
    lab.page.wait_for_url(re.compile(r"/zh/\?P=9#[\w-]+~redraw=[\w-]+$"))
    lab.page.locator("#mask-lab").scroll_into_view_if_needed()
    expect(lab.state).to_have_text("P = 9，C = 2，float64")
    expect(cell(lab.page, 1).get_by_role("textbox")).to_have_text(CODE)


def test_a_notice_can_be_closed_and_goes_with_the_next_step(open_lab: Any) -> None:
    lab = open_lab("?P=99")
    assert len(notices(lab.page)) == 1
    lab.page.get_by_role("button", name="Close").click()
    expect(lab.page.locator("#link-notice")).to_be_hidden()
    lab.page.goto("about:blank")
    lab = open_lab("?P=99")
    assert len(notices(lab.page)) == 1
    lab.slider("n_past").press("ArrowLeft")
    expect_search(lab.page, "?P=31")
    lab.page.go_back()
    lab.expect_state(State(32, 2))
    expect(lab.page.locator("#link-notice")).to_be_hidden()


# --- Code ---------------------------------------------------------------------------------------


def cell(page: Page, number: int) -> Any:
    return page.locator("section.cell").nth(number - 1)


@pytest.fixture
def open_cells(page: Page, site_url: str) -> Any:
    """Opens the page of the proof, which has four cells, with something after its address."""
    page.add_init_script(SAVE_DATA)

    def opened(rest: str) -> Page:
        page.goto(f"{site_url}en/proof.html{rest}")
        expect(page.locator(".cm-editor")).to_have_count(4)
        return page

    return opened


def copy_link(page: Page, place: str) -> Locator:
    """Presses the button of a place; gives back what it says."""
    line = page.locator(f'[data-links="{place}"]')
    line.get_by_role("button", name="Copy link to this state").click()
    return line.get_by_role("status")


def test_a_copied_link_brings_edited_code_and_runs_nothing(
    open_page: OpenPage, site_url: str
) -> None:
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    page.add_init_script(SAVE_DATA)
    lab = Lab(page).open(f"{site_url}?P=7")
    open_fold(page)
    editor = cell(page, 1).get_by_role("textbox")
    editor.fill(CODE)
    expect(copy_link(page, "breaking")).to_have_text("Link copied.")
    link = page.evaluate("() => navigator.clipboard.readText()")
    assert re.fullmatch(re.escape(site_url) + r"\?P=7#breaking~redraw=[\w-]+", link)
    page.goto("about:blank")
    page.goto(link)
    expect(editor).to_have_text(CODE)
    assert notices(page) == ["The link brings code for cell 1. Read it before you run it."]
    assert page.workers == []
    expect(cell(page, 1).locator(".cell-output")).to_be_hidden()
    expect(page.locator("#breaking")).to_be_in_viewport()
    page.locator("#mask-lab").scroll_into_view_if_needed()
    lab.expect_state(State(7, 2))
    page.get_by_role("button", name="Run cell 1").click()
    expect(cell(page, 1).locator(".cell-output")).to_have_text("a link 42", timeout=PYTHON_STARTS)


@pytest.mark.parametrize("name", ["story", "blind"])
def test_a_copied_link_leads_to_its_lab(open_page: OpenPage, site_url: str, name: str) -> None:
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    page.add_init_script(SAVE_DATA)
    Lab(page).open(f"{site_url}#positions")
    expect(copy_link(page, f"{name}-lab")).to_have_text("Link copied.")
    assert page.evaluate("() => navigator.clipboard.readText()") == f"{site_url}#{name}-lab"


def test_code_to_embed_a_lab_shows_it_in_another_page(open_page: OpenPage, site_url: str) -> None:
    """Alone, at the state that was copied, as high as its frame; and Python waits to be asked."""
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    page.add_init_script(SAVE_DATA)
    Lab(page).open(f"{site_url}en/?P=7")
    line = page.locator('[data-links="mask-lab"]')
    line.get_by_role("button", name="Copy code to embed it").click()
    expect(line.get_by_role("status")).to_have_text("Code for an iframe copied.")
    code = page.evaluate("() => navigator.clipboard.readText()")
    assert f'src="{site_url}en/embed/mask.html?P=7"' in code
    other = open_page()
    other.route("**/other.html", lambda route: route.fulfill(body=code, content_type="text/html"))
    other.goto(f"{site_url}other.html")
    frame = other.frame_locator("iframe")
    expect(frame.locator('[data-readout="mask.state"]')).to_have_text(State(7, 2).label)
    expect(frame.locator("#mask-n_past").get_by_role("slider")).to_be_visible()
    inner = other.frames[1]
    assert inner.evaluate("() => document.body.scrollHeight <= innerHeight")
    assert inner.evaluate("() => document.documentElement.dataset.runtimeState") == "prebuilt"
    whole = frame.get_by_role("link", name="the whole page").get_attribute("href")
    assert whole == "../index.html#mask-lab"


def test_a_link_opened_in_a_tab_that_has_the_page_brings_its_code(open_cells: Any) -> None:
    page = open_cells("")
    editor = cell(page, 3).get_by_role("textbox")
    page.evaluate("hash => { location.hash = hash; }", f"#proof~token-by-token={packed('x = 1')}")
    expect(editor).to_have_text("x = 1")
    code = packed("x = 2  # 缓存")
    page.evaluate("hash => { location.hash = hash; }", f"#proof%7Etoken-by-token={code}")
    expect(editor).to_have_text("x = 2  # 缓存")
    assert notices(page) == ["The link brings code for cell 3. Read it before you run it."]
    page.reload()
    expect(editor).to_have_text("x = 2  # 缓存")
    editor.fill("x = 3")  # and the address must not say any more that it is "x = 2"
    page.wait_for_function("() => location.hash === '#proof'")


def test_of_two_cells_of_a_link_the_one_that_is_not_edited_stays_in_the_address(
    open_cells: Any,
) -> None:
    kept = f"token-by-token={packed('x = 1')}"
    page = open_cells(f"#proof~{kept}~exercise={packed('y = 1')}")
    expect(cell(page, 4).get_by_role("textbox")).to_have_text("y = 1")
    cell(page, 4).get_by_role("textbox").fill("y = 2")
    page.wait_for_function("hash => location.hash === hash", arg=f"#proof~{kept}")
    cell(page, 3).get_by_role("textbox").fill("x = 2")
    page.wait_for_function("() => location.hash === '#proof'")


UNSEEN = [0x00, 0x1B, 0xAD, 0x61C, 0x115F, 0x200B, *range(0x200E, 0x2010), *range(0x2028, 0x202F)]
UNSEEN += [0x2060, *range(0x2066, 0x206A), 0x3164, 0xFE0F, 0xFEFF, 0xE0041]


def test_code_that_a_link_brings_hides_nothing(open_cells: Any) -> None:
    """Text from right to left, and characters without a shape, are shown by number."""
    code = "\n".join(f"x = 'a{chr(code)}b'" for code in UNSEEN)
    page = open_cells(f"#cells-section~exercise={packed(code)}")
    shown = cell(page, 4).locator(".cm-content .hidden-character")
    expect(shown).to_have_text([f"U+{code:04X}" for code in UNSEEN])
    assert notices(page) == [
        "The link brings code for cell 4. Read it before you run it. Characters in it that can't "
        f"be seen: {len(UNSEEN)}. The cell shows each by its number, as U+202E."
    ]
    expect_accessible(page)


def test_plain_code_has_nothing_to_show_by_number(open_cells: Any) -> None:
    code = packed("if 1:\n\tx = 'é 缓存 😀 \u05d0\u0628'")
    page = open_cells(f"#cells-section~exercise={code}")
    expect(cell(page, 4).get_by_role("textbox")).to_contain_text("缓存")
    assert len(notices(page)) == 1
    assert "can't be seen" not in notices(page)[0]
    expect(cell(page, 4).locator(".hidden-character")).to_have_count(0)


def test_a_browser_that_cannot_pack_code_says_so_and_copies_the_rest(
    open_page: OpenPage, site_url: str
) -> None:
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    page.add_init_script(SAVE_DATA)
    page.add_init_script("delete window.CompressionStream;")
    Lab(page).open(f"{site_url}?P=7#~redraw={packed('x = 1')}")
    assert notices(page) == ["This browser is too old for code in links."]
    open_fold(page)
    cell(page, 1).get_by_role("textbox").fill(CODE)
    expect(copy_link(page, "breaking")).to_have_text(
        "Link copied. This browser is too old for code in links."
    )
    assert page.evaluate("() => navigator.clipboard.readText()") == f"{site_url}?P=7#breaking"


def test_without_the_clipboard_the_link_stands_there_to_be_copied(
    open_page: OpenPage, site_url: str
) -> None:
    page = open_page()
    page.add_init_script(SAVE_DATA)
    page.add_init_script(
        "navigator.clipboard.write = () => Promise.reject(new Error('not permitted'));"
    )
    Lab(page).open(f"{site_url}?P=7")
    copy_link(page, "mask-lab")
    field = page.get_by_role("textbox", name="Copy link to this state")
    expect(field).to_have_value(f"{site_url}?P=7#mask-lab")


def test_code_that_cannot_be_used_is_said_and_changes_nothing(open_cells: Any) -> None:
    """Damaged, strange letters, none, a bomb, too long; and a cell that isn't there."""
    codes = ["AAAA", "not*base64", "", packed("#" * 200_000), "A" * 9000]
    hashed = "".join(f"~exercise={code}" for code in codes)
    page = open_cells(f"#cells-section{hashed}~no-such-cell={packed('1')}")
    expect(page.locator("#link-notice p")).to_have_count(2)
    unread, unknown = notices(page)
    assert "can't be read" in unread
    assert "names no-such-cell" in unknown
    expect(cell(page, 4).get_by_role("textbox")).to_contain_text("from kvlab import exercise")


def test_code_too_long_for_a_link_is_left_out_and_said(open_cells: Any) -> None:
    page = open_cells("")
    noise = random.Random(0).randbytes(8000).hex()
    cell(page, 1).get_by_role("textbox").fill(noise)
    expect(copy_link(page, "cells-section")).to_contain_text("too long for a link")


# --- A broken decoder by name ---------------------------------------------------------------------


def test_a_card_of_the_museum_opens_its_specimen_in_the_checkers_cell(
    page: Page, site_url: str
) -> None:
    page.add_init_script(SAVE_DATA)
    page.goto(f"{site_url}en/museum.html#alias")
    page.get_by_role("link", name="Open alias-fork in the checker's cell").click()
    expect(page.locator("#specimen")).to_have_value("alias-fork")
    expect(page.locator(".specimens-said")).to_have_text("alias-fork is loaded. Run the cell.")
    cell = page.locator("section.cell").last
    expect(cell).to_contain_text("kvproof.check(AliasFork())")
    expect(cell.locator(".cm-editor")).to_be_in_viewport()
    assert notices(page) == [], "the picker says it"
    page.reload()
    expect(page.locator("#specimen")).to_have_value("alias-fork")
    page.locator("section.cell").last.locator(".cm-content").press("End")
    page.keyboard.type(" ")  # another text than the address names
    page.wait_for_function("location.hash === '#check-yours'")


@pytest.mark.parametrize("asked", ["check-yours=zoo:alias-spoon", "spare=zoo:alias-fork"])
def test_a_specimen_or_a_cell_that_does_not_exist_is_said(
    page: Page, site_url: str, asked: str
) -> None:
    page.goto(f"{site_url}en/check.html#check-yours~{asked}")
    expect(page.locator("#link-notice")).to_be_visible()
    shown = asked.replace("zoo:", "")
    assert notices(page) == [f"The link names {shown}, which this page doesn't know."]
    expect(page.locator("#specimen")).to_have_value("")


MOVED = {
    "?P=8#check-yours~check-yours=zoo:alias-fork": "check",
    "#~token-by-token=x": "proof",
    "#cells-section": "proof",
    "?P=9&dtype=float32#layers": "proof",
    "#exercise-mask": "proof",
    "#exercise-memory": "costs",
    "?memory.dtype=int8": "costs",
    "?window.tokens=7#window-lab": "storages",
    "#variants": "storages",
    "#timings": "costs",
}
"""What is after an old address of the first page -> the page that it means now."""


@pytest.mark.parametrize("home", ["", "en/", "zh-hant/", "zh/index.html"])
@pytest.mark.parametrize("rest", MOVED)
def test_an_old_address_leads_to_the_new_place(
    page: Page, site_url: str, home: str, rest: str
) -> None:
    page.add_init_script(SAVE_DATA)
    page.goto(f"{site_url}{home}{rest}")
    folder = home.split("/")[0] or "en"
    page.wait_for_url(f"{site_url}{folder}/{MOVED[rest]}.html{rest}")
    section = rest.partition("#")[2].split("~")[0]
    if section:
        expect(page.locator(f"#{section}")).to_be_in_viewport()


STAYS = ["#mask-lab", "?P=8&C=3#notice", "?bug=pos-reset-rope", "#check-yours", "#no-such", ""]


@pytest.mark.parametrize("rest", STAYS)
def test_what_is_still_there_leads_nowhere_else(page: Page, site_url: str, rest: str) -> None:
    page.add_init_script(SAVE_DATA)
    Lab(page).open(f"{site_url}en/{rest}")
    assert page.url == f"{site_url}en/{rest}"


def test_so_does_one_that_is_opened_in_the_first_page(open_lab: Any, site_url: str) -> None:
    page = open_lab("#check-yours").page
    page.evaluate("location.hash = '#check-yours%7Echeck-yours=zoo:alias-fork'")
    expect(page.locator("#specimen")).to_have_value("alias-fork")


def test_without_scripts_an_old_address_lands_where_the_way_on_is(
    open_page: OpenPage, site_url: str
) -> None:
    page = open_page(java_script_enabled=False)
    for section in ("layers", "timings", "window-lab"):
        page.goto(f"{site_url}en/#{section}")
        link = page.locator(f"#{section}")
        expect(link).to_be_in_viewport()
        assert (link.get_attribute("href") or "").endswith(f".html#{section}")
