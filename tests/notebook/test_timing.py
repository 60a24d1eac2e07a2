"""The table's rows and the figure that pages make from the stored results."""

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import pytest

from kvsite.languages import ENGLISH, words_of
from kvsite.pages import environment
from kvsite.timing import (
    IN_OTHER_CODE,
    WHAT_A_CACHE_SAVES,
    LogScale,
    Results,
    load_results,
    other_code_figure,
    timing_figure,
    timing_rows,
)

SVG = "{http://www.w3.org/2000/svg}"
WORDS = words_of(ENGLISH)
FIGURES = {
    "what a cache saves": (partial(timing_figure, words=WORDS), list(WHAT_A_CACHE_SAVES)),
    "other code": (partial(other_code_figure, words=WORDS), list(IN_OTHER_CODE)),
}
Figure = tuple[Callable[[Results], str], list[str]]


@pytest.fixture(params=FIGURES)
def figure_of(request: pytest.FixtureRequest) -> Figure:
    """A figure, and the paths that it draws."""
    return FIGURES[request.param]


def drawn_rows(results: Results, paths: list[str]) -> list[dict[str, Any]]:
    return [row for row in results["rows"] if row["path"] in paths]


def marks(figure: str, css_class: str) -> list[ET.Element]:
    paths = ET.fromstring(figure).iter(f"{SVG}path")
    return [path for path in paths if css_class in path.get("class", "").split()]


def test_rows_hold_the_stored_figures(results: Results) -> None:
    stored = {(row["path"], row["prefix"]): row for row in results["rows"]}
    rows = timing_rows(results)
    assert [row.prefix for row in rows] == [16, 64, 128, 256]
    names = {"full_recompute_last_only": "last_only", "cached_transformers": "transformers"}
    for row in rows:
        p50 = {path: stored[path, row.prefix]["p50_ms"] for path, _ in stored}
        for path in p50:
            times = getattr(row, names.get(path, path))
            assert (times.p50_ms, times.p95_ms) == (p50[path], stored[path, row.prefix]["p95_ms"])
        assert row.full_over_cached == p50["full_recompute"] / p50["cached_concat"]
        assert row.last_only_over_cached == p50["full_recompute_last_only"] / p50["cached_concat"]
        assert row.fast_over_cached == p50["numpy_fast"] / p50["cached_concat"]
    assert [row.kv_kib for row in rows] == [32, 80, 144, 272]


@pytest.mark.parametrize("path", ["cached_static", "numpy_fast"])
def test_a_missing_path_is_an_error(path: str, results: Results) -> None:
    results["rows"] = [row for row in results["rows"] if row["path"] != path]
    with pytest.raises(KeyError, match=path):
        timing_rows(results)


def test_every_path_is_in_a_figure_and_each_mark_means_one_path(results: Results) -> None:
    assert {*WHAT_A_CACHE_SAVES, *IN_OTHER_CODE} == {row["path"] for row in results["rows"]}
    for paths in (WHAT_A_CACHE_SAVES, IN_OTHER_CODE):
        looks = [(series.mark, "solid" in series.css_class) for series in paths.values()]
        assert len(set(looks)) == len(looks) == 5


def test_ticks_stand_at_the_stored_percentiles_and_the_legend_names_them(
    figure_of: Figure, results: Results
) -> None:
    draw, paths = figure_of
    figure, rows = draw(results), drawn_rows(results, paths)
    scale = LogScale.around([ms for row in rows for ms in row["samples_ms"]])
    for percentile in ("p50", "p95"):
        ticks = [tick.get("d", "").split(",")[1] for tick in marks(figure, percentile)]
        expected = [f"{scale.y(row[f'{percentile}_ms']):.1f}" for row in rows]
        assert [tick.split("h")[0] for tick in ticks] == expected
        assert len(marks(figure, f"key-{percentile}")) == 1
        assert f">{percentile}</text>" in figure


