"""What the canvases of the labs show: not what a model holds, but what has been painted."""

import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.site.conftest import check_errors, record_errors
from tests.site.lab_page import FILE_OF_LAB, LAB_FILES, PICTURES_ARE_TABLES, SAVE_DATA
from tests.site.test_labs_on_the_page import CONTROL, MOVE, lab_data, states_of

from kvlab.labs import LABS

RECORD = """
const painted = new WeakMap();
const pen = CanvasRenderingContext2D.prototype;
const { clearRect, fillText } = pen;
pen.clearRect = function (...box) {
  painted.set(this.canvas, []);
  clearRect.apply(this, box);
};
pen.fillText = function (text, ...place) {
  painted.get(this.canvas)?.push(text);
  fillText.call(this, text, ...place);
};
window.figuresOf = (lab) => Bokeh.index.roots.filter(
  (view) => view.canvas_view && document.getElementById(`${lab}-lab`).contains(view.el));
window.paintedIn = (view) => painted.get(view.canvas_view.primary.canvas) ?? [];
"""
"""Keeps the texts that each canvas shows: those that were painted since it was cleared."""

WANTED = """
(lab) => figuresOf(lab).map((view) => {
  const { left, below, above, right, center, renderers } = view.model;
  const labels = center.filter(({ type, visible }) => type === "Label" && visible);
  const words = labels.map(({ text }) => text);
  for (const axis of [...left, ...below, ...above, ...right].filter((one) => one.visible)) {
    words.push(axis.axis_label ?? "");
    const upright = [...left, ...right].includes(axis);
    const { start, end } = upright ? view.model.y_range : view.model.x_range;
    const named = axis.major_label_overrides;
    const pairs = named instanceof Map ? [...named] : Object.entries(named);
    for (const tick of axis.ticker.ticks) {
      if (Math.min(start, end) <= tick && tick <= Math.max(start, end)) {
        words.push(pairs.find(([place]) => Number(place) === tick)?.[1] ?? "");
      }
    }
  }
  for (const { glyph, data_source, visible } of renderers) {
    if (glyph?.type === "Text" && visible) {
      const { data } = data_source;
      words.push(...(data instanceof Map ? data.get(glyph.text.field) : data[glyph.text.field]));
    }
  }
  return [view.model.name, words, paintedIn(view)];
})
"""
"""Of each figure: its name, the words that axes, texts and labels ask for, those on its canvas."""

TRACES = """
(lab) => figuresOf(lab).map((view) => {
  const { canvas } = view.canvas_view.primary;
  const pixels = () => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const before = pixels();
  canvas.width = canvas.width; // blank again
  view._invalidate_all = true;
  view.paint();
  const after = pixels();
  const differing = after.filter((byte, i) => byte !== before[i]).length;
  return [view.model.name, differing, new Set(after).size];
})
"""
"""Of each figure: how much its canvas differs from one that was blank before it was painted."""

PAINTED = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 100)))"

labs = pytest.mark.parametrize("name", [lab for lab in LABS if lab not in PICTURES_ARE_TABLES])


@pytest.fixture(scope="module")
def articles(browser: Browser, site_url: str) -> Iterator[dict[str, Page]]:
    """File -> the English page with all its labs drawn from their tables."""
    errors: list[str] = []
    with browser.new_context(service_workers="block") as context:
        record_errors(context, errors)
        context.add_init_script(SAVE_DATA)
        context.add_init_script(RECORD)
        yield {file: drawn_page(context.new_page(), site_url, file) for file in LAB_FILES}
    check_errors(errors, [])


def drawn_page(page: Page, site_url: str, file: str) -> Page:
    page.goto(f"{site_url}en/{file}")
    for lab in page.locator("[data-lab]").all():
        lab.scroll_into_view_if_needed()
        expect(lab.locator(CONTROL).first).to_be_visible()
    page.evaluate(PAINTED)
    return page


@pytest.fixture
def article(articles: dict[str, Page], name: str) -> Page:
    """The page of the lab ``name``."""
    return articles[FILE_OF_LAB[name]]


def move(page: Page, name: str, **values: Any) -> None:
    """Set a lab's controls; those that aren't named stay."""
    widgets = lab_data(name)["description"]["widgets"]
    page.evaluate(MOVE, [{key: widgets[key] for key in values}, values])
    page.evaluate(PAINTED)


def a_few_states(name: str) -> list[dict[str, Any]]:
    return random.Random(name).sample([values for values, _ in states_of(lab_data(name))], 3)


def words_in(texts: list[str]) -> Counter[str]:
    """Without numbers: how those are written is Bokeh's affair."""
    return Counter(text for text in texts if re.search(r"[^\W\d_]|:", text))


@labs
def test_the_canvas_has_the_words_of_its_axes_and_no_older_ones(article: Page, name: str) -> None:
    for values in a_few_states(name):
        move(article, name, **values)
        figures = article.evaluate(WANTED, name)
        assert figures
        for figure, wanted, painted in figures:
            assert words_in(painted) == words_in(wanted), (figure, values)


@labs
def test_nothing_of_an_earlier_painting_is_left(article: Page, name: str) -> None:
    for values in a_few_states(name):
        move(article, name, **values)
        for figure, differing, colours in article.evaluate(TRACES, name):
            assert colours > 2, f"{figure} is blank"
            assert differing == 0, (figure, values)
