"""Counts against time: what a cache saves in rows and scores, and what it saved on a clock.

Computes nothing itself: counts come from ``kvproof.count_costs``, times from stored samples.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bokeh.models import ColumnDataSource, Model, NumeralTickFormatter
from bokeh.plotting import figure

from kvlab.controls import radio, slider
from kvlab.figures import dashed_line, empty_figure
from kvlab.formats import multiple, size
from kvlab.lab import Lab, Part, Rows
from kvlab.palette import themed
from kvlab.stored import load_stored
from kvlab.view import Block, Figure, Fold, Legend, Note, Readouts, Side, Summary, Table, key
from kvlab.words import Text, plain, worded
from kvproof import REFERENCE, Costs, count_costs

PREFIXES = range(16, 257, 16)
STEPS = ["1", "4", "16", "64"]
ALL_STEPS = [1, *range(4, 65, 4)]
FULL, CACHED = "full_recompute_last_only", "cached_concat"
"""The fair pair of measured paths: both project one position onto the vocabulary."""
MEASURES = {
    "counts.measure.rows": "qkv_rows",
    "counts.measure.scores": "scores",
    "counts.measure.bytes": "kv_bytes",
}
"""Message -> what is counted."""
ABOVE = 1.1
"""Height of a figure in units of its largest value."""


@dataclass(frozen=True)
class Measured:
    """How long a full recompute took beside the cached path, after one prefix."""

    prefix: int
    full_ms: float
    cached_ms: float
    """Medians."""
    rounds: tuple[float, ...]
    """The ratio of both samples of each round."""

    @property
    def times(self) -> float:
        """The ratio of the medians."""
        return self.full_ms / self.cached_ms


def measured(results: dict[str, Any]) -> list[Measured]:
    """Read the stored samples, prefix by prefix."""
    rows = {(row["path"], row["prefix"]): row for row in results["rows"]}
    found = []
    for prefix in results["protocol"]["prefixes"]:
        full, cached = rows[FULL, prefix], rows[CACHED, prefix]
        pairs = zip(full["samples_ms"], cached["samples_ms"], strict=True)
        rounds = tuple(one / other for one, other in pairs)
        found.append(Measured(prefix, full["p50_ms"], cached["p50_ms"], rounds))
    return found


def _growth(root: str, heading: str) -> Figure:
    columns = {"x": heading, "recomputed": "counts.recomputed", "cached": "counts.cached"}
    table = Table(f"{root}.curves", columns)
    return Figure(root, f"counts.{root}", table, "counts.show-counts")


RATIOS = Table("ratios.curves", {"prefix": "counts.column-prefix", "text": "counts.column-times"})
CLOCK = Table(
    "clock.rows",
    {
        "prefix": "counts.column-prefix",
        "full": "counts.column-full",
        "cached": "counts.column-cached",
        "times": "counts.column-times",
    },
)
BLOCKS: list[Block] = [
    Legend(
        [
            key("×", "recompute", "counts.legend-recomputed"),
            key("●", "cached", "counts.legend-cached"),
            key("○", "accent", "counts.legend-clocked"),
            key("┊", "text", "counts.legend-now"),
        ]
    ),
    Side(
        [
            _growth("over-prefixes", "counts.column-prefix"),
            _growth("over-steps", "counts.column-steps"),
            Figure("ratios", "counts.ratios", RATIOS),
        ]
    ),
    Summary(),
    Readouts(
        {
            message: [f"recomputed-{measure}", f"cached-{measure}"]
            for message, measure in MEASURES.items()
        },
        head=["", "counts.recomputed", "counts.cached"],
        caption="counts.work",
    ),
    Fold("counts.show-ratios", "counts.ratios", RATIOS),
    Fold("counts.show-clock", "counts.clock", CLOCK),
    Note("counts.provenance"),
]


class CountsLab(Lab):
    """Counts of one case, and ratios of counts and of times over the prefix (see ``Lab``)."""

    title, to_try, notice = "counts.title", "counts.try", "counts.notice"

    def __init__(self) -> None:
        results = json.loads(load_stored("cpu_timing.json") or "")
        self._measured = measured(results)
        self._steps = str(results["protocol"]["continuation_steps"])
        self._over_prefixes = _Growth(PREFIXES, "counts.axis-prefix")
        self._over_steps = _Growth(ALL_STEPS, "counts.axis-steps")
        self._ratios, self._clock = _Ratios(self._measured), Rows()
        controls = {
            "prefix": slider("counts.prefix", "counts.spoken-prefix", PREFIXES, 128),
            "steps": radio("counts.steps", STEPS, "16"),
            "measure": radio(
                "counts.measure.title", list(MEASURES), "counts.measure.rows", list(MEASURES)
            ),
        }
        self._clock.show(
            prefix=[one.prefix for one in self._measured],
            full=[f"{one.full_ms:.1f}" for one in self._measured],
            cached=[f"{one.cached_ms:.1f}" for one in self._measured],
            times=[multiple(one.times) for one in self._measured],
        )
        parts: dict[str, Part] = {
            "over-prefixes": self._over_prefixes,
            "over-steps": self._over_steps,
            "ratios": self._ratios,
            "clock": self._clock,
        }
        super().__init__(controls, parts, BLOCKS)

    def show(self, prefix: int, steps: str, measure: str) -> Iterator[Text]:
        """Draw the counts of a case, and its place among the others."""
        n_steps, counted = int(steps), MEASURES[measure]
        self._over_prefixes.show(prefix, counted, lambda p: count_costs(REFERENCE, p, n_steps))
        self._over_steps.show(n_steps, counted, lambda g: count_costs(REFERENCE, prefix, g))
        self._ratios.show(prefix, {p: count_costs(REFERENCE, p, n_steps) for p in PREFIXES})
        costs = count_costs(REFERENCE, prefix, n_steps)
        yield from _read_outs(costs)
        case = {"prefix": str(prefix), "steps": steps, "times": _exact(_rows_ratio(costs))}
        yield Text("summary", "counts.counted", case)
        yield from self._clocked(prefix, steps)

    def _clocked(self, prefix: int, steps: str) -> Iterator[Text]:
        """What was measured there, or at the nearest points, if two are as near at both."""
        distance = min(abs(one.prefix - prefix) for one in self._measured)
        there = distance == 0 and steps == self._steps
        for one in self._measured:
            if abs(one.prefix - prefix) == distance:
                args = {
                    "prefix": str(one.prefix),
                    "steps": self._steps,
                    "times": multiple(one.times),
                    "full": f"{one.full_ms:.1f}",
                    "cached": f"{one.cached_ms:.1f}",
                }
                yield Text("summary", "counts.clocked" if there else "counts.clocked-near", args)


def _rows_ratio(costs: Costs) -> float:
    return costs.recomputed.qkv_rows / costs.cached.qkv_rows


def _exact(ratio: float) -> str:
    """P + (G + 1) / 2, which is a whole number or has a half."""
    return f"{ratio:,.1f}".removesuffix(".0")


def _read_outs(costs: Costs) -> Iterator[Text]:
    for way, work in (("recomputed", costs.recomputed), ("cached", costs.cached)):
        for measure in MEASURES.values():
            n: int = getattr(work, measure)
            text = size(n) if measure == "kv_bytes" else f"{n:,}"
            yield plain(f"{way}-{measure}", text, str(n))


class _Growth:
    """One measure by both ways, over prefixes or over steps; linear, so that one sees how much."""

    def __init__(self, xs: Sequence[int], axis: str) -> None:
        self._xs = list(xs)
        self.figure = empty_figure(aspect_ratio=1.6, min_border_top=10)
        self.figure.xgrid.visible = False
        self.figure.x_range.update(start=0, end=1.05 * self._xs[-1])
        self.figure.yaxis.formatter = NumeralTickFormatter(format="0,0")
        worded(self.figure.xaxis[0], axis_label=axis)
        worded(self.figure.yaxis[0], axis_label="counts.axis-count")
        quarter = self._xs[-1] // 4
        self.figure.xaxis.ticker.ticks = [x for x in self._xs if x % quarter == 0]
        self._now = dashed_line(self.figure)
        self._curves = ColumnDataSource()
        for way, mark, concept in (
            ("recomputed", "x", "recompute"),
            ("cached", "circle", "cached"),
        ):
            line = self.figure.line("x", f"{way}_y", source=self._curves, line_width=1.5)
            themed(line.glyph, line_color=concept)
            points = self.figure.scatter(
                "x", f"{way}_y", source=self._curves, marker=mark, size=8, line_width=2
            )
            themed(points.glyph, line_color=concept, fill_color=concept)
        self.outputs: dict[str, tuple[Model, str]] = {
            "curves": (self._curves, "data"),
            "now": (self._now, "location"),
            "y.end": (self.figure.y_range, "end"),
            "y.ticks": (self.figure.yaxis[0].ticker, "ticks"),
        }

    def show(self, now: int, measure: str, costs: Callable[[int], Costs]) -> None:
        """Draw a measure; ``costs`` of a value of x."""
        cases = [costs(x) for x in self._xs]
        ways = {
            "recomputed": [getattr(one.recomputed, measure) for one in cases],
            "cached": [getattr(one.cached, measure) for one in cases],
        }
        self._curves.data = {
            "x": self._xs,
            **{way: [f"{n:,}" for n in ns] for way, ns in ways.items()},
            **{f"{way}_y": ns for way, ns in ways.items()},
        }
        largest = max(max(ns) for ns in ways.values())
        self.figure.y_range.end = ABOVE * largest
        self.figure.yaxis.ticker.ticks = [0, largest]
        self._now.location = now


class _Ratios:
    """How many times as much a full recompute takes: projections counted, and time measured."""

    def __init__(self, clocked: list[Measured]) -> None:
        self.figure = empty_figure(aspect_ratio=1.6, min_border_top=10)
        self.figure.xgrid.visible = False
        self.figure.x_range.update(start=0, end=PREFIXES[-1] + 16)
        self.figure.y_range.end = ABOVE * (PREFIXES[-1] + (int(STEPS[-1]) + 1) / 2)
        worded(self.figure.xaxis[0], axis_label="counts.axis-prefix")
        worded(self.figure.yaxis[0], axis_label="counts.axis-times")
        self.figure.xaxis.ticker.ticks = [one.prefix for one in clocked]
        self.figure.yaxis.ticker.ticks = [1, 50, 100, 150, 200, 250]
        self._now = dashed_line(self.figure)
        self._curves = ColumnDataSource()
        line = self.figure.line("prefix", "times", source=self._curves, line_width=1.5)
        themed(line.glyph, line_color="recompute")
        points = self.figure.scatter("prefix", "times", source=self._curves, marker="x", size=9)
        points.glyph.line_width = 2
        themed(points.glyph, line_color="recompute")
        _draw_times(self.figure, clocked)
        self.outputs: dict[str, tuple[Model, str]] = {
            "curves": (self._curves, "data"),
            "now": (self._now, "location"),
        }

    def show(self, prefix: int, cases: dict[int, Costs]) -> None:
        """Draw the ratios of counts of all prefixes."""
        times = [_rows_ratio(costs) for costs in cases.values()]
        self._curves.data = {
            "prefix": list(cases),
            "times": times,
            "text": [_exact(ratio) for ratio in times],
        }
        self._now.location = prefix


def _draw_times(fig: figure, clocked: list[Measured]) -> None:
    """A circle for each round, and a dash for the medians; they don't change."""
    rounds = [(one.prefix, ratio) for one in clocked for ratio in one.rounds]
    points = fig.scatter(
        [prefix for prefix, _ in rounds], [ratio for _, ratio in rounds], size=7, fill_color=None
    )
    themed(points.glyph, line_color="accent")
    dashes = fig.scatter(
        [one.prefix for one in clocked],
        [one.times for one in clocked],
        marker="dash",
        size=22,
        line_width=3,
    )
    themed(dashes.glyph, line_color="accent")
