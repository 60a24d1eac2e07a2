"""The benchmark's arithmetic and its tables, on made-up figures; measuring itself isn't a test."""

from pathlib import Path
from typing import Any

import brotli
import numpy as np
import pytest

from kvsite import bench


@pytest.fixture
def figures() -> dict[str, Any]:
    starts = [(2000.0, 500.0, 2200.0), (4000.0, 700.0, 6000.0), (3000.0, 600.0, 3000.0)]
    return {
        "environment": {
            "date": "2026-11-29T12:00:00+00:00",
            "processor": "Some CPU",
            "cores": 2,
            "browser": "Chromium 1, headless",
        },
        "starts_ms": [dict(zip(("floor", "prebuilt", "live"), run, strict=True)) for run in starts],
        "slider_prebuilt_ms": [10.0] * 95 + [40.0] * 5,
        "slider_live_ms": list(np.arange(101.0)),
        "heap_growth": 0.0123,
        "bytes": [{"path": "a", "raw": 3_000_000, "brotli": 1_000_000}] * 2,
    }


def test_ratios_are_taken_within_a_round(figures: dict[str, Any]) -> None:
    """Medians first would give 3000 / 3000 here, too; the rounds are 1.1, 1.5 and 1.0."""
    measured = {name: value for name, value, _ in bench.summary(figures)}
    assert measured["live / floor"] == "1.10"
    assert measured["live"] == "3.00 s"
    assert measured["prebuilt figures interactive"] == "0.60 s"


def test_percentiles_and_sums(figures: dict[str, Any]) -> None:
    measured = {name: value for name, value, _ in bench.summary(figures)}
    assert measured["slider to paint, live, p50"] == "50 ms"
    assert measured["slider to paint, live, p95"] == "95 ms"
    assert measured["heap growth over 200 slider moves"] == "1.2%"
    assert measured["bytes to live, brotli 11"] == "2.0 MB"


def test_every_budget_of_the_table_is_in_the_markdown(figures: dict[str, Any]) -> None:
    text = bench.as_markdown(figures)
    for name, value, budget in bench.summary(figures):
        assert f"| {name} | {value} | {budget} |" in text
    assert "2 shared cores of Some CPU" in text


def test_the_readme_is_changed_between_its_markers_only(
    figures: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readme = tmp_path / "README.md"
    start, end = bench.MARKERS
    readme.write_text(f"before\n{start}\nlast year\n{end}\nafter\n")
    monkeypatch.setattr(bench, "README", readme)
    bench.write_readme(figures)
    bench.write_readme(figures)
    text = readme.read_text()
    assert text.startswith(f"before\n{start}\nMedians of 3")
    assert text.endswith(f"{end}\nafter\n")
    assert "last year" not in text


def test_files_are_weighed_compressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "index.html").write_bytes(b"a" * 10_000)
    monkeypatch.setattr(bench, "DIST", tmp_path)
    [weight] = bench.weigh([""])
    assert weight["path"] == "index.html"
    assert weight["raw"] == 10_000
    assert 0 < weight["brotli"] < 100
    assert len(brotli.compress(b"a" * 10_000)) <= weight["brotli"] + 5
