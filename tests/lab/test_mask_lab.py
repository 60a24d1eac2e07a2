"""The mask lab: what is drawn is what was computed, in all 1,056 states."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import panel as pn
import pytest
from bokeh.document import Document
from bokeh.embed.util import standalone_docs_json
from bokeh.models import CategoricalColorMapper, CategoricalMarkerMapper, Model

from kvlab.mask_lab import (
    CELL_MARKS,
    CELL_STATES,
    MARK_COLOURS,
    TEXT_MARKS,
    ZERO_LEVEL,
    MaskLab,
)
from kvlab.mask_texts import texts
from kvlab.palette import LIGHT
from kvlab.session import Session, state_table
from kvlab.words import columns
from kvproof import MaskReport, top_left_mask
from kvproof import compare_masks as new_report

OTHER_HOST = re.compile(r"(https?:)?//[a-z0-9]", re.IGNORECASE)
SOME_STATES = [(4, 2), (0, 1), (0, 16), (1, 1), (5, 3), (10, 3), (32, 1), (32, 16)]

States = dict[str, dict[str, Any]]
report = cache(new_report)


@pytest.fixture
def session() -> Session:
    return Session(MaskLab)


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    return state_table(Session(MaskLab))


@pytest.fixture(scope="module")
def states(table: dict[str, Any]) -> States:
    """Control values joined by commas -> name of an output -> its value, as the page finds it."""
    outputs = MaskLab().outputs
    return {
        key: {name: table["pool"][index] for name, index in zip(outputs, indices, strict=True)}
        for key, indices in table["states"].items()
    }


def each(states: States) -> Iterator[tuple[int, int, str, dict[str, Any]]]:
    for key, state in states.items():
        n_past, n_new, dtype = map(int, key.split(","))
        yield n_past, n_new, ["float32", "float64"][dtype], state


def move(session: Session, n_past: int, n_new: int, dtype: int = 1) -> dict[str, Any]:
    session.set({"n_past": n_past, "n_new": n_new, "dtype": dtype})
    return dict(zip(session.lab.outputs, session.state(), strict=True))


def test_the_controls_have_their_names_and_limits(session: Session) -> None:
    sliders = {name: session.lab.roots[name] for name in ("n_past", "n_new")}
    assert {name: (s.title, s.start, s.end, s.step) for name, s in sliders.items()} == {
        "n_past": ("mask.n-past", 0, 32, 1),
        "n_new": ("mask.n-new", 1, 16, 1),
    }
    assert session.lab.roots["dtype"].labels == ["float32", "float64"]


def test_the_lab_starts_with_the_worked_example(session: Session) -> None:
    assert session.lab.initial == {"n_past": 4, "n_new": 2, "dtype": 1}
    assert session.state() == list(move(Session(MaskLab), 4, 2).values())
    move(session, 9, 9, 0)
    assert session.lab.initial == {"n_past": 4, "n_new": 2, "dtype": 1}


def test_the_table_has_all_1056_states_once(table: dict[str, Any]) -> None:
    expected = {f"{p},{c},{d}" for p in range(33) for c in range(1, 17) for d in (0, 1)}
    assert len(expected) == 1056
    assert table["states"].keys() == expected
    values = list(MaskLab().states())
    assert len({json.dumps(value) for value in values}) == len(values) == 1056


def test_the_table_stores_each_value_once_and_uses_each(table: dict[str, Any]) -> None:
    pool = [json.dumps(value, allow_nan=False) for value in table["pool"]]
    assert len(set(pool)) == len(pool)
    used = {index for indices in table["states"].values() for index in indices}
    assert used == set(range(len(pool)))


@pytest.mark.parametrize("dtype", [0, 1])
@pytest.mark.parametrize(("n_past", "n_new"), SOME_STATES)
def test_a_stored_state_is_what_a_fresh_session_answers(
    states: States, session: Session, n_past: int, n_new: int, dtype: int
) -> None:
    answer = session.answer(json.dumps({"n_past": n_past, "n_new": n_new, "dtype": dtype}))
    stored = list(states[f"{n_past},{n_new},{dtype}"].values())
    assert json.dumps(stored) == answer


def test_the_way_to_a_state_leaves_no_trace(session: Session, states: States) -> None:
    """Wild slider moves: only where they end counts."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        move(session, *rng.integers([0, 1, 0], [33, 17, 2]).tolist())
    assert json.dumps(move(session, 4, 2)) == json.dumps(states["4,2,1"])


