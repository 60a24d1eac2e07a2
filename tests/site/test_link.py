"""The page's state in its address: links, reloads and Back bring it again; code is never run."""

import base64
import random
import re
import zlib
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect
from tests.site.lab_page import DEFAULT, PYTHON_STARTS, SAVE_DATA, Lab, OpenPage, State
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
    lab = open_lab("?memory.dtype=int8&bug=pos-reset-rope")
    lab.slider("n_new").press("ArrowRight")
    lab.page.wait_for_function("() => new URLSearchParams(location.search).get('C') === '3'")
    blind, memory = (lab.page.locator(f"#{name}-lab") for name in ("blind", "memory"))
    blind.scroll_into_view_if_needed()
    expect(blind.get_by_role("combobox")).to_have_value("positions restart at 0: RoPE")
    memory.scroll_into_view_if_needed()
    expect(memory.get_by_role("radio", name="int8")).to_be_checked()
    words = lab.page.evaluate("() => Object.fromEntries(new URLSearchParams(location.search))")
    assert words == {"C": "3", "bug": "pos-reset-rope", "memory.dtype": "int8"}
    assert notices(lab.page) == []


def test_a_step_to_a_section_takes_no_move_back(open_lab: Any) -> None:
    lab = open_lab("")
    lab.slider("n_past").press("ArrowRight")
    lab.page.get_by_role("link", name="Proof", exact=True).click()  # before the move has settled
    expect_search(lab.page, "?P=5")
    assert lab.page.evaluate("() => location.hash") == "#proof"
    lab.expect_state(State(5, 2))


def test_the_language_switch_keeps_state_section_and_edited_code(open_lab: Any) -> None:
    lab = open_lab("?P=9#proof")
    cell(lab.page, 2).get_by_role("textbox").fill(CODE)
    lab.page.get_by_role("link", name="简体中文").click()
    lab.page.wait_for_url(re.compile(r"/zh/\?P=9#proof~mask-for-any-lengths=[\w-]+$"))
    lab.page.locator("#mask-lab").scroll_into_view_if_needed()
    expect(lab.state).to_have_text("P = 9，C = 2，float64")
    expect(cell(lab.page, 2).get_by_role("textbox")).to_have_text(CODE)


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


def test_a_copied_link_brings_edited_code_and_runs_nothing(
    open_page: OpenPage, site_url: str
) -> None:
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    page.add_init_script(SAVE_DATA)
    lab = Lab(page).open(f"{site_url}?P=7#cells-section")
    editor = cell(page, 2).get_by_role("textbox")
    editor.fill(CODE)
    page.get_by_role("button", name="Copy link to this state").click()
    expect(page.get_by_text("Link copied.")).to_be_visible()
    link = page.evaluate("() => navigator.clipboard.readText()")
    assert re.fullmatch(
        re.escape(site_url) + r"\?P=7#cells-section~mask-for-any-lengths=[\w-]+", link
    )
    page.goto("about:blank")
    page.goto(link)
    expect(editor).to_have_text(CODE)
    assert notices(page) == ["The link brings code for cell 2. Read it before you run it."]
    assert page.workers == []
    expect(cell(page, 2).locator(".cell-output")).to_be_hidden()
    expect(page.get_by_role("heading", name="Rerun it yourself")).to_be_in_viewport()
    page.locator("#mask-lab").scroll_into_view_if_needed()
    lab.expect_state(State(7, 2))
    page.get_by_role("button", name="Run cell 2").click()
    expect(cell(page, 2).locator(".cell-output")).to_have_text("a link 42", timeout=PYTHON_STARTS)


@pytest.mark.parametrize("section", ["costs", "blind-lab", "not"])
def test_a_copied_link_names_the_section_that_is_read(
    open_page: OpenPage, site_url: str, section: str
) -> None:
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    page.add_init_script(SAVE_DATA)
    Lab(page).open(f"{site_url}#proof")
    page.locator(f"#{section}").evaluate("place => place.scrollIntoView({ behavior: 'instant' })")
    page.get_by_role("button", name="Copy link to this state").click()
    expect(page.get_by_text("Link copied.")).to_be_visible()
    assert page.evaluate("() => navigator.clipboard.readText()") == f"{site_url}#{section}"


def test_a_link_opened_in_a_tab_that_has_the_page_brings_its_code(open_lab: Any) -> None:
    lab = open_lab("")
    page, editor = lab.page, cell(lab.page, 3).get_by_role("textbox")
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
    open_lab: Any,
) -> None:
    kept = f"token-by-token={packed('x = 1')}"
    lab = open_lab(f"#proof~{kept}~exercise={packed('y = 1')}")
    expect(cell(lab.page, 4).get_by_role("textbox")).to_have_text("y = 1")
    cell(lab.page, 4).get_by_role("textbox").fill("y = 2")
    lab.page.wait_for_function("hash => location.hash === hash", arg=f"#proof~{kept}")
    cell(lab.page, 3).get_by_role("textbox").fill("x = 2")
    lab.page.wait_for_function("() => location.hash === '#proof'")


