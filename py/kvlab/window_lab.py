"""Window and receptive field: a cache trimmed to its last tokens, beside those tokens fed again.

Computes nothing itself: every cell and number comes from ``kvproof.trim_or_refeed``.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from bokeh.models import ColumnDataSource, Model

from kvlab.cell_figure import CellFigure
from kvlab.controls import radio, slider
from kvlab.figures import axis_outputs, dashed_line, lines_figure, set_axis
from kvlab.formats import number
from kvlab.lab import Lab, Part
from kvlab.log_axis import error_axis, place
from kvlab.palette import themed
from kvlab.view import Block, Figure, Legend, Matrix, Name, Readouts, Side, Words, key, swatch
from kvlab.words import Text, plain, worded
from kvproof import REFERENCE, TrimReport, trim_or_refeed
from kvproof.model.masks import BoolArray

KEPT = 4
WINDOWS = {"window.none": None, "window.four": 4}
"""Message -> tokens that a query of the decoder sees."""
STATES = ["history", "wrongly-hidden", "hidden-future"]
N_LAYERS = REFERENCE.n_layers
STRIDE = KEPT + 1
"""The layers stand below each other with a gap of one row between them."""
ERRORS = ("keys-1", "values-1", "keys-2", "values-2", "logits")
SAME = 1e-12
"""In float64 what is the same differs by less than this."""


def _field(root: str, title: Words) -> Figure:
    cells = Matrix(f"{root}.cells", "window.corner", "key", "x", "state")
    return Figure(root, title, cells, "window.show-field")


BLOCKS: list[Block] = [
    Legend(
        [
            *(swatch(state, f"window.legend-{state}") for state in STATES),
            key("┊", "text", "window.legend-fed"),
        ]
    ),
    Side(
        [
            _field("kept", Name("window.kept", {"kept": str(KEPT)})),
            _field("refed", "window.refed"),
        ]
    ),
    Figure("errors", "window.differences", summary="summary", least="20rem"),
    Readouts(
        {f"window.{name}": [name] for name in ERRORS},
        head=["", "window.difference"],
    ),
]


class WindowLab(Lab):
    """What the kept keys have seen, what those fed again have, and how far they differ."""

    title, to_try, notice = "window.title", "window.try", "window.notice"

    def __init__(self) -> None:
        self._kept, self._refed, self._errors = _Field(), _RefedField(), _Errors()
        controls = {
            "tokens": slider("window.tokens", "window.spoken-tokens", range(8, 25, 2), 16),
            "extra": slider("window.extra", "window.spoken-extra", range(9), 0),
            "window": radio("window.window", list(WINDOWS), "window.none", list(WINDOWS)),
        }
        parts: dict[str, Part] = {"kept": self._kept, "refed": self._refed, "errors": self._errors}
        super().__init__(controls, parts, BLOCKS, STATES)

    def show(self, tokens: int, extra: int, window: str) -> Iterator[Text]:
        """Draw both fields and the differences."""
        config = replace(REFERENCE, window=WINDOWS[window])
        refed = min(KEPT + extra, tokens)
        result = trim_or_refeed(tokens, KEPT, refed, config, dtype="float64")
        self._kept.show(result.kept_seen, result.kept_seen)
        self._refed.show(result.kept_seen, result.refed_seen)
        self._refed.begin(tokens - refed)
        errors = dict(zip(ERRORS, _errors(result), strict=True))
        self._errors.show(list(errors.values()))
        for name, error in errors.items():
            if error == 0:
                yield Text(name, "number.exact-zero", {}, repr(error))
            else:
                yield plain(name, number(error), repr(error))
        yield from _summary(result)


def _errors(result: TrimReport) -> list[float]:
    """In the order of ``ERRORS``."""
    layers = zip(result.key_errors.tolist(), result.value_errors.tolist(), strict=True)
    return [*(error for layer in layers for error in layer), result.next_error]


def _summary(result: TrimReport) -> Iterator[Text]:
    lost = int((result.kept_seen & ~result.refed_seen).sum())
    case = {"tokens": str(result.n_total), "kept": str(result.kept), "refed": str(result.refed)}
    yield Text("summary", "window.case", case)
    if lost == 0:
        yield Text("summary", "window.lost-none")
    elif lost == 1:
        yield Text("summary", "window.lost-one")
    else:
        yield Text("summary", "window.lost-many", {"lost": str(lost)})
    if result.next_error > SAME:
        yield Text("summary", "window.differs", {"error": number(result.next_error)})
    else:
        yield Text("summary", "window.same")


class _Field(CellFigure):
    """A line for each kept key of each layer, a cell for each token of the text."""

    def __init__(self) -> None:
        super().__init__(STATES, aspect_ratio=2, mark_size=7)
        worded(self.figure.xaxis[0], axis_label="window.axis-token")
        worded(self.figure.yaxis[0], axis_label="window.axis-key")
        self.figure.y_range.update(start=N_LAYERS * STRIDE - 1.4, end=-0.6)
        self.figure.yaxis.ticker.ticks = [
            layer * STRIDE + row for layer in range(N_LAYERS) for row in range(KEPT)
        ]
        self._labels = self.figure.yaxis[0]
        self.outputs |= {
            "keys": (self._labels, "major_label_overrides"),
            **axis_outputs(self.figure, "x"),
        }

    def show(self, wanted: BoolArray, seen: BoolArray) -> None:
        """Draw what is seen, and what should be and isn't."""
        n_total = wanted.shape[2]
        layer, row, token = np.indices(wanted.shape)
        lost = np.where(wanted, "wrongly-hidden", "hidden-future")
        self.cells.data = {
            "x": token.ravel().tolist(),
            "y": (layer * STRIDE + row).ravel().tolist(),
            "key": [label(*key) for key in _keys(n_total) for _ in range(n_total)],
            "state": np.where(seen, "history", lost).ravel().tolist(),
        }
        ticks = zip(self.figure.yaxis[0].ticker.ticks, _keys(n_total), strict=True)
        self._labels.major_label_overrides = {tick: label(*key) for tick, key in ticks}
        set_axis(self.figure.xaxis, self.figure.x_range, (-0.6, n_total - 0.4), range(n_total))


