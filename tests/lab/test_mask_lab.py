"""The mask lab: what is drawn is what was computed, in all its states."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import panel as pn
import pytest
from bokeh.document import Document
from bokeh.embed.util import standalone_docs_json
from tests.lab.lab_states import all_states, move, value
from tests.lab.test_all_labs import urls

from kvlab.formats import number
from kvlab.log_axis import INFINITE_LEVEL, ZERO_LEVEL
from kvlab.mask_lab import DTYPES, MaskLab
from kvlab.mask_texts import texts
from kvlab.session import Session
from kvlab.words import columns
from kvproof import MaskReport, top_left_mask
from kvproof import compare_masks as new_report

report = cache(new_report)


@pytest.fixture
def session() -> Session:
    return Session(MaskLab)


def each() -> Iterator[tuple[int, int, str, dict[str, Any]]]:
    for values, state in all_states("mask"):
        yield values["n_past"], values["n_new"], DTYPES[values["dtype"]], state


def test_texts_are_those_of_the_report() -> None:
    for n_past, n_new, dtype, state in each():
        assert state["texts"] == columns(texts(new_report(n_past, n_new, dtype)))


def cell_state(mask: str, n_past: int, i: int, j: int) -> str:
    """What a cell must show, from the definitions alone."""
    future = j > n_past + i
    seen = not future if mask == "offset" else j <= i
    if seen:
        return "history" if j < n_past else "chunk"
    return "hidden-future" if future else "wrongly-hidden"


@pytest.mark.parametrize("mask", ["offset", "top-left"])
def test_the_cells_drawn_are_the_mask(mask: str) -> None:
    for n_past, n_new, _, state in each():
        drawn = state[f"{mask}-mask.cells"]
        cells = zip(drawn["y"], drawn["x"], drawn["state"], strict=True)
        assert list(cells) == [
            (n_past + i, j, cell_state(mask, n_past, i, j))
            for i in range(n_new)
            for j in range(n_past + n_new)
        ]


def test_each_cell_has_the_mark_of_its_state(session: Session) -> None:
    squares, marks = session.lab.roots["top-left-mask"].renderers
    assert marks.data_source is squares.data_source
    shape = marks.glyph.marker.transform
    assert dict(zip(shape.factors, shape.markers, strict=True)) == {
        "history": "circle",
        "chunk": "circle",
        "hidden-future": "dash",
        "wrongly-hidden": "x",
        "wrongly-seen": "triangle",
    }


def test_a_broken_offset_mask_is_drawn_as_such(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvproof.experiments.compare_masks.offset_mask", top_left_mask)
    drawn = move(session, n_past=5, n_new=2)["offset-mask.cells"]["state"]
    assert drawn.count("wrongly-hidden") == 5 * 2


def test_the_errors_drawn_are_the_reports() -> None:
    """An exact zero has no place on a log axis: it stands on a level of its own."""
    for n_past, n_new, dtype, state in each():
        result = new_report(n_past, n_new, dtype)
        rows = state["errors.rows"]
        assert rows["position"] == list(range(n_past, n_past + n_new))
        for name, mask in ("offset", result.offset), ("top_left", result.top_left):
            errors = mask.row_errors
            assert rows[name] == [number(error) for error in errors]
            np.testing.assert_allclose(rows[f"{name}_y"], np.maximum(errors, ZERO_LEVEL), rtol=1e-3)
        assert state["errors.floor"] == result.rounding_floor


def test_all_that_is_drawn_lies_inside_its_axes(session: Session) -> None:
    y = session.lab.roots["errors"].y_range
    for n_past, n_new, _, state in each():
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


def test_ticks_are_positions_and_not_too_many() -> None:
    for n_past, n_new, _, state in each():
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


def test_panels_own_widgets_would_ask_one() -> None:
    """The control: without our style sheet a slider brings those of Panel's CDN."""
    document = Document()
    document.add_root(pn.widgets.IntSlider(label="plain").get_root())
    assert urls(standalone_docs_json(document.roots))


def test_a_nan_in_a_report_is_said_and_drawn_where_no_number_is(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No state of ours has one; a broken build must not look healthy."""

    def broken(n_past: int, n_new: int, dtype: str) -> MaskReport:
        result = new_report(n_past, n_new, dtype)
        result.offset.row_errors[0] = np.nan
        return result

    monkeypatch.setattr("kvlab.mask_lab.compare_masks", broken)
    state = move(session, n_past=5, n_new=2)
    assert value(state, "offset-error") == "nan"
    assert state["errors.rows"]["offset"][0] == "NaN"
    assert state["errors.rows"]["offset_y"][0] == INFINITE_LEVEL
