"""The benchmark's arithmetic and its tables, on made-up figures; measuring itself isn't a test."""

import json
from pathlib import Path
from typing import Any

import brotli
import numpy as np
import pytest

from kvproof import REFERENCE, init_params
from kvproof.zoo import SPECIMENS, RightDecoder
from kvsite import bench, bench_checker, bench_core
from kvsite.stages import Failure


@pytest.fixture
def figures(site: dict[str, Any], core: dict[str, Any], checker: dict[str, Any]) -> dict[str, Any]:
    return {"site": site, "core": core, "checker": checker}


@pytest.fixture
def checker() -> dict[str, Any]:
    shares = {"n": 10, "detected": 1.0, "first": 0.9, "among_three": 0.956}
    return {
        "zoo": shares,
        "hidden": shares | {"first": 0.5},
        "variations": shares | {"n": 300},
        "not_first": ["layer-mix-shared"],
        "n_right": 1180,
        "false_alarms": [],
        "seconds": {
            "slowest": 2.5,
            "reference": [0.1, 9.0, 0.2],
            "llama": [1.0, 2.0, 3.0],
            "pyodide": [0.5, 0.6, 0.7],
        },
    }


@pytest.fixture
def core() -> dict[str, Any]:
    """Three rounds; in the second the machine was ten times as slow."""

    def samples(us: float) -> list[float]:
        return [us, 10 * us, us]

    step_us = {
        str(prefix): {
            "fast_static": samples(40.0 + prefix / 16),
            "plain_static": samples(150.0),
            "plain_concat": samples(160.0),
            "torch_concat": samples(200.0),
            "full_recompute": samples(10.0 * prefix),
            "products": samples(20.0),
        }
        for prefix in bench_core.PREFIXES
    }
    return {
        "environment": {"python": "3.11.0", "numpy": "2.4.3", "torch": "2.13.0"},
        "protocol": {"steps": 16, "warmups": 3, "rounds": 3, "dtype": "float32"},
        "largest_error": 1e-6,
        "step_us": step_us,
    }


@pytest.fixture
def site() -> dict[str, Any]:
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
        "bytes": [{"path": "a", "raw": 3_000_000, "brotli": 1_000_000, "gzip": 2_000_000}] * 2,
    }


SUMMARY = {
    # Within a round. Medians first would give 3000 / 3000; the rounds are 1.1, 1.5 and 1.0.
    "live / floor": "1.10",
    "live, from the first touch": "3.00 s",
    "prebuilt figures interactive": "0.60 s",
    "slider to paint, live, p50": "50 ms",
    "slider to paint, live, p95": "95 ms",
    "heap growth over 200 slider moves": "1.2%",
    "bytes to live, host with brotli 11": "2.0 MB",
    "bytes to live, host that compresses only text": "4.0 MB",
    # The worst of all prefixes: a step takes 41 after 16 tokens, 56 after 256 and 70 after 480.
    "cached step / PyTorch's, worst prefix": "0.35",  # 70 / 200
    "cached step / its matrix products, worst prefix": "3.50",  # 70 / 20
    "cached step, after 480 tokens / after 16": "1.71",  # 70 / 41
    "full recompute / cached step, after 256 tokens": "46",  # 2560 / 56
    "checker: found, 10 checks of broken ones": "100.0%",
    "checker: its kind among the first three": "95.6%",
    "checker: found / first / three, K and V hidden": "100% / 50% / 96%",
    "checker: false alarms, 1,180 checks of right ones": "0",
    "checker: a right REFERENCE": "0.20 s",
    "checker: a tiny Llama of transformers": "2.00 s",
}


def test_the_summary_and_its_markdown(figures: dict[str, Any]) -> None:
    text = bench.as_markdown(figures)
    assert "2 shared cores of Some CPU" in text
    measured = {}
    for name, value, budget in bench.summary(figures):
        measured[name] = value
        assert f"| {name} | {value} | {budget} |" in text
    assert SUMMARY.items() <= measured.items()


