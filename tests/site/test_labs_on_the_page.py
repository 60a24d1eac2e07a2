"""Every lab of the article in a real browser."""

import json
import random
import re
from collections.abc import Iterator
from html import unescape
from itertools import islice
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from tests.site.conftest import check_errors, record_errors
from tests.site.lab_page import (
    FILE_OF_LAB,
    LAB_FILES,
    PICTURES_ARE_TABLES,
    PYTHON_STARTS,
    SAVE_DATA,
    Lab,
    OpenPage,
    twin_rows,
)
from tests.site.test_page import CONTRAST, expect_accessible

from kvlab.labs import LABS
from kvsite.labs import readouts
from kvsite.languages import ENGLISH, words_of
from kvsite.paths import DIST

FIRST = "story"
"""Of the first page."""
WORDS = words_of(ENGLISH)

CONTROL = '[role="slider"], input[type="radio"], select'

labs = pytest.mark.parametrize("name", LABS)


@pytest.fixture(scope="module")
def articles(browser: Browser, site_url: str) -> Iterator[dict[str, Page]]:
    """File -> the English page with all its labs live."""
    errors: list[str] = []
    with browser.new_context(service_workers="block") as context:
        record_errors(context, errors)
        yield {file: live_page(context.new_page(), site_url, file) for file in LAB_FILES}
    check_errors(errors, [])


def live_page(page: Page, site_url: str, file: str) -> Page:
    page.goto(f"{site_url}en/{file}")
    for lab in page.locator("[data-lab]").all():
        lab.scroll_into_view_if_needed()
        expect(lab.locator(CONTROL).first).to_be_visible()
    expect(page.locator("[data-lab]:not([data-live])")).to_have_count(0, timeout=PYTHON_STARTS)
    expect(page.locator("html")).to_have_attribute("data-live-equals-prebuilt", "true")
    return page


@pytest.fixture
def article(articles: dict[str, Page], name: str) -> Page:
    """The page of the lab ``name``."""
    return articles[FILE_OF_LAB[name]]


def source(page: Page, name: str) -> Any:
    return page.locator(f'[data-source="{name}"]')


def expect_texts(page: Page, name: str, outputs: dict[str, Any]) -> None:
    """All read-outs and sentences of a state are on the page."""
    for key, readout in readouts(outputs["texts"], WORDS).items():
        for place in page.locator(f'[data-readout="{name}.{key}"]').all():
            expect(place).to_have_text(readout["text"])


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


