"""A mask of the visitor's own in the labs: "yours" stands by what is yours and nothing else."""

from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, Route, expect
from tests.site.conftest import check_errors, record_errors
from tests.site.lab_page import DEFAULT, PYTHON_STARTS, SAVE_DATA, Lab, State, open_fold
from tests.site.test_cells import Cells
from tests.site.test_page import expect_accessible

from kvlab.formats import number
from kvproof import MaskResult, blind_spots, mask_result
from kvproof.model.masks import BoolArray
from kvsite.words import TEXTS, load_catalogue

WORDS = load_catalogue(TEXTS / "en.toml")
CELL = 1
"""The one that hands a mask to the lab."""
MASK = """
import time
import numpy as np
from kvlab.candidate import draw

def trouble(n_past):
    pass

def mask(n_past, n_new):
    trouble(n_past)
    query = n_past + np.arange(n_new)[:, None]
    key = np.arange(n_past + n_new)
    return (key <= query) & (key > query - 3)

draw(mask)
"""


class CandidatePage:
    """The mask lab and the cells of one page."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.lab = Lab(page).open(url)
        self.cells = Cells(page, total=1)
        open_fold(page)
        self.bar = page.locator("#mask-lab [data-candidate-bar]")
        self.back = self.bar.get_by_role("button", name=WORDS.say("mask.candidate.back"))

    def run_mask(self) -> None:
        self.cells.run(CELL, MASK)

    def expect_yours(self, state: State) -> None:
        """Names, numbers and figure are of the visitor's mask at a state."""
        expected = candidate_result(state)
        expect(self.lab.readout("hidden-keys")).to_have_text(
            str(expected.wrongly_hidden_keys), timeout=PYTHON_STARTS
        )
        self.lab.expect_state(state)
        error = self.lab.value("top-left-error")
        assert error == pytest.approx(expected.max_abs_error, rel=1e-4)
        self.expect_names("mask.candidate.mask-title", "mask.candidate.column")
        expect(self.bar).to_contain_text(WORDS.say("candidate.mask", cell=CELL))

    def expect_top_left(self, state: State) -> None:
        """Names, numbers and figure are those that the page came with, all at one state."""
        self.lab.expect_state(state)
        expect(self.lab.readout("hidden-keys")).to_have_text(str(state.n_past * state.n_new))
        expect(self.lab.readout("offset-summary")).to_contain_text(f"P = {state.n_past}")
        self.expect_names("mask.top-left-title", "mask.top-left-mask")

    def expect_names(self, title: str, column: str) -> None:
        lab = self.page.locator("#mask-lab")
        expect(lab.locator("figcaption h4").nth(1)).to_have_text(WORDS.say(title))
        expect(lab.get_by_role("img", name=WORDS.say(title), exact=True)).to_have_count(1)
        expect(lab.locator("table.readouts thead th").last).to_have_text(WORDS.say(column))


def last_three(n_past: int, n_new: int) -> BoolArray:
    """What ``MASK`` computes."""
    query = n_past + np.arange(n_new)[:, None]
    key = np.arange(n_past + n_new)
    return (key <= query) & (key > query - 3)


def candidate_result(state: State) -> MaskResult:
    return mask_result(last_three, *state)


@pytest.fixture(scope="module")
def shared(browser: Browser, site_url: str) -> Iterator[tuple[CandidatePage, list[str]]]:
    errors: list[str] = []
    with browser.new_context(service_workers="block") as context:
        record_errors(context, errors)
        candidate = CandidatePage(context.new_page(), site_url + "en/")
        candidate.lab.expect_runtime("live")
        yield candidate, errors


@pytest.fixture
def yours(shared: tuple[CandidatePage, list[str]]) -> Iterator[CandidatePage]:
    """A live page that shows the visitor's mask at the default state."""
    candidate, errors = shared
    candidate.run_mask()
    candidate.lab.move_to(DEFAULT)
    candidate.expect_yours(DEFAULT)
    yield candidate
    seen = errors.copy()
    errors.clear()
    check_errors(seen, [])


def test_a_title_of_another_rank_names_its_picture_too(page: Page, site_url: str) -> None:
    """The page's first lab has its titles one step higher."""

    def higher(route: Route) -> None:
        html = route.fetch().text()
        assert "<h4 data-candidate-mask" in html
        route.fulfill(body=html.replace("<h4 data-candidate", "<h3 data-candidate"))

    page.route(f"{site_url}en/", higher)
    candidate = CandidatePage(page, f"{site_url}en/")
    candidate.lab.expect_runtime("live")
    candidate.run_mask()
    title = WORDS.say("mask.candidate.mask-title")
    named = page.locator("#mask-lab").get_by_role("img", name=title, exact=True)
    expect(named).to_have_count(1, timeout=PYTHON_STARTS)


