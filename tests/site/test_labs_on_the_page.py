"""Every lab of the article in a real browser, and a mask of the visitor's own in the mask lab."""

import json
import random
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from tests.site.conftest import check_errors, record_errors
from tests.site.lab_page import DTYPES, PYTHON_STARTS, Lab, OpenPage, State
from tests.site.test_page import expect_accessible

from kvlab.labs import LABS
from kvproof import mask_result
from kvsite.labs import readouts
from kvsite.paths import BUILD, DIST
from kvsite.words import TEXTS, load_catalogue

OTHERS = [name for name in LABS if name != "mask"]
WORDS = load_catalogue(TEXTS / "en.toml")
SCREENSHOTS = BUILD / "screenshots"

labs = pytest.mark.parametrize("name", OTHERS)


@pytest.fixture(scope="module")
def article(browser: Browser, site_url: str) -> Any:
    """The English page with all labs live."""
    errors: list[str] = []
    with browser.new_context(service_workers="block") as context:
        record_errors(context, errors)
        page = context.new_page()
        page.goto(site_url + "en/")
        for name in OTHERS:
            page.locator(f"#{name}-lab").scroll_into_view_if_needed()
            expect(source(page, name)).to_have_text(
                WORDS.say("runtime.live-equal"), timeout=PYTHON_STARTS
            )
        yield page
    check_errors(errors, [])


def source(page: Page, name: str) -> Any:
    return page.locator(f'[data-source="{name}"]')


def lab_data(name: str) -> dict[str, Any]:
    """Its document and its table, as the site has them."""
    [file] = (DIST / "assets").glob(f"{name}_lab.*.json")
    data: dict[str, Any] = json.loads(file.read_text())
    return data


