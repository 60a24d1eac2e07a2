"""The stepper on the page: its pictures are tables, and buttons move its slider."""

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.site.lab_page import PYTHON_STARTS, SAVE_DATA, OpenPage
from tests.site.test_labs_on_the_page import MOVE, WORDS, lab_data, states_of
from tests.site.test_page import expect_accessible

STEPS = 6
STEP_MS = 1600


class Stepper:
    """The lab on an open page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.lab = page.locator("#stepper-lab")
        self.slider = self.lab.get_by_role("slider")

    def open(self, url: str) -> "Stepper":
        self.page.add_init_script(SAVE_DATA)
        self.page.goto(url)
        self.lab.scroll_into_view_if_needed()
        expect(self.slider).to_be_visible()
        return self

    def button(self, does: str) -> Locator:
        return self.lab.locator(f'[data-does="{does}"]')

    def play(self) -> Locator:
        return self.button("play")

    def expect_step(self, step: int) -> None:
        """The slider, both pictures and the sentence are there."""
        expect(self.slider).to_have_attribute("aria-valuetext", f"Step {step}")
        for grid in self.lab.locator("table.grid").all():
            expect(grid.locator("tr.now th")).to_have_text(str(step))
            expect(grid.locator('[aria-current="step"] th')).to_have_text(str(step))

    def to_step(self, step: int) -> None:
        data = lab_data("stepper")
        self.page.evaluate(MOVE, [data["description"]["widgets"], {"plan": 0, "step": step}])
        self.expect_step(step)


@pytest.fixture
def stepper(open_page: OpenPage, site_url: str) -> Stepper:
    """Prebuilt, with a clock that the test turns."""
    page = open_page()
    page.clock.install()
    return Stepper(page).open(site_url + "en/")


def cells(table: Locator) -> list[list[list[str]]]:
    """Class and text of each cell of the body."""
    found: list[list[list[str]]] = table.evaluate(
        """table => [...table.tBodies[0].rows].map(
          (row) => [...row.cells].slice(1).map((cell) => [cell.className, cell.textContent]))"""
    )
    return found


def test_the_pictures_are_the_prebuilt_states(stepper: Stepper) -> None:
    """Every state: words, cells, marks, the close-up's numbers, bars and curves."""
    data, marks = lab_data("stepper"), lab_data("stepper")["marks"]
    for values, outputs in states_of(data):
        stepper.page.evaluate(MOVE, [data["description"]["widgets"], values])
        stepper.expect_step(int(values["step"]))
        words = outputs["words.rows"]
        wanted = [
            (WORDS[word] if word else "", state) for word, state in zip(*by(words), strict=True)
        ]
        for way in ("without", "with"):
            table = stepper.lab.locator(f'[data-grid="stepper.{way}.rows"]')
            heads = table.evaluate(
                "t => [...t.tHead.rows[0].cells].slice(1).map((c) => [c.textContent, c.className])"
            )
            assert [tuple(head) for head in heads] == wanted
            states = outputs[f"{way}.rows"]["state"]
            assert [cell for row in cells(table) for cell in row] == [
                [state, marks.get(state, "")] for state in states
            ]
        expect_chart(stepper.lab, outputs["query.rows"], "query")
        expect_chart(stepper.lab, outputs["next.rows"], "next")


def by(words: dict[str, Any]) -> tuple[list[str], list[str]]:
    return words["word"], words["state"]


def expect_chart(lab: Locator, data: dict[str, Any], name: str) -> None:
    rows = lab.locator(f'[data-chart="stepper.{name}.rows"] tbody tr')
    shown = rows.evaluate_all(
        """rows => rows.map((row) => [...row.cells].map((cell) =>
          cell.querySelector("path")?.getAttribute("d")
          ?? cell.querySelector(".swatch")?.className
          ?? (cell.className === "bar"
            ? [cell.textContent, parseFloat(cell.style.getPropertyValue("--share"))]
            : cell.textContent)))"""
    )
    wanted = []
    for i, word in enumerate(data["word"]):
        others = [column[i] for key, column in data.items() if key != "word"]
        states = {"history", "chunk", "hidden-future"}
        wanted.append(
            [WORDS[word], *(f"swatch {one}" if str(one) in states else one for one in others)]
        )
    assert shown == wanted


def test_next_and_back_go_step_by_step_and_begin_again_after_the_last(stepper: Stepper) -> None:
    stepper.expect_step(STEPS)
    stepper.button("next").click()
    stepper.expect_step(1)
    expect(stepper.button("back")).to_have_attribute("aria-disabled", "true")
    stepper.button("back").click(force=True)  # it looks disabled and keeps the focus
    stepper.expect_step(1)
    expect(stepper.button("back")).to_be_focused()
    stepper.button("next").click()
    stepper.expect_step(2)
    stepper.button("next").press("Enter")
    stepper.expect_step(3)
    expect(stepper.button("next")).to_be_focused()
    stepper.button("back").press("Space")
    stepper.expect_step(2)


def test_play_goes_from_the_first_step_to_the_last_and_stops(stepper: Stepper) -> None:
    stepper.to_step(3)
    stepper.play().click()
    for step in range(1, STEPS + 1):
        stepper.expect_step(step)
        expect(stepper.play()).to_have_text("Stop" if step < STEPS else "Play")
        stepper.page.clock.run_for(STEP_MS)
    stepper.expect_step(STEPS)
    expect(stepper.play()).to_be_focused()
    stepper.play().click()
    stepper.expect_step(1)
    stepper.play().click()
    stepper.page.clock.run_for(3 * STEP_MS)
    stepper.expect_step(1)


