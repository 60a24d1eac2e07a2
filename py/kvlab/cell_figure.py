"""A figure of cells: one square each, with the colour and the mark of its state."""

from collections.abc import Sequence
from typing import Any

from bokeh.models import (
    CategoricalColorMapper,
    CategoricalMarkerMapper,
    ColumnDataSource,
    Model,
)

from kvlab.figures import empty_figure
from kvlab.palette import themed

MARKS = {
    "history": ("circle", "●", "mark"),
    "chunk": ("circle", "●", "mark"),
    "cached": ("diamond", "◆", "mark"),
    "recompute": ("x", "×", "mark"),
    "hidden-future": ("dash", "–", "mark-future"),
    "wrongly-hidden": ("x", "×", "mark"),
}
"""State of a cell, which is also its concept -> its mark, the same as text, the mark's concept."""


def text_marks(states: Sequence[str]) -> dict[str, str]:
    """The marks as text of these states."""
    return {state: MARKS[state][1] for state in states}


class CellFigure:
    """Cells at whole numbers of x and y; y grows downwards.

    The subclass or its lab sets the axes; ``outputs`` has the cells.
    """

    def __init__(self, aspect_ratio: float, mark_size: float) -> None:
        self.figure = empty_figure(aspect_ratio=aspect_ratio)
        self.figure.grid.visible = False
        self.cells = ColumnDataSource({"x": [], "y": [], "state": []})
        states = list(MARKS)
        fill = CategoricalColorMapper(factors=states, palette=["black"])
        themed(fill, palette=states)
        self.figure.rect(
            "x", "y", 0.92, 0.92, source=self.cells, line_color=None, fill_color=_mapped(fill)
        )
        ink = CategoricalColorMapper(factors=states, palette=["black"])
        themed(ink, palette=[MARKS[state][2] for state in states])
        shape = CategoricalMarkerMapper(
            factors=states, markers=[MARKS[state][0] for state in states]
        )
        self.figure.scatter(
            "x",
            "y",
            source=self.cells,
            size=mark_size,
            marker=_mapped(shape),
            line_color=_mapped(ink),
            fill_color=_mapped(ink),
            line_width=1.5,
        )
        self.outputs: dict[str, tuple[Model, str]] = {"cells": (self.cells, "data")}


def _mapped(mapper: Model) -> dict[str, Any]:
    return {"field": "state", "transform": mapper}
