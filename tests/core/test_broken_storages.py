"""A proof is worth what it refuses: storages broken on purpose, each in one place."""

import numpy as np
import pytest
from tests.core.recompute import (
    largest_error,
    random_tokens,
    reads_int8,
    rows_alone,
)
from tests.core.test_storages import CONFIG, PARAMS

from kvproof import decode, new_cache
from kvproof.model.cache import STORAGES, PagedCache, RollingCache, StaticCache
from kvproof.model.cache.rolling import Ring
from kvproof.model.masks import IntArray
from kvproof.model.params import FloatArray


def error_of_a_history(storage: str) -> float:
    """Largest logit error of calls between which rows are swapped and steps taken back.

    Before each call the cache is forked; the fork goes on with other tokens.
    """
    capacity = 40 if storage == "paged" else None
    cache = new_cache(CONFIG, 2, "float64", storage, capacity, block_size=4)
    text = np.zeros((2, 0), np.int64)
    errors = []
    for n_new, lengths, back in ((3, [3, 2], 1), (4, None, 0), (1, None, 0), (3, None, 0)):
        new = random_tokens(CONFIG, 2, n_new, seed=cache.length)
        other, text = cache.fork(), np.concatenate([text, new], axis=1)
        logits, cache = decode(PARAMS, new, cache, CONFIG, lengths=lengths)
        decode(PARAMS, (new + 1) % 11, other, CONFIG, lengths=lengths)
        with reads_int8(storage == "int8"):
            alone = rows_alone(PARAMS, text, CONFIG, cache.padding)
        errors.append(largest_error(logits, alone))
        cache = (cache.crop(cache.length - back) if back else cache).reorder([1, 0])
        text = text[::-1, : cache.length]
    return max(errors)


@pytest.mark.parametrize("storage", STORAGES)
def test_a_storage_as_it_is_passes(storage: str) -> None:
    assert error_of_a_history(storage) <= 1e-13


def is_found(storage: str) -> bool:
    return error_of_a_history(storage) > 0.01


def test_a_ring_shorter_than_what_the_window_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The window's own query is never in the ring: one place less is enough, two are not."""
    monkeypatch.setattr(Ring, "n_turning", property(lambda ring: ring.window - 1))
    assert error_of_a_history("rolling") <= 1e-13
    monkeypatch.setattr(Ring, "n_turning", property(lambda ring: ring.window - 2))
    assert is_found("rolling")


def test_a_ring_that_the_sinks_are_part_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ring, "place", lambda ring, token: token % ring.n_places)
    assert is_found("rolling")


def test_a_ring_that_turns_by_two_places(monkeypatch: pytest.MonkeyPatch) -> None:
    def place(ring: Ring, token: IntArray) -> IntArray:
        return np.where(token < 1, token, 1 + 2 * token % ring.n_turning)

    monkeypatch.setattr(Ring, "place", place)
    assert is_found("rolling")


def test_a_step_back_that_forgets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two places then say that they hold one slot, and both are read."""

    def crop(cache: RollingCache, length: int) -> RollingCache:
        return cache._handle(cache.slots, length, np.minimum(cache.padding, length))._take_over()

    monkeypatch.setattr(RollingCache, "crop", crop)
    monkeypatch.setattr(Ring, "place", lambda ring, token: np.minimum(token, ring.n_places - 1))
    assert is_found("rolling")


def test_a_fork_that_is_no_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    def fork(cache: StaticCache) -> StaticCache:
        return StaticCache(cache.shape, cache.arrays, cache.length, cache.padding)

    monkeypatch.setattr(StaticCache, "fork", fork)
    assert is_found("static")


def test_blocks_that_two_write_into(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PagedCache, "_rows_to_copy", lambda cache: np.arange(0))
    assert is_found("paged")


def test_a_table_read_from_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    right = PagedCache._gather

    def gather(cache: PagedCache, blocks: FloatArray, end: int) -> FloatArray:
        cache.table, table = cache.table[:, ::-1], cache.table
        rows = right(cache, blocks, end)
        cache.table = table
        return rows

    monkeypatch.setattr(PagedCache, "_gather", gather)
    assert is_found("paged")


def test_padding_that_does_not_move_with_its_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def reorder(cache: StaticCache, rows: list[int]) -> StaticCache:
        memory = [array[:, rows] for array in cache.arrays]
        return StaticCache(cache.shape, memory, cache.length, cache.padding)

    monkeypatch.setattr(StaticCache, "reorder", reorder)
    assert is_found("static")
