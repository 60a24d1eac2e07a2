"""What the labs' figures have in common: an empty figure in the page's colours, and its axes."""

from collections.abc import Sequence
from typing import Any

from bokeh.models import FixedTicker, Model, Range1d, Span
from bokeh.plotting import figure

from kvlab.palette import themed

MAX_TICKS = 12
MIN_HEIGHT = 170
"""In pixels: flatter, as on a phone, the labels of an axis would lie upon each other."""


def empty_figure(**options: Any) -> figure:
    """A figure without tools, on the page's own ground, that takes its place's width."""
    empty = figure(
        tools="",
        toolbar_location=None,
        sizing_mode="scale_width",
        outline_line_color=None,
        min_border=0,
        **{
            "min_height": MIN_HEIGHT,
            "x_range": Range1d(0, 1),
            "y_range": Range1d(0, 1),
            **options,
        },
    )
    themed(empty, background_fill_color="surface", border_fill_color="surface")
    for axis in empty.axis:
        axis.axis_label_text_font_style = "normal"
        axis.minor_tick_line_color = None
        themed(
            axis,
            axis_label_text_color="muted",
            major_label_text_color="muted",
            axis_line_color="line",
            major_tick_line_color="line",
        )
    for grid in empty.grid:
        themed(grid, grid_line_color="line")
    for axis in (empty.xaxis, empty.yaxis):
        axis.ticker = FixedTicker()
    return empty


def lines_figure(n_lines: int, **options: Any) -> figure:
    """The same with a line for each of some things, from the top, which its y axis is to name."""
    fig = empty_figure(min_border_top=10, **options)
    fig.ygrid.visible = False
    fig.y_range.update(start=n_lines - 0.4, end=-0.6)
    fig.yaxis.ticker.ticks = list(range(n_lines))
    return fig


def dashed_line(fig: figure, location: float | None = None, dimension: str = "height") -> Span:
    """A line across the figure, upright or with the other ``dimension``, "width"."""
    line = Span(location=location, dimension=dimension, line_dash="dashed", line_width=1.5)
    themed(line, line_color="text")
    fig.add_layout(line)
    return line


def axis_outputs(fig: figure, *names: str) -> dict[str, tuple[Model, str]]:
    """What ``set_axis`` changes on the axes ``x`` or ``y``."""
    outputs: dict[str, tuple[Model, str]] = {}
    for name in names:
        span = getattr(fig, f"{name}_range")
        axis = getattr(fig, f"{name}axis")
        outputs |= {
            f"{name}.start": (span, "start"),
            f"{name}.end": (span, "end"),
            f"{name}.ticks": (axis[0].ticker, "ticks"),
        }
    return outputs


def set_axis(
    axis: Any, span: Range1d, edges: tuple[float, float], positions: Sequence[int]
) -> None:
    """Show ``edges``, with a tick at every position, or every few where they'd be too dense."""
    step = next(step for step in (1, 2, 4, 8) if len(positions) <= MAX_TICKS * step)
    axis[0].ticker.ticks = list(positions)[::step]
    span.start, span.end = edges
