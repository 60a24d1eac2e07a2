"""The mask lab in a real browser: its numbers, figures, controls, and Python's taking over."""

import random
import re
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect
from tests.site.lab_page import DEFAULT, DTYPES, SAVE_DATA, Lab, PrebuiltTable, State

STATES = [
    DEFAULT,
    State(0, 5),
    State(1, 1, "float32"),
    State(12, 6, "float32"),
    State(32, 16),
]

states = pytest.mark.parametrize("state", STATES, ids=lambda state: state.label)


# --- Numbers ------------------------------------------------------------------------------------


@states
def test_read_outs_equal_a_report_computed_here(lab: Lab, state: State) -> None:
    lab.move_to(state)
    expected = state.report()
    rounding = 10 * expected.rounding_floor  # this machine's sums have another order
    assert lab.value("offset-error") <= rounding
    assert lab.value("top-left-error") == pytest.approx(
        expected.top_left.max_abs_error, rel=0, abs=rounding
    )
    assert lab.value("rounding-floor") == pytest.approx(expected.rounding_floor, rel=1e-6)
    assert lab.value("hidden-keys") == state.n_past * state.n_new
    assert lab.value("offset-hidden-keys") == 0
    assert lab.value("top-left-argmax") == expected.top_left.argmax_agreement
    assert lab.value("offset-argmax") == 1
    assert lab.value("top-left-nan") == lab.value("offset-nan") == 0
    if state.n_past:
        assert lab.value("top-left-worst-row") == expected.top_left.worst_row
        assert lab.value("top-left-error") > 0.1


# --- Figures and their twins --------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("figure", "key", "query", "cell_state", "mark"),
    [
        ("offset-mask", 0, 4, "history", "mark"),
        ("offset-mask", 4, 4, "chunk", "mark"),
        ("offset-mask", 5, 4, "hidden-future", "mark-future"),
        ("top-left-mask", 0, 4, "history", "mark"),
        ("top-left-mask", 1, 4, "wrongly-hidden", "mark"),
        ("top-left-mask", 4, 5, "wrongly-hidden", "mark"),
        ("top-left-mask", 5, 4, "hidden-future", "mark-future"),
    ],
)
def test_drawn_cells_have_the_colours_of_their_states(
    prebuilt_lab: Lab, scheme: Any, figure: str, key: int, query: int, cell_state: str, mark: str
) -> None:
    page = prebuilt_lab.page
    page.emulate_media(color_scheme=scheme)
    for place, concept in ((0.4, cell_state), (0.0, mark)):  # a corner; the middle
        page.wait_for_function(
            """([figure, x, y, concept]) => {
              const view = Bokeh.index.find_one_by_id(
                maskDocument().get_model_by_name(figure).id);
              const canvas = view.canvas_view.primary;
              const probe = document.body.appendChild(document.createElement("i"));
              probe.style.color = `var(--${concept})`;
              const wanted = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
              probe.remove();
              const { x_scale, y_scale } = view.frame;
              const pixel = canvas.ctx.getImageData(
                Math.round(x_scale.compute(x)), Math.round(y_scale.compute(y)), 1, 1).data;
              return wanted.every((channel, i) => Math.abs(channel - pixel[i]) <= 2);
            }""",
            arg=[figure, key + place, query + place, concept],
        )


# --- Controls -----------------------------------------------------------------------------------


KEYS = (
    *("ArrowRight", "ArrowUp", "ArrowLeft", "ArrowDown"),
    *("PageUp", "PageDown", "End", "Home"),
)