class _RefedField(_Field):
    """With a line where the tokens begin that are fed again."""

    def __init__(self) -> None:
        super().__init__()
        self._fed = dashed_line(self.figure)
        self.outputs |= {"fed": (self._fed, "location")}

    def begin(self, first_fed: int) -> None:
        """Draw the line; nothing before ``first_fed`` was fed again."""
        self._fed.location = first_fed - 0.5


def _keys(n_total: int) -> list[tuple[int, int]]:
    """(layer, position) of the kept keys."""
    return [(layer, n) for layer in range(1, N_LAYERS + 1) for n in range(n_total - KEPT, n_total)]


def label(layer: int, position: int) -> str:
    """What a key is called: its layer and its position."""
    return f"{layer}: {position}"


class _Errors:
    """A mark for each difference, on a log axis."""

    def __init__(self) -> None:
        self.figure = lines_figure(len(ERRORS), aspect_ratio=4, x_axis_type="log")
        error_axis(self.figure)
        worded(self.figure.xaxis[0], axis_label="window.axis-difference")
        overrides: dict[float, str] = dict(enumerate(f"window.{name}" for name in ERRORS))
        worded(self.figure.yaxis[0], major_label_overrides=overrides)
        self._rows = ColumnDataSource()
        points = self.figure.scatter("x", "row", source=self._rows, marker="diamond", size=12)
        themed(points.glyph, fill_color="difference", line_color="difference")
        self.outputs: dict[str, tuple[Model, str]] = {"rows": (self._rows, "data")}

    def show(self, errors: list[float]) -> None:
        """Draw them in the order of ``ERRORS``."""
        self._rows.data = {
            "row": list(range(len(errors))),
            "x": [place(error) for error in errors],
        }
