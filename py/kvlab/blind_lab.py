"""The blind-spot map: where a mistake shows, over history length and chunk size.

Computes nothing itself: every number comes from ``kvproof.blind_spots``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, Label, Model
from bokeh.plotting import figure
from numpy.typing import NDArray

from kvlab.controls import radio, select
from kvlab.figures import empty_figure
from kvlab.formats import number, percent
from kvlab.lab import Lab
from kvlab.marks import by_state
from kvlab.palette import themed
from kvlab.view import Block, CandidateBar, Entry, Figure, Legend, Matrix, Side, Summary, key
from kvlab.words import Text, plain, worded
from kvproof import REFERENCE, BlindSpots, DecoderConfig, blind_spots
from kvproof.model.config import Positions


@dataclass(frozen=True)
class Bug:
    """A mistake to choose; its message is ``blind.bug.NAME``."""

    specimen: str | None
    """Of the zoo; None: nothing is wrong."""
    positions: Positions | None = None
    """Another kind of positions than the specimen's."""


BUGS = {
    "mask-topleft": Bug("mask-topleft"),
    "mask-topleft-chunks": Bug("mask-topleft-chunks"),
    "mask-skipped-cache": Bug("mask-skipped-cache"),
    "mask-skipped-past": Bug("mask-skipped-past"),
    "mask-value-bool": Bug("mask-value-bool"),
    "mask-value-small": Bug("mask-value-small"),
    "self-read-chunk": Bug("self-read-chunk"),
    "self-read-last": Bug("self-read-last"),
    "pos-reset-learned": Bug("pos-reset-learned"),
    "pos-reset-rope": Bug("pos-reset-rope"),
    "pos-reset-alibi": Bug("pos-reset-learned", "alibi"),
    "bias-len-alibi": Bug("bias-len-alibi"),
    "bias-len-distance": Bug("bias-len-distance"),
    "pos-drift-window-length": Bug("pos-drift-window-length"),
    "window-obo-prefill": Bug("window-obo-prefill"),
    "window-obo-decode": Bug("window-obo-decode"),
    "window-obo-short": Bug("window-obo-short"),
    "window-phase-decode": Bug("window-phase-decode"),
    "window-phase-short-chunk": Bug("window-phase-short-chunk"),
    "window-phase-local": Bug("window-phase-local"),
    "ring-order-early": Bug("ring-order-early"),
    "logit-shift-scores": Bug("logit-shift-scores"),
    "logit-shift-last": Bug("logit-shift-last"),
    "none": Bug(None),
}
"""Name in the list and in a link -> what is done."""
DTYPES = ["float32", "float64"]
UNSEEN_MARK, HIDDEN_MARK = "○", "◐"
"""Instead of a number: no logit is off; logits are off, and every argmax is right."""
FAINTEST, STRONGEST = 0.05, 0.48
"""Of the colour, so that the numbers on it keep their contrast."""
UNSEEN = "hidden-future"
"""The concept of a cell that shows nothing."""
ROW, COLUMN = "blind.one-go", "blind.one-by-one"
"""What the first row and the first column are called."""


def _map(root: str) -> Figure:
    table = Matrix(f"{root}.cells", "blind.corner", "n_past", "n_new", "twin")
    return Figure(root, f"blind.{root}", table, "blind.show-map")


BLOCKS: list[Block] = [
    Legend(
        [
            Entry("blind.legend-unseen", UNSEEN_MARK, swatch=UNSEEN),
            key(HIDDEN_MARK, "text", "blind.legend-hidden"),
            key("■", "error", "blind.legend-strength"),
            key("", "text", "blind.floor", reading="floor"),
        ]
    ),
    CandidateBar("blind.candidate.back"),
    Summary(),
    Side([_map("errors"), _map("agreement")]),
]


class BlindLab(Lab):
    """Two maps, errors and agreement, and what to see in them (see ``kvlab.lab.Lab``)."""

    title, to_try, notice = "blind.title", "blind.try", "blind.notice"
    draws_candidates = True

    def __init__(self) -> None:
        self._errors, self._agreement = _Map(), _Map()
        controls = {
            "bug": select(
                "blind.bug.title",
                list(BUGS),
                "mask-topleft",
                [f"blind.bug.{name}" for name in BUGS],
            ),
            "dtype": radio("blind.dtype", DTYPES, "float64"),
        }
        parts = {"errors": self._errors, "agreement": self._agreement}
        super().__init__(controls, parts, BLOCKS)

    def show(self, bug: str, dtype: str, candidate: dict[str, Any] | None = None) -> Iterator[Text]:
        """Draw both maps, of a mistake or of the candidate; say where it is invisible."""
        if candidate is None:
            spots = _spots(bug, dtype)
            said = texts(spots, is_mistake=BUGS[bug].specimen is not None)
        else:
            spots = _candidate_spots(candidate)
            said = candidate_texts(spots)
        self._draw(spots)
        return said

    def _draw(self, spots: BlindSpots) -> None:
        marks = np.where(spots.unseen, UNSEEN_MARK, "")
        strength = np.where(spots.unseen, 1, error_strength(spots.errors))
        errors = spots.errors.ravel().tolist()
        shown = [number(error, 2) for error in errors]
        self._errors.show(spots, marks, shown, [short(error) for error in errors], strength)
        marks = np.where(spots.unseen_by_argmax, HIDDEN_MARK, marks)
        lost = 1 - spots.agreement
        strength = np.where(lost > 0, FAINTEST + (STRONGEST - FAINTEST) * lost, 0)
        strength = np.where(spots.unseen, 1, strength)
        shares = [percent(share) for share in spots.agreement.ravel().tolist()]
        self._agreement.show(spots, marks, shares, shares, strength)