@pytest.mark.parametrize(
    ("name", "title", "unit", "reached"),
    [
        ("n_past", "History length P", "history", [5, 6, 5, 4, 9, 4, 32, 0]),
        ("n_new", "Chunk size C", "chunk", [3, 4, 3, 2, 7, 2, 16, 1]),
    ],
)
def test_keys_move_a_slider_and_it_says_its_name_and_value(
    lab: Lab, name: str, title: str, unit: str, reached: list[int]
) -> None:
    lab.page.locator("a.brand").focus()
    tab_to(lab, name)
    slider = lab.page.get_by_role("slider", name=title)
    for key, value in zip(KEYS, reached, strict=True):
        change: dict[str, Any] = {name: value}
        lab.page.keyboard.press(key)
        expect(slider).to_have_attribute("aria-valuetext", f"{unit} {value}")
        state = DEFAULT._replace(**change)
        lab.expect_state(state)
        assert lab.value("hidden-keys") == state.n_past * state.n_new
    expect(slider).to_be_focused()


def tab_to(lab: Lab, name: str) -> None:
    """Press Tab until the slider has the focus."""
    focused = "handle => handle.getRootNode().activeElement === handle"
    for _ in range(40):
        lab.page.keyboard.press("Tab")
        if lab.slider(name).evaluate(focused):
            return
    pytest.fail(f"Tab doesn't reach the slider {name}")


def test_the_last_of_many_moves_wins(lab: Lab, table: PrebuiltTable) -> None:
    page, rng = lab.page, random.Random(2026)
    for name in ("n_past", "n_new"):
        track = page.locator(f"#mask-{name} .noUi-base").bounding_box()
        handle = lab.slider(name).bounding_box()
        assert track
        assert handle
        page.mouse.move(handle["x"] + handle["width"] / 2, handle["y"] + handle["height"] / 2)
        page.mouse.down()
        for _ in range(40):
            page.mouse.move(track["x"] + track["width"] * rng.random(), track["y"])
        page.mouse.up()
        for _ in range(40):
            page.keyboard.press(rng.choice(["ArrowLeft", "ArrowRight", "PageUp", "PageDown"]))
    last = lab.control_values()
    assert last[:2] != DEFAULT[:2], "the sliders must have moved"
    lab.expect_state(last)
    lab.wait_until_idle()
    assert lab.control_values() == last
    assert lab.readouts() == table.readouts(last)
    assert lab.outputs(table) == table.outputs(last)


def test_fifty_moves_make_no_new_models(lab: Lab) -> None:
    moves = [State(i % 33, 1 + i % 16, DTYPES[i % 2]) for i in range(50)]
    lab.move_to(moves[-1])
    before = lab.model_count()
    lab.move_through(moves)
    assert lab.model_count() == before


# --- From prebuilt to live ----------------------------------------------------------------------


def test_sliders_moved_while_python_loads_stay(
    page: Page, site_url: str, table: PrebuiltTable
) -> None:
    held: list[Route] = []
    page.route("**/*.wasm.gzip", lambda route: held.append(route))
    with page.expect_request("**/*.wasm.gzip"):
        lab = Lab(page).open(site_url)
    expect(lab.status).to_have_text(re.compile(r"downloading \d+\.\d of \d+\.\d\sMB"))
    expect(page.get_by_role("progressbar", name="Loading Python")).to_be_visible()
    state = State(9, 3, "float32")
    lab.move_to(state)
    assert lab.readouts() == table.readouts(state)
    held[0].continue_()
    lab.expect_runtime("live")
    lab.wait_until_idle()
    assert lab.control_values() == state
    assert lab.readouts() == table.readouts(state)
    expect(page.locator("progress")).to_be_hidden()


MOVE_AT_FIRST_QUESTION = """
const { postMessage } = Worker.prototype;
Worker.prototype.postMessage = function (message, ...rest) {
  postMessage.call(this, message, ...rest);
  if (message.type === "state" && message.lab === "mask" && !window.moved) {
    window.moved = true;
    maskDocument().get_model_by_name("n_past").value = 20;
  }
};
"""


