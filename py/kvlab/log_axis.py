"""Errors on a log axis: decades, a place for an exact zero, and one for what is no number."""

import math

import numpy as np
from bokeh.models import FixedTicker
from bokeh.plotting import figure

from kvlab.words import worded

ZERO_LEVEL = 1e-18
"""Where an exact zero is drawn: a log axis has none, so its lowest tick stands for it."""
INFINITE_LEVEL = 1e3
"""Where an error is drawn that isn't a number, or that is infinite: that of such a logit."""


def error_axis(fig: figure, infinite: bool = False, name: str = "x") -> None:
    """Make an axis, ``x`` or ``y``, one of errors, from exact zero to about 30, or to infinity."""
    span, axis = getattr(fig, f"{name}_range"), getattr(fig, f"{name}axis")
    span.start = ZERO_LEVEL / 30
    span.end = INFINITE_LEVEL * 30 if infinite else 30.0
    ticks = [ZERO_LEVEL, *10.0 ** np.arange(-15, 1, 3), *([INFINITE_LEVEL] if infinite else [])]
    axis.ticker = FixedTicker(ticks=ticks)
    messages: dict[float, str] = {ZERO_LEVEL: "axis.exact-zero"}
    if infinite:
        messages[INFINITE_LEVEL] = "axis.no-number"
    worded(axis[0], major_label_overrides=messages)


def place(error: float) -> float:
    """Where an error is drawn: with four digits, which is far below a pixel."""
    return max(float(f"{error:.3e}"), ZERO_LEVEL) if math.isfinite(error) else INFINITE_LEVEL