@lru_cache(maxsize=64)
def _spots(bug: str, dtype: str) -> BlindSpots:
    """A choice is often gone back to."""
    chosen = BUGS[bug]
    return blind_spots(chosen.specimen, dtype=dtype, positions=chosen.positions)


def _candidate_spots(answer: dict[str, Any]) -> BlindSpots:
    errors = [[float(error) for error in row] for row in answer["errors"]]
    lengths = tuple(answer["n_past"]), tuple(answer["n_new"])
    agreement = np.array(answer["agreement"], np.float64)
    floor, seen_floors = float(answer["rounding_floor"]), float(answer["seen_floors"])
    return BlindSpots(*lengths, np.array(errors), agreement, floor, seen_floors)


class _Map:
    """A cell for each history length (down) and chunk size (across), with a number or a mark.

    The row without a history and the column of single tokens are framed: each is all that a habit
    of testing sees.  A ring is around the smallest call that shows the mistake.
    """

    def __init__(self) -> None:
        self.figure = empty_figure(aspect_ratio=1)
        self.figure.grid.visible = False
        worded(self.figure.xaxis[0], axis_label="blind.axis-chunk")
        worded(self.figure.yaxis[0], axis_label="blind.axis-history")
        self._cells, self._ring = ColumnDataSource({"state": []}), ColumnDataSource()
        fill = by_state({"unseen": UNSEEN, "seen": "error"})
        cells = self.figure.rect(
            "column",
            "row",
            0.94,
            0.94,
            source=self._cells,
            fill_color=fill,
            fill_alpha="strength",
        )
        themed(cells.glyph, line_color="line")
        ink = self.figure.text(
            "column",
            "row",
            text="text",
            source=self._cells,
            text_align="center",
            text_baseline="middle",
            text_font_size="12px",
        )
        themed(ink.glyph, text_color="text")
        ring = self.figure.ellipse(
            "column", "row", 0.86, 0.8, source=self._ring, fill_color=None, line_width=2.5
        )
        themed(ring.glyph, line_color="text")
        self._sized = False
        self.outputs: dict[str, tuple[Model, str]] = {
            "cells": (self._cells, "data"),
            "ring": (self._ring, "data"),
        }

    def show(
        self,
        spots: BlindSpots,
        marks: NDArray[np.str_],
        shown: list[str],
        brief: list[str],
        strength: NDArray[np.float64],
    ) -> None:
        """Draw one value of each cell: ``shown`` in the table, ``brief`` in the map."""
        if not self._sized:
            self._set_axes(spots.n_past, spots.n_new)
            _frame_habits(self.figure, *spots.errors.shape)
            self._sized = True
        row, column = np.indices(spots.errors.shape)
        labels = list(zip(marks.ravel().tolist(), shown, brief, strict=True))
        self._cells.data = {
            "row": row.ravel().tolist(),
            "column": column.ravel().tolist(),
            "n_past": np.repeat(spots.n_past, len(spots.n_new)).tolist(),
            "n_new": np.tile(spots.n_new, len(spots.n_past)).tolist(),
            "state": np.where(spots.unseen, "unseen", "seen").ravel().tolist(),
            "text": [mark or number for mark, _, number in labels],
            "twin": [f"{mark} {number}".strip() for mark, number, _ in labels],
            "strength": strength.ravel().round(3).tolist(),
        }
        call = spots.smallest_seen
        self._ring.data = {
            "row": [spots.n_past.index(call[0])] if call else [],
            "column": [spots.n_new.index(call[1])] if call else [],
        }

    def _set_axes(self, n_past: tuple[int, ...], n_new: tuple[int, ...]) -> None:
        """The lengths as ticks; the first of each, where mistakes hide, with its letter."""
        axes = (("x", "C", n_new), ("y", "P", n_past))
        for name, letter, lengths in axes:
            axis, span = (
                getattr(self.figure, f"{name}axis")[0],
                getattr(self.figure, f"{name}_range"),
            )
            axis.ticker.ticks = list(range(len(lengths)))
            labels = [f"{letter} = {lengths[0]}", *map(str, lengths[1:])]
            axis.major_label_overrides = dict(enumerate(labels))
            first, last = -0.53, len(lengths) - 0.47
            # Above the cells and below them is a line for the names of row and column.
            span.start, span.end = (first, last) if name == "x" else (last + 0.7, first - 0.7)


