"""A figure of cells: one square each, with the colour and the mark of its state."""

from collections.abc import Sequence
from typing import Any

from bokeh.models import ColumnDataSource, Model

from kvlab.figures import empty_figure
from kvlab.marks import MARKS, by_state, draw_marks


class CellFigure:
    """Cells at whole numbers of x and y; the subclass sets the axes and fills in the cells.

    Args:
        states: that a cell may be in, of ``MARKS``.
        aspect_ratio: width / height of the figure.
        mark_size: of the marks, in pixels; None: in place of its mark each cell has a ``label``.
        options: of the figure, besides.
    """

    def __init__(
        self, states: Sequence[str], aspect_ratio: float, mark_size: float | None, **options: Any
    ) -> None:
        self.figure = empty_figure(aspect_ratio=aspect_ratio, **options)
        self.figure.grid.visible = False
        self.cells = ColumnDataSource({"x": [], "y": [], "state": []})
        fill = by_state({state: state for state in states})
        self.figure.rect("x", "y", 0.92, 0.92, source=self.cells, line_color=None, fill_color=fill)
        inks = {state: MARKS[state].ink for state in states}
        if mark_size is None:
            self.figure.text(
                "x",
                "y",
                text="label",
                source=self.cells,
                text_color=by_state(inks),
                text_align="center",
                text_baseline="middle",
                text_font_size="11px",
            )
        else:
            look = {"size": mark_size, "line_width": 1.5}
            self.marks = draw_marks(self.figure, self.cells, inks, **look)
        self.outputs: dict[str, tuple[Model, str]] = {"cells": (self.cells, "data")}
