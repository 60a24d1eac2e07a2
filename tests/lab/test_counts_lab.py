"""Counts against time: counts are those of running code, times those of the stored samples."""

import json
import statistics
from pathlib import Path

import numpy as np
import pytest
from tests.lab.lab_states import all_states, move, sentences, value

import kvlab
from kvlab.counts_lab import CACHED, FULL, MEASURES, PREFIXES, STEPS, CountsLab, measured
from kvlab.session import Session
from kvlab.stored import load_stored
from kvproof import REFERENCE, measure_costs

RESULTS = json.loads(
    (Path(__file__).parents[2] / "notebooks" / "results" / "cpu_timing.json").read_text()
)


@pytest.mark.parametrize(("prefix", "steps"), [(16, 1), (256, 16), (48, 4)])
def test_counts_are_what_instrumented_code_counts(prefix: int, steps: int) -> None:
    i = STEPS.index(str(steps))
    state = move(Session(CountsLab), prefix=prefix, steps=i)
    costs = measure_costs(REFERENCE, prefix, steps)
    for way, work in (("recomputed", costs.recomputed), ("cached", costs.cached)):
        for index, (message, measure) in enumerate(MEASURES.items()):
            assert int(value(state, f"{way}-{measure}")) == getattr(work, measure), message
            state = move(Session(CountsLab), prefix=prefix, steps=i, measure=index)
            for curve, x in (("over-prefixes", prefix), ("over-steps", steps)):
                assert state[f"{curve}.now"] == x
                curves = state[f"{curve}.curves"]
                drawn = dict(zip(curves["x"], curves[way], strict=True))
                assert drawn[x] == f"{getattr(work, measure):,}"


def test_ratios_follow_the_closed_form() -> None:
    """(G P + G (G + 1) / 2) / G = P + (G + 1) / 2."""
    assert len(all_states("counts")) == len(PREFIXES) * len(STEPS) * len(MEASURES)
    for values, state in all_states("counts"):
        steps = int(STEPS[values["steps"]])
        curves = state["ratios.curves"]
        assert curves["prefix"] == list(PREFIXES)
        expected = [prefix + (steps + 1) / 2 for prefix in PREFIXES]
        np.testing.assert_allclose(curves["times"], expected, rtol=1e-12)
        assert state["ratios.now"] == values["prefix"]


def test_all_that_is_drawn_lies_inside_the_axes() -> None:
    lab = Session(CountsLab).lab
    y = lab.roots["ratios"].y_range
    drawn = [ratio for one in measured(RESULTS) for ratio in one.rounds]
    for _, state in all_states("counts"):
        for name in ("over-prefixes", "over-steps"):
            data, end = state[f"{name}.curves"], state[f"{name}.y.end"]
            counts = data["recomputed_y"] + data["cached_y"]
            assert all(0 <= n < end for n in counts), "linear, from nothing on"
            assert state[f"{name}.y.ticks"] == [0, max(counts)]
        drawn += state["ratios.curves"]["times"]
    assert all(y.start < ratio < y.end for ratio in drawn)


def test_times_are_the_stored_samples() -> None:
    for one in measured(RESULTS):
        samples = {
            path: next(
                row["samples_ms"]
                for row in RESULTS["rows"]
                if (row["path"], row["prefix"]) == (path, one.prefix)
            )
            for path in (FULL, CACHED)
        }
        assert one.full_ms == pytest.approx(statistics.median(samples[FULL]), abs=1e-3)
        assert one.cached_ms == pytest.approx(statistics.median(samples[CACHED]), abs=1e-3)
        np.testing.assert_allclose(one.rounds, np.divide(samples[FULL], samples[CACHED]))


def test_the_clock_is_behind_the_count_wherever_it_was_measured() -> None:
    for one in measured(RESULTS):
        state = move(Session(CountsLab), prefix=one.prefix)
        said = dict(sentences(state, "summary"))
        assert said["counts.clocked"]["prefix"] == str(one.prefix)
        assert said["counts.clocked"]["steps"] == "16"
        assert float(said["counts.clocked"]["times"]) == pytest.approx(one.times, rel=0.05)
        assert float(said["counts.counted"]["times"]) > one.times


@pytest.mark.parametrize(
    ("prefix", "steps", "message", "named"),
    [
        (128, "16", "counts.clocked", ["128"]),
        (128, "64", "counts.clocked-near", ["128"]),
        (112, "16", "counts.clocked-near", ["128"]),
        (192, "16", "counts.clocked-near", ["128", "256"]),
    ],
)
def test_where_nothing_was_measured_the_nearest_is_named(
    prefix: int, steps: str, message: str, named: list[str]
) -> None:
    """And both, where two are as near."""
    state = move(Session(CountsLab), prefix=prefix, steps=STEPS.index(steps))
    said = sentences(state, "summary")[1:]
    assert [one for one, _ in said] == [message] * len(named)
    assert [(args["prefix"], args["steps"]) for _, args in said] == [(p, "16") for p in named]


def test_other_samples_would_be_drawn() -> None:
    """The control: with every cached sample ten times as long, the cache is no gain."""
    results = json.loads(json.dumps(RESULTS))
    for row in results["rows"]:
        if row["path"] == CACHED:
            row["samples_ms"] = [10 * ms for ms in row["samples_ms"]]
            row["p50_ms"] *= 10
    slower = measured(results)
    assert all(one.times < 1.2 for one in slower)
    assert [one.times * 10 for one in slower] == pytest.approx([m.times for m in measured(RESULTS)])


def test_a_copy_beside_the_module_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert json.loads(load_stored("cpu_timing.json") or "") == RESULTS
    (tmp_path / "stored").mkdir()
    (tmp_path / "stored" / "cpu_timing.json").write_text('{"rows": []}')
    monkeypatch.setattr(kvlab, "__path__", [*kvlab.__path__, str(tmp_path)])
    assert load_stored("cpu_timing.json") == '{"rows": []}'
    assert load_stored("no_such.json") is None
