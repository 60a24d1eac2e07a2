"""The mask lab in a real browser: its numbers, figures, controls, and Python's taking over."""

import random
import re
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect
from tests.site.lab_page import DEFAULT, DTYPES, SAVE_DATA, Lab, PrebuiltTable, State

from kvproof import offset_mask, top_left_mask

STATES = [
    DEFAULT,
    State(0, 5),
    State(1, 1, "float32"),
    State(1, 4),
    State(12, 6, "float32"),
    State(12, 6),
    State(32, 16, "float32"),
    State(32, 16),
]
MASKS = {"offset": offset_mask, "top-left": top_left_mask}
MARKS = {"history": "●", "chunk": "●", "hidden-future": "–", "wrongly-hidden": "×"}

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


def test_argmax_sees_only_some_of_the_broken_rows(prebuilt_lab: Lab) -> None:
    """The read-out must be able to fall below 100 %, and is a poor witness even then."""
    state = State(12, 6)
    assert state.report().top_left.argmax_agreement == pytest.approx(4 / 6)
    prebuilt_lab.move_to(state)
    assert prebuilt_lab.value("top-left-argmax") == pytest.approx(4 / 6)
    expect(prebuilt_lab.readout("top-left-argmax")).to_have_text("67% (4 of 6)")


def test_precision_changes_the_floor_and_the_errors(lab: Lab) -> None:
    state = State(12, 6, "float64")
    lab.move_to(state)
    fine = {name: lab.value(name) for name in ("rounding-floor", "offset-error")}
    lab.radio("float32").check()
    lab.expect_state(state._replace(dtype="float32"))
    for name, value in fine.items():
        assert lab.value(name) > 1e6 * value > 0, name
    lab.radio("float32").press("ArrowRight")
    lab.expect_state(state)
    assert {name: lab.value(name) for name in fine} == fine


# --- Figures and their twins --------------------------------------------------------------------


@states
@pytest.mark.parametrize("name", MASKS)
def test_cells_of_a_mask_figure_equal_the_array(lab: Lab, name: str, state: State) -> None:
    lab.move_to(state)
    visible = MASKS[name](state.n_past, state.n_new)
    should_be = offset_mask(state.n_past, state.n_new)
    cells = mask_cells(lab.page, f"{name}-mask")
    assert len(cells) == visible.size
    for cell in cells:
        row, key = cell["query"] - state.n_past, cell["key"]
        may_attend = cell["state"] in ("history", "chunk")
        assert may_attend == visible[row, key], cell
        if may_attend:
            assert cell["state"] == ("history" if key < state.n_past else "chunk"), cell
            assert cell["marker"] == "circle"
        else:
            assert cell["state"] == ("wrongly-hidden" if should_be[row, key] else "hidden-future")
            assert cell["marker"] == {"wrongly-hidden": "x", "hidden-future": "dash"}[cell["state"]]


def mask_cells(page: Page, figure: str) -> list[dict[str, Any]]:
    """Each cell of a mask figure: position, state, and the marker that its glyph maps it to."""
    cells: list[dict[str, Any]] = page.evaluate(
        """name => {
          const [squares, marks] = Bokeh.documents[0].get_model_by_name(name).renderers;
          if (marks.data_source !== squares.data_source) throw new Error("two sources");
          const { x: key, y: query, state } = squares.data_source.data;
          const { factors, markers } = marks.glyph.marker.transform;
          return state.map((state, i) => (
            { key: key[i], query: query[i], state, marker: markers[factors.indexOf(state)] }));
        }""",
        figure,
    )
    return cells


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
                Bokeh.documents[0].get_model_by_name(figure).id);
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


@pytest.mark.parametrize(
    ("state", "name", "rows"),
    [
        (State(4, 2), "offset", ["4 ●●●●●–", "5 ●●●●●●"]),
        (State(4, 2), "top-left", ["4 ●××××–", "5 ●●××××"]),
        (State(5, 3), "offset", ["5 ●●●●●●––", "6 ●●●●●●●–", "7 ●●●●●●●●"]),
        (State(5, 3), "top-left", ["5 ●×××××––", "6 ●●×××××–", "7 ●●●×××××"]),
        (State(0, 2), "top-left", ["0 ●–", "1 ●●"]),
        (State(3, 1), "top-left", ["3 ●×××"]),
    ],
)
def test_golden_grids_in_the_table_twins(lab: Lab, state: State, name: str, rows: Any) -> None:
    lab.move_to(state)
    shown = lab.table_rows(f"{name}-mask.cells")
    assert [f"{query} {''.join(marks)}" for query, *marks in shown] == rows


def test_summaries_change_with_the_state(lab: Lab) -> None:
    names = ["offset-summary", "top-left-summary", "errors-summary"]
    before = [lab.readout(name).inner_text() for name in names]
    lab.move_to(State(7, 3, "float32"))
    offset, top_left, errors = (lab.readout(name).inner_text() for name in names)
    assert all(old != new for old, new in zip(before, [offset, top_left, errors], strict=True))
    for part in ("P = 7", "C = 3", "27 of 30"):
        assert part in offset
    for part in ("6 of 30", "P = 7", "21 in all"):
        assert part in top_left
    for part in ("float32", lab.readout("top-left-error").inner_text()):
        assert part in errors