def test_texts_are_those_of_the_report(states: States) -> None:
    for n_past, n_new, dtype, state in each(states):
        assert state["texts"] == columns(texts(new_report(n_past, n_new, dtype)))


def cell_state(mask: str, n_past: int, i: int, j: int) -> str:
    """What a cell must show, from the definitions alone."""
    future = j > n_past + i
    seen = not future if mask == "offset" else j <= i
    if seen:
        return "history" if j < n_past else "chunk"
    return "hidden-future" if future else "wrongly-hidden"


@pytest.mark.parametrize("mask", ["offset", "top-left"])
def test_the_cells_drawn_are_the_mask(states: States, mask: str) -> None:
    for n_past, n_new, _, state in each(states):
        drawn = state[f"{mask}-mask.cells"]
        cells = zip(drawn["query"], drawn["key"], drawn["state"], strict=True)
        assert list(cells) == [
            (n_past + i, j, cell_state(mask, n_past, i, j))
            for i in range(n_new)
            for j in range(n_past + n_new)
        ]


def test_the_right_mask_wrongly_hides_nothing_and_the_other_pc_keys(states: States) -> None:
    for n_past, n_new, _, state in each(states):
        assert "wrongly-hidden" not in state["offset-mask.cells"]["state"]
        hidden = state["top-left-mask.cells"]["state"].count("wrongly-hidden")
        assert hidden == n_past * n_new


