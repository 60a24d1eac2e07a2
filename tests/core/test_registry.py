"""A storage is listed in one place, and answers for itself everywhere else."""

import inspect
from collections.abc import Hashable
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import kvproof
from kvproof import MODERN, decode, example_tokens, init_params, new_cache
from kvproof.model import cache as registry
from kvproof.model.cache import STORAGES, ConcatCache, KVCache, bytes_together

PACKAGE = Path(kvproof.__file__).parent
CONFIG = MODERN if MODERN.window else kvproof.DecoderConfig(window=4)


def filled(storage: str, n_tokens: int = 6) -> KVCache:
    cache = new_cache(CONFIG, 2, storage=storage, block_size=4, branches=2)
    return decode(init_params(CONFIG), example_tokens(n_tokens, 2), cache, CONFIG)[1]


def test_every_storage_is_in_the_registry() -> None:
    made = {
        value
        for file in Path(registry.__file__).parent.glob("*.py")
        for value in vars(import_module(f"{registry.__name__}.{file.stem}")).values()
        if inspect.isclass(value) and issubclass(value, KVCache) and not inspect.isabstract(value)
    }
    assert made == {*STORAGES.values()}


def test_a_new_one_is_made_compared_and_proved_without_another_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Forgetful(ConcatCache):
        """Loses the last token that a crop should leave."""

        def crop(self, length: int) -> ConcatCache:  # type: ignore[override]
            return super().crop(max(length - 1, 0))

    monkeypatch.setitem(STORAGES, "new", ConcatCache)
    assert kvproof.prove(kvproof.LAB, storage="new").passed
    assert kvproof.compare_storages(5)["new"].max_abs_error < 1e-5
    monkeypatch.setitem(STORAGES, "new", Forgetful)
    assert not kvproof.prove(kvproof.LAB, storage="new").passed


@pytest.mark.parametrize("storage", STORAGES)
def test_what_it_says_of_itself_is_so(storage: str) -> None:
    cache = filled(storage)
    slots, length = cache.memory_slots(), cache.length
    assert cache.shared_places().shape == slots.shape
    for row in slots:
        held = sorted(slot for slot in row.tolist() if slot >= 0)
        assert held == list(range(length - len(held), length)), "the newest, each once"
    token_bytes = cache.payload_bytes / (slots >= 0).sum()
    description = 16 * slots.size  # slot numbers, tables
    assert abs(cache.nbytes - slots.size * token_bytes) <= description, "a place for all memory"
    for capacity in {cache.capacity} - {None}:
        assert slots.shape[1] == capacity
    exact = decode(init_params(CONFIG), example_tokens(6, 2), new_cache(CONFIG, 2), CONFIG)[1]
    n_held = int((slots[0] >= 0).sum())
    keys, whole = cache.keys_values()[0][0], exact.keys_values()[0][0]
    in_order = np.argsort(cache.key_slots(0)[0])[-n_held:]
    same = np.array_equal(keys[:, :, in_order], whole[:, :, -n_held:])
    assert same == cache.is_exact
    assert cache.payload_bytes <= cache.nbytes
    older = filled(storage)
    decode(init_params(CONFIG), example_tokens(1, 2), older, CONFIG)
    try:
        older.keys_values()
        stays = True
    except kvproof.StaleCacheError:
        stays = False
    assert stays == cache.keeps_old


@pytest.mark.parametrize("storage", STORAGES)
def test_it_can_crop_where_it_says_so(storage: str) -> None:
    for length in range(-1, 8):
        possible = filled(storage).can_crop(length)
        try:
            done = filled(storage).crop(length).length == length
        except ValueError:
            done = False
        assert possible == done


@pytest.mark.parametrize("storage", STORAGES)
def test_what_forks_share_counts_once(storage: str) -> None:
    cache = filled(storage)
    fork = cache.fork()
    pieces: dict[Hashable, int] = {**cache.memory(), **fork.memory()}
    assert bytes_together([cache, fork]) == sum(pieces.values()) <= cache.nbytes + fork.nbytes
    assert bytes_together([cache, cache]) == cache.nbytes
