"""A ring for the window and places for the sinks: which token is where, and how far back."""

from dataclasses import replace

import numpy as np
import pytest
from tests.core.recompute import largest_error, rows_alone, tiny_params

from kvproof import (
    MODERN,
    REFERENCE,
    KVCache,
    StaleCacheError,
    decode,
    example_tokens,
    forward,
    new_cache,
    offset_mask,
)
from kvproof.model.cache import RollingCache
from kvproof.model.masks import BoolArray
from kvproof.model.params import FloatArray

CONFIG = replace(MODERN, window=3, n_sinks=1)
PARAMS = tiny_params(CONFIG, 0, "float64")


def rolling(batch_size: int = 1, capacity: int | None = None) -> RollingCache:
    cache = new_cache(CONFIG, batch_size, "float64", "rolling", capacity)
    assert isinstance(cache, RollingCache)
    return cache


def fed(cache: KVCache, end: int, lengths: list[int] | None = None) -> RollingCache:
    tokens = example_tokens(end, cache.shape.batch_size)[:, cache.length :]
    _, cache = decode(PARAMS, tokens, cache, CONFIG, lengths=lengths)
    assert isinstance(cache, RollingCache)
    return cache


# One sink, then a ring of three: after each of eight tokens, the slot in each place.
BY_HAND = [
    [0, -1, -1, -1],
    [0, 1, -1, -1],
    [0, 1, 2, -1],
    [0, 1, 2, 3],
    [0, 4, 2, 3],
    [0, 4, 5, 3],
    [0, 4, 5, 6],
    [0, 7, 5, 6],
]


def test_the_newest_tokens_overwrite_the_oldest_and_never_a_sink() -> None:
    cache = rolling()
    for end, slots in enumerate(BY_HAND, start=1):
        cache = fed(cache, end)
        assert cache.slots.tolist() == [slots]
        assert cache.key_slots(2).tolist() == [[*slots, end, end + 1]]


@pytest.mark.parametrize("end", range(1, 9))
def test_a_chunk_longer_than_the_ring_leaves_its_last_tokens(end: int) -> None:
    assert fed(rolling(), end).slots.tolist() == [BY_HAND[end - 1]]
    assert fed(fed(rolling(), min(end, 2)), 8).slots.tolist() == [BY_HAND[7]]


def test_a_row_counts_its_tokens_from_behind_its_padding() -> None:
    """Rows of 8, 6, 1 and 0 tokens: padding takes no place, and a sink is a real token."""
    cache = fed(rolling(4), 8, lengths=[8, 6, 1, 0])
    assert cache.slots.tolist() == [[0, 7, 5, 6], [2, 6, 7, 5], [7, -1, -1, -1], [-1] * 4]


def test_memory_stays_what_it_was_however_long_the_text() -> None:
    cache = rolling()
    empty = cache.nbytes
    assert empty == 2 * 2 * 2 * 4 * 16 * 8 + 4 * 8  # K and V, layers, heads, places, head dim
    long = fed(fed(cache, 100), 400)
    assert (long.nbytes, long.length) == (empty, 400)
    tokens = example_tokens(401)
    logits, _ = decode(PARAMS, tokens[:, 400:], long, CONFIG)
    alone = rows_alone(PARAMS, tokens, CONFIG, np.array([0]))
    assert largest_error(logits, alone) <= 1e-13


@pytest.mark.parametrize(
    ("capacity", "possible"),
    # A step back to n reads slots n - 2 and n - 1 again; slot 0 is the sink.
    [(4, {0, 1, 7, 8}), (5, {0, 1, 6, 7, 8}), (7, {0, 1, 4, 5, 6, 7, 8}), (8, set(range(9)))],
)
def test_more_capacity_allows_for_longer_steps_back(capacity: int, possible: set[int]) -> None:
    cache = fed(rolling(capacity=capacity), 8)
    for length in range(9):
        if length in possible:
            shorter = cache.fork().crop(length)
            assert shorter.slots.max(initial=-1) == length - 1
            continue
        slots = cache.slots.copy()
        gone = min(slot for slot in (length - 2, length - 1) if slot not in slots)
        message = f"crop 8 tokens to {length}: .* slot {gone} of row 0.* more than {capacity} allow"
        with pytest.raises(ValueError, match=message):
            cache.crop(length)
        np.testing.assert_array_equal(cache.slots, slots)
    fed(cache, 9)


def test_a_ring_for_a_shorter_window_is_refused_and_would_be_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Same layers, heads and dtype: only the configuration tells that tokens are missing."""
    params, tokens = tiny_params(REFERENCE, 0, "float64"), example_tokens(40)
    ring = new_cache(replace(REFERENCE, window=8), dtype="float64", storage="rolling")
    with pytest.raises(ValueError, match="decoder with window 8; this one has window None"):
        decode(params, tokens, ring, REFERENCE)
    monkeypatch.setattr(KVCache, "check_fits", lambda *_: None)
    for step in range(40):
        logits, ring = decode(params, tokens[:, [step]], ring, REFERENCE)
    assert np.abs(logits[0, 0] - forward(params, tokens, REFERENCE)[0, -1]).max() > 0.01


@pytest.mark.parametrize("between", [False, True], ids=["before", "in the middle"])
def test_a_longer_call_from_the_same_handle_makes_it_stale(between: bool) -> None:
    """As another thread may do; that the ring has turned meanwhile is no error of its own."""
    tokens = example_tokens(11)
    start = fed(rolling(), 8)
    done: list[FloatArray] = []

    def other_call(n_past: int, n_new: int) -> BoolArray:
        if not done:
            done.append(decode(PARAMS, tokens[:, 8:], start, CONFIG)[0])
        return offset_mask(n_past, n_new)

    if not between:
        other_call(8, 1)
    with pytest.raises(StaleCacheError, match="fork"):
        decode(PARAMS, [[5]], start, CONFIG, other_call)
    assert largest_error(done[0], rows_alone(PARAMS, tokens, CONFIG, np.array([0]))) <= 1e-13
