"""The blind-spot map: where a mistake shows, over history length and chunk size.

Computes nothing itself: every number comes from ``kvproof.blind_spots``.
"""

import math
from collections.abc import Iterator

import numpy as np
from bokeh.models import ColumnDataSource, Model
from numpy.typing import NDArray

from kvlab.controlled import ControlledLab, radio
from kvlab.figures import empty_figure
from kvlab.mask_texts import number
from kvlab.palette import themed
from kvlab.words import Text, plain, worded
from kvproof import BlindSpots, blind_spots

BUGS: dict[str, str | None] = {
    "blind.mask-topleft": "mask-topleft",
    "blind.mask-topleft-chunks": "mask-topleft-chunks",
    "blind.mask-skipped": "mask-skipped-cache",
    "blind.mask-skipped-past": "mask-skipped-past",
    "blind.pos-reset": "pos-reset-learned",
    "blind.self-read": "self-read-chunk",
    "blind.none": None,
}
"""Message -> the specimen of the zoo; None: nothing is wrong."""
DTYPES = ["float32", "float64"]
UNSEEN_MARK, HIDDEN_MARK = "○", "◐"
"""Instead of a number: no logit is off; logits are off, and every argmax is right."""
DECADES = (-3.0, 1.0)
"""Errors from 10 ** -3 up to 10 ** 1 are told apart by the colour's strength."""
FAINTEST, STRONGEST = 0.12, 0.5
"""Of the colour, so that the numbers on it keep their contrast."""


class BlindLab(ControlledLab):
    """Two maps, errors and agreement, and what to see in them (see ``kvlab.session.Lab``)."""

    def __init__(self) -> None:
        self._errors, self._agreement = _Map(), _Map()
        messages = list(BUGS)
        controls = {
            "bug": radio(messages, messages[0], messages),
            "dtype": radio(DTYPES, "float64"),
        }
        super().__init__(controls, {"errors": self._errors, "agreement": self._agreement}, {})

    def show(self, bug: str, dtype: str) -> Iterator[Text]:
        """Draw both maps of a mistake; say where it is invisible."""
        spots = blind_spots(BUGS[bug], dtype=dtype)
        marks = np.where(spots.unseen, UNSEEN_MARK, "")
        strength = np.where(spots.unseen, 0, error_strength(spots.errors))
        self._errors.show(spots, marks, short(spots.errors), strength)
        marks = np.where(spots.unseen_by_argmax, HIDDEN_MARK, marks)
        lost = 1 - spots.agreement
        strength = np.where(lost > 0, FAINTEST + (STRONGEST - FAINTEST) * lost, 0)
        self._agreement.show(spots, marks, percent(spots.agreement), strength)
        yield from texts(spots)


class _Map:
    """A cell for each history length (down) and chunk size (across), with a number or a mark."""

    def __init__(self) -> None:
        self.figure = empty_figure(aspect_ratio=1)
        self.figure.grid.visible = False
        worded(self.figure.xaxis[0], axis_label="blind.axis-chunk")
        worded(self.figure.yaxis[0], axis_label="blind.axis-history")
        self._cells = ColumnDataSource()
        cells = self.figure.rect(
            "column", "row", 0.94, 0.94, source=self._cells, fill_alpha="strength", line_width=1
        )
        themed(cells.glyph, fill_color="error", line_color="line")
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
        self._sized = False
        self.outputs: dict[str, tuple[Model, str]] = {"cells": (self._cells, "data")}

    def show(
        self,
        spots: BlindSpots,
        marks: NDArray[np.str_],
        shown: list[str],
        strength: NDArray[np.float64],
    ) -> None:
        """Draw one value of each cell."""
        if not self._sized:
            self._set_axes(spots.n_past, spots.n_new)
        row, column = np.indices(spots.errors.shape)
        labels = list(zip(marks.ravel().tolist(), shown, strict=True))
        self._cells.data = {
            "row": row.ravel().tolist(),
            "column": column.ravel().tolist(),
            "n_past": np.repeat(spots.n_past, len(spots.n_new)).tolist(),
            "n_new": np.tile(spots.n_new, len(spots.n_past)).tolist(),
            "text": [mark or number for mark, number in labels],
            "twin": [f"{mark} {number}".strip() for mark, number in labels],
            "strength": strength.ravel().round(3).tolist(),
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
            edges = (-0.5, len(lengths) - 0.5)
            span.start, span.end = edges if name == "x" else edges[::-1]
        self._sized = True


def error_strength(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """How strong the colour of an error is, on a log scale."""
    first, last = DECADES
    decade = np.log10(np.maximum(errors, 10.0**first))
    share = np.clip((decade - first) / (last - first), 0, 1)
    strength: NDArray[np.float64] = FAINTEST + (STRONGEST - FAINTEST) * share
    return strength


def short(errors: NDArray[np.float64]) -> list[str]:
    """Errors with two digits, as they fit into a cell."""
    return [_short(error) for error in errors.ravel().tolist()]


def _short(error: float) -> str:
    if error == 0:
        return "0"
    if error < 0.001:
        return f"{error:.0e}".replace("e-0", "e-")
    return f"{error:#.2g}" if error < 10 else f"{error:.0f}"


def percent(shares: NDArray[np.float64]) -> list[str]:
    """Shares rounded down, so that only all of the rows are 100%."""
    return [f"{math.floor(100 * share)}%" for share in shares.ravel().tolist()]


def texts(spots: BlindSpots) -> Iterator[Text]:
    """Where the mistake is invisible, and where the argmax hides it."""
    unseen, hidden = spots.unseen, spots.unseen_by_argmax
    cells, n_seen = str(unseen.size), int((~unseen).sum())
    floor = spots.rounding_floor
    yield plain("floor", f"{floor:.2e}", repr(floor))
    if n_seen == 0:
        yield Text("summary", "blind.summary-none", {"cells": cells})
        return
    yield Text("summary", _where(spots), {"unseen": str(int(unseen.sum())), "cells": cells})
    worst = float(spots.errors.max())
    yield Text("summary", "blind.summary-worst", {"error": number(worst)})
    seen = {"hidden": str(int(hidden.sum())), "seen": str(n_seen)}
    yield Text("summary", "blind.summary-argmax", seen)


def _where(spots: BlindSpots) -> str:
    no_history, single = bool(spots.unseen[0].all()), bool(spots.unseen[:, 0].all())
    if no_history and single:
        return "blind.summary-both"
    return "blind.summary-history" if no_history else "blind.summary-single"
