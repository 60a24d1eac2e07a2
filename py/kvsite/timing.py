"""The notebook's CPU times for a page: rows of two tables, and a figure of all samples for each.

The first pair shows what a cache saves, the second the cached step in other code.  All are made
from ``notebooks/results/cpu_timing.json`` at build time; ratios aren't stored.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from kvsite.paths import ROOT
from kvsite.words import Catalogue

RESULTS = ROOT / "notebooks" / "results" / "cpu_timing.json"

Results = dict[str, Any]
"""The content of ``cpu_timing.json``; ``cpu_timing.schema.json`` beside it describes it."""


@dataclass(frozen=True)
class Times:
    """Median and 95th percentile of one path's samples, in milliseconds."""

    p50_ms: float
    p95_ms: float


@dataclass(frozen=True)
class TimingRow:
    """Times of reading a prefix, and of the continuation after it by each path."""

    prefix: int
    prefill: Times
    full_recompute: Times
    last_only: Times
    """Full recompute that projects only the last position onto the vocabulary."""
    cached_concat: Times
    cached_static: Times
    transformers: Times
    """GPT-2 of transformers with its DynamicCache."""
    numpy_concat: Times
    numpy_static: Times
    numpy_fast: Times
    """kvproof.model.fast_decoder in preallocated memory."""
    kv_kib: float
    """Keys and values at the end, in units of 1024 bytes."""

    @property
    def full_over_cached(self) -> float:
        """How many times the cached path's median fits into full recompute's."""
        return self.full_recompute.p50_ms / self.cached_concat.p50_ms

    @property
    def last_only_over_cached(self) -> float:
        """The same against the fair baseline."""
        return self.last_only.p50_ms / self.cached_concat.p50_ms

    @property
    def fast_over_cached(self) -> float:
        """NumPy's fast path in units of PyTorch's cached path, medians: below 1 is faster."""
        return self.numpy_fast.p50_ms / self.cached_concat.p50_ms


def load_results(path: Path = RESULTS) -> Results:
    """Read the stored results."""
    results: Results = json.loads(path.read_text())
    return results


def timing_rows(results: Results) -> list[TimingRow]:
    """One row for each prefix, in the order of the protocol."""
    return [_timing_row(results, prefix) for prefix in results["protocol"]["prefixes"]]


def _timing_row(results: Results, prefix: int) -> TimingRow:
    rows = {row["path"]: row for row in results["rows"] if row["prefix"] == prefix}
    times = {path: Times(row["p50_ms"], row["p95_ms"]) for path, row in rows.items()}
    return TimingRow(
        prefix,
        times["prefill"],
        times["full_recompute"],
        times["full_recompute_last_only"],
        times["cached_concat"],
        times["cached_static"],
        times["cached_transformers"],
        times["numpy_concat"],
        times["numpy_static"],
        times["numpy_fast"],
        rows["cached_concat"]["kv_bytes"] / 1024,
    )


# --- Figures ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Series:
    """How one path is drawn: colour says recompute or cache, the mark which one of them."""

    label: str
    """ID of a message."""
    css_class: str
    mark: str
    """SVG path around the origin, a few units wide."""


CIRCLE = "M-3,0a3,3 0 1,0 6,0a3,3 0 1,0 -6,0z"
TRIANGLE = "M0,-3.5L3.5,3L-3.5,3z"
DIAMOND = "M0,-4L4,0L0,4L-4,0z"
SQUARE = "M-2.8,-2.8H2.8V2.8H-2.8z"
CROSS = "M-2.5,-2.5L2.5,2.5M-2.5,2.5L2.5,-2.5"
PLUS = "M-3.5,0H3.5M0,-3.5V3.5"

