"""The proof: a cached decoder gives what the plain one gives, for every way to cut the text."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvproof import (
    REFERENCE,
    DecoderConfig,
    Params,
    decode,
    example_tokens,
    forward,
    init_params,
    new_cache,
    offset_mask,
    restarted_positions,
    top_left_mask,
)
from kvproof.model.masks import BoolArray, Mask, check_lengths
from kvproof.model.params import FloatArray

if TYPE_CHECKING:
    from tests.core.conftest import Feed


def splits(n_total: int) -> list[list[int]]:
    """All 2**(n_total - 1) ways to cut a text into chunks."""
    if n_total == 0:
        return [[]]
    return [[first, *rest] for first in range(1, n_total + 1) for rest in splits(n_total - first)]


def largest_difference(actual: FloatArray, expected: FloatArray) -> float:
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    return float(np.abs(actual - expected).max())


@pytest.fixture(params=[1, 2])
def batch_size(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def test_eight_tokens_can_be_cut_in_128_ways() -> None:
    cuts = splits(8)
    assert len(cuts) == len({tuple(chunks) for chunks in cuts}) == 128
    assert all(sum(chunks) == 8 and min(chunks) >= 1 for chunks in cuts)


def test_every_way_to_cut_eight_tokens_gives_all_logits_keys_and_values(
    feed: "Feed", params: Params, tolerance: float, batch_size: int
) -> None:
    tokens = example_tokens(8, batch_size)
    expected = forward(params, tokens, REFERENCE)
    _, one_shot = feed(params, tokens, [8])
    for chunks in splits(8):
        logits, cache = feed(params, tokens, chunks)
        assert largest_difference(logits, expected) <= tolerance, chunks
        for layer, (pair, wanted) in enumerate(
            zip(cache.keys_values(), one_shot.keys_values(), strict=True)
        ):
            for name, actual, whole in zip("KV", pair, wanted, strict=True):
                assert actual.shape == (batch_size, 4, 8, 16)
                assert largest_difference(actual, whole) <= tolerance, (chunks, layer, name)


@pytest.mark.parametrize("chunk", [1, 2, 5])
def test_24_positions_in_chunks_of_one_size(
    feed: "Feed", params: Params, tolerance: float, batch_size: int, chunk: int
) -> None:
    """Chunks of 5 leave a short last one: 24 isn't a multiple of 5."""
    tokens = example_tokens(24, batch_size)
    chunks = [min(chunk, 24 - start) for start in range(0, 24, chunk)]
    logits, cache = feed(params, tokens, chunks)
    assert largest_difference(logits, forward(params, tokens, REFERENCE)) <= tolerance
    _, one_shot = feed(params, tokens, [24])
    for pair, whole in zip(cache.keys_values(), one_shot.keys_values(), strict=True):
        assert largest_difference(np.stack(pair), np.stack(whole)) <= tolerance


def test_24_positions_in_ragged_chunks(
    feed: "Feed", params: Params, tolerance: float, batch_size: int
) -> None:
    tokens = example_tokens(24, batch_size)
    logits, cache = feed(params, tokens, [5, 3, 7, 9])
    assert largest_difference(logits, forward(params, tokens, REFERENCE)) <= tolerance
    assert cache.length == 24


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_other_seeds_agree_as_well(feed: "Feed", dtype: str, tolerance: float, seed: int) -> None:
    params = init_params(REFERENCE, seed, dtype)
    tokens = example_tokens(24)
    expected = forward(params, tokens, REFERENCE)
    for chunks in ([1] * 24, [5, 3, 7, 9], [23, 1]):
        logits, _ = feed(params, tokens, chunks)
        assert largest_difference(logits, expected) <= tolerance, chunks


@given(data=st.data(), seed=st.integers(0, 1000))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_decoders_of_any_shape_agree(data: st.DataObject, seed: int) -> None:
    n_heads, head_dim, n_layers = (
        data.draw(st.integers(1, 4), label=name) for name in ("n_heads", "head_dim", "n_layers")
    )
    config = DecoderConfig(
        n_layers, n_heads * head_dim, n_heads, vocab_size=7, mlp_width=12, max_positions=20
    )
    chunks = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4), label="chunks")
    params = init_params(config, seed, "float64")
    tokens = np.random.default_rng(seed).integers(7, size=(2, sum(chunks)))
    cache = new_cache(config, 2, "float64")
    expected = forward(params, tokens, config)
    for chunk in chunks:
        new = slice(cache.length, cache.length + chunk)
        logits, cache = decode(params, tokens[:, new], cache, config)
        np.testing.assert_allclose(logits, expected[:, new], rtol=0, atol=1e-12)


