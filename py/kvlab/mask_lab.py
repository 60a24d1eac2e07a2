"""The mask lab: two sliders, the right mask beside the wrong one, and what each does to logits.

Computes nothing itself: every number comes from ``kvproof.compare_masks``.
"""

import dataclasses
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import panel as pn
from bokeh.models import (
    CategoricalColorMapper,
    CategoricalMarkerMapper,
    ColumnDataSource,
    FixedTicker,
    Model,
    Span,
)
from numpy.typing import NDArray

from kvlab.controls import style
from kvlab.figures import axis_outputs, empty_figure, set_axis
from kvlab.mask_texts import texts
from kvlab.palette import themed
from kvlab.words import columns, worded
from kvproof import MaskReport, MaskResult, compare_masks

MAX_PAST, MAX_NEW = 32, 16
DTYPES = ["float32", "float64"]
DEFAULT = {"n_past": 4, "n_new": 2, "dtype": "float64"}

CELL_STATES = ["history", "chunk", "hidden-future", "wrongly-hidden", "wrongly-seen"]
CELL_MARKS = ["circle", "circle", "dash", "x", "triangle"]
TEXT_MARKS = dict(zip(CELL_STATES, "●●–×▲", strict=True))
"""The same marks as text."""
MARK_COLOURS = ["mark", "mark", "mark-future", "mark", "mark"]
FRAME_RATIO = 2.2
"""Width / height of a mask figure's inside, to draw the cells nearly square."""
MIN_COLUMNS = 8
ZERO_LEVEL = 1e-18
"""Where an exact zero is drawn: a log axis has none, so its lowest tick stands for it."""

OFF_THE_SCALE = 20.0
"""Where a larger error is drawn, or one that isn't a number."""


class MaskLab:
    """Controls, figures and texts of the mask lab (see ``kvlab.session.Lab``)."""

    marks = TEXT_MARKS

    def __init__(self) -> None:
        self._controls = {
            "n_past": pn.widgets.IntSlider(start=0, end=MAX_PAST, value=DEFAULT["n_past"]),
            "n_new": pn.widgets.IntSlider(start=1, end=MAX_NEW, value=DEFAULT["n_new"]),
            "dtype": pn.widgets.RadioBoxGroup(options=DTYPES, value=DEFAULT["dtype"], inline=True),
        }
        for control in self._controls.values():
            control.sizing_mode = "stretch_width"
            control.param.watch(lambda _: self._update(), "value")
        self._masks = {"offset": _MaskFigure(), "top-left": _MaskFigure()}
        self._errors = _ErrorFigure()
        self._texts = ColumnDataSource(name="texts")
        self._candidate: MaskResult | None = None
        models: dict[str, Model] = {
            name: style(control.get_root()) for name, control in self._controls.items()
        }
        worded(models["n_past"], title="mask.n-past")
        worded(models["n_new"], title="mask.n-new")
        self.roots: dict[str, Model] = {
            **models,
            **{f"{name}-mask": mask.figure for name, mask in self._masks.items()},
            "errors": self._errors.figure,
            "texts": self._texts,
        }
        self.widgets = {
            "n_past": (models["n_past"], "value"),
            "n_new": (models["n_new"], "value"),
            "dtype": (models["dtype"], "active"),
        }
        self.outputs = {
            "texts": (self._texts, "data"),
            **{
                f"{name}-mask.{part}": output
                for name, mask in self._masks.items()
                for part, output in mask.outputs.items()
            },
            **{f"errors.{part}": output for part, output in self._errors.outputs.items()},
        }
        self.initial = {name: getattr(model, attr) for name, (model, attr) in self.widgets.items()}
        self._update()

    def states(self) -> Iterator[dict[str, Any]]:
        """All control values: 33 x 16 x 2 = 1,056 states."""
        for dtype, n_past, n_new in product(
            range(len(DTYPES)), range(MAX_PAST + 1), range(1, MAX_NEW + 1)
        ):
            yield {"n_past": n_past, "n_new": n_new, "dtype": dtype}

    def replace(self, candidate: dict[str, Any] | None) -> None:
        """Show something of the visitor's own in place of the top-left mask.

        Args:
            candidate: what ``Candidate.answer`` says of the next call; None: there is none.
        """
        self._candidate = None if candidate is None else _candidate_result(candidate)
        self._update()

    def _update(self) -> None:
        result = compare_masks(**{name: control.value for name, control in self._controls.items()})
        candidate = self._candidate
        if candidate is not None and candidate.mask.shape != result.offset.mask.shape:
            candidate = None  # it is of the next call
        if candidate is not None:
            result = dataclasses.replace(result, top_left=candidate)
        self._masks["offset"].show(result, result.offset)
        self._masks["top-left"].show(result, result.top_left)
        self._errors.show(result, candidate is not None)
        self._texts.data = columns(texts(result, candidate is not None))


def _without_nan(errors: NDArray[np.float64]) -> dict[str, list[Any]]:
    """JSON has no NaN; a mask of somebody's own may give one, and it is drawn at the top."""
    drawn = np.clip(np.nan_to_num(errors, nan=np.inf), ZERO_LEVEL, OFF_THE_SCALE)
    words = [error if np.isfinite(error) else str(error) for error in errors.tolist()]
    return {"top_left": words, "top_left_y": drawn.tolist()}


def _candidate_result(answer: dict[str, Any]) -> MaskResult:
    errors = np.array([float(error) for error in answer["row_errors"]])
    mask = np.array(answer["mask"], np.bool_)
    return MaskResult(mask, errors, float(answer["argmax_agreement"]), int(answer["n_nan"]))


