"""Where mistakes are invisible: known from their definitions, and measured."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kvproof import (
    REFERENCE,
    BlindSpots,
    blind_spots,
    decode,
    example_tokens,
    forward,
    init_params,
    new_cache,
    offset_mask,
    open_mask,
    restarted_positions,
    top_left_mask,
)
from kvproof.model.masks import BoolArray

LENGTHS: dict[str, Any] = {"n_past": [0, 1, 3, 5], "n_new": [1, 2, 4, 5]}


def spots(mistake: Any, dtype: str = "float64", **options: Any) -> BlindSpots:
    return blind_spots(mistake, **LENGTHS, dtype=dtype, **options)


def where(rule: Callable[[int, int], bool]) -> BoolArray:
    return np.array([[rule(p, c) for c in LENGTHS["n_new"]] for p in LENGTHS["n_past"]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("specimen", "is_blind"),
    [
        ("mask-topleft", lambda p, _: p == 0),
        ("mask-topleft-chunks", lambda p, c: p == 0 or c == 1),
        ("mask-skipped-cache", lambda _, c: c == 1),
        ("mask-skipped-past", lambda p, c: p == 0 or c == 1),
        ("pos-reset-learned", lambda p, _: p == 0),
        ("self-read-chunk", lambda p, _: p == 0),
        ("self-read-last", lambda p, _: p == 0),
        ("pos-reset-rope", lambda p, _: p == 0),
        ("bias-len-alibi", lambda p, _: p == 0),
        ("bias-len-distance", lambda p, _: p == 0),
        ("mask-value-bool", lambda _, c: c == 1),
        ("logit-shift-scores", lambda _, c: c == 1),
        ("logit-shift-last", lambda _, c: c == 1),
        # With a window of 4
        ("pos-drift-window-length", lambda p, _: p <= 4),
        ("window-obo-prefill", lambda p, c: p > 0 or c <= 4),
        ("window-obo-decode", lambda p, c: p == 0 or p + c <= 4),
        ("window-phase-decode", lambda p, c: p < 4 or c > 1),
        ("window-phase-local", lambda p, c: p == 0 or p + c <= 4),
        ("window-phase-short-chunk", lambda p, c: p == 0 or c >= 4),
        ("ring-order-early", lambda p, c: p + c != 4 or p == 0),
    ],
)
def test_a_mistake_is_invisible_where_its_definition_says(
    specimen: str, is_blind: Callable[[int, int], bool], dtype: str
) -> None:
    found = spots(specimen, dtype)
    np.testing.assert_array_equal(found.unseen, where(is_blind))
    assert (found.errors[~found.unseen] > 0.002).all()
    assert (found.agreement[found.unseen] == 1).all()


@pytest.mark.parametrize("mistake", [None, offset_mask])
def test_without_a_mistake_nothing_is_seen(mistake: Any) -> None:
    right = spots(mistake)
    assert right.unseen.all()
    assert (right.agreement == 1).all()
    assert not right.unseen_by_argmax.any()


def test_a_restart_does_nothing_to_alibi() -> None:
    """Its bias depends on the distance of the keys to one another, for softmax's purposes."""
    assert spots("pos-reset-learned", positions="alibi").unseen.all()
    rope = spots("pos-reset-learned", positions="rope")
    np.testing.assert_array_equal(rope.errors, spots("pos-reset-rope").errors)
    assert spots("mask-topleft", positions="alibi").unseen.sum() == len(LENGTHS["n_new"])


@pytest.mark.parametrize(
    ("mask", "specimen"), [(top_left_mask, "mask-topleft"), (open_mask, "mask-skipped-cache")]
)
def test_a_mask_of_ones_own_is_a_mistake_as_well(mask: Any, specimen: str) -> None:
    mine = spots(mask)
    np.testing.assert_array_equal(mine.errors, spots(specimen).errors)
    np.testing.assert_array_equal(mine.agreement, spots(specimen).agreement)


@pytest.mark.parametrize(
    ("specimen", "wrong"),
    [
        ("mask-topleft", {"mask": top_left_mask}),
        ("mask-skipped-cache", {"mask": open_mask}),
        ("pos-reset-learned", {"positions": restarted_positions}),
    ],
)
def test_errors_are_those_of_the_injected_mistake(specimen: str, wrong: dict[str, Any]) -> None:
    """The core's own injection into ``decode``, without the zoo."""
    params = init_params(REFERENCE, dtype="float64")
    found = spots(specimen)
    for i, n_past in enumerate(found.n_past):
        for j, n_new in enumerate(found.n_new):
            text = example_tokens(n_past + n_new)
            past = new_cache(REFERENCE, dtype="float64")
            if n_past:
                _, past = decode(params, text[:, :n_past], past, REFERENCE)
            logits, _ = decode(params, text[:, n_past:], past, REFERENCE, **wrong)
            expected = forward(params, text, REFERENCE)[:, n_past:]
            assert found.errors[i, j] == pytest.approx(np.abs(logits - expected).max(), abs=1e-13)
            agreement = (logits.argmax(-1) == expected.argmax(-1)).mean()
            assert found.agreement[i, j] == agreement


def test_the_decoder_is_the_specimens_kind() -> None:
    for specimen, config in (
        ("mask-topleft", REFERENCE),
        ("pos-reset-rope", replace(REFERENCE, positions="rope")),
        ("window-obo-decode", replace(REFERENCE, window=4)),
    ):
        assert spots(specimen).config == config


def test_argmax_is_blind_in_more_places() -> None:
    found = blind_spots("mask-skipped-cache")
    assert found.unseen_by_argmax.sum() > found.unseen.sum()
    assert not (found.unseen_by_argmax & found.unseen).any()


@pytest.mark.parametrize(
    ("mistake", "call"),
    [
        # Each shows after one token already, with two new ones.
        ("mask-topleft", (1, 2)),
        ("mask-skipped-cache", (1, 2)),
        ("pos-reset-learned", (1, 2)),
        # With a window of 4: only a prompt is wrong, or only a single token that reads five.
        ("window-obo-prefill", (0, 5)),
        ("window-phase-decode", (4, 1)),
        (None, None),
    ],
)
def test_the_smallest_call_that_shows_it(mistake: Any, call: tuple[int, int] | None) -> None:
    assert blind_spots(mistake).smallest_seen == call


def test_the_smallest_call_has_the_fewest_tokens_and_then_the_shortest_history() -> None:
    agreement, lengths = np.ones((3, 3)), ((0, 4, 8), (1, 2, 6))
    errors = np.zeros((3, 3))
    for row, column, call in ((2, 1, (8, 2)), (1, 2, (4, 6)), (0, 1, (4, 6)), (1, 1, (4, 2))):
        errors[row, column] = 1
        assert BlindSpots(*lengths, errors, agreement, 1e-16).smallest_seen == call


def test_a_logit_that_is_no_number_is_an_infinite_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing_visible(n_past: int, n_new: int) -> BoolArray:
        mask = offset_mask(n_past, n_new)
        mask[0] = False
        return mask

    monkeypatch.setattr("kvproof.zoo.masks.top_left_mask", nothing_visible)
    found = blind_spots("mask-topleft", [3], [2])
    assert found.errors == [[np.inf]]
    assert not found.unseen.any()