def test_the_last_token_moves_its_own_logits_only(
    feed: "Feed", params: Params, batch_size: int
) -> None:
    """Causality through the cache: a chunk must hide its own future."""
    tokens = example_tokens(24, batch_size)
    changed = tokens.copy()
    changed[:, -1] = (changed[:, -1] + 1) % 97
    logits, _ = feed(params, tokens, [10, 14])
    moved, _ = feed(params, changed, [10, 14])
    np.testing.assert_array_equal(moved[:, :-1], logits[:, :-1])
    assert (np.abs(moved[:, -1] - logits[:, -1]).max(axis=-1) > 0.1).all()


# What the proof must find. The worked example: four tokens in the cache, two in one call.


def last_two_of_six(seed: int, **wrong: object) -> tuple[FloatArray, FloatArray]:
    """Logits (2, V) of positions 4 and 5, and the recomputed ones of all six (6, V)."""
    params = init_params(REFERENCE, seed, "float64")
    tokens = example_tokens(6)
    _, past = decode(params, tokens[:, :4], new_cache(REFERENCE, dtype="float64"), REFERENCE)
    logits, _ = decode(params, tokens[:, 4:], past, REFERENCE, **wrong)  # type: ignore[arg-type]
    return logits[0], forward(params, tokens, REFERENCE)[0]


MISTAKES = {
    "positions restart": {"positions": restarted_positions},
    "mask without offset": {"mask": top_left_mask},
}


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("wrong", MISTAKES.values(), ids=MISTAKES)
def test_a_forgotten_offset_is_found(wrong: dict[str, object], seed: int) -> None:
    right, full = last_two_of_six(seed)
    assert largest_difference(right, full[4:]) <= 1e-14
    logits, full = last_two_of_six(seed, **wrong)
    assert largest_difference(logits, full[4:]) > 0.1
    assert not np.isnan(logits).any(), "nothing but the numbers gives it away"


def test_comparing_with_the_next_position_is_found() -> None:
    """Index 0 of the call is the prediction after position 4, so it is held against index 4."""
    logits, full = last_two_of_six(seed=0)
    assert largest_difference(logits[0], full[4]) <= 1e-14
    assert largest_difference(logits[0], full[5]) > 0.1
    assert largest_difference(logits[0], full[3]) > 0.1


def no_mask(n_past: int, n_new: int) -> BoolArray:
    return np.full((n_new, n_past + n_new), True)


def test_a_missing_mask_shows_only_in_a_chunk_of_two_or_more(feed: "Feed", params: Params) -> None:
    tokens = example_tokens(8)
    expected = forward(params, tokens, REFERENCE)
    one_by_one, _ = feed(params, tokens, [1] * 8, mask=no_mask)
    assert largest_difference(one_by_one, expected) <= 2e-6
    chunked, _ = feed(params, tokens, [4, 2, 2], mask=no_mask)
    assert largest_difference(chunked, expected) > 0.05


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


def is_proved(
    mask: Mask, n_total: int, monkeypatch: pytest.MonkeyPatch, feed: "Feed", params: Params
) -> bool:
    """Do all ways to cut the text agree with the plain decoder, if both use this mask?"""
    tokens = example_tokens(n_total)
    monkeypatch.setattr("kvproof.model.decoder.offset_mask", mask)
    with np.errstate(invalid="ignore"):  # a query without a key
        expected = forward(params, tokens, REFERENCE)
        differences = [
            largest_difference(feed(params, tokens, chunks, mask=mask)[0], expected)
            for chunks in splits(n_total)
        ]
    return all(difference <= 2e-6 for difference in differences)  # NaN <= x is False


def test_the_right_mask_written_as_a_mutant_is_proved(
    monkeypatch: pytest.MonkeyPatch, feed: "Feed", params: Params
) -> None:
    assert is_proved(mutant("j <= P + i"), 6, monkeypatch, feed, params)


@pytest.mark.parametrize("seen", MUTANTS)
def test_a_mutant_of_the_mask_is_not_proved(
    seen: str, monkeypatch: pytest.MonkeyPatch, feed: "Feed", params: Params
) -> None:
    assert not np.array_equal(mutant(seen)(4, 2), offset_mask(4, 2))
    assert not is_proved(mutant(seen), 6, monkeypatch, feed, params)


@pytest.mark.parametrize("seen", ["j == P + i", "(j <= P + i) & (j > P + i - 2)"])
def test_agreement_alone_cannot_tell_a_mask_that_is_wrong_in_both_decoders(
    seen: str, monkeypatch: pytest.MonkeyPatch, feed: "Feed", params: Params
) -> None:
    """Each query reading itself only, or a window of two: consistent, causal, and not our mask.

    So the mask itself stands on hand-drawn grids, and the plain decoder on PyTorch.
    """
    assert is_proved(mutant(seen), 6, monkeypatch, feed, params)
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
