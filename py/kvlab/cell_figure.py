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
    "recompute": ("x", "×", "mark"),
    "hidden-future": ("dash", "–", "mark-future"),
    "wrongly-hidden": ("x", "×", "mark"),
    "shared": ("square", "▣", "mark"),
}
"""State of a cell, which is also its concept -> its mark, the same as text, the mark's concept."""


def text_marks(states: Sequence[str]) -> dict[str, str]:
    """The marks as text of these states."""
    return {state: MARKS[state][1] for state in states}


class CellFigure:
    """Cells at whole numbers of x and y; the subclass sets the axes and fills in the cells.

    Args:
        aspect_ratio: width / height of the figure.
        mark_size: of the marks, in pixels; None: in place of its mark each cell has a ``label``.
    """

    def __init__(self, aspect_ratio: float, mark_size: float | None) -> None:
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
        if mark_size is None:
            self._draw_labels(ink)
        else:
            self._draw_marks(ink, mark_size)
        self.outputs: dict[str, tuple[Model, str]] = {"cells": (self.cells, "data")}

    def _draw_marks(self, ink: Model, size: float) -> None:
        markers = [marker for marker, _, _ in MARKS.values()]
        self.figure.scatter(
            "x",
            "y",
            source=self.cells,
            size=size,
            marker=_mapped(CategoricalMarkerMapper(factors=list(MARKS), markers=markers)),
            line_color=_mapped(ink),
            fill_color=_mapped(ink),
            line_width=1.5,
        )

    def _draw_labels(self, ink: Model) -> None:
        self.figure.text(
            "x",
            "y",
            text="label",
            source=self.cells,
            text_color=_mapped(ink),
            text_align="center",
            text_baseline="middle",
            text_font_size="11px",
        )


def _mapped(mapper: Model) -> dict[str, Any]:
    return {"field": "state", "transform": mapper}
