"""The mask lab: two sliders, the right mask beside the wrong one, and what each does to logits.

Computes nothing itself: every number comes from ``kvproof.compare_masks``.
"""

import dataclasses
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, Model
from bokeh.transform import dodge

from kvlab.cell_figure import CellFigure
from kvlab.controls import radio, slider
from kvlab.figures import axis_outputs, dashed_line, empty_figure, set_axis
from kvlab.formats import number
from kvlab.lab import Lab, Part
from kvlab.log_axis import error_axis, place
from kvlab.marks import MASK_STATES, mask_states
from kvlab.mask_texts import texts
from kvlab.palette import themed
from kvlab.view import (
    Block,
    CandidateBar,
    Figure,
    Legend,
    Matrix,
    Name,
    Readouts,
    Side,
    Table,
    Words,
    key,
    swatch,
)
from kvlab.words import Text, worded
from kvproof import MaskReport, MaskResult, compare_masks

MAX_PAST, MAX_NEW = 32, 16
DTYPES = ["float32", "float64", "bfloat16", "float16"]
FRAME_RATIO = 2.2
"""Width / height of a mask figure's inside, to draw the cells nearly square."""
MIN_COLUMNS = 8
APART = 0.1
"""How far the errors of both masks are drawn from their row, so that none covers the other."""


def _mask(root: str, title: Words, rule: Words, is_spoken: bool) -> Figure:
    return Figure(
        f"{root}-mask",
        title,
        Matrix(f"{root}-mask.cells", "mask.corner", "y", "x", "state"),
        "mask.show-mask",
        rule=rule,
        summary=f"{root}-summary",
        is_spoken=is_spoken,
    )


WRONG = Name("mask.top-left-mask", mask="mask.candidate.column")
WRONG_TITLE = Name(
    "mask.top-left-title",
    mask="mask.candidate.mask-title",
    decoder="mask.candidate.decoder-title",
)
BLOCKS: list[Block] = [
    Legend(
        [
            *(swatch(state, f"mask.legend.{state}") for state in MASK_STATES[:-1]),
            swatch("wrongly-seen", "mask.legend.wrongly-seen", candidate_only=True),
        ]
    ),
    CandidateBar("mask.candidate.back"),
    Side(
        [
            _mask("offset", "mask.offset-title", "mask.offset-rule", is_spoken=False),
            _mask(
                "top-left",
                WRONG_TITLE,
                Name("mask.top-left-rule", mask="candidate.cell"),
                is_spoken=True,
            ),
        ]
    ),
    Readouts(
        {
            "mask.error": ["offset-error", "top-left-error"],
            "mask.worst-row-title": ["offset-worst-row", "top-left-worst-row"],
            "mask.hidden-keys": ["offset-hidden-keys", "hidden-keys"],
            "mask.argmax-title": ["offset-argmax", "top-left-argmax"],
            "mask.nan": ["offset-nan", "top-left-nan"],
        },
        head=["", "mask.offset-mask", WRONG],
        caption="mask.caption",
        caption_reading="state",
    ),
    Figure(
        "errors",
        "mask.errors-title",
        Table(
            "errors.rows",
            {
                "position": "mask.position",
                "offset": "mask.offset-mask",
                "top_left": "mask.top-left-mask",
            },
        ),
        "mask.show-errors",
        legend=[
            key("●", "accent", "mask.offset-mask"),
            key("×", "wrongly-hidden", WRONG),
            key("- -", "text", "mask.errors-floor", reading="rounding-floor"),
        ],
        summary="errors-summary",
    ),
]