def states_of(data: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(control values, outputs) of all its states."""
    widgets, outputs = data["description"]["widgets"], data["description"]["outputs"]
    found = []
    for key, indices in data["table"]["states"].items():
        values = dict(zip(widgets, key.split(","), strict=True))
        shown = [data["table"]["pool"][index] for index in indices]
        found.append((values, dict(zip(outputs, shown, strict=True))))
    return found


MOVE = """
([widgets, values]) => {
  const id = Object.values(widgets)[0].id;
  const doc = Bokeh.documents.find((doc) => doc.get_model_by_id(id));
  for (const [name, { id, attr }] of Object.entries(widgets)) {
    const model = doc.get_model_by_id(id);
    model[attr] = typeof model[attr] === "number" ? Number(values[name]) : values[name];
  }
}
"""
READ = """
(outputs) => {
  const id = Object.values(outputs)[0].id;
  const doc = Bokeh.documents.find((doc) => doc.get_model_by_id(id));
  const plain = (value) => value instanceof Map ? Object.fromEntries(value) : value;
  return JSON.stringify(Object.fromEntries(
    Object.entries(outputs).map(([name, { id, attr }]) =>
      [name, plain(doc.get_model_by_id(id)[attr])])));
}
"""


@labs
def test_live_answers_and_what_is_drawn_equal_the_prebuilt_states(article: Page, name: str) -> None:
    """Moved by a script through a few states: all outputs, to the last bit, and all texts."""
    data = lab_data(name)
    description = data["description"]
    chosen = random.Random(name).sample(states_of(data), 4)
    for values, outputs in chosen:
        article.evaluate(MOVE, [description["widgets"], values])
        for key, readout in readouts(outputs["texts"], WORDS).items():
            for place in article.locator(f'[data-readout="{name}.{key}"]').all():
                expect(place).to_have_text(readout["text"])
        drawn = json.loads(article.evaluate(READ, description["outputs"]))
        assert drawn == outputs, values


@labs
def test_a_table_twin_has_what_is_drawn(article: Page, name: str) -> None:
    twins = article.locator(f'#{name}-lab table[data-twin^="{name}."]')
    assert twins.count() >= 1
    drawn = json.loads(article.evaluate(READ, lab_data(name)["description"]["outputs"]))
    for twin in twins.all():
        output = (twin.get_attribute("data-twin") or "").partition(".")[2]
        columns = (twin.get_attribute("data-columns") or "").split()
        rows = twin.locator("tbody tr").count()
        if columns:
            assert rows == len(drawn[output][columns[0]])
        else:
            row, column, value = (twin.get_attribute("data-matrix") or "").split()
            assert rows == len(set(drawn[output][row]))
            cells = twin.locator("tbody td").count()
            assert cells == len(drawn[output][value]) == rows * len(set(drawn[output][column]))


@labs
def test_keys_change_a_control_and_the_summary_is_spoken(article: Page, name: str) -> None:
    lab = article.locator(f"#{name}-lab")
    live = lab.locator('[aria-live="polite"]')
    assert live.count() >= 1
    before = lab.inner_text()
    control = lab.locator('[role="slider"], input[type="radio"], select').first
    control.focus()
    article.keyboard.press("ArrowRight")
    article.wait_for_timeout(1_000)
    if lab.inner_text() == before:  # it stood at its end
        article.keyboard.press("ArrowLeft")
    expect(lab).not_to_have_text(before, use_inner_text=True)
    for slider in lab.get_by_role("slider").all():
        assert slider.get_attribute("aria-label")
        assert slider.get_attribute("aria-valuetext")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_whole_article_is_accessible_and_its_labs_are_kept_as_pictures(
    article: Page, scheme: Any
) -> None:
    """The pictures are for people: build/screenshots."""
    article.emulate_media(color_scheme=scheme)
    expect_accessible(article)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for name in LABS:
        lab = article.locator(f"#{name}-lab")
        lab.scroll_into_view_if_needed()
        lab.screenshot(path=SCREENSHOTS / f"{name}-{scheme}.png")
    article.emulate_media(color_scheme=None)


def test_a_lab_whose_table_is_missing_says_so_and_keeps_its_default(
    open_page: OpenPage, site_url: str, expected_errors: list[str]
) -> None:
    expected_errors.append("404")
    page = open_page()
    page.route("**/blind_lab.*.json", lambda route: route.fulfill(status=404))
    page.goto(site_url + "en/")
    page.locator("#blind-lab").scroll_into_view_if_needed()
    expect(source(page, "blind")).to_contain_text("the server answered 404")
    expect(page.locator("#blind-lab table").first).to_be_attached()


# --- Something of the visitor's own ---------------------------------------------------------------


@pytest.fixture
def redrawn(page: Page, site_url: str) -> Lab:
    """A live lab that shows the mask of the cell about it."""
    lab = Lab(page).open(site_url + "en/")
    lab.expect_runtime("live")
    redraw_cell(page).get_by_role("button", name="Run cell").click()
    expect(own_title(page)).to_have_text(WORDS.say("mask.own.mask-title"), timeout=PYTHON_STARTS)
    return lab


def redraw_cell(page: Page) -> Locator:
    return page.locator('section.cell[data-cell="redraw"]')


def own_title(page: Page) -> Locator:
    return page.locator('[data-own="title"]')


def test_a_mask_from_a_cell_is_drawn_and_taken_away_again(redrawn: Lab) -> None:
    lab, page = redrawn, redrawn.page
    expect(redraw_cell(page)).to_contain_text("Wrong", ignore_case=True)
    for state in (State(4, 2), State(7, 3, "float32")):
        lab.move_to(state)
        expected = own_result(state)
        expect(lab.readout("hidden-keys")).to_have_text(str(expected.wrongly_hidden_keys))
        assert lab.value("top-left-error") == pytest.approx(expected.max_abs_error, rel=1e-4)
    back = page.get_by_role("button", name=WORDS.say("mask.own.back"))
    back.click()
    expect(own_title(page)).to_have_text(WORDS.say("mask.top-left-title"))
    expect(lab.readout("hidden-keys")).to_have_text("21")
    expect(back).to_be_hidden()


def own_result(state: State) -> Any:
    def last_three(n_past: int, n_new: int) -> Any:
        import numpy as np

        query = n_past + np.arange(n_new)[:, None]
        key = np.arange(n_past + n_new)
        return (key <= query) & (key > query - 3)

    assert state.dtype in DTYPES
    return mask_result(last_three, *state)


def test_a_restart_of_the_cells_takes_it_away_as_well(redrawn: Lab) -> None:
    page = redrawn.page
    page.get_by_role("button", name="Restart").click()
    expect(own_title(page)).to_have_text(WORDS.say("mask.top-left-title"))
    expect(redrawn.readout("hidden-keys")).to_have_text("8")