def test_a_broken_offset_mask_is_drawn_as_such(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvproof.experiments.compare_masks.offset_mask", top_left_mask)
    drawn = move(session, 5, 2)["offset-mask.cells"]["state"]
    assert drawn.count("wrongly-hidden") == 5 * 2


def test_the_errors_drawn_are_the_reports(states: States) -> None:
    """An exact zero has no place on a log axis: it stands on a level of its own."""
    for n_past, n_new, dtype, state in each(states):
        result = new_report(n_past, n_new, dtype)
        rows = state["errors.rows"]
        assert rows["position"] == list(range(n_past, n_past + n_new))
        for name, mask in ("offset", result.offset), ("top_left", result.top_left):
            errors = mask.row_errors.tolist()
            assert rows[name] == errors
            assert rows[f"{name}_y"] == [error or ZERO_LEVEL for error in errors]
            np.testing.assert_allclose(rows[f"{name}_x"], rows["position"], rtol=0, atol=0.3)
        assert state["errors.floor"] == result.rounding_floor


def test_all_that_is_drawn_lies_inside_its_axes(session: Session, states: States) -> None:
    y = session.lab.roots["errors"].y_range
    for n_past, n_new, _, state in each(states):
        for name in ("offset_y", "top_left_y"):
            assert all(y.start < error < y.end for error in state["errors.rows"][name])
        assert y.start < state["errors.floor"] < y.end
        assert state["errors.x.start"] < n_past - 0.2
        assert state["errors.x.end"] > n_past + n_new - 1 + 0.2
        for mask in ("offset-mask", "top-left-mask"):
            assert state[f"{mask}.x.start"] <= -0.5
            assert state[f"{mask}.x.end"] >= n_past + n_new - 0.5
            top, bottom = state[f"{mask}.y.end"], state[f"{mask}.y.start"]
            assert top <= n_past - 0.5, "the first query is the top row"
            assert bottom >= n_past + n_new - 0.5 - 1e-9
            assert state[f"{mask}.history_end"] == n_past - 0.5


def test_ticks_are_positions_and_not_too_many(states: States) -> None:
    for n_past, n_new, _, state in each(states):
        queries, keys = range(n_past, n_past + n_new), range(n_past + n_new)
        for name, positions in {
            "offset-mask.x": keys,
            "offset-mask.y": queries,
            "top-left-mask.x": keys,
            "top-left-mask.y": queries,
            "errors.x": queries,
        }.items():
            ticks = state[f"{name}.ticks"]
            assert set(ticks) <= set(positions)
            assert ticks[0] == positions[0]
            assert min(6, len(positions)) <= len(ticks) <= 12


@pytest.mark.parametrize("mask", ["offset-mask", "top-left-mask"])
def test_a_cells_state_gives_its_colour_and_its_mark(session: Session, mask: str) -> None:
    figure = session.lab.roots[mask]
    palettes = [mapper.palette for mapper in figure.select({"type": CategoricalColorMapper})]
    assert sorted(palettes) == sorted(
        [[LIGHT[name] for name in CELL_STATES], [LIGHT[name] for name in MARK_COLOURS]]
    )
    [marker] = figure.select({"type": CategoricalMarkerMapper})
    assert (marker.factors, marker.markers) == (CELL_STATES, CELL_MARKS)
    assert all(m.factors == CELL_STATES for m in figure.select({"type": CategoricalColorMapper}))


def test_marks_in_text_are_told_apart_as_those_that_are_drawn() -> None:
    assert list(TEXT_MARKS) == CELL_STATES
    pairs = set(zip(CELL_MARKS, TEXT_MARKS.values(), strict=True))
    assert pairs == {("circle", "●"), ("dash", "–"), ("x", "×"), ("triangle", "▲")}


def test_each_colour_has_a_note_for_other_themes(session: Session) -> None:
    """The page reads the note to recolour the model; in the light theme both must agree."""
    noted = [model for model in session.document.select({"type": Model}) if model.tags]
    assert len(noted) >= 20
    for model in noted:
        [themed] = (tag["themed"] for tag in model.tags if "themed" in tag)
        for name, concept in themed.items():
            wanted = LIGHT[concept] if isinstance(concept, str) else [LIGHT[c] for c in concept]
            assert getattr(model, name) == wanted


def urls(description: object) -> list[str]:
    return [found[0] for found in OTHER_HOST.finditer(json.dumps(description))]


def test_the_document_asks_no_other_host(session: Session, table: dict[str, Any]) -> None:
    assert urls(session.description()) == []
    assert urls(table) == []


def test_panels_own_widgets_would_ask_one() -> None:
    """The control: without our style sheet a slider brings those of Panel's CDN."""
    document = Document()
    document.add_root(pn.widgets.IntSlider(label="plain").get_root())
    assert urls(standalone_docs_json(document.roots))


def test_figures_are_updated_in_place(session: Session) -> None:
    """Bokeh leaks figures that are replaced, so a move must make no new model."""
    before = {model.id for model in session.document.models}
    move(session, 20, 9, 0)
    assert {model.id for model in session.document.models} == before


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"n_past": 4, "n_new": 0, "dtype": 1}, ValueError, "n_new must be at least 1, got 0"),
        ({"n_past": -1, "n_new": 2, "dtype": 1}, ValueError, "n_past must be at least 0, got -1"),
        ({"n_past": 4, "n_new": 2, "dtype": 2}, IndexError, "list index out of range"),
        ({"n_past": 4, "n_new": 2}, KeyError, "dtype"),
    ],
)
def test_what_no_control_can_send_is_an_error(
    session: Session, values: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        session.set(values)


@pytest.fixture
def with_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    """No state of ours has one; a broken build must not look healthy."""

    def broken(n_past: int, n_new: int, dtype: str) -> MaskReport:
        result = new_report(n_past, n_new, dtype)
        result.offset.row_errors[0] = np.nan
        return result

    monkeypatch.setattr("kvlab.mask_lab.compare_masks", broken)


def test_a_nan_in_a_report_reaches_the_words(session: Session, with_nan: None) -> None:
    shown = move(session, 5, 2)["texts"]
    assert shown["value"][shown["key"].index("offset-error")] == "nan"


def test_an_answer_with_a_nan_names_the_output(session: Session, with_nan: None) -> None:
    with pytest.raises(ValueError, match="output 'errors.rows' can't be shown"):
        session.answer('{"n_past": 5, "n_new": 2, "dtype": 1}')
