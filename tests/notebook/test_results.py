"""The stored results: the schema holds, and the numbers in the file follow from one another."""

import json
import math
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kvsite.notebook import NOTEBOOKS
from kvsite.timing import RESULTS, Results

PREFIXES = (16, 64, 128, 256)


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = json.loads((NOTEBOOKS / "results" / "cpu_timing.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_schema_accepts_the_results(validator: Any, results: Results) -> None:
    validator.validate(results)


MUTATIONS: dict[str, Callable[[Results], Any]] = {
    "no environment": lambda r: r.pop("environment"),
    "no timestamp": lambda r: r.pop("timestamp"),
    "local time": lambda r: r.update(timestamp="2026-11-29T21:44:27+01:00"),
    "a host name": lambda r: r["environment"].update(host="my-laptop"),
    "two threads": lambda r: r["environment"].update(threads=2),
    "two threads in NumPy": lambda r: r["environment"].update(blas_threads=2),
    "no version of transformers": lambda r: r["environment"].pop("transformers"),
    "another model": lambda r: r["protocol"]["model"].update(window=8),
    "another prefix": lambda r: r["protocol"]["prefixes"].append(512),
    "a missing row": lambda r: r["rows"].pop(),
    "an unknown path": lambda r: r["rows"][0].update(path="cached"),
    "14 samples": lambda r: r["rows"][0]["samples_ms"].pop(),
    "a sample that took no time": lambda r: r["rows"][0]["samples_ms"].__setitem__(0, 0),
    "a time as text": lambda r: r["rows"][0].update(p50_ms="0.5 ms"),
    "a stored ratio": lambda r: r["rows"][0].update(ratio=2.0),
    "a logit error beyond rounding": lambda r: r["rows"][0].update(max_logit_error=1e-4),
    "eleven combinations": lambda r: r["correctness"]["equivalence"].pop(),
    "a cache that was changed": lambda r: r["correctness"]["equivalence"][0].update(
        passed_in_cache_unchanged=False
    ),
    "a mistake that doesn't show": lambda r: r["correctness"]["broken"][0].update(
        max_logit_error=0.01
    ),
    "another GPT-2": lambda r: r["correctness"]["transformers"][0].update(max_logit_error=1e-3),
    "a padded row that is wrong": lambda r: r["correctness"]["ragged"][0].update(
        row_errors=[0.3, 0.0, 0.2]
    ),
    "padding that doesn't matter": lambda r: r["correctness"]["ragged"][-1].update(
        row_errors=[0.0, 0.0, 0.0]
    ),
    "a flag that isn't top-left": lambda r: r["correctness"]["sdpa"][3].update(
        flag_from_top_left=0.5
    ),
}


@pytest.mark.parametrize("mutate", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_the_schema_refuses(
    mutate: Callable[[Results], Any], validator: Any, results: Results
) -> None:
    mutate(results)
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(results)


def test_every_path_is_measured_behind_every_prefix(results: Results) -> None:
    keys = [(row["path"], row["prefix"]) for row in results["rows"]]
    assert len(keys) == len(set(keys))
    assert set(keys) == {(path, prefix) for path, _ in keys for prefix in PREFIXES}


def percentile(samples: list[float], share: float) -> float:
    """Linear interpolation between order statistics, written out as an independent check."""
    ordered = sorted(samples)
    rank = share * (len(ordered) - 1)
    below = math.floor(rank)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (rank - below) * (ordered[above] - ordered[below])


def test_percentiles_follow_from_the_samples(results: Results) -> None:
    for row in results["rows"]:
        assert row["p50_ms"] == pytest.approx(statistics.median(row["samples_ms"]), abs=6e-5)
        assert row["p95_ms"] == pytest.approx(percentile(row["samples_ms"], 0.95), abs=6e-5)


def test_an_edited_sample_would_show(results: Results) -> None:
    row = results["rows"][0]
    row["samples_ms"][row["samples_ms"].index(max(row["samples_ms"]))] *= 2
    assert row["p95_ms"] != pytest.approx(percentile(row["samples_ms"], 0.95), abs=6e-5)


def test_kv_bytes(results: Results) -> None:
    model = results["protocol"]["model"]
    per_token = 2 * model["n_layers"] * model["width"] * 4  # K and V, float32
    for row in results["rows"]:
        n_tokens = row["prefix"] + (0 if row["path"] == "prefill" else 16)
        assert row["kv_bytes"] == row["kv_bytes_formula"] == n_tokens * per_token


def test_counts_equal_a_loop_over_the_calls(results: Results) -> None:
    for row in results["rows"]:
        prefix, contexts = row["prefix"], range(row["prefix"] + 1, row["prefix"] + 17)
        fed = {"prefill": prefix}.get(row["path"], 16)
        projected = sum(contexts) if "recompute" in row["path"] else fed
        unembedded = projected if row["path"] == "full_recompute" else fed
        assert (row["projected"], row["unembedded"]) == (projected, unembedded)
        assert row["projected_formula"] == projected


BOUNDS = {"float32": 2e-6, "float64": 1e-14}


def test_right_paths_are_within_the_bound_of_their_precision(results: Results) -> None:
    """Tighter than the schema, which says in words what may be stored."""
    found = results["correctness"]
    rows = [*found["equivalence"], *found["transformers"]]
    rows += [row for row in found["ragged"] if row["variant"] == "right"]
    assert len(rows) == 12 + 6 + 2
    assert len({json.dumps([row.get(key) for key in IN_A_ROW]) for row in rows}) == len(rows)
    for row in rows:
        errors = [value for name, value in row.items() if name.startswith("max_")]
        assert max([*errors, *row.get("row_errors", [])]) <= BOUNDS[row["dtype"]]


IN_A_ROW = ("dtype", "chunk", "batch_size", "variant")


def test_no_machine_is_named(local_path: re.Pattern[str]) -> None:
    assert not local_path.search(RESULTS.read_text())


@pytest.mark.parametrize(
    "path", [str(RESULTS), str(Path.home() / "a.py"), "/home/me/a.py", "C:\\Users\\me"]
)
def test_a_place_on_a_machine_would_be_seen(path: str, local_path: re.Pattern[str]) -> None:
    assert local_path.search(f'{{"file": "{path}"}}')


# --- What the prose says of the times -----------------------------------------------------------


def medians(results: Results, path: str) -> list[float]:
    """One for each prefix, from the shortest to the longest."""
    rows = sorted((r for r in results["rows"] if r["path"] == path), key=lambda r: r["prefix"])
    return [row["p50_ms"] for row in rows]


def unsaid(results: Results) -> list[str]:
    """Sentences of the notebook that the stored medians don't bear out."""
    full, last_only = (
        medians(results, "full_recompute"),
        medians(results, "full_recompute_last_only"),
    )
    cached = [medians(results, path) for path in ("cached_concat", "cached_static")]
    growth = min(full[-1] - full[0], last_only[-1] - last_only[0])
    claims = {
        "last_only takes a handicap away": all(
            fair <= 1.05 * whole for fair, whole in zip(last_only, full, strict=True)
        ),
        "recompute grows with the prefix": full == sorted(full) and last_only == sorted(last_only),
        "the cached paths hardly do": all(ms[-1] - ms[0] < growth / 2 for ms in cached),
        "the cache is faster after the longest prefix": all(
            ms[-1] < last_only[-1] for ms in cached
        ),
        "transformers does more around a step": all(
            theirs > ours
            for theirs, ours in zip(medians(results, "cached_transformers"), cached[0], strict=True)
        ),
    }
    return [claim for claim, holds in claims.items() if not holds]


def test_the_stored_times_bear_out_the_prose(results: Results) -> None:
    assert unsaid(results) == []


LONGEST = PREFIXES[-1:]


@pytest.mark.parametrize(
    ("path", "prefixes", "factor", "claim"),
    [
        ("full_recompute_last_only", LONGEST, 10, "last_only takes a handicap away"),
        ("cached_static", LONGEST, 10, "the cached paths hardly do"),
        ("cached_concat", LONGEST, 10, "the cache is faster after the longest prefix"),
        ("cached_transformers", PREFIXES, 0.1, "transformers does more around a step"),
    ],
)
def test_other_times_would_not(
    path: str, prefixes: tuple[int, ...], factor: float, claim: str, results: Results
) -> None:
    for row in results["rows"]:
        if row["path"] == path and row["prefix"] in prefixes:
            row["p50_ms"] *= factor
    assert claim in unsaid(results)