# --- Controls -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        (
            "n_past",
            {
                "ArrowRight": 5,
                "ArrowUp": 6,
                "ArrowLeft": 5,
                "ArrowDown": 4,
                "PageUp": 9,
                "PageDown": 4,
                "End": 32,
                "Home": 0,
            },
        ),
        (
            "n_new",
            {
                "ArrowRight": 3,
                "ArrowUp": 4,
                "ArrowLeft": 3,
                "ArrowDown": 2,
                "PageUp": 7,
                "PageDown": 2,
                "End": 16,
                "Home": 1,
            },
        ),
    ],
)
def test_keys_move_a_slider(lab: Lab, name: str, steps: dict[str, int]) -> None:
    lab.page.locator("a.brand").focus()
    tab_to(lab, name)
    for key, value in steps.items():
        change: dict[str, Any] = {name: value}
        lab.page.keyboard.press(key)
        expect(lab.slider(name)).to_have_attribute("aria-valuetext", f"{UNITS[name]} {value}")
        state = DEFAULT._replace(**change)
        lab.expect_state(state)
        assert lab.value("hidden-keys") == state.n_past * state.n_new
    expect(lab.slider(name)).to_be_focused()


UNITS = {"n_past": "history", "n_new": "chunk"}


def tab_to(lab: Lab, name: str) -> None:
    """Press Tab until the slider has the focus."""
    focused = "handle => handle.getRootNode().activeElement === handle"
    for _ in range(40):
        lab.page.keyboard.press("Tab")
        if lab.slider(name).evaluate(focused):
            return
    pytest.fail(f"Tab doesn't reach the slider {name}")


@pytest.mark.parametrize(
    ("name", "label", "lowest", "highest"),
    [("n_past", "History length P", 0, 32), ("n_new", "Chunk size C", 1, 16)],
)
def test_a_slider_says_its_name_and_value(
    prebuilt_lab: Lab, name: str, label: str, lowest: int, highest: int
) -> None:
    slider = prebuilt_lab.page.get_by_role("slider", name=label)
    expect(slider).to_have_count(1)
    values = {key: slider.get_attribute(f"aria-value{key}") for key in ("min", "max", "now")}
    assert {key: float(value or "nan") for key, value in values.items()} == {
        "min": lowest,
        "max": highest,
        "now": getattr(DEFAULT, name),
    }
    expect(slider).to_have_attribute("aria-valuetext", f"{UNITS[name]} {getattr(DEFAULT, name)}")


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


def test_two_hundred_moves_make_no_new_models(lab: Lab) -> None:
    moves = [State(i % 33, 1 + i % 16, DTYPES[i % 2]) for i in range(200)]
    lab.move_to(moves[-1])
    before = lab.model_count()
    lab.move_through(moves)
    assert lab.model_count() == before


# --- From prebuilt to live ----------------------------------------------------------------------

WATCH_STATES = """
window.runtimeStates = [];
new MutationObserver((changes) => {
  window.runtimeStates.push(...changes.map((change) => change.oldValue));
}).observe(document, {
  subtree: true, attributeFilter: ["data-runtime-state"], attributeOldValue: true });
"""


def test_the_page_goes_from_prebuilt_over_loading_to_live(page: Page, site_url: str) -> None:
    page.add_init_script(WATCH_STATES)
    lab = Lab(page).open(site_url)
    lab.expect_runtime("live")
    seen = page.evaluate("() => [...runtimeStates, document.documentElement.dataset.runtimeState]")
    changes = [new for old, new in zip([None, *seen], seen, strict=False) if new != old]
    assert changes == ["prebuilt", "loading", "live"]
    expect(lab.status).to_have_text(
        "Live: Python in this page recomputed what you see, and every number is equal."
    )
    expect(lab.button).to_be_hidden()


def test_sliders_moved_while_python_loads_stay(
    page: Page, site_url: str, table: PrebuiltTable
) -> None:
    held: list[Route] = []
    page.route("**/*.wasm", lambda route: held.append(route))
    with page.expect_request("**/*.wasm"):
        lab = Lab(page).open(site_url)
    expect(lab.status).to_have_text(re.compile(r"downloading \d+\.\d of \d+\.\d MB"))
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
  if (message.type === "state" && !window.moved) {
    window.moved = true;
    Bokeh.documents[0].get_model_by_name("n_past").value = 20;
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
    page.route("**/*.wasm", lambda route: held.append(route))
    with page.expect_request("**/*.wasm"):
        lab = Lab(page).open(site_url)
    expect(lab.readout("top-left-error")).to_have_text("0.7")
    held[0].continue_()
    lab.expect_runtime("live")
    expect(lab.status).to_contain_text("differs from the prebuilt numbers")
    expect(lab.readout("top-left-error")).to_have_text("0.699")


def test_who_saves_data_is_asked_first(page: Page, site_url: str) -> None:
    page.add_init_script(SAVE_DATA)
    page.route("**/*.wasm", lambda route: None)  # for ever loading
    lab = Lab(page).open(site_url)
    lab.move_to(State(6, 2))
    lab.expect_runtime("prebuilt")
    assert not page.workers
    expect(lab.button).to_have_text("Start Python here")
    lab.button.click()
    lab.expect_runtime("loading")