def test_marks_stand_where_their_samples_say(figure_of: Figure, results: Results) -> None:
    """Read the milliseconds back from the drawing, by the labelled ticks alone."""
    draw, paths = figure_of
    figure = draw(results)
    texts = [t for t in ET.fromstring(figure).iter(f"{SVG}text") if t.get("text-anchor") == "end"]
    ticks = [(float(t.text or ""), float(t.get("y", ""))) for t in texts if t.text != "ms"]
    (low, y_low), (high, y_high) = ticks[0], ticks[-1]
    drawn = []
    for mark in marks(figure, "sample"):
        place = re.search(r" (\S+)\)", mark.get("transform", ""))
        assert place
        share = (float(place[1]) - (y_low - 4)) / (y_high - y_low)  # labels stand 4 units lower
        drawn.append(low * math.exp(share * math.log(high / low)))
    samples = [ms for row in drawn_rows(results, paths) for ms in row["samples_ms"]]
    assert drawn == pytest.approx(samples, rel=5e-3)


def test_the_figures_are_named_and_described(figure_of: Figure, results: Results) -> None:
    draw, _ = figure_of
    figure = ET.fromstring(draw(results))
    title, description = figure.find(f"{SVG}title"), figure.find(f"{SVG}desc")
    assert title is not None
    assert description is not None
    assert figure.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    cached = timing_rows(results)[-1].cached_concat.p50_ms
    assert f"{cached:.1f}\u00a0ms" in (description.text or "")


@pytest.mark.parametrize(
    ("samples", "ticks"),
    [
        ([0.45, 47.0], [0.2, 0.5, 1, 2, 5, 10, 20, 50]),
        ([3.0, 3.0], [2, 5]),
        ([1.0, 10.0], [1, 2, 5, 10]),
        ([7.0, 130.0], [5, 10, 20, 50, 100, 200]),
    ],
)
def test_the_ticks_enclose_the_samples(samples: list[float], ticks: list[float]) -> None:
    assert LogScale.around(samples).ticks == pytest.approx(ticks)


# --- The page's tables --------------------------------------------------------------------------


def page_table(results: Results, css_class: str) -> list[list[str]]:
    """The cells of one table of the page's part, as texts."""
    html = (
        environment(ENGLISH)
        .get_template("timings.html.j2")
        .render(
            results=results, timings=timing_rows(results), timing_figure="", other_code_figure=""
        )
    )
    table = re.search(rf'<table class="{css_class}">.*?</table>', html, re.DOTALL)
    assert table
    rows = ET.fromstring(table[0]).findall("tbody/tr")
    return [[" ".join("".join(cell.itertext()).split()) for cell in row] for row in rows]


def from_samples(results: Results, paths: list[str], prefix: int) -> list[str]:
    """ "p50 / p95" of each path, from the raw samples alone."""
    samples = {row["path"]: row["samples_ms"] for row in results["rows"] if row["prefix"] == prefix}
    return [f"{median(samples[p]):.2f} / {np.percentile(samples[p], 95):.2f}" for p in paths]


# Class of a table -> its columns of times, and the ratios behind them.
TABLES = {
    "timings": (
        [
            "prefill",
            "full_recompute",
            "full_recompute_last_only",
            "cached_concat",
            "cached_static",
        ],
        [("full_recompute", "cached_concat"), ("full_recompute_last_only", "cached_concat")],
    ),
    "other-code": (list(IN_OTHER_CODE), [("numpy_fast", "cached_concat")]),
}


@pytest.mark.parametrize("css_class", TABLES)
def test_a_table_equals_the_stored_samples(css_class: str, results: Results) -> None:
    paths, ratios = TABLES[css_class]
    shown = page_table(results, css_class)
    for prefix, (name, *cells) in zip((16, 64, 128, 256), shown, strict=True):
        assert name == str(prefix)
        assert cells[: len(paths)] == from_samples(results, paths, prefix)
        medians = {
            row["path"]: median(row["samples_ms"])
            for row in results["rows"]
            if row["prefix"] == prefix
        }
        expected = [f"{medians[slow] / medians[fast]:.2f}" for slow, fast in ratios]
        assert cells[len(paths) :][: len(ratios)] == expected
        if css_class == "timings":
            float32_bytes, layers, width = 4, 2, 64
            kept = 2 * layers * width * (prefix + 16) * float32_bytes
            assert cells[-1] == f"{kept / 1024:.0f} KiB"


def test_exchanged_columns_would_show(results: Results) -> None:
    for row in results["rows"]:
        if row["path"].startswith("numpy_"):
            row["path"] = {"numpy_concat": "numpy_static", "numpy_static": "numpy_concat"}.get(
                row["path"], row["path"]
            )
    shown = page_table(results, "other-code")[0][1:-1]
    assert shown != from_samples(load_results(), list(IN_OTHER_CODE), 16)