def test_what_the_checker_missed_is_named(figures: dict[str, Any]) -> None:
    figures["checker"]["false_alarms"] = ["rope-static, seed 3: RightDecoder: wrong\nmore"]
    text = bench.as_markdown(figures)
    assert "named first for: layer-mix-shared." in text
    assert "False alarm: rope-static, seed 3: RightDecoder: wrong." in text
    assert "| checker: false alarms, 1,180 checks of right ones | 1 | 0 |" in text


def test_the_cores_ratios_are_taken_within_a_round() -> None:
    """Medians first would give 20 / 10; the rounds are 1, 4 and 0.5."""
    assert bench_core.ratio([10, 40, 20], [10, 10, 40]) == 1
    with pytest.raises(ValueError, match="shorter"):
        bench_core.ratio([10, 40], [10])


def test_the_table_of_steps_has_every_path(figures: dict[str, Any]) -> None:
    header, *rows = bench_core.step_table(figures["core"])
    assert header[1:] == ["16", "64", "128", "256", "480"]
    assert rows[0] == ["tuned, static memory", "41", "44", "48", "56", "70"]
    assert rows[4] == ["full recompute", "160", "640", "1,280", "2,560", "4,800"]
    assert len(rows) == len(figures["core"]["step_us"]["16"])
    text = bench.as_markdown(figures)
    assert "| full recompute | 160 | 640 | 1,280 | 2,560 | 4,800 |" in text
    assert "full recompute" in bench.as_table(figures)


def test_all_paths_of_the_core_agree_and_samples_are_taken_of_each() -> None:
    """One round after the shortest prefix; the times themselves aren't looked at."""
    params = init_params(REFERENCE)
    paths = bench_core.paths_behind(16, params)
    assert paths.keys() == bench_core.NAMES.keys()
    assert 0 < bench_core.check(16, params, paths) < bench_core.LARGEST_ERROR
    assert bench_core.check(16, params, paths) < bench_core.LARGEST_ERROR, "the second run differs"
    samples = bench_core.take_samples({16: paths}, rounds=2)
    assert {name: len(us) for name, us in samples["16"].items()} == dict.fromkeys(paths, 2)


def test_a_path_with_other_logits_stops_the_benchmark() -> None:
    params = init_params(REFERENCE)
    wrong = bench_core.paths_behind(16, init_params(REFERENCE, seed=1))
    with pytest.raises(AssertionError, match="fast_static after 16 tokens is off by"):
        bench_core.check(16, params, wrong)


def test_one_section_alone_is_shown_and_kept_beside_the_others(
    figures: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "bench.json"
    monkeypatch.setattr(bench_core, "measure", lambda rounds: figures["core"])
    monkeypatch.setattr(bench_checker, "measure", lambda: figures["checker"])
    assert bench.main(["--only", "core", f"--json={path}"]) == 0
    shown = capsys.readouterr().out
    assert "tuned, static memory" in shown
    assert "floor" not in shown
    assert json.loads(path.read_text()) == {"core": figures["core"]}
    with pytest.raises(Failure, match="README shows all figures, and .* has none of site:"):
        bench.main(["--only", "checker", "--readme", f"--json={path}"])
    assert bench.main(["--only", "checker", f"--json={path}"]) == 0
    both = {name: figures[name] for name in ("core", "checker")}
    assert json.loads(path.read_text()) == both
    assert "tuned, static memory" in capsys.readouterr().out


def test_a_decoder_that_is_not_right_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_checker, "ROUNDS", 1)
    assert len(bench_checker.seconds(RightDecoder())) == 1
    assert len(bench_checker.seconds(bench_checker.tiny_llama())) == 1
    with pytest.raises(AssertionError, match="MASK-TOPLEFT"):
        bench_checker.seconds(SPECIMENS["mask-topleft"].make())


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


@pytest.mark.parametrize(("name", "is_sent_small"), [("a.mjs", True), ("a.tar", False)])
def test_a_host_that_compresses_only_text_sends_the_rest_as_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, is_sent_small: bool
) -> None:
    (tmp_path / name).write_bytes(b"a" * 10_000)
    monkeypatch.setattr(bench, "DIST", tmp_path)
    [weight] = bench.weigh([name])
    assert (weight["gzip"] < 100) == is_sent_small