WHAT_A_CACHE_SAVES = {
    "full_recompute": Series("timing.full", "recompute solid", CIRCLE),
    "full_recompute_last_only": Series("timing.last-only", "recompute", CIRCLE),
    "cached_concat": Series("timing.concat", "cached solid", TRIANGLE),
    "cached_static": Series("timing.static", "cached", TRIANGLE),
    "prefill": Series("timing.prefill", "prefill", CROSS),
}
IN_OTHER_CODE = {
    "cached_concat": Series("timing.pytorch", "cached solid", TRIANGLE),
    "cached_transformers": Series("timing.transformers", "cached", DIAMOND),
    "numpy_concat": Series("timing.numpy-concat", "cached solid", SQUARE),
    "numpy_static": Series("timing.numpy-static", "cached", SQUARE),
    "numpy_fast": Series("timing.numpy-fast", "cached", PLUS),
}

PERCENTILES = ("p50", "p95")

WIDTH, HEIGHT = 720, 380
LEFT, RIGHT, TOP, BOTTOM = 48, 712, 56, 336
# The figure stands in the page itself, so the page's variables (kvlab.palette) reach it.
STYLE = """
.timing-plot { max-width: 100%; height: auto; font: 13px var(--font); }
.timing-plot text { fill: var(--text); }
.timing-plot .grid { stroke: var(--line); }
.timing-plot path { fill: none; stroke-width: 1.3; }
.timing-plot .prefill { stroke: var(--muted); }
.timing-plot .recompute { stroke: var(--recompute); }
.timing-plot .cached { stroke: var(--cached); }
.timing-plot .recompute.solid { fill: var(--recompute); }
.timing-plot .cached.solid { fill: var(--cached); }
.timing-plot .p50, .timing-plot .key-p50 { stroke: var(--text); stroke-width: 2; }
.timing-plot .p95, .timing-plot .key-p95 { stroke: var(--text); stroke-dasharray: 3 2; }
"""


@dataclass(frozen=True)
class LogScale:
    """Milliseconds to a vertical place, on a log axis with ticks at 1, 2, 5, 10, ..."""

    ticks: list[float]

    @classmethod
    def around(cls, samples: list[float]) -> "LogScale":
        """The ticks that enclose all samples."""
        decades = range(math.floor(math.log10(min(samples))), math.ceil(math.log10(max(samples))))
        ticks = [step * 10.0**power for power in decades for step in (1, 2, 5, 10)]
        first = max(tick for tick in ticks if tick <= min(samples))
        last = min(tick for tick in ticks if tick >= max(samples))
        return cls(sorted({tick for tick in ticks if first <= tick <= last}))

    def y(self, ms: float) -> float:
        """Where ``ms`` is drawn, larger values higher up."""
        first, last = math.log(self.ticks[0]), math.log(self.ticks[-1])
        return BOTTOM - (math.log(ms) - first) / (last - first) * (BOTTOM - TOP)


def timing_figure(results: Results, words: Catalogue) -> str:
    """What a cache saves: the samples of PyTorch's paths as an inline SVG."""
    title = words.say("timing.figure", steps=results["protocol"]["continuation_steps"])
    return _figure(results, words, "timing", title, describe(results, words), WHAT_A_CACHE_SAVES)


def other_code_figure(results: Results, words: Catalogue) -> str:
    """The cached step in other code: the samples of PyTorch, transformers and NumPy."""
    title = words.say("timing.other-figure", steps=results["protocol"]["continuation_steps"])
    description = describe_other_code(results, words)
    return _figure(results, words, "other-code", title, description, IN_OTHER_CODE)


def describe(results: Results, words: Catalogue) -> str:
    """What the first figure shows, in one sentence."""
    first, *_, last = timing_rows(results)
    medians = {
        "recompute_first": first.last_only,
        "recompute_last": last.last_only,
        "cached_first": first.cached_concat,
        "cached_last": last.cached_concat,
    }
    places = {"first": first.prefix, "last": last.prefix, **_shown(medians)}
    return words.say("timing.describe", **places)


def describe_other_code(results: Results, words: Catalogue) -> str:
    """What the second figure shows, in one sentence."""
    row = timing_rows(results)[-1]
    medians = {
        "pytorch": row.cached_concat,
        "transformers": row.transformers,
        "concat": row.numpy_concat,
        "static": row.numpy_static,
        "fast": row.numpy_fast,
    }
    return words.say("timing.describe-other", prefix=row.prefix, **_shown(medians))


