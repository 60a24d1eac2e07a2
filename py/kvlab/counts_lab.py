"""Counts against time: what a cache saves in rows and scores, and what it saved on a clock.

Computes nothing itself: counts come from ``kvproof.count_costs``, times from stored samples.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bokeh.models import ColumnDataSource, Model, Span
from bokeh.plotting import figure

from kvlab.controlled import ControlledLab, Part, Table, radio, slider
from kvlab.figures import empty_figure
from kvlab.formats import multiple, size
from kvlab.palette import themed
from kvlab.stored import load_stored
from kvlab.words import Text, plain, worded
from kvproof import REFERENCE, Costs, count_costs

PREFIXES = range(16, 257, 16)
STEPS = ["1", "4", "16", "64"]
FULL, CACHED = "full_recompute_last_only", "cached_concat"
"""The fair pair of measured paths: both project one position onto the vocabulary."""
MEASURES = ("qkv_rows", "scores", "kv_bytes")
NOTHING = 1.0
"""Where a count of zero is drawn on the log axis."""


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


class CountsLab(ControlledLab):
    """Counts of one case, and ratios of counts and of times over the prefix (see ``Lab``)."""

    def __init__(self) -> None:
        results = json.loads(load_stored("cpu_timing.json") or "")
        self._measured = measured(results)
        self._steps = str(results["protocol"]["continuation_steps"])
        self._work, self._ratios, self._clock = _Work(), _Ratios(self._measured), Table()
        controls = {
            "prefix": slider("counts.prefix", PREFIXES, 128),
            "steps": radio(STEPS, "16"),
        }
        self._clock.show(
            prefix=[one.prefix for one in self._measured],
            full=[f"{one.full_ms:.1f}" for one in self._measured],
            cached=[f"{one.cached_ms:.1f}" for one in self._measured],
            times=[multiple(one.times) for one in self._measured],
        )
        parts: dict[str, Part] = {
            "work": self._work,
            "ratios": self._ratios,
            "clock": self._clock,
        }
        super().__init__(controls, parts, {})

    def show(self, prefix: int, steps: str) -> Iterator[Text]:
        """Draw the counts of a case, and its place among the others."""
        cases = {case: count_costs(REFERENCE, case, int(steps)) for case in PREFIXES}
        costs = cases[prefix]
        self._work.show(costs)
        self._ratios.show(prefix, cases)
        yield from _read_outs(costs)
        nearest = min(self._measured, key=lambda one: abs(one.prefix - prefix))
        counted = {
            "prefix": str(prefix),
            "steps": steps,
            "times": multiple(costs.recomputed.qkv_rows / costs.cached.qkv_rows),
        }
        yield Text("summary", "counts.counted", counted)
        clocked = {
            "prefix": str(nearest.prefix),
            "steps": self._steps,
            "times": multiple(nearest.times),
            "full": f"{nearest.full_ms:.1f}",
            "cached": f"{nearest.cached_ms:.1f}",
        }
        yield Text("summary", "counts.clocked", clocked)


def _read_outs(costs: Costs) -> Iterator[Text]:
    for way, work in (("recomputed", costs.recomputed), ("cached", costs.cached)):
        for measure in MEASURES:
            n: int = getattr(work, measure)
            text = size(n) if measure == "kv_bytes" else f"{n:,}"
            yield plain(f"{way}-{measure}", text, str(n))


class _Work:
    """A line for each measure with a mark for each way, on a log axis."""

    def __init__(self) -> None:
        self.figure = empty_figure(aspect_ratio=1.6, min_border_top=10, x_axis_type="log")
        self.figure.ygrid.visible = False
        self.figure.x_range.update(start=NOTHING / 3, end=3e8)
        self.figure.y_range.update(start=len(MEASURES) - 0.4, end=-0.6)
        worded(self.figure.xaxis[0], axis_label="counts.axis-count")
        self.figure.xaxis.ticker.ticks = [NOTHING, *(10.0**power for power in range(2, 9, 2))]
        self.figure.xaxis.major_label_overrides = {NOTHING: "0"}
        self.figure.yaxis.ticker.ticks = list(range(len(MEASURES)))
        names: dict[float, str] = dict(enumerate(["counts.rows", "counts.scores", "counts.bytes"]))
        worded(self.figure.yaxis[0], major_label_overrides=names)
        self._rows = ColumnDataSource()
        lines = self.figure.segment(
            "recomputed_x", "row", x1="cached_x", y1="row", source=self._rows, line_width=2
        )
        themed(lines.glyph, line_color="line")
        for way, mark, concept in (
            ("recomputed", "x", "recompute"),
            ("cached", "circle", "cached"),
        ):
            points = self.figure.scatter(
                f"{way}_x", "row", source=self._rows, marker=mark, size=12, line_width=3
            )
            themed(points.glyph, line_color=concept, fill_color=concept)
        self.outputs: dict[str, tuple[Model, str]] = {"rows": (self._rows, "data")}

    def show(self, costs: Costs) -> None:
        """Draw all measures."""
        counts = {
            way: [getattr(work, measure) for measure in MEASURES]
            for way, work in (("recomputed", costs.recomputed), ("cached", costs.cached))
        }
        self._rows.data = {
            "row": list(range(len(MEASURES))),
            **counts,
            **{f"{way}_x": [max(n, NOTHING) for n in ns] for way, ns in counts.items()},
        }


class _Ratios:
    """How many times as much a full recompute takes: rows counted, and time measured."""

    def __init__(self, clocked: list[Measured]) -> None:
        self.figure = empty_figure(aspect_ratio=1.6, min_border_top=10, y_axis_type="log")
        self.figure.xgrid.visible = False
        self.figure.x_range.update(start=0, end=PREFIXES[-1] + 16)
        self.figure.y_range.update(start=0.5, end=1000)
        worded(self.figure.xaxis[0], axis_label="counts.axis-prefix")
        worded(self.figure.yaxis[0], axis_label="counts.axis-times")
        self.figure.xaxis.ticker.ticks = [one.prefix for one in clocked]
        self.figure.yaxis.ticker.ticks = [1, 2, 5, 10, 20, 50, 100, 200, 500]
        self._now = Span(dimension="height", line_dash="dashed", line_width=1.5)
        themed(self._now, line_color="text")
        self.figure.add_layout(self._now)
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
        times = [costs.recomputed.qkv_rows / costs.cached.qkv_rows for costs in cases.values()]
        self._curves.data = {
            "prefix": list(cases),
            "times": times,
            "text": [multiple(ratio) for ratio in times],
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