UNSEEN = [0x00, 0x1B, 0xAD, 0x61C, 0x115F, 0x200B, *range(0x200E, 0x2010), *range(0x2028, 0x202F)]
UNSEEN += [0x2060, *range(0x2066, 0x206A), 0x3164, 0xFE0F, 0xFEFF, 0xE0041]


def test_code_that_a_link_brings_hides_nothing(open_lab: Any) -> None:
    """Text from right to left, and characters without a shape, are shown by number."""
    code = "\n".join(f"x = 'a{chr(code)}b'" for code in UNSEEN)
    lab = open_lab(f"#cells-section~exercise={packed(code)}")
    shown = cell(lab.page, 4).locator(".cm-content .hidden-character")
    expect(shown).to_have_text([f"U+{code:04X}" for code in UNSEEN])
    assert notices(lab.page) == [
        "The link brings code for cell 4. Read it before you run it. Characters in it that can't "
        f"be seen: {len(UNSEEN)}. The cell shows each by its number, as U+202E."
    ]
    expect_accessible(lab.page)


def test_plain_code_has_nothing_to_show_by_number(open_lab: Any) -> None:
    code = packed("if 1:\n\tx = 'é 缓存 😀 \u05d0\u0628'")
    lab = open_lab(f"#cells-section~exercise={code}")
    expect(cell(lab.page, 4).get_by_role("textbox")).to_contain_text("缓存")
    assert len(notices(lab.page)) == 1
    assert "can't be seen" not in notices(lab.page)[0]
    expect(cell(lab.page, 4).locator(".hidden-character")).to_have_count(0)


def test_a_browser_that_cannot_pack_code_says_so_and_copies_the_rest(
    open_page: OpenPage, site_url: str
) -> None:
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    page.add_init_script(SAVE_DATA)
    page.add_init_script("delete window.CompressionStream;")
    Lab(page).open(f"{site_url}?P=7#~exercise={packed('x = 1')}")
    assert notices(page) == ["This browser is too old for code in links."]
    cell(page, 3).get_by_role("textbox").fill(CODE)
    page.get_by_role("button", name="Copy link to this state").click()
    said = page.locator("#copy-link-said")
    expect(said).to_have_text("Link copied. This browser is too old for code in links.")
    assert page.evaluate("() => navigator.clipboard.readText()") == f"{site_url}?P=7#cells-section"


def test_without_the_clipboard_the_link_stands_there_to_be_copied(
    open_page: OpenPage, site_url: str
) -> None:
    page = open_page()
    page.add_init_script(SAVE_DATA)
    page.add_init_script(
        "navigator.clipboard.write = () => Promise.reject(new Error('not permitted'));"
    )
    Lab(page).open(f"{site_url}?P=7")
    page.get_by_role("button", name="Copy link to this state").click()
    field = page.get_by_role("textbox", name="Copy link to this state")
    expect(field).to_have_value(f"{site_url}?P=7#mask-lab")


def test_code_that_cannot_be_used_is_said_and_changes_nothing(open_lab: Any) -> None:
    """Damaged, strange letters, none, a bomb, too long; and a cell that isn't there."""
    codes = ["AAAA", "not*base64", "", packed("#" * 200_000), "A" * 9000]
    hashed = "".join(f"~exercise={code}" for code in codes)
    lab = open_lab(f"#cells-section{hashed}~no-such-cell={packed('1')}")
    expect(lab.page.locator("#link-notice p")).to_have_count(2)
    unread, unknown = notices(lab.page)
    assert "can't be read" in unread
    assert "names no-such-cell" in unknown
    expect(cell(lab.page, 4).get_by_role("textbox")).to_contain_text("from kvlab import exercise")


def test_code_too_long_for_a_link_is_left_out_and_said(open_lab: Any) -> None:
    lab = open_lab("?P=7")
    noise = random.Random(0).randbytes(8000).hex()
    cell(lab.page, 1).get_by_role("textbox").fill(noise)
    lab.page.get_by_role("button", name="Copy link to this state").click()
    expect(lab.page.locator("#copy-link-said")).to_contain_text("too long for a link")


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


@pytest.mark.parametrize("home", ["", "en/", "zh-hant/", "zh/index.html"])
def test_where_the_checker_was_a_link_leads_to_its_page(
    page: Page, site_url: str, home: str
) -> None:
    page.add_init_script(SAVE_DATA)
    page.goto(f"{site_url}{home}?P=8#check-yours~check-yours=zoo:alias-fork")
    folder = home.split("/")[0] or "en"
    expect(page.locator("#specimen")).to_have_value("alias-fork")
    assert page.url == f"{site_url}{folder}/check.html#check-yours~check-yours=zoo:alias-fork"


def test_so_does_one_that_is_opened_in_the_article(open_lab: Any, site_url: str) -> None:
    page = open_lab("#check-yours").page
    expect(page.locator("#check-yours ~ p a[href$='check.html']").first).to_be_visible()
    assert page.url == f"{site_url}#check-yours", "the section is still there, and leads on"
    page.evaluate("location.hash = '#check-yours%7Echeck-yours=zoo:alias-fork'")
    expect(page.locator("#specimen")).to_have_value("alias-fork")
