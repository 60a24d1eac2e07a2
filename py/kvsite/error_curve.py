"""The float32 error of each position of a long text, from the notebook's results, as a figure."""

import math
from collections.abc import Callable, Iterator
from html import escape

import numpy as np

from kvsite.formats import number
from kvsite.timing import Results

WIDTH, HEIGHT = 720, 240
LEFT, RIGHT, TOP, BOTTOM = 84, 712, 16, 196
X_STEP = 50
Y_STEP = 2e-7
DOT = "h0"  # a line of no length with round ends


Say = Callable[..., str]
"""Gives the text of a message: ``Catalogue.say``."""


def error_curve_figure(results: Results, say: Say) -> str:
    """A dot for each position, cached token by token against one plain pass, as an inline SVG."""
    curve = results["correctness"]["error_curve"]
    errors: list[float] = curve["max_logit_error"]
    unit: float = curve["rounding_unit"]
    top = Y_STEP * math.ceil(max(*errors, unit) / Y_STEP)

    def x(position: int) -> float:
        return LEFT + (RIGHT - LEFT) * position / len(errors)

    def y(error: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * error / top

    dots = "".join(f"M{x(i):.1f},{y(error):.1f}{DOT}" for i, error in enumerate(errors))
    floor = f"M{LEFT},{y(unit):.1f}H{RIGHT}"
    grid = [(y(error), number(error)) for error in np.arange(0, top + Y_STEP / 2, Y_STEP)]
    ticks = [(x(i), str(i)) for i in range(0, len(errors), X_STEP)]
    return "\n".join(
        [
            f'<svg class="error-curve" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            'aria-labelledby="curve-title curve-desc" xmlns="http://www.w3.org/2000/svg">',
            f'<title id="curve-title">{escape(say("curve.title"))}</title>',
            f'<desc id="curve-desc">{escape(_describe(curve, say))}</desc>',
            *_axes(grid, ticks, say("curve.x-axis")),
            f'<path class="floor" d="{floor}"/>',
            f'<path class="dots" d="{dots}"/>',
            "</svg>",
        ]
    )


def _describe(curve: Results, say: Say) -> str:
    errors = np.array(curve["max_logit_error"])
    first, second = (float(half.mean()) for half in np.array_split(errors, 2))
    return say(
        "curve.describe",
        positions=curve["n_total"],
        largest=number(float(errors.max())),
        first=number(first),
        second=number(second),
    )


def _axes(
    grid: list[tuple[float, str]], ticks: list[tuple[float, str]], title: str
) -> Iterator[str]:
    for y, text in grid:
        yield f'<path class="grid" d="M{LEFT},{y:.1f}H{RIGHT}"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
    for x, text in ticks:
        yield f'<text x="{x:.1f}" y="{BOTTOM + 18}" text-anchor="middle">{text}</text>'
    middle = (LEFT + RIGHT) / 2
    yield f'<text x="{middle}" y="{BOTTOM + 38}" text-anchor="middle">{escape(title)}</text>'