def test_a_slider_moved_during_the_first_question_stays(
    page: Page, site_url: str, table: PrebuiltTable
) -> None:
    page.add_init_script(MOVE_AT_FIRST_QUESTION)
    lab = Lab(page).open(site_url)
    lab.expect_runtime("live")
    state = State(20, 2)
    lab.expect_state(state)
    lab.wait_until_idle()
    assert lab.readouts() == table.readouts(state)


def test_a_wrong_table_is_noticed_and_corrected(page: Page, site_url: str) -> None:
    """The negative control of "every number is equal", and the proof that Python answers."""

    def answer(route: Route) -> None:
        data = route.fetch().text().replace('"0.699"', '"0.7"')
        route.fulfill(body=data, content_type="application/json")

    page.route("**/mask_lab.*.json", answer)
    held: list[Route] = []
    page.route("**/*.wasm.gzip", lambda route: held.append(route))
    with page.expect_request("**/*.wasm.gzip"):
        lab = Lab(page).open(site_url)
    expect(lab.readout("top-left-error")).to_have_text("0.7")
    held[0].continue_()
    lab.expect_runtime("live")
    expect(lab.status).to_contain_text("differs from the prebuilt numbers")
    expect(lab.readout("top-left-error")).to_have_text("0.699")


def test_who_saves_data_is_asked_first(page: Page, site_url: str) -> None:
    page.add_init_script(SAVE_DATA)
    page.route("**/*.wasm.gzip", lambda route: None)  # for ever loading
    lab = Lab(page).open(site_url)
    lab.move_to(State(6, 2))
    lab.expect_runtime("prebuilt")
    assert not page.workers
    expect(lab.button).to_have_text(re.compile(r"Start Python here \(\d\d\sMB\)"))
    lab.button.click()
    lab.expect_runtime("loading")


# --- When Python comes --------------------------------------------------------------------------

PYTHON = re.compile(r"worker|\.wasm|\.whl|snapshot|/runtime/")


def asked_of_python(page: Page) -> list[str]:
    """Addresses of Python's files, as they are asked for."""
    urls: list[str] = []
    page.on("request", lambda one: urls.append(one.url) if PYTHON.search(one.url) else None)
    return urls


STAYING = """
const later = window.setTimeout;
window.setTimeout = (act, ms, ...rest) =>
  ms === 3000 ? ((window.hasStayed = act), 0) : later(act, ms, ...rest);
"""
"""Three seconds pass when the test says so."""


def test_nothing_of_python_is_fetched_before_a_reader_has_stayed(page: Page, site_url: str) -> None:
    urls = asked_of_python(page)
    page.add_init_script(STAYING)
    lab = Lab(page).open(site_url)
    lab.expect_runtime("prebuilt")
    page.wait_for_function("() => Boolean(window.hasStayed)")
    assert urls == []
    page.evaluate("() => hasStayed()")
    lab.expect_runtime("live")
    assert urls


@pytest.mark.parametrize("kind", ["pointer", "keys"])
def test_or_has_touched_a_control(page: Page, site_url: str, kind: str) -> None:
    urls = asked_of_python(page)
    page.add_init_script(STAYING)
    lab = Lab(page).open(f"{site_url}en/")
    lab.expect_runtime("prebuilt")
    page.locator(".lead").click()
    page.keyboard.press("PageDown")
    assert urls == [], "reading is no touch"
    if kind == "keys":
        lab.slider("n_past").press("ArrowRight")
    else:
        lab.radio("float32").check()
    lab.expect_runtime("live")
    assert urls


def test_in_another_page_staying_is_not_enough(page: Page, site_url: str) -> None:
    urls = asked_of_python(page)
    page.add_init_script(STAYING)
    page.goto(f"{site_url}en/embed/mask.html")
    Lab(page).expect_runtime("prebuilt")
    expect(Lab(page).button).to_be_visible()
    assert page.evaluate("() => Boolean(window.hasStayed)") is False
    assert urls == []
    Lab(page).slider("n_past").press("ArrowRight")
    Lab(page).expect_runtime("live")