def test_a_mask_is_drawn_at_each_state_and_taken_away_again(yours: CandidatePage) -> None:
    expect(yours.cells.cell(CELL)).to_contain_text("Right")
    expect_accessible(yours.page)
    state = State(7, 3, "float32")
    yours.lab.move_to(state)
    yours.expect_yours(state)
    yours.back.click()
    yours.expect_top_left(state)
    expect(yours.back).to_be_hidden()


def test_the_blind_spot_map_draws_it_as_well(yours: CandidatePage) -> None:
    spots = blind_spots(last_three)
    blind = yours.page.locator("#blind-lab")
    blind.scroll_into_view_if_needed()
    counts = {"unseen": int(spots.unseen.sum()), "cells": spots.unseen.size}
    said = WORDS.say("blind.candidate.summary", **counts)
    summary = blind.locator('[data-readout="blind.summary"]')
    expect(summary).to_contain_text(said, timeout=PYTHON_STARTS)
    expect(summary).to_contain_text(number(float(spots.errors.max())))
    expect(blind.locator("[data-candidate-bar]")).to_contain_text(
        WORDS.say("candidate.mask", cell=CELL)
    )
    blind.get_by_role("button", name=WORDS.say("blind.candidate.back")).click()
    expect(summary).not_to_contain_text(said)
    yours.expect_top_left(DEFAULT)


def test_where_it_raises_the_lab_shows_what_it_came_with(yours: CandidatePage) -> None:
    yours.cells.run(1, "def trouble(n_past):\n    if n_past == 7: raise SystemExit('at 7')")
    state = State(7, 2)
    yours.lab.move_to(state)
    yours.expect_top_left(state)
    reason = WORDS.say("candidate.failed", reason="SystemExit: at 7")
    expect(yours.bar).to_contain_text(reason)
    yours.lab.move_to(State(6, 2))
    yours.expect_yours(State(6, 2))


def test_while_a_cell_runs_the_lab_shows_what_it_came_with(yours: CandidatePage) -> None:
    """And the mask again as soon as its Python has time for it, at the latest state."""
    yours.cells.write(1, "end = time.monotonic() + 8\nwhile time.monotonic() < end: pass")
    yours.page.keyboard.press("Control+Enter")
    yours.cells.expect_state(1, "running")
    for state in (State(9, 2), State(10, 3)):
        yours.lab.move_to(state)
        yours.expect_top_left(state)
        expect(yours.bar).to_contain_text(WORDS.say("candidate.waiting"))
    yours.cells.expect_state(1, "done")
    yours.expect_yours(State(10, 3))


def test_where_it_takes_for_ever_a_restart_ends_it(yours: CandidatePage) -> None:
    yours.cells.run(1, "def trouble(n_past):\n    while True: pass")
    state = State(8, 4)
    yours.lab.move_to(state)
    yours.expect_top_left(state)
    expect(yours.bar).to_contain_text(WORDS.say("candidate.waiting"))
    yours.cells.editor(1).press("Control+Enter")
    yours.cells.expect_said(1, WORDS.say("cells.state.behind"))
    yours.cells.button("Restart").click()
    expect(yours.bar).to_be_hidden()
    yours.lab.move_to(State(3, 2))
    yours.expect_top_left(State(3, 2))


def test_when_the_labs_python_fails_the_names_go_and_after_a_retry_they_come(
    yours: CandidatePage,
) -> None:
    [labs_worker, *_] = yours.page.workers
    labs_worker.evaluate(FAIL)
    yours.lab.expect_runtime("failed")
    yours.expect_top_left(DEFAULT)
    expect(yours.bar).to_contain_text(WORDS.say("candidate.needs-python"))
    state = State(2, 2)
    yours.lab.move_to(state)
    yours.expect_top_left(state)
    yours.lab.button.click()
    yours.lab.expect_runtime("live")
    yours.expect_yours(state)


FAIL = """
() => self.dispatchEvent(new MessageEvent("message", {
  data: { type: "state", lab: "nonsense", values: {} } }))
"""


def test_nothing_is_called_yours_before_it_is_drawn(page: Page, site_url: str) -> None:
    """The labs' Python has still to start when there is a mask to draw, and fails at first."""
    page.add_init_script(SAVE_DATA)
    held: list[Route] = []
    page.route("**/lab-worker.*.js", lambda route: held.append(route))
    candidate = CandidatePage(page, site_url + "en/")
    candidate.run_mask()
    candidate.lab.expect_runtime("loading")
    state = State(5, 2)
    candidate.lab.move_to(state)
    candidate.expect_top_left(state)
    expect(candidate.bar).to_contain_text(WORDS.say("candidate.needs-python"))
    held[0].abort()
    candidate.lab.expect_runtime("failed")
    candidate.expect_top_left(state)
    page.unroute_all()
    candidate.lab.button.click()
    candidate.lab.expect_runtime("live")
    candidate.expect_yours(state)
