"""A ring for the window and places for the sinks: which token is where, and how far back."""

from dataclasses import replace

import numpy as np
import pytest
from tests.core.recompute import largest_error, rows_alone, tiny_params

from kvproof import (
    MODERN,
    KVCache,
    StaleCacheError,
    decode,
    example_tokens,
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