INPUTS = {
    "next": lambda one: one.button("next").click(),
    "slider": lambda one: one.slider.press("ArrowRight"),
    "choice": lambda one: one.lab.get_by_role("radio", name="checking a draft").check(),
    "key": lambda one: one.page.keyboard.press("Escape"),
    "elsewhere": lambda one: one.page.locator("body").dispatch_event("click"),
    "gone": lambda one: one.page.evaluate("scrollTo(0, 0)"),
    "hidden": lambda one: one.page.evaluate(
        "document.dispatchEvent(new Event('visibilitychange'))"
    ),
}


@pytest.mark.parametrize("name", INPUTS)
def test_any_other_input_and_leaving_ends_playing(stepper: Stepper, name: str) -> None:
    stepper.play().click()
    stepper.page.clock.run_for(STEP_MS)
    stepper.expect_step(2)
    if name == "key":
        stepper.lab.get_by_role("radio", name="writing").focus()
    INPUTS[name](stepper)
    expect(stepper.play()).to_have_text("Play")
    step = 3 if name in ("next", "slider") else 2
    stepper.page.clock.run_for(3 * STEP_MS)
    stepper.lab.scroll_into_view_if_needed()
    stepper.expect_step(step)


def test_playing_is_one_entry_of_the_history(stepper: Stepper) -> None:
    before = stepper.page.evaluate("() => history.length")
    stepper.play().click()
    stepper.page.clock.run_for(3 * STEP_MS)
    stepper.expect_step(4)
    assert stepper.page.evaluate("() => [history.length, location.search]") == [before, ""]
    stepper.play().click()
    stepper.page.clock.run_for(1000)
    stepper.page.wait_for_function("() => location.search === '?stepper.step=4'")
    assert stepper.page.evaluate("() => history.length") == before + 1
    stepper.page.go_back()
    stepper.expect_step(STEPS)


@pytest.mark.parametrize(
    ("search", "plan", "step"),
    [
        ("?stepper.plan=draft&stepper.step=4", "checking a draft", 4),
        ("?stepper.tokens=8&stepper.first=1&stepper.chunk=5", "writing word by word", STEPS),
    ],
)
def test_links_old_and_new_lead_to_a_state(
    open_page: OpenPage, site_url: str, search: str, plan: str, step: int
) -> None:
    stepper = Stepper(open_page()).open(f"{site_url}en/{search}")
    stepper.expect_step(step)
    expect(stepper.lab.get_by_role("radio", name=plan)).to_be_checked()
    expect(stepper.page.locator("#link-notice")).to_be_hidden()


def test_where_less_motion_is_asked_for_nothing_moves_by_itself(
    open_page: OpenPage, site_url: str
) -> None:
    stepper = Stepper(open_page(reduced_motion="reduce")).open(site_url + "en/")
    expect(stepper.play()).to_be_hidden()
    stepper.button("next").click()
    stepper.expect_step(1)
    moving = stepper.lab.locator(".grid td, .bar").evaluate_all(
        """all => all.map((one) => getComputedStyle(one)).filter(
          (style) => style.animationName !== "none" || style.transitionDuration !== "0s").length"""
    )
    assert moving == 0


@pytest.mark.parametrize("width", [320, 390])
@pytest.mark.parametrize("folder", ["en", "zh"])
def test_a_phone_sees_it_whole(open_page: OpenPage, site_url: str, width: int, folder: str) -> None:
    page = open_page(viewport={"width": width, "height": 800})
    stepper = Stepper(page).open(f"{site_url}{folder}/?stepper.plan=turn")
    outside = stepper.lab.evaluate(
        """lab => [...lab.querySelectorAll("table, td, th, button")].filter(
          (one) => {
            const { left, right, width } = one.getBoundingClientRect();
            return width > 0 && (left < 0 || right > innerWidth + 0.5
              || one.scrollWidth > one.clientWidth + 1 && one.tagName === "TABLE");
          }).length"""
    )
    assert outside == 0
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_it_is_accessible_at_each_kind_of_step(open_page: OpenPage, site_url: str) -> None:
    for scheme in ("light", "dark"):
        page = open_page(color_scheme=scheme)
        Stepper(page).open(f"{site_url}en/?stepper.plan=draft&stepper.step=4")
        expect_accessible(page)


def test_live_answers_take_over_and_say_one_thing_at_a_step(
    open_page: OpenPage, site_url: str
) -> None:
    page = open_page()
    page.goto(site_url + "en/")
    stepper = Stepper(page)
    stepper.lab.scroll_into_view_if_needed()
    expect(stepper.lab).to_have_attribute("data-live", "true", timeout=PYTHON_STARTS)
    for step in (1, 2, 3):
        stepper.button("next").click()
        stepper.expect_step(step)
    assert stepper.lab.locator("[aria-live]").count() == 1
    said = stepper.lab.locator("[aria-live]").inner_text()
    assert said.startswith("The word just said is read, C = 1 after P = 14.")
    assert said.endswith("Next word: key?")
