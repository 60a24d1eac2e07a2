"""The facts of the table: measured, and right for specimens whose facts can be thought out."""

import re

import numpy as np
import pytest

from kvproof.zoo import SPECIMENS, facts, table
from kvproof.zoo.blind import SAME, compare, outcome


@pytest.mark.parametrize(
    ("name", "blind", "not_blind"),
    [
        ("mask-topleft", {"one shot"}, {"argmax", "C = 1", "B = 1", "first use"}),
        ("mask-skipped-past", {"one shot", "C = 1"}, {"argmax", "B = 1", "first use"}),
        ("pos-perrow-learned", {"one shot", "C = 1", "B = 1"}, {"first use"}),
        ("slot-stale-leftover", {"one shot", "C = 1", "first use"}, {"B = 1"}),
        ("row-perm-inverse", {"one shot", "C = 1", "B = 1"}, {"first use"}),
        ("head-map-both", set(), {"one shot", "C = 1", "B = 1", "first use"}),
    ],
)
def test_habits_that_are_blind(name: str, blind: set[str], not_blind: set[str]) -> None:
    found = set(facts(SPECIMENS[name], seeds=(0,)).blind)
    assert blind <= found
    assert not not_blind & found


def test_errors_of_chunkings() -> None:
    skipped = facts(SPECIMENS["mask-skipped-past"], seeds=(0, 1))
    quiet = [skipped.errors[name] for name in ("one shot", "ones", "prefill, then ones")]
    assert max(quiet) < 1e-12
    assert skipped.errors["ragged"] == skipped.trigger_error > 0.1


def test_the_median_is_over_the_seeds() -> None:
    one = SPECIMENS["self-read-last"]
    errors = [outcome(one, one.trigger, seed).error for seed in (0, 1, 2)]
    assert facts(one, seeds=(0, 1, 2)).trigger_error == sorted(errors)[1]


def test_comparison() -> None:
    logits = [np.array([[[0.0, 1.0], [2.0, 0.0]]])]
    assert compare(logits, logits) == SAME
    moved = compare([logits[0] + [0.0, 0.25]], logits)
    assert (moved.error, moved.argmax, moved.last) == (0.25, False, False)
    first = compare([np.array([[[3.0, 1.0], [2.0, 0.0]]])], logits)
    assert (first.error, first.argmax, first.last) == (3.0, True, False)
    assert compare([logits[0] * np.nan], logits).error == np.inf
    assert compare([logits[0][:, :1]], logits).error == np.inf
    assert compare("ValueError: no", logits).error == np.inf
    assert compare("ValueError: no", "ValueError: no") == SAME


def test_bad_input() -> None:
    one = SPECIMENS["mask-topleft"]
    with pytest.raises(ValueError, match="at least one seed"):
        facts(one, seeds=())
    with pytest.raises(ValueError, match="scenario must be one of one shot, ones"):
        outcome(one, "twice", 0)


def test_the_table_has_a_line_for_each_specimen_and_says_how_it_was_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    some = dict([*SPECIMENS.items()][::6])
    monkeypatch.setattr("kvproof.zoo.blind.REGISTRY", some)
    head, *rows, empty, made, blind = table(seeds=(0,)).splitlines()
    assert [row.split()[0] for row in rows] == list(some)
    assert len({row.rindex("%  ") for row in (*rows, head.replace("last  ", "las%  "))}) == 1
    assert max(map(len, rows)) < 160
    assert empty == ""
    assert made.startswith(f"{len(some)} specimens, float64, median error over 1 seed;")
    for habit, count in re.findall(r"([^:,]+) to (\d+)", blind.removeprefix("blind:")):
        assert int(count) == sum(habit.strip() in named_blind(row) for row in rows), habit


def named_blind(row: str) -> list[str]:
    return row.rpartition("; ")[2].split(", ")
