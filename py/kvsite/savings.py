"""What a cache saves, on linear axes: K/V entries by formula, and the notebook's CPU times."""

from html import escape
from typing import NamedTuple

import numpy as np

from kvproof.experiments.costs import count_costs
from kvproof.experiments.model_shapes import MODEL_SHAPES
from kvsite.formats import number
from kvsite.timing import Results, timing_rows
from kvsite.words import Catalogue

TOKENS = 1_000
"""Of the text that is written, from nothing on."""
POINTS = 40
MS = "\N{NO-BREAK SPACE}ms"
WIDTH, HEIGHT = 360, 250
LEFT, RIGHT, TOP, BOTTOM = 8, 352, 30, 206


class Curve(NamedTuple):
    """One way of reading: its name, its style's class, and a value at each place."""

    name: str
    css_class: str
    values: list[float]
    unit: str = ""


def savings(results: Results, words: Catalogue) -> dict[str, str]:
    """Two figures as inline SVG: ``work``, counted, and ``times``, measured."""
    return {"work": work_figure(words), "times": times_figure(results, words)}


def work_figure(words: Catalogue) -> str:
    """K/V entries that one layer has computed while a text was written token by token.

    Without a cache n(n+1)/2 after n tokens, with one n: ``positions`` of ``count_costs``.
    """
    places = [int(n) for n in np.linspace(1, TOKENS, POINTS)]
    costs = [count_costs(MODEL_SHAPES["llama-3-8b"], 0, n) for n in places]
    without = Curve(
        words.say("savings.without"), "recompute", [cost.recomputed.positions for cost in costs]
    )
    cached = Curve(words.say("savings.with"), "cached", [cost.cached.positions for cost in costs])
    said = words.say(
        "savings.work-said",
        tokens=number(TOKENS),
        without=number(without.values[-1]),
        cached=number(cached.values[-1]),
    )
    title, below = words.say("savings.work"), words.say("savings.written")
    return _figure("savings-work", title, said, below, places, [without, cached])


def times_figure(results: Results, words: Catalogue) -> str:
    """Medians of reading some more tokens after each prefix: the whole text anew, or cached."""
    rows = timing_rows(results)
    steps = results["protocol"]["continuation_steps"]
    places = [row.prefix for row in rows]
    without = Curve(
        words.say("savings.without"), "recompute", [row.last_only.p50_ms for row in rows], MS
    )
    cached = Curve(
        words.say("savings.with"), "cached", [row.cached_concat.p50_ms for row in rows], MS
    )
    said = words.say(
        "savings.times-said",
        steps=steps,
        prefix=places[-1],
        without=number(without.values[-1]),
        cached=number(cached.values[-1]),
    )
    title, below = words.say("savings.times", steps=steps), words.say("savings.prefix")
    return _figure("savings-times", title, said, below, places, [without, cached])


def _figure(
    name: str, title: str, said: str, below: str, places: list[int], curves: list[Curve]
) -> str:
    """Curves from the origin's place on, each with its last value and its name at its end."""
    largest = max(max(curve.values) for curve in curves)

    def point(place: float, value: float) -> str:
        x = LEFT + (RIGHT - LEFT) * place / places[-1]
        return f"{x:.1f},{BOTTOM - (BOTTOM - TOP) * value / largest:.1f}"

    drawn = []
    for curve in curves:
        line = "L".join(map(point, places, curve.values))
        start, end = point(places[0], 0), point(places[-1], 0)
        y = BOTTOM - (BOTTOM - TOP) * curve.values[-1] / largest
        text = f"{escape(curve.name)} {number(curve.values[-1])}{curve.unit}"
        drawn += [
            f'<path class="area {curve.css_class}" d="M{start}L{line}L{end}z"/>',
            f'<path class="line {curve.css_class}" d="M{line}"/>',
            f'<text class="{curve.css_class}" x="{RIGHT}" y="{y - 8:.1f}" text-anchor="end">'
            f"{text}</text>",
        ]
    return "\n".join(
        [
            f'<svg class="savings" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-labelledby="{name}-title {name}-desc" xmlns="http://www.w3.org/2000/svg">',
            f'<title id="{name}-title">{escape(title)}</title>',
            f'<desc id="{name}-desc">{escape(said)}</desc>',
            f'<path class="axis" d="M{LEFT},{BOTTOM}H{RIGHT}"/>',
            *drawn,
            *_ticks(places, below),
            "</svg>",
        ]
    )


def _ticks(places: list[int], below: str) -> list[str]:
    first = LEFT + (RIGHT - LEFT) * places[0] / places[-1]
    middle = (LEFT + RIGHT) / 2
    return [
        f'<text x="{first:.1f}" y="{BOTTOM + 18}" text-anchor="middle">{number(places[0])}</text>',
        f'<text x="{RIGHT}" y="{BOTTOM + 18}" text-anchor="end">{number(places[-1])}</text>',
        f'<text x="{middle}" y="{BOTTOM + 36}" text-anchor="middle">{escape(below)}</text>',
    ]
