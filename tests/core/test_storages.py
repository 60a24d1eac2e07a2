"""What every storage promises: a refusal changes nothing, one handle is valid, a fork is free."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike
from tests.core.recompute import (
    TINY,
    largest_error,
    random_tokens,
    reads_int8,
    rows_alone,
    tiny_params,
)

from kvproof import (
    MODERN,
    REFERENCE,
    DecoderConfig,
    KVCache,
    Params,
    StaleCacheError,
    decode,
    new_cache,
)
from kvproof.model import layers
from kvproof.model.cache import STORAGES, PagedCache, RollingCache, StaticCache
from kvproof.model.params import FloatArray

IN_PLACE: tuple[str, ...] = ("static", "rolling", "paged")
CAPACITIES = {"static": 12, "paged": 24, "rolling": 6}
CONFIG = replace(TINY, max_positions=12)
PARAMS = tiny_params(CONFIG, 0, "float64")
TOKENS = random_tokens(CONFIG, 2, 12, seed=0)
PADDING = np.array([0, 2])


@pytest.fixture(params=STORAGES)
def storage(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(params=IN_PLACE)
def in_place(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def prefilled(storage: str, capacity: int | None = None) -> KVCache:
    """Five slots of two rows, the second with two pads: a last block that is part empty."""
    capacity = CAPACITIES.get(storage) if capacity is None else capacity
    cache = new_cache(CONFIG, 2, "float64", storage, capacity, block_size=4)
    return decode(PARAMS, TOKENS[:, :5], cache, CONFIG, lengths=5 - PADDING)[1]


def content(cache: KVCache) -> list[object]:
    """All that can be told from outside, bit by bit."""
    told: list[object] = [cache.length, cache.nbytes, cache.shape]
    told += [cache.padding.tolist(), cache.key_slots(0).tolist()]
    told += [array.tobytes() for pair in cache.keys_values() for array in pair]
    if isinstance(cache, PagedCache):
        told += [cache.table.tolist(), cache.pool.counts.tolist(), sorted(cache.pool.free)]
    return told


def check_goes_on(cache: KVCache, storage: str, n_past: int = 5, n_new: int = 2) -> KVCache:
    """The next tokens get the logits of a recompute; returns the longer cache."""
    end = n_past + n_new
    logits, longer = decode(PARAMS, TOKENS[:, n_past:end], cache, CONFIG)
    with reads_int8(storage == "int8"):
        alone = rows_alone(PARAMS, TOKENS[:, :end], CONFIG, PADDING)
    assert largest_error(logits, alone) <= 1e-13
    return longer


# What can't be done changes nothing.


def fed(
    tokens: ArrayLike, params: Params = PARAMS, config: DecoderConfig = CONFIG
) -> Callable[[KVCache], object]:
    return lambda cache: decode(params, tokens, cache, config)


REFUSED: dict[str, tuple[Callable[[KVCache], object], str]] = {
    "no tokens": (fed(np.zeros((2, 0), int)), r"not empty, got shape \(2, 0\)"),
    "an unknown ID": (fed([[3], [11]]), r"token ID 11 is outside the vocabulary 0\.\.10"),
    "a negative ID": (fed([[3], [-1]]), r"token ID -1 is outside the vocabulary 0\.\.10"),
    "another batch": (fed([[3]]), r"\(2, 1, 4\) float64.*\(1, 1, 4\) float64"),
    "another precision": (
        fed([[3], [4]], params=tiny_params(CONFIG, 0, "float32")),
        r"\(2, 1, 4\) float64.*\(2, 1, 4\) float32",
    ),
    "positions beyond the last": (
        fed(TOKENS[:, 4:]),
        r"5 cached \+ 8 new tokens = 13 positions, the decoder has 12",
    ),
    "padding after a token": (
        lambda cache: decode(PARAMS, TOKENS[:, 5:7], cache, CONFIG, lengths=[1, 2]),
        "row 0 has 5 real tokens in the cache and lengths says 1 of 2",
    ),
    "a crop beyond the length": (lambda cache: cache.crop(6), "crop to 6 tokens: .* has 5"),
    "a negative crop": (lambda cache: cache.crop(-1), "crop to -1 tokens: the cache has 5"),
    "half a crop": (lambda cache: cache.crop(2.5), r"must be an integer, got 2\.5"),  # type: ignore[arg-type]
    "a row outside": (lambda cache: cache.reorder([0, 2]), r"row 2 is outside the batch 0\.\.1"),
    "a negative row": (lambda cache: cache.reorder([0, -1]), r"row -1 is outside .* 0\.\.1"),
    "no rows": (lambda cache: cache.reorder([]), r"not empty, got \[\]"),
    "an empty array of rows": (lambda cache: cache.reorder(np.zeros(0, int)), "not empty"),  # type: ignore[arg-type]
    "a mask of rows": (lambda cache: cache.reorder([True, False]), r"row numbers.*\[True, False\]"),
    "rows of rows": (lambda cache: cache.reorder([[0, 1]]), r"row numbers.*\[\[0, 1\]\]"),  # type: ignore[list-item]
}


@pytest.mark.parametrize(("act", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_leaves_the_cache_as_it_was(
    act: Callable[[KVCache], object], message: str, storage: str
) -> None:
    cache = prefilled(storage)
    before = content(cache)
    with pytest.raises(ValueError, match=message):
        act(cache)
    assert content(cache) == before
    check_goes_on(cache, storage)


# For each field another value, with which the parameters and the cache's arrays may well still fit.
OTHER: dict[str, Any] = {
    "n_layers": 3,
    "width": 16,
    "n_heads": 4,
    "n_kv_heads": 2,
    "vocab_size": 13,
    "mlp_width": 16,
    "max_positions": 13,
    "positions": "alibi",
    "norm": "rmsnorm",
    "mlp": "swiglu",
    "window": 3,
    "n_sinks": 0,
}


@pytest.mark.parametrize("name", [field.name for field in fields(DecoderConfig)])
def test_a_cache_is_taken_for_no_other_configuration(name: str, storage: str) -> None:
    other = replace(CONFIG, **{name: OTHER[name]})
    cache = prefilled(storage)
    before = content(cache)
    message = f"for a decoder with {name} {getattr(CONFIG, name)!r}; this one has {name} "
    with pytest.raises(ValueError, match=f"{message}{OTHER[name]!r}; make it with new_cache"):
        decode(tiny_params(other, 0, "float64"), TOKENS[:, 5:7], cache, other)
    assert content(cache) == before
    _, longer = decode(PARAMS, TOKENS[:, 5:7], cache, replace(CONFIG))
    assert longer.length == 7


FULL = {
    "static": r"5 cached \+ 4 new tokens = 9, the cache has room for 8",
    "paged": r"needs 2 more blocks of 4 tokens, the pool has 0 free of 4",
}


@pytest.mark.parametrize(("storage", "message"), FULL.items(), ids=FULL)
def test_more_tokens_than_there_is_room_for_are_refused(storage: str, message: str) -> None:
    cache = prefilled(storage, capacity=8)
    before = content(cache)
    with pytest.raises(ValueError, match=message):
        decode(PARAMS, TOKENS[:, 5:9], cache, CONFIG)
    assert content(cache) == before
    full = check_goes_on(cache, storage, n_new=3)
    assert full.length == 8
    with pytest.raises(ValueError, match=message.split()[-1]):
        decode(PARAMS, TOKENS[:, 8:9], full, CONFIG)


GOOD = np.ones((2, 1, 2, 4))
SHORT, ONE_ROW, SINGLE = GOOD[:, :, :1], GOOD[:1], GOOD.astype("float32")
TWO_HEADS, WIDE = np.ones((2, 2, 2, 4)), np.ones((2, 1, 2, 8))
WRONG_PAIRS: dict[str, tuple[FloatArray, FloatArray, str]] = {
    "batch": (ONE_ROW, ONE_ROW, r"\(2, 1, 4\) float64.*\(1, 1, 4\) float64"),
    "heads": (TWO_HEADS, TWO_HEADS, r"\(2, 1, 4\) float64.*\(2, 2, 4\) float64"),
    "head dim": (WIDE, WIDE, r"\(2, 1, 4\) float64.*\(2, 1, 8\) float64"),
    "dtype": (SINGLE, SINGLE, "float64.*float32"),
    "values' length": (GOOD, SHORT, r"keys are \(2, 1, 2, 4\).*values \(2, 1, 1, 4\)"),
    "values' batch": (GOOD, ONE_ROW, r"keys are \(2, 1, 2, 4\).*values \(1, 1, 2, 4\)"),
    "values' dtype": (GOOD, SINGLE, "keys are .* float64.* values .* float32"),
}


@pytest.mark.parametrize(("keys", "values", "message"), WRONG_PAIRS.values(), ids=WRONG_PAIRS)
def test_keys_and_values_that_do_not_fit_are_refused(
    keys: FloatArray, values: FloatArray, message: str, storage: str
) -> None:
    cache = prefilled(storage)
    before = content(cache)
    call = cache.begin(2)
    with pytest.raises(ValueError, match=message):
        call.append(0, keys, values)
    del call  # a paged one holds a block for its tokens
    assert content(cache) == before


@pytest.mark.parametrize("n_done", [0, 1, 2])
def test_a_call_that_fails_halfway_leaves_the_cache_as_it_was(
    n_done: int, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the first block, in the second, after both; the call's tokens are other ones."""
    cache = prefilled(storage)
    before = content(cache)
    mlp, left = layers.mlp, [None] * n_done

    def fails(*arguments: Any) -> FloatArray:
        if not left:
            raise ArithmeticError("out of order")
        left.pop()
        return mlp(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(layers, "mlp", fails)
        patched.setattr(layers, "unembed", fails)
        with pytest.raises(ArithmeticError, match="out of order"):
            decode(PARAMS, (TOKENS[:, 5:7] + 1) % 11, cache, CONFIG)
    assert content(cache) == before
    check_goes_on(cache, storage)


# Handles.


USES: dict[str, Callable[[KVCache], object]] = {
    "decode": fed([[3], [4]]),
    "crop": lambda cache: cache.crop(4),
    "reorder": lambda cache: cache.reorder([1, 0]),
    "fork": lambda cache: cache.fork(),
    "keys_values": lambda cache: cache.keys_values(),
    "begin": lambda cache: cache.begin(1),
    "append": lambda cache: cache.append(0, np.ones((2, 1, 1, 4)), np.ones((2, 1, 1, 4))),
    "advance": lambda cache: cache.advance(1),
}
TAKES_OVER = ["decode", "crop", "reorder"]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("taken_by", TAKES_OVER)
def test_a_stale_handle_is_refused_with_the_way_out(taken_by: str, use: str, in_place: str) -> None:
    cache = prefilled(in_place)
    newer = USES[taken_by](cache)
    before = content(newer if isinstance(newer, KVCache) else newer[1])  # type: ignore[index]
    with pytest.raises(StaleCacheError, match=r"5 tokens is stale.*fork\(\) before the call"):
        USES[use](cache)
    assert content(newer if isinstance(newer, KVCache) else newer[1]) == before  # type: ignore[index]


@pytest.mark.parametrize("storage", ["concat", "int8"])
@pytest.mark.parametrize("use", ["decode", "crop", "reorder", "fork", "keys_values"])
@pytest.mark.parametrize("taken_by", TAKES_OVER)
def test_a_storage_that_writes_nothing_over_never_goes_stale(
    taken_by: str, use: str, storage: str
) -> None:
    cache = prefilled(storage)
    before = content(cache)
    USES[taken_by](cache)
    USES[use](cache)
    assert content(cache) == before
    check_goes_on(cache, storage)


def run(call: KVCache, offset: float, layers_done: range = range(2)) -> None:
    for layer in layers_done:
        call.append(layer, np.full((2, 1, 1, 4), offset), np.full((2, 1, 1, 4), -offset))


def test_of_two_calls_from_one_handle_the_first_to_end_wins(in_place: str) -> None:
    cache = prefilled(in_place)
    first, second = cache.begin(1), cache.begin(1)
    run(first, 7.0)
    first.advance(1)
    for act in (lambda: run(second, 8.0), lambda: second.advance(1), cache.fork):
        with pytest.raises(StaleCacheError):
            act()
    keys, values = first.keys_values()[1]
    newest = np.argmax(first.key_slots(0), axis=1)
    assert (keys[[0, 1], 0, newest] == 7.0).all()
    assert (values[[0, 1], 0, newest] == -7.0).all()


def test_two_calls_from_one_handle_never_mix_their_tokens(in_place: str) -> None:
    """The second writes while the first is under way: one of the two must give up, or neither."""
    cache = prefilled(in_place)
    first, second = cache.begin(1), cache.begin(1)
    run(first, 7.0, range(1))
    run(second, 8.0)
    try:
        run(first, 7.0, range(1, 2))
    except StaleCacheError:
        first = second
    first.advance(1)
    slots = np.argmax(first.key_slots(0), axis=1)
    newest = {float(pair[0][0, 0, slots[0], 0]) for pair in first.keys_values()}
    assert len(newest) == 1, "a layer has the tokens of the other call"


def test_the_caller_may_reuse_the_memory_of_keys_and_values(storage: str) -> None:
    cache = prefilled(storage)
    plain, quick = cache.fork().begin(1), cache.begin(1)
    pair = np.random.default_rng(0).standard_normal((2, 2, 2, 1, 1, 4))
    workspace = np.empty(pair.shape[1:])
    for layer in range(2):
        assert plain.length == quick.length == 5, "the layers of a call see the same history"
        workspace[:] = pair[layer]
        for got, expected in zip(
            quick.extend(layer, workspace), plain.append(layer, *pair[layer]), strict=True
        ):
            np.testing.assert_array_equal(got, expected)
    plain.advance(1)
    quick.advance(1)
    assert plain.length == quick.length == 6
    for got_pair, expected_pair in zip(quick.keys_values(), plain.keys_values(), strict=True):
        np.testing.assert_array_equal(got_pair, expected_pair)


def test_static_memory_is_neither_copied_nor_moved() -> None:
    cache = prefilled("static")
    assert isinstance(cache, StaticCache)
    memory = [array.__array_interface__["data"][0] for array in cache.arrays]
    longer = check_goes_on(cache, "static").crop(6)
    assert isinstance(longer, StaticCache)
    assert [array.__array_interface__["data"][0] for array in longer.arrays] == memory
    call = longer.begin(1)
    for array in call.append(0, np.ones((2, 1, 1, 4)), np.ones((2, 1, 1, 4))):
        assert np.shares_memory(array, longer.arrays[0])
    assert longer.nbytes == cache.nbytes == 2 * 2 * 2 * 12 * 1 * 4 * 8


# Making one.


WINDOWED = replace(MODERN, window=8, n_sinks=2)
BAD_CACHES: dict[str, tuple[DecoderConfig, dict[str, Any], str]] = {
    "no rows": (REFERENCE, {"batch_size": 0}, "batch_size must be at least 1, got 0"),
    "half precision": (REFERENCE, {"dtype": "float16"}, "must be float32 or float64, got float16"),
    "a storage unheard of": (
        REFERENCE,
        {"storage": "disk"},
        f"one of {', '.join(STORAGES)}, got 'disk'",
    ),
    "rolling without a window": (REFERENCE, {"storage": "rolling"}, "the decoder has no window"),
    "a ring too small": (
        WINDOWED,
        {"storage": "rolling", "capacity": 9},
        "capacity 9 is too small for a window of 8 and 2 sinks: 10 tokens",
    ),
    "static without room": (
        REFERENCE,
        {"storage": "static", "capacity": 0},
        "capacity must be at least 1, got 0",
    ),
    "paged without room": (
        REFERENCE,
        {"storage": "paged", "capacity": -3},
        "capacity must be at least 1, got -3",
    ),
    "half a token": (
        REFERENCE,
        {"storage": "static", "capacity": 2.5},
        r"capacity must be an integer, got 2\.5",
    ),
    "blocks of nothing": (
        REFERENCE,
        {"storage": "paged", "block_size": 0},
        "block_size must be at least 1, got 0",
    ),
    "concat with a capacity": (REFERENCE, {"capacity": 64}, "no capacity, got 64"),
    "int8 with a capacity": (
        REFERENCE,
        {"storage": "int8", "capacity": 64},
        "no capacity, got 64",
    ),
}


@pytest.mark.parametrize(("config", "arguments", "message"), BAD_CACHES.values(), ids=BAD_CACHES)
def test_a_cache_that_makes_no_sense_is_refused(
    config: DecoderConfig, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        new_cache(config, **arguments)


def test_capacities_have_defaults() -> None:
    static = new_cache(REFERENCE, storage="static")
    assert isinstance(static, StaticCache)
    assert static.capacity == 512
    paged = new_cache(REFERENCE, 3, storage="paged")
    assert isinstance(paged, PagedCache)
    assert (len(paged.pool.free), paged.pool.block_size) == (3 * 512 // 16, 16)
    rolling = new_cache(WINDOWED, storage="rolling")
    assert isinstance(rolling, RollingCache)
    assert rolling.slots.shape == (1, 10)


def test_pages_are_rounded_up_to_whole_blocks() -> None:
    cache = new_cache(REFERENCE, 2, storage="paged", capacity=33, block_size=16)
    assert isinstance(cache, PagedCache)
    assert len(cache.pool.free) == 2 * 3