class _MaskFigure:
    """One mask: a square a cell, query positions down, key positions across."""

    def __init__(self) -> None:
        self.figure = empty_figure(aspect_ratio=2)
        worded(self.figure.xaxis[0], axis_label="axis.key-position")
        worded(self.figure.yaxis[0], axis_label="axis.query-position")
        self.figure.grid.visible = False
        self._cells = ColumnDataSource({"key": [], "query": [], "state": []})
        self._draw_cells()
        self._marks = self._draw_marks()
        self._border = Span(dimension="height", line_dash="dashed", line_width=1.5)
        themed(self._border, line_color="text")
        self.figure.add_layout(self._border)
        self.outputs: dict[str, tuple[Model, str]] = {
            "cells": (self._cells, "data"),
            "mark_size": (self._marks, "size"),
            "mark_stroke": (self._marks, "line_width"),
            "history_end": (self._border, "location"),
            **axis_outputs(self.figure, "x", "y"),
        }

    def _draw_cells(self) -> None:
        fill = CategoricalColorMapper(factors=CELL_STATES, palette=["black"])
        themed(fill, palette=CELL_STATES)
        self.figure.rect(
            "key",
            "query",
            width=0.92,
            height=0.92,
            source=self._cells,
            line_color=None,
            fill_color={"field": "state", "transform": fill},
        )

    def _draw_marks(self) -> Model:
        ink = CategoricalColorMapper(factors=CELL_STATES, palette=["black"])
        themed(ink, palette=MARK_COLOURS)
        shape = CategoricalMarkerMapper(factors=CELL_STATES, markers=CELL_MARKS)
        marks = self.figure.scatter(
            "key",
            "query",
            source=self._cells,
            marker={"field": "state", "transform": shape},
            line_color={"field": "state", "transform": ink},
            fill_color={"field": "state", "transform": ink},
            line_width=1.5,
        )
        return marks.glyph

    def show(self, result: MaskReport, drawn: MaskResult) -> None:
        """Draw one of the report's two masks."""
        n_past, n_new, mask = result.n_past, result.n_new, drawn.mask
        n_total = n_past + n_new
        query, key = np.indices(mask.shape)
        state = np.select(
            [drawn.wrongly_seen, mask & (key < n_past), mask, drawn.wrongly_hidden],
            ["wrongly-seen", "history", "chunk", "wrongly-hidden"],
            "hidden-future",
        )
        self._cells.data = {
            "key": key.ravel().tolist(),
            "query": (n_past + query).ravel().tolist(),
            "state": state.ravel().tolist(),
        }
        columns = max(n_total, n_new * FRAME_RATIO, MIN_COLUMNS)
        self._marks.size = round(min(16.0, 200.0 / columns), 1)
        self._marks.line_width = round(min(1.5, 36.0 / columns), 2)
        self._border.location = n_past - 0.5
        rows = columns / FRAME_RATIO
        set_axis(self.figure.xaxis, self.figure.x_range, (-0.5, columns - 0.5), range(n_total))
        set_axis(
            self.figure.yaxis,
            self.figure.y_range,
            (n_past + rows - 0.5, n_past - 0.5),
            range(n_past, n_total),
        )


class _ErrorFigure:
    """Largest logit error of each new row under both masks, on a log axis."""

    def __init__(self) -> None:
        self.figure = empty_figure(
            aspect_ratio=2.6, y_axis_type="log", y_range=(ZERO_LEVEL / 30, 30.0)
        )
        worded(self.figure.xaxis[0], axis_label="axis.query-position")
        worded(self.figure.yaxis[0], axis_label="axis.largest-error")
        self.figure.xgrid.visible = False
        self.figure.yaxis.ticker = FixedTicker(ticks=[ZERO_LEVEL, *10.0 ** np.arange(-15, 1, 3)])
        worded(self.figure.yaxis[0], major_label_overrides={ZERO_LEVEL: "axis.exact-zero"})
        self._rows = ColumnDataSource()
        self._draw("offset", "circle", "accent")
        self._draw("top_left", "x", "wrongly-hidden")
        self._floor = Span(dimension="width", line_dash="dashed", line_width=1.5)
        themed(self._floor, line_color="text")
        self.figure.add_layout(self._floor)
        self.outputs: dict[str, tuple[Model, str]] = {
            "rows": (self._rows, "data"),
            "floor": (self._floor, "location"),
            **axis_outputs(self.figure, "x"),
        }

    def _draw(self, column: str, marker: str, concept: str) -> None:
        points = self.figure.scatter(
            f"{column}_x",
            f"{column}_y",
            source=self._rows,
            marker=marker,
            size=9,
            line_width=2,
        )
        themed(points.glyph, line_color=concept, fill_color=concept)

    def show(self, result: MaskReport, candidate: bool) -> None:
        """Draw the row errors of both masks; ``candidate``: the wrong one is the visitor's."""
        positions = np.arange(result.n_past, result.n_past + result.n_new)
        offset, top_left = result.offset.row_errors, result.top_left.row_errors
        columns = {
            "position": positions,
            "offset": offset,
            "top_left": top_left,
            # Side by side, so that equal errors don't cover each other.
            "offset_x": positions - 0.1,
            "top_left_x": positions + 0.1,
            "offset_y": np.maximum(offset, ZERO_LEVEL),
            "top_left_y": np.maximum(top_left, ZERO_LEVEL),
        }
        rows = {name: column.tolist() for name, column in columns.items()}
        self._rows.data = rows | (_without_nan(top_left) if candidate else {})
        self._floor.location = result.rounding_floor
        edges = (result.n_past - 0.6, result.n_past + result.n_new - 0.4)
        set_axis(self.figure.xaxis, self.figure.x_range, edges, positions.tolist())