def _frame_habits(fig: figure, n_rows: int, n_columns: int) -> None:
    """Frame the first row and the first column, and name them."""
    middle_x, middle_y = (n_columns - 1) / 2, (n_rows - 1) / 2
    frames = fig.rect(
        [middle_x, 0], [0, middle_y], [n_columns, 1], [1, n_rows], fill_color=None, line_width=2
    )
    themed(frames.glyph, line_color="accent")
    for message, y in ((ROW, -0.85), (COLUMN, n_rows - 0.15)):
        label = Label(x=-0.5, y=y, x_offset=4, text_baseline="middle", text_font_size="12px")
        worded(label, text=message)
        themed(label, text_color="accent")
        fig.add_layout(label)


def error_strength(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """How strong the colour of each error is: in step with its share of the map's largest."""
    finite = errors[np.isfinite(errors)]
    largest = finite.max(initial=0) or 1.0
    strength: NDArray[np.float64] = FAINTEST + (STRONGEST - FAINTEST) * np.minimum(
        errors / largest, 1
    )
    return strength


def short(error: float) -> str:
    """An error as it fits into a cell on a phone: 0.27, 0.003, 5·10⁻⁴."""
    return number(error, 1 if 0.001 <= error < 0.01 else 2).replace("\u00a0×\u00a0", "·")


def texts(spots: BlindSpots, is_mistake: bool) -> Iterator[Text]:
    """Where the mistake is invisible, and where the argmax hides it."""
    yield _floor(spots)
    yield from _decoder(spots.config)
    cells, n_unseen = spots.unseen.size, int(spots.unseen.sum())
    if n_unseen == cells:
        nothing = "blind.summary-harmless" if is_mistake else "blind.summary-none"
        yield Text("summary", nothing, {"cells": str(cells)})
        return
    where, explained = _where(spots)
    yield Text("summary", where, {"unseen": str(explained), "cells": str(cells)})
    more = n_unseen - explained
    if more:
        said = "blind.summary-more.one" if more == 1 else "blind.summary-more.many"
        yield Text("summary", said, {"more": str(more)})
    yield from _worst(spots)


def candidate_texts(spots: BlindSpots) -> Iterator[Text]:
    """The same of a candidate, which may be invisible anywhere."""
    yield _floor(spots)
    cells, n_unseen = spots.unseen.size, int(spots.unseen.sum())
    if n_unseen == cells:
        yield Text("summary", "blind.candidate.right", {"cells": str(cells)})
        return
    unseen = {"unseen": str(n_unseen), "cells": str(cells)}
    yield Text("summary", "blind.candidate.summary", unseen)
    yield from _worst(spots)


def _floor(spots: BlindSpots) -> Text:
    return plain("floor", number(spots.rounding_floor), repr(spots.rounding_floor))


def _decoder(config: DecoderConfig | None) -> Iterator[Text]:
    """What the reference decoder is given for this mistake."""
    if config is None or config == REFERENCE:
        return
    if config.window is not None:
        yield Text("summary", "blind.in-window", {"window": str(config.window)})
    elif config.positions == "rope":
        yield Text("summary", "blind.in-rope")
    else:
        yield Text("summary", "blind.in-alibi")


def _where(spots: BlindSpots) -> tuple[str, int]:
    """What hides the mistake, and how many cells that explains.

    Raises:
        ValueError: neither an empty history nor single tokens do; no sentence is about that.
    """
    unseen, (n_rows, n_columns) = spots.unseen, spots.unseen.shape
    no_history, single = bool(unseen[0].all()), bool(unseen[:, 0].all())
    if no_history and single:
        return "blind.summary-both", n_rows + n_columns - 1
    if no_history:
        return "blind.summary-history", n_columns
    if single:
        return "blind.summary-single", n_rows
    raise ValueError("this mistake shows with an empty history and with single tokens")


def _worst(spots: BlindSpots) -> Iterator[Text]:
    yield Text("summary", "blind.summary-worst", {"error": number(spots.errors.max())})
    hidden, seen = int(spots.unseen_by_argmax.sum()), int((~spots.unseen).sum())
    counts = {"hidden": str(hidden), "seen": str(seen)}
    yield Text("summary", "blind.summary-argmax", counts)
    if spots.smallest_seen is not None:
        p, c = spots.smallest_seen
        ringed = "blind.ring-both" if p > 0 and c > 1 else "blind.ring-one"
        yield Text("summary", ringed, {"P": str(p), "C": str(c)})
