"""Blocks: who shares them, who copies them, and when they are free again."""

import gc

import numpy as np
import pytest
from tests.core.recompute import tiny_params

from kvproof import REFERENCE, KVCache, StaleCacheError, decode, example_tokens, forward, new_cache
from kvproof.model.cache import BlockPool, PagedCache
from kvproof.model.params import FloatArray

PARAMS = tiny_params(REFERENCE, 0, "float64")
TOKENS = example_tokens(12)
BLOCK_BYTES = 2 * 2 * 4 * 4 * 16 * 8  # K and V, layers, heads, tokens, head dim, float64


def paged(batch_size: int = 1, capacity: int = 40, block_size: int = 4) -> PagedCache:
    cache = new_cache(REFERENCE, batch_size, "float64", "paged", capacity, block_size)
    assert isinstance(cache, PagedCache)
    return cache


def fed(cache: KVCache, start: int, end: int, rows: int = 1) -> tuple[FloatArray, PagedCache]:
    tokens = np.repeat(TOKENS[:, start:end], rows, axis=0)
    logits, cache = decode(PARAMS, tokens, cache, REFERENCE)
    assert isinstance(cache, PagedCache)
    return logits, cache


def n_used(pool: BlockPool) -> int:
    assert sorted(pool.free) == np.flatnonzero(pool.counts == 0).tolist()
    return len(pool.counts) - len(pool.free)


def test_blocks_are_taken_as_tokens_come() -> None:
    cache = paged()
    pool, used = cache.pool, []
    assert len(pool.free) == 10
    for position in range(9):
        _, cache = fed(cache, position, position + 1)
        used.append(n_used(pool))
    assert used == [1, 1, 1, 1, 2, 2, 2, 2, 3]
    assert cache.nbytes == 3 * BLOCK_BYTES + 3 * 8
    assert pool.nbytes == 10 * BLOCK_BYTES


def test_rows_of_one_prefix_share_its_blocks_and_copy_the_part_empty_one_only() -> None:
    """A prompt of six tokens in blocks of four, then three answers to it."""
    _, prompt = fed(paged(), 0, 6)
    pool = prompt.pool
    first, second = prompt.table[0]
    three = prompt.reorder([0, 0, 0])
    assert three.table.tolist() == [[first, second]] * 3
    assert pool.counts[[first, second]].tolist() == [3, 3]
    assert n_used(pool) == 2
    assert three.nbytes == 2 * BLOCK_BYTES + 6 * 8
    answers = np.array([[1], [2], [3]])
    logits, longer = decode(PARAMS, answers, three, REFERENCE)
    assert isinstance(longer, PagedCache)
    assert n_used(pool) == 4, "two rows copy the second block, the last to hold it writes into it"
    assert (longer.table[:, 0] == first).all()
    assert len(set(longer.table[:, 1].tolist())) == 3
    for row in range(3):
        text = [[*TOKENS[0, :6], *answers[row]]]
        expected = forward(PARAMS, text, REFERENCE)[0, 6:]
        np.testing.assert_allclose(logits[row], expected, rtol=0, atol=1e-13)


def test_nobody_copies_a_block_that_is_his_alone() -> None:
    _, cache = fed(paged(), 0, 5)
    before = cache.table.copy()
    _, cache = fed(cache, 5, 7)
    np.testing.assert_array_equal(cache.table, before)
    fork = cache.fork()
    del fork
    _, cache = fed(cache, 7, 8)
    np.testing.assert_array_equal(cache.table, before)


# Free again.


def test_a_stale_handle_holds_no_blocks_either() -> None:
    """It may live on in a variable: what counts is who can still read them."""
    _, first = fed(paged(), 0, 6)
    pool = first.pool
    _, second = fed(first, 6, 7)
    assert pool.counts[second.table].tolist() == [[1, 1]]
    second.crop(0)
    assert n_used(pool) == 0
    assert first.length == 6


def test_a_call_that_never_ended_holds_no_blocks() -> None:
    _, cache = fed(paged(), 0, 6)
    call = cache.begin(5)
    assert n_used(cache.pool) == 3
    del call
    gc.collect()
    assert n_used(cache.pool) == 2


def test_a_released_cache_is_stale_and_its_blocks_are_free_once() -> None:
    _, cache = fed(paged(), 0, 6)
    pool, fork = cache.pool, cache.fork()
    for _ in range(2):
        cache.release()
        assert pool.counts[fork.table].tolist() == [[1, 1]]
    with pytest.raises(StaleCacheError, match="release has used it up"):
        fed(cache, 6, 7)
    logits, longer = fed(fork, 6, 7)
    expected = forward(PARAMS, TOKENS[:, :7], REFERENCE)[:, 6:]
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-13)
    longer.release()
    fork.release()
    assert n_used(pool) == 0


def test_releasing_a_stale_handle_does_not_touch_the_newer_one() -> None:
    _, cache = fed(paged(), 0, 6)
    _, newer = fed(cache, 6, 7)
    cache.release()
    fed(newer, 7, 8)


def test_caches_of_any_batch_share_a_pool() -> None:
    _, one = fed(paged(capacity=24), 0, 8)
    pool = one.pool
    _, two = fed(pool.cache(batch_size=2), 0, 6, rows=2)
    assert n_used(pool) == 2 + 2 * 2
    before = two.keys_values()[1][0].copy()
    message = "needs 1 more blocks of 4 tokens, the pool has 0 free of 6"
    with pytest.raises(ValueError, match=message):
        fed(one, 8, 9)
    with pytest.raises(ValueError, match="needs 2 more blocks"):
        fed(two, 6, 9, rows=2)
    assert n_used(pool) == 6
    np.testing.assert_array_equal(two.keys_values()[1][0], before)
    one.release()
    logits, _ = fed(two, 6, 9, rows=2)
    expected = forward(PARAMS, TOKENS[:, :9], REFERENCE)[:, 6:]
    np.testing.assert_allclose(logits, np.repeat(expected, 2, axis=0), rtol=0, atol=1e-13)


def test_a_fork_needs_a_block_to_write_into() -> None:
    """A full pool: reading together is free, going apart isn't."""
    _, cache = fed(paged(capacity=8), 0, 6)
    fork = cache.fork()
    with pytest.raises(ValueError, match="needs 1 more blocks of 4 tokens, the pool has 0 free"):
        fed(cache, 6, 7)
    fork.release()
    fed(cache, 6, 7)
