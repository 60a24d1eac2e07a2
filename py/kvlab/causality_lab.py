"""Causality: one token of a text is replaced; which outputs move, with the mask and without?

Computes nothing itself: every number comes from ``kvproof.perturb_future``.
"""

from collections.abc import Iterator

import numpy as np
from bokeh.models import ColumnDataSource, Model
from numpy.typing import NDArray

from kvlab.controls import radio, slider
from kvlab.figures import dashed_line, empty_figure
from kvlab.formats import number
from kvlab.lab import Lab, Part
from kvlab.log_axis import ZERO_LEVEL, error_axis, place
from kvlab.marks import MARKS, by_state, draw_marks
from kvlab.view import Block, Figure, Readouts, Table, key
from kvlab.words import Text, plain, worded
from kvproof import REFERENCE, offset_mask, open_mask, perturb_future
from kvproof.model.masks import Mask

N_TOTAL = 24
MASKS: dict[str, Mask] = {"causality.causal": offset_mask, "causality.open": open_mask}
"""Message -> which keys each query sees."""
INKS = {
    "hidden-future": "mark-future",
    "difference": "difference",
    "wrongly-seen": "wrongly-seen",
}
"""State of an output -> the concept of its mark."""


BLOCKS: list[Block] = [
    Figure(
        "moves",
        "causality.moves",
        Table(
            "moves.points",
            {"x": "causality.position", "move": "causality.move", "state": "causality.state"},
        ),
        "causality.show-moves",
        legend=[
            key(MARKS["hidden-future"].text, "muted", "causality.legend-stays"),
            key(MARKS["difference"].text, "difference", "causality.legend-moves"),
            key(MARKS["wrongly-seen"].text, "wrongly-seen", "causality.legend-leaks"),
            key("┊", "text", "causality.legend-line"),
        ],
        summary="summary",
        least="20rem",
    ),
    Readouts({"causality.earlier": ["earlier"], "causality.later": ["later"]}),
]


class CausalityLab(Lab):
    """How far each output moves when one token is another (see ``kvlab.lab.Lab``)."""

    title, to_try, notice = "causality.title", "causality.try", "causality.notice"

    def __init__(self) -> None:
        self._moves = _Moves()
        controls = {
            "changed": slider("causality.changed", "causality.spoken-changed", range(N_TOTAL), 12),
            "mask": radio("causality.mask", list(MASKS), "causality.causal", list(MASKS)),
        }
        parts: dict[str, Part] = {"moves": self._moves}
        super().__init__(controls, parts, BLOCKS, INKS)

    def show(self, changed: int, mask: str) -> Iterator[Text]:
        """Draw how far the outputs move, and say what that means for a cache."""
        moves = perturb_future(changed, N_TOTAL, REFERENCE, mask=MASKS[mask])
        self._moves.show(moves, changed)
        earlier, later = moves[:changed], moves[changed:]
        yield _largest("earlier", earlier)
        yield _largest("later", later)
        case = {"changed": str(changed), "total": str(N_TOTAL)}
        yield Text("summary", "causality.case", case)
        yield _before(earlier)
        yield Text("summary", "causality.later-moves", {"move": number(float(later.max()))})


def _largest(key: str, moves: NDArray[np.float64]) -> Text:
    if len(moves) == 0:
        return Text(key, "causality.no-output")
    largest = float(moves.max())
    if largest == 0:
        return Text(key, "number.exact-zero", {}, repr(largest))
    return plain(key, number(largest), repr(largest))


def _before(moves: NDArray[np.float64]) -> Text:
    """What the outputs before the replaced token do."""
    moved = int((moves > 0).sum())
    if len(moves) == 0:
        return Text("summary", "causality.none-before")
    if moved == 0:
        return Text("summary", "causality.stays")
    args = {"all": str(len(moves)), "move": number(float(moves.max()))}
    if moved < len(moves):
        return Text("summary", "causality.leaks-some", args | {"moved": str(moved)})
    if moved == 1:
        return Text("summary", "causality.leaks-one", {"move": args["move"]})
    return Text("summary", "causality.leaks-all", args)


class _Moves:
    """A mark for each position's output, on a log axis; a line where outputs may move."""

    def __init__(self) -> None:
        self.figure = empty_figure(aspect_ratio=2.6, min_border_top=10, y_axis_type="log")
        self.figure.xgrid.visible = False
        error_axis(self.figure, name="y")
        worded(self.figure.yaxis[0], axis_label="causality.axis-move")
        worded(self.figure.xaxis[0], axis_label="causality.axis-position")
        self.figure.x_range.update(start=-0.7, end=N_TOTAL - 0.3)
        self.figure.xaxis.ticker.ticks = list(range(0, N_TOTAL, 2))
        self._points = ColumnDataSource({"x": [], "y": [], "state": []})
        self._draw_points()
        self._changed = dashed_line(self.figure)
        self.outputs: dict[str, tuple[Model, str]] = {
            "points": (self._points, "data"),
            "line": (self._changed, "location"),
        }

    def _draw_points(self) -> None:
        self.figure.segment(
            "x",
            ZERO_LEVEL,
            "x",
            "y",
            source=self._points,
            line_width=2,
            line_color=by_state(INKS),
        )
        draw_marks(self.figure, self._points, INKS, size=11, line_width=2)

    def show(self, moves: NDArray[np.float64], changed: int) -> None:
        """Draw all positions; ``changed`` is that of the replaced token."""
        position = np.arange(len(moves))
        earlier = np.where(moves > 0, "wrongly-seen", "hidden-future")
        values = moves.tolist()
        self._points.data = {
            "x": position.tolist(),
            "y": [place(move) for move in values],
            "move": [number(move) for move in values],
            "state": np.where(position < changed, earlier, "difference").tolist(),
        }
        self._changed.location = changed - 0.5