def initial_outputs(data: dict[str, Any]) -> dict[str, Any]:
    initial = [str(value) for value in data["initial"].values()]
    [outputs] = [o for values, o in states_of(data) if list(values.values()) == initial]
    return outputs


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
  const plain = (value, attr) => {
    if (value instanceof Map) return Object.fromEntries(value);
    return attr === "data" ? value : value?.value ?? value; // a glyph's size is {value: 16}
  };
  return JSON.stringify(Object.fromEntries(
    Object.entries(outputs).map(([name, { id, attr }]) =>
      [name, plain(doc.get_model_by_id(id)[attr], attr)])));
}
"""


def expect_drawn(page: Page, description: dict[str, Any], outputs: dict[str, Any]) -> None:
    """Python's answer arrives: texts alone don't tell, since two states may say the same."""
    for _ in range(100):
        drawn = json.loads(page.evaluate(READ, description["outputs"]))
        if drawn == outputs:
            return
        page.wait_for_timeout(100)
    assert drawn == outputs


@labs
def test_live_answers_and_what_is_drawn_equal_the_prebuilt_states(article: Page, name: str) -> None:
    """Moved by a script through a few states: all outputs, to the last bit, and all texts."""
    data = lab_data(name)
    description = data["description"]
    chosen = random.Random(name).sample(states_of(data), 4)
    for values, outputs in chosen:
        article.evaluate(MOVE, [description["widgets"], values])
        expect_drawn(article, description, outputs)
        expect_texts(article, name, outputs)


@labs
def test_a_table_twin_has_what_is_drawn(article: Page, name: str) -> None:
    """Each of its cells, after a move while it was folded and after one while it was open."""
    data = lab_data(name)
    twins = article.locator(f'#{name}-lab details table[data-twin^="{name}."]')
    if name not in PICTURES_ARE_TABLES:
        assert twins.count() >= 1
    article.locator(f"#{name}-lab details").evaluate_all(
        "folds => folds.forEach((fold) => { fold.open = false; })"
    )
    for values, outputs in random.Random(name).sample(states_of(data), 2):
        article.evaluate(MOVE, [data["description"]["widgets"], values])
        expect_drawn(article, data["description"], outputs)
        drawn = json.loads(article.evaluate(READ_TEXTS, data["description"]["outputs"]))
        for twin in twins.all():
            assert twin_rows(twin) == rows_of(twin, drawn, data["marks"])


READ_TEXTS = """
(outputs) => {
  const id = Object.values(outputs)[0].id;
  const doc = Bokeh.documents.find((doc) => doc.get_model_by_id(id));
  const texts = ([column, values]) => [column, [...values].map(String)];
  return JSON.stringify(Object.fromEntries(
    Object.entries(outputs).filter(([, { attr }]) => attr === "data").map(([name, { id }]) =>
      [name, Object.fromEntries(
        Object.entries(doc.get_model_by_id(id).data).filter(([, v]) => v.length).map(texts))])));
}
"""
"""The columns of each data source, as texts."""


def rows_of(twin: Locator, drawn: dict[str, Any], marks: dict[str, str]) -> list[list[str]]:
    """The rows that a twin must have, its headings included."""
    columns = drawn[(twin.get_attribute("data-twin") or "").partition(".")[2]]
    names = (twin.get_attribute("data-columns") or "").split()
    if names:
        worded = (twin.get_attribute("data-words") or "").split()
        said = {name: [value and WORDS[value] for value in columns[name]] for name in worded}
        first, *others = ((columns | said)[name] for name in names)
        body = [[marks.get(value, value) for value in column] for column in others]
        return [list(row) for row in zip(first, *body, strict=True)]
    row, column, value = (twin.get_attribute("data-matrix") or "").split()
    headings = list(dict.fromkeys(columns[row]))
    width = len(set(columns[column]))
    cells = iter([marks.get(value, value) for value in columns[value]])
    named = json.loads(twin.get_attribute("data-names") or "{}")
    return [[named.get(heading, heading), *islice(cells, width)] for heading in headings]


@labs
def test_keys_change_every_control_and_the_summary_is_spoken(article: Page, name: str) -> None:
    lab = article.locator(f"#{name}-lab")
    assert lab.locator('[aria-live="polite"]').count() >= 1
    data = lab_data(name)
    outputs, widgets = data["description"]["outputs"], data["description"]["widgets"]
    controls = lab.locator('[role="slider"], input[type="radio"]:checked, select').all()
    assert len(controls) == len(widgets)
    for control in controls:
        article.evaluate(MOVE, [widgets, data["initial"]])
        expect_texts(article, name, initial_outputs(data))
        before = article.evaluate(READ, outputs)
        control.focus()
        # Back and further back: at its end, and where more is as good as much, a key shows nothing.
        for key in ("ArrowDown", "ArrowUp", "ArrowUp"):
            article.keyboard.press(key)
            if changed(article, outputs, before):
                break
        else:
            pytest.fail(f"keys don't move {control}")
    for slider in lab.get_by_role("slider").all():
        assert slider.get_attribute("aria-label")
        assert slider.get_attribute("aria-valuetext")
    for control, declared in data["page"]["controls"].items():
        if declared["kind"] == "radio":
            group = lab.get_by_role("group", name=WORDS[declared["title"]])
            expect(group.locator(f"#{name}-{control}")).to_be_attached()


def changed(page: Page, outputs: dict[str, Any], before: str) -> bool:
    """True as soon as the lab's outputs are others."""
    for _ in range(30):
        if page.evaluate(READ, outputs) != before:
            return True
        page.wait_for_timeout(100)
    return False


