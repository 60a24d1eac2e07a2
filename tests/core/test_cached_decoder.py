"""The proof: a cached decoder gives what the plain one gives, for every way to cut the text."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.core.recompute import max_error, splits

from kvproof import (
    REFERENCE,
    Params,
    decode,
    example_tokens,
    forward,
    in_chunks,
    init_params,
    new_cache,
    offset_mask,
)
from kvproof.model.masks import BoolArray, Mask, check_lengths


def test_every_way_to_cut_eight_tokens_gives_all_logits_keys_and_values(
    params: Params, tolerance: float
) -> None:
    tokens = example_tokens(8, batch_size=2)
    expected = forward(params, tokens, REFERENCE)
    _, one_shot = in_chunks(params, tokens, REFERENCE, [8])
    for chunks in splits(8):
        logits, cache = in_chunks(params, tokens, REFERENCE, chunks)
        assert max_error(logits, expected) <= tolerance, chunks
        for pair, whole in zip(cache.keys_values(), one_shot.keys_values(), strict=True):
            assert pair[0].shape == (2, 4, 8, 16)
            assert max_error(np.stack(pair), np.stack(whole)) <= tolerance, chunks


# A proof is worth what it refuses: mutants of the mask, in both decoders at once, as a wrong line
# in masks.py would be.


def mutant(seen: str) -> Mask:
    """A mask function with another predicate on query i, key j, P and C."""

    def mask(n_past: int, n_new: int) -> BoolArray:
        check_lengths(n_past, n_new)
        i, j = np.indices((n_new, n_past + n_new))
        cells: BoolArray = eval(seen, {"i": i, "j": j, "P": n_past, "C": n_new})
        return np.broadcast_to(cells, i.shape)

    return mask


MUTANTS = [
    "j <= i",
    "j < P + i",
    "j <= P + i + 1",
    "j <= P",
    "j >= i",
    "i >= 0",
    "(j <= P + i) & (j > 0)",
    "(j <= P + i) & ((P == 0) | (i < C - 1))",
]


def is_proved(mask: Mask, monkeypatch: pytest.MonkeyPatch, params: Params) -> bool:
    """Do all ways to cut six tokens agree with the plain decoder, if both use this mask?"""
    tokens = example_tokens(6)
    monkeypatch.setattr("kvproof.model.decoder.offset_mask", mask)
    with np.errstate(invalid="ignore"):  # a query without a key
        expected = forward(params, tokens, REFERENCE)
        differences = [
            max_error(in_chunks(params, tokens, REFERENCE, cut, mask=mask)[0], expected)
            for cut in splits(6)
        ]
    return all(difference <= 2e-6 for difference in differences)  # NaN <= x is False


def test_the_right_mask_written_as_a_mutant_is_proved(
    monkeypatch: pytest.MonkeyPatch, params: Params
) -> None:
    assert is_proved(mutant("j <= P + i"), monkeypatch, params)


@pytest.mark.parametrize("seen", MUTANTS)
def test_a_mutant_of_the_mask_is_not_proved(
    seen: str, monkeypatch: pytest.MonkeyPatch, params: Params
) -> None:
    assert not np.array_equal(mutant(seen)(4, 2), offset_mask(4, 2))
    assert not is_proved(mutant(seen), monkeypatch, params)


@pytest.mark.parametrize("seen", ["j == P + i", "(j <= P + i) & (j > P + i - 2)"])
def test_agreement_alone_cannot_tell_a_mask_that_is_wrong_in_both_decoders(
    seen: str, monkeypatch: pytest.MonkeyPatch, params: Params
) -> None:
    """Each query reading itself only, or a window of two: consistent, causal, and not our mask.

    So the mask itself stands on hand-drawn grids, and the plain decoder on PyTorch.
    """
    assert is_proved(mutant(seen), monkeypatch, params)
    assert not np.array_equal(mutant(seen)(4, 2), offset_mask(4, 2))


@pytest.mark.parametrize("changed", [{"n_layers": 1}, {"n_layers": 3}, {"vocab_size": 200}])
def test_parameters_of_another_configuration_are_refused(changed: dict[str, Any]) -> None:
    other = replace(REFERENCE, **changed)
    params = init_params(REFERENCE)
    with pytest.raises(ValueError, match=r"the parameters have .* the configuration says"):
        decode(params, [[12]], new_cache(other), other)
    with pytest.raises(ValueError, match=r"the parameters have .* the configuration says"):
        forward(params, [[12]], other)


@pytest.mark.parametrize(
    "mask",
    [
        lambda n_past, n_new: np.ones((n_new, n_past + n_new + 1), bool),
        lambda n_past, n_new: np.ones((n_new, n_past + n_new - 1), bool),
        lambda n_past, n_new: np.ones((n_new, n_past + n_new)),
    ],
    ids=["too wide", "too narrow", "numbers"],
)
def test_a_mask_of_another_width_or_dtype_is_refused(mask: Mask) -> None:
    params = init_params(REFERENCE)
    with pytest.raises(ValueError, match=r"mask must be bool \(6, 6\), got"):
        decode(params, example_tokens(6), new_cache(REFERENCE), REFERENCE, mask)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint64"])
def test_lengths_of_any_integer_dtype_mean_the_same(dtype: str) -> None:
    params, tokens = init_params(REFERENCE), example_tokens(200, 2)
    narrow = forward(params, tokens, REFERENCE, np.array([100, 3], dtype))
    np.testing.assert_array_equal(narrow, forward(params, tokens, REFERENCE, [100, 3]))