def _shown(times: dict[str, Times]) -> dict[str, str]:
    return {name: f"{one.p50_ms:.1f}" for name, one in times.items()}


def _figure(
    results: Results,
    words: Catalogue,
    name: str,
    title: str,
    description: str,
    paths: dict[str, Series],
) -> str:
    """Log milliseconds: a group for each prefix, in it a strip for each path with two ticks."""
    rows = [row for row in results["rows"] if row["path"] in paths]
    scale = LogScale.around([ms for row in rows for ms in row["samples_ms"]])
    return "\n".join(
        [
            f'<svg class="timing-plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-labelledby="{name}-title {name}-desc" xmlns="http://www.w3.org/2000/svg">',
            f'<title id="{name}-title">{escape(title)}</title>',
            f'<desc id="{name}-desc">{escape(description)}</desc>',
            f"<style>{STYLE}</style>",
            *_legend(paths, words),
            *_axes(results["protocol"]["prefixes"], scale, words),
            *(mark for row in rows for mark in _strip(row, results, scale, paths)),
            "</svg>",
        ]
    )


def _legend(paths: dict[str, Series], words: Catalogue) -> Iterator[str]:
    for i, series in enumerate(paths.values()):
        x, y = LEFT + 8 + 225 * (i // 2), 14 + 20 * (i % 2)
        yield f'<path class="{series.css_class}" d="{series.mark}" transform="translate({x} {y})"/>'
        yield f'<text x="{x + 10}" y="{y + 4}">{escape(words.say(series.label))}</text>'
    x, y = LEFT + 2 + 225 * (len(paths) // 2), 14 + 20 * (len(paths) % 2)
    for i, percentile in enumerate(PERCENTILES):
        yield f'<path class="key-{percentile}" d="M{x + 90 * i},{y}h22"/>'
        yield f'<text x="{x + 90 * i + 28}" y="{y + 4}">{percentile}</text>'


def _axes(prefixes: list[int], scale: LogScale, words: Catalogue) -> Iterator[str]:
    for ms in scale.ticks:
        y = scale.y(ms)
        yield f'<path class="grid" d="M{LEFT},{y:.1f}H{RIGHT}"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{ms:g}</text>'
    for group, prefix in enumerate(prefixes):
        x = LEFT + _group_width(prefixes) * (group + 0.5)
        yield f'<text x="{x:.1f}" y="{BOTTOM + 18}" text-anchor="middle">{prefix}</text>'
    middle = (LEFT + RIGHT) / 2
    label = escape(words.say("timing.x-axis"))
    yield f'<text x="{middle}" y="{BOTTOM + 38}" text-anchor="middle">{label}</text>'
    yield f'<text x="{LEFT - 6}" y="{TOP - 14}" text-anchor="end">ms</text>'


def _strip(
    row: dict[str, Any], results: Results, scale: LogScale, paths: dict[str, Series]
) -> Iterator[str]:
    """The samples of one path after one prefix, spread out in measured order."""
    prefixes, samples = results["protocol"]["prefixes"], row["samples_ms"]
    series = paths[row["path"]]
    slot = _group_width(prefixes) / (len(paths) + 1)
    left = LEFT + _group_width(prefixes) * prefixes.index(row["prefix"])
    left += slot * (list(paths).index(row["path"]) + 0.5)
    for i, ms in enumerate(samples):
        x = left + slot * (0.1 + 0.8 * i / len(samples))
        place = f"translate({x:.1f} {scale.y(ms):.1f})"
        yield f'<path class="sample {series.css_class}" d="{series.mark}" transform="{place}"/>'
    for percentile in PERCENTILES:
        y = scale.y(row[f"{percentile}_ms"])
        yield f'<path class="{percentile}" d="M{left:.1f},{y:.1f}h{slot:.1f}"/>'


def _group_width(prefixes: list[int]) -> float:
    return (RIGHT - LEFT) / len(prefixes)
