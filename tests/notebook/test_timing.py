"""The table's rows and the figure that pages make from the stored results."""

import math
import re
import xml.etree.ElementTree as ET

import pytest

from kvsite.timing import LogScale, Results, timing_figure, timing_rows

SVG = "{http://www.w3.org/2000/svg}"


def marks(figure: str, css_class: str) -> list[ET.Element]:
    paths = ET.fromstring(figure).iter(f"{SVG}path")
    return [path for path in paths if css_class in path.get("class", "").split()]


def test_rows_hold_the_stored_figures(results: Results) -> None:
    stored = {(row["path"], row["prefix"]): row for row in results["rows"]}
    rows = timing_rows(results)
    assert [row.prefix for row in rows] == [16, 64, 128, 256]
    for row in rows:
        fair = stored["full_recompute_last_only", row.prefix]
        cached = stored["cached_concat", row.prefix]
        full = stored["full_recompute", row.prefix]
        assert row.last_only.p95_ms == fair["p95_ms"]
        assert row.cached_static.p50_ms == stored["cached_static", row.prefix]["p50_ms"]
        assert row.prefill.p50_ms == stored["prefill", row.prefix]["p50_ms"]
        assert row.full_over_cached == full["p50_ms"] / cached["p50_ms"]
        assert row.last_only_over_cached == fair["p50_ms"] / cached["p50_ms"]
    assert [row.kv_kib for row in rows] == [32, 80, 144, 272]


def test_a_missing_path_is_an_error(results: Results) -> None:
    results["rows"] = [row for row in results["rows"] if row["path"] != "cached_static"]
    with pytest.raises(KeyError, match="cached_static"):
        timing_rows(results)


def test_the_figure_has_a_mark_for_each_sample_and_a_tick_for_each_median(
    results: Results,
) -> None:
    figure = timing_figure(results)
    assert len(marks(figure, "sample")) == sum(len(r["samples_ms"]) for r in results["rows"]) == 300
    assert len(marks(figure, "p50")) == 20


def test_a_dropped_sample_drops_a_mark(results: Results) -> None:
    results["rows"][3]["samples_ms"].pop()
    assert len(marks(timing_figure(results), "sample")) == 299


def test_marks_stand_where_their_samples_say(results: Results) -> None:
    """Read the milliseconds back from the drawing, by the labelled ticks alone."""
    figure = timing_figure(results)
    texts = [t for t in ET.fromstring(figure).iter(f"{SVG}text") if t.get("text-anchor") == "end"]
    ticks = [(float(t.text or ""), float(t.get("y", ""))) for t in texts if t.text != "ms"]
    (low, y_low), (high, y_high) = ticks[0], ticks[-1]
    drawn = []
    for mark in marks(figure, "sample"):
        place = re.search(r" (\S+)\)", mark.get("transform", ""))
        assert place
        share = (float(place[1]) - (y_low - 4)) / (y_high - y_low)  # labels stand 4 units lower
        drawn.append(low * math.exp(share * math.log(high / low)))
    samples = [ms for row in results["rows"] for ms in row["samples_ms"]]
    assert drawn == pytest.approx(samples, rel=5e-3)


def test_the_figure_is_named_and_described(results: Results) -> None:
    figure = ET.fromstring(timing_figure(results))
    title, description = figure.find(f"{SVG}title"), figure.find(f"{SVG}desc")
    assert title is not None
    assert description is not None
    assert figure.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    cached = timing_rows(results)[-1].cached_concat.p50_ms
    assert f"{cached:.1f} ms" in (description.text or "")


def test_the_figures_title_counts_the_stored_steps(results: Results) -> None:
    results["protocol"]["continuation_steps"] = 9
    assert "CPU times of 9 continuation tokens" in timing_figure(results)


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