class MaskLab(Lab):
    """Two masks, and the errors of both; a candidate takes the wrong one's place."""

    title, to_try = "mask.title", "mask.try"
    draws_candidates = True

    def __init__(self) -> None:
        self._offset, self._top_left, self._errors = _MaskFigure(), _MaskFigure(), _ErrorFigure()
        controls = {
            "n_past": slider("mask.n-past", "unit.history", range(MAX_PAST + 1), 4),
            "n_new": slider("mask.n-new", "unit.chunk", range(1, MAX_NEW + 1), 2),
            "dtype": radio("mask.dtype", DTYPES, "float64"),
        }
        parts: dict[str, Part] = {
            "offset-mask": self._offset,
            "top-left-mask": self._top_left,
            "errors": self._errors,
        }
        super().__init__(controls, parts, BLOCKS, MASK_STATES)

    def show(
        self, n_past: int, n_new: int, dtype: str, candidate: dict[str, Any] | None = None
    ) -> list[Text]:
        """Draw both masks and the errors of all rows."""
        result = compare_masks(n_past, n_new, dtype)
        if candidate is not None:
            result = dataclasses.replace(result, top_left=_candidate_result(candidate))
        self._offset.show(result, result.offset)
        self._top_left.show(result, result.top_left)
        self._errors.show(result)
        return texts(result, candidate is not None)


def _candidate_result(answer: dict[str, Any]) -> MaskResult:
    errors = np.array([float(error) for error in answer["row_errors"]])
    mask = np.array(answer["mask"], np.bool_)
    return MaskResult(mask, errors, float(answer["argmax_agreement"]), int(answer["n_nan"]))


class _MaskFigure(CellFigure):
    """One mask: a cell for each query position, down, and key position, across."""

    def __init__(self) -> None:
        super().__init__(MASK_STATES, aspect_ratio=2, mark_size=16)
        worded(self.figure.xaxis[0], axis_label="axis.key-position")
        worded(self.figure.yaxis[0], axis_label="axis.query-position")
        self._border = dashed_line(self.figure)
        self.outputs |= {
            "mark_size": (self.marks, "size"),
            "mark_stroke": (self.marks, "line_width"),
            "history_end": (self._border, "location"),
            **axis_outputs(self.figure, "x", "y"),
        }

    def show(self, result: MaskReport, drawn: MaskResult) -> None:
        """Draw one of the report's two masks."""
        n_past, n_new, mask = result.n_past, result.n_new, drawn.mask
        n_total = n_past + n_new
        query, key = np.indices(mask.shape)
        state = mask_states(mask, drawn.right_mask, n_past)
        self.cells.data = {
            "x": key.ravel().tolist(),
            "y": (n_past + query).ravel().tolist(),
            "state": state.ravel().tolist(),
        }
        columns = max(n_total, n_new * FRAME_RATIO, MIN_COLUMNS)
        self.marks.size = round(min(16.0, 200.0 / columns), 1)
        self.marks.line_width = round(min(1.5, 36.0 / columns), 2)
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
        self.figure = empty_figure(aspect_ratio=2.6, y_axis_type="log")
        self.figure.xgrid.visible = False
        error_axis(self.figure, infinite=True, name="y")
        worded(self.figure.xaxis[0], axis_label="axis.query-position")
        worded(self.figure.yaxis[0], axis_label="axis.largest-error")
        self._rows = ColumnDataSource()
        self._draw("offset", -APART, "circle", "accent")
        self._draw("top_left", APART, "x", "wrongly-hidden")
        self._floor = dashed_line(self.figure, dimension="width")
        self.outputs: dict[str, tuple[Model, str]] = {
            "rows": (self._rows, "data"),
            "floor": (self._floor, "location"),
            **axis_outputs(self.figure, "x"),
        }

    def _draw(self, column: str, aside: float, marker: str, concept: str) -> None:
        points = self.figure.scatter(
            dodge("position", aside),
            f"{column}_y",
            source=self._rows,
            marker=marker,
            size=9,
            line_width=2,
        )
        themed(points.glyph, line_color=concept, fill_color=concept)

    def show(self, result: MaskReport) -> None:
        """Draw the row errors of both masks."""
        positions = list(range(result.n_past, result.n_past + result.n_new))
        rows: dict[str, list[Any]] = {"position": positions}
        for name, mask in ("offset", result.offset), ("top_left", result.top_left):
            errors = mask.row_errors.tolist()
            rows[name] = [number(error) for error in errors]
            rows[f"{name}_y"] = [place(error) for error in errors]
        self._rows.data = rows
        self._floor.location = result.rounding_floor
        edges = (result.n_past - 0.6, result.n_past + result.n_new - 0.4)
        set_axis(self.figure.xaxis, self.figure.x_range, edges, positions)