@pytest.mark.parametrize("file", LAB_FILES)
def test_a_live_page_is_accessible(articles: dict[str, Page], file: str) -> None:
    """With the tables of one lab open."""
    article = articles[file]
    article.locator("[data-lab]").last.locator("details").evaluate_all(
        "folds => folds.forEach((fold) => { fold.open = true; })"
    )
    for name in (name for name in LABS if FILE_OF_LAB[name] == file):
        data = lab_data(name)
        article.evaluate(MOVE, [data["description"]["widgets"], data["initial"]])
    for scheme in ("light", "dark"):
        article.emulate_media(color_scheme=scheme)
        expect_accessible(article, None if scheme == "light" else CONTRAST)
    article.emulate_media(color_scheme=None)


def test_without_scripts_every_lab_can_be_read_and_nothing_is_empty(
    open_page: OpenPage, site_url: str
) -> None:
    """Sentences, read-outs and tables of the default; no place that only a script would fill."""
    page = open_page(java_script_enabled=False)
    for name in LABS:
        if not page.url.endswith(f"/en/{FILE_OF_LAB[name]}"):
            page.goto(f"{site_url}en/{FILE_OF_LAB[name]}")
        lab, data = page.locator(f"#{name}-lab"), lab_data(name)
        outputs = initial_outputs(data)
        expect_texts(page, name, outputs)
        for region in lab.get_by_role("region").all():
            assert region.inner_text().strip(), f"{name}: an empty region"
        assert lab.locator("table:visible").count() >= 1
        drawn = {
            output: {column: list(map(str, values)) for column, values in columns.items()}
            for output, columns in outputs.items()
            if isinstance(columns, dict)
        }
        for twin in lab.locator(f'table[data-twin^="{name}."]').all():
            rows = [static_cells(row.inner_html()) for row in twin.locator("tbody tr").all()]
            assert rows == rows_of(twin, drawn, data["marks"])


def static_cells(row: str) -> list[str]:
    """The texts of a row; without scripts nothing is evaluated."""
    return [unescape(text) for text in re.findall(r"<t[hd]\b[^>]*>(.*?)</t[hd]>", row)]


def test_a_lab_whose_table_is_missing_once_is_there_all_the_same(
    open_page: OpenPage, site_url: str, expected_errors: list[str]
) -> None:
    expected_errors.append("404")
    page = open_page()
    page.add_init_script(SAVE_DATA)
    for name in (FIRST, "mask", "blind"):
        page.route(f"**/{name}_lab.*.json", lambda route: route.fulfill(status=404), times=1)
    lab = Lab(page).open(site_url + "en/")
    lab.expect_runtime("prebuilt")
    expect_shown(page, "blind")


def expect_shown(page: Page, name: str) -> None:
    """The lab's controls are there, after one has come near it."""
    section = page.locator(f"#{name}-lab")
    section.scroll_into_view_if_needed()
    expect(section.locator(CONTROL).first).to_be_visible()
    expect(source(page, name)).to_be_empty()


def test_a_lab_whose_table_is_missing_says_so_and_the_others_are_there(
    open_page: OpenPage, site_url: str, expected_errors: list[str]
) -> None:
    expected_errors.append("404")
    page = open_page()
    page.add_init_script(SAVE_DATA)
    for name in (FIRST, "mask"):
        page.route(f"**/{name}_lab.*.json", lambda route: route.fulfill(status=404))
    page.goto(site_url + "en/")
    Lab(page).expect_runtime("failed")
    for name in ("blind", "stepper"):
        expect_shown(page, name)
    page.locator("#mask-lab").scroll_into_view_if_needed()
    expect(source(page, "mask")).to_contain_text("the server answered 404")
    expect(page.locator("#mask-lab table").first).to_be_attached()
