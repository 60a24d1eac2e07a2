"""Any decoder, any storage, any history of calls: always what a full recompute gives.

Hypothesis draws a decoder, how its cache is made, and what happens to it: texts fed in chunks,
some rows with padding before them, steps back, rows picked anew, forks that go on side by side.
A plain model of the text knows what each cache stands for; after each call the logits are held
against a recompute, at the end the keys and values.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from tests.core.recompute import (
    TINY,
    largest_error,
    random_tokens,
    reads_int8,
    rows_alone,
    tiny_params,
)

from kvproof import DecoderConfig, KVCache, Params, decode, forward, new_cache
from kvproof.model.cache import STORAGES, PagedCache, RollingCache, StaticCache
from kvproof.model.cache.rolling import Ring
from kvproof.model.config import Positions
from kvproof.model.layers import Tokens
from kvproof.model.masks import IntArray
from kvproof.model.params import FloatArray

TOLERANCE = {"float32": 5e-6, "float64": 1e-13}
MAX_TOKENS = TINY.max_positions


@dataclass(frozen=True)
class Setting:
    """A decoder and how to make its cache."""

    config: DecoderConfig
    storage: str
    dtype: str
    seed: int
    batch_size: int
    block_size: int
    slack: int
    """Places of a rolling cache that the window doesn't need."""

    @property
    def params(self) -> Params:
        return tiny_params(self.config, self.seed, self.dtype)

    def cache(self) -> KVCache:
        config, capacity = self.config, None
        if self.storage == "rolling":
            assert config.window is not None
            capacity = config.window + config.n_sinks + self.slack
        if self.storage == "paged":
            capacity = 9 * MAX_TOKENS  # room for three branches of three rows in any case
        return new_cache(
            config, self.batch_size, self.dtype, self.storage, capacity, self.block_size
        )


@dataclass
class Branch:
    """A cache beside the text that it must stand for."""

    cache: KVCache
    tokens: Tokens
    """(B, T) or (B, T, W), padding included."""
    padding: IntArray
    held: list[set[int]]
    """Real tokens of each row, counted from 0, that a rolling cache still has."""


@st.composite
def settings_of(
    draw: st.DrawFn, storage: str, positions: Sequence[Positions] = get_args(Positions)
) -> Setting:
    n_heads, n_kv_heads = draw(st.sampled_from([(1, 1), (2, 2), (2, 1), (4, 2)]))
    windows = st.integers(1, 5) if storage == "rolling" else st.none() | st.integers(1, 5)
    window = draw(windows)
    config = DecoderConfig(
        n_layers=draw(st.integers(1, 3)),
        width=4 * n_heads,
        n_heads=n_heads,
        n_kv_heads=n_kv_heads,
        vocab_size=draw(st.sampled_from([11, None])),
        mlp_width=8,
        max_positions=MAX_TOKENS,
        positions=draw(st.sampled_from(positions)),
        norm=draw(st.sampled_from(["layernorm", "rmsnorm"])),
        mlp=draw(st.sampled_from(["gelu", "swiglu", "none"])),
        window=window,
        n_sinks=0 if window is None else draw(st.integers(0, 2)),
    )
    # In float32 two right ways may round a key to neighbouring levels of int8: a jump, no error.
    dtypes = ["float64"] if storage == "int8" else ["float64", "float32"]
    return Setting(
        config,
        storage,
        draw(st.sampled_from(dtypes)),
        seed=draw(st.integers(0, 3)),
        batch_size=draw(st.integers(1, 3)),
        block_size=draw(st.integers(1, 4)),
        slack=draw(st.integers(0, 3)),
    )


small = st.integers(0, 4)
OPERATIONS = st.one_of(
    st.tuples(st.just("feed"), small, st.integers(1, 5), st.tuples(small, small, small)),
    st.tuples(st.just("crop"), small, st.integers(0, 8)),
    st.tuples(st.just("reorder"), small, st.lists(small, min_size=1, max_size=3)),
    st.tuples(st.just("fork"), small),
)
HISTORIES = st.lists(OPERATIONS, min_size=2, max_size=8)


class Run:
    """Carries out operations on the branches of one setting and checks each of them."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.seen: Counter[str] = Counter()
        cache = setting.cache()
        nothing = random_tokens(setting.config, setting.batch_size, 0, 0)
        held: list[set[int]] = [set() for _ in range(setting.batch_size)]
        self.branches = [Branch(cache, nothing, cache.padding, held)]
        self.n_calls = 0

    def carry_out(self, operation: tuple[Any, ...]) -> None:
        name, pick, *arguments = operation
        self.seen[name] += 1
        getattr(self, name)(self.branches[pick % len(self.branches)], *arguments)

    def feed(self, branch: Branch, n_new: int, n_pads: Sequence[int]) -> None:
        setting = self.setting
        batch_size, n_past = branch.tokens.shape[:2]
        n_new = min(n_new, MAX_TOKENS - n_past)
        if n_new == 0:
            return
        self.n_calls += 1
        new = random_tokens(setting.config, batch_size, n_new, self.n_calls)
        may_pad = branch.padding == n_past  # no real token yet
        pads = np.where(may_pad, np.minimum(n_pads[:batch_size], n_new), 0)
        self.seen["padded"] += int(pads.any())
        logits, branch.cache = decode(
            setting.params, new, branch.cache, setting.config, lengths=n_new - pads
        )
        branch.tokens = np.concatenate([branch.tokens, new], axis=1)
        branch.padding = branch.padding + pads
        branch.held = self.after_feeding(branch, n_past)
        with reads_int8(setting.storage == "int8"):
            alone = rows_alone(setting.params, branch.tokens, setting.config, branch.padding)
            lengths = n_past + n_new - branch.padding
            padded = forward(setting.params, branch.tokens, setting.config, lengths)
        tolerance = TOLERANCE[setting.dtype]
        assert logits.dtype == setting.dtype
        assert np.isfinite(logits).all()
        assert largest_error(logits, alone) <= tolerance
        assert np.abs(logits - padded[:, n_past:]).max() <= tolerance

    def after_feeding(self, branch: Branch, n_past: int) -> list[set[int]]:
        config = self.setting.config
        held = []
        for row, start in enumerate(branch.padding):
            end = branch.tokens.shape[1] - start
            tokens = branch.held[row] | set(range(max(0, n_past - start), end))
            if self.setting.storage == "rolling":
                assert config.window is not None
                newest = range(end - config.window - self.setting.slack, end)
                tokens &= {*range(config.n_sinks), *newest}
            held.append(tokens)
        return held

    def crop(self, branch: Branch, back: int) -> None:
        length = max(0, branch.tokens.shape[1] - back)
        ends = [length - start for start in branch.padding]
        window = self.setting.config.window
        within_reach = [
            set(range(max(0, end - (end if window is None else window - 1)), end)) <= tokens
            for end, tokens in zip(ends, branch.held, strict=True)
        ]
        if not all(within_reach):
            self.seen["crop refused"] += 1
            with pytest.raises(ValueError, match=f"can't crop .* to {length}: .* overwritten"):
                branch.cache.crop(length)
            return
        branch.cache = branch.cache.crop(length)
        branch.tokens = branch.tokens[:, :length]
        branch.padding = np.minimum(branch.padding, length)
        pairs = zip(branch.held, ends, strict=True)
        branch.held = [{token for token in tokens if token < end} for tokens, end in pairs]

    def reorder(self, branch: Branch, picks: Sequence[int]) -> None:
        rows = [pick % len(branch.tokens) for pick in picks]
        branch.cache = branch.cache.reorder(rows)
        branch.tokens, branch.padding = branch.tokens[rows], branch.padding[rows]
        branch.held = [branch.held[row] for row in rows]

    def fork(self, branch: Branch) -> None:
        if len(self.branches) < 3:
            self.branches.append(replace(branch, cache=branch.cache.fork()))

    def check_contents(self, branch: Branch) -> None:
        """Length, padding, slots, keys and values are those of the text fed in one call."""
        setting, cache = self.setting, branch.cache
        batch_size, n_total = branch.tokens.shape[:2]
        assert cache.shape.batch_size == batch_size
        assert cache.length == n_total
        np.testing.assert_array_equal(cache.padding, branch.padding)
        slots = np.broadcast_to(cache.key_slots(0), (batch_size, cache.key_slots(0).shape[1]))
        for row, start in enumerate(branch.padding):
            real = [slot - start for slot in slots[row] if slot >= start]
            assert sorted(real) == sorted(branch.held[row])
        if n_total == 0:
            return
        storage: str = "int8" if setting.storage == "int8" else "concat"
        whole = new_cache(setting.config, batch_size, setting.dtype, storage)
        lengths = n_total - branch.padding
        _, whole = decode(setting.params, branch.tokens, whole, setting.config, lengths=lengths)
        rows, places = np.nonzero(slots >= 0)
        for pair, expected in zip(cache.keys_values(), whole.keys_values(), strict=True):
            for actual, wanted in zip(pair, expected, strict=True):
                difference = actual[rows, :, places] - wanted[rows, :, slots[rows, places]]
                assert np.abs(difference).max(initial=0) <= TOLERANCE[setting.dtype]


def check_pool(caches: Sequence[KVCache]) -> None:
    """Each block of the caches' pool is free or counted once for each entry that names it."""
    tables = []
    for cache in caches:
        assert isinstance(cache, PagedCache)
        tables.append(cache.table.ravel())
        pool = cache.pool
    counts = np.bincount(np.concatenate(tables), minlength=len(pool.counts))
    np.testing.assert_array_equal(pool.counts, counts)
    assert sorted(pool.free) == np.flatnonzero(counts == 0).tolist()


POSITIONS = [
    pytest.param(name, marks=[] if name == "rope" else pytest.mark.slow)
    for name in get_args(Positions)
]
N_EXAMPLES = 160
"""For each storage and each kind of positions: 3,200 in all."""


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("storage", STORAGES)
def test_any_history_of_calls_gives_what_a_full_recompute_gives(
    storage: str, positions: Positions
) -> None:
    seen: Counter[str] = Counter()
    configs: set[DecoderConfig] = set()

    @seed(crc32(f"{storage} {positions}".encode()))  # else all would draw the same histories
    @given(setting=settings_of(storage, [positions]), history=HISTORIES)
    @settings(derandomize=True, deadline=None, max_examples=N_EXAMPLES)
    def holds(setting: Setting, history: list[tuple[Any, ...]]) -> None:
        run = Run(setting)
        for operation in (("feed", 0, 5, (0, 1, 4)), *history, ("feed", 0, 2, (0, 0, 0))):
            run.carry_out(operation)
        for branch in run.branches:
            run.check_contents(branch)
            run.feed(branch, 1, (0, 0, 0))
        if storage == "paged":
            check_pool([branch.cache for branch in run.branches])
        seen.update(run.seen, examples=1)
        configs.add(setting.config)

    holds()
    assert seen["examples"] >= N_EXAMPLES
    assert len(configs) > N_EXAMPLES / 8
    for kind in ("feed", "padded", "crop", "reorder", "fork"):
        assert seen[kind] > N_EXAMPLES / 3, f"no control: hardly any {kind}"
    if storage == "rolling":
        assert seen["crop refused"] > N_EXAMPLES / 40


# A property is worth what it refuses: storages broken on purpose, each in one place.


def turning_by_two(ring: Ring, token: IntArray) -> IntArray:
    return np.where(token < 1, token, 1 + 2 * token % ring.n_turning)


def crop_forgetting_nothing(cache: RollingCache, length: int) -> RollingCache:
    """A new token then stands beside the one that had its slot, and both are read."""
    return cache._handle(cache.slots, length, np.minimum(cache.padding, length))._take_over()


def fork_without_a_copy(cache: StaticCache) -> StaticCache:
    return StaticCache(cache.shape, cache.arrays, cache.length, cache.padding)


def reorder_leaving_the_padding(cache: StaticCache, rows: list[int]) -> StaticCache:
    memory = [array[:, rows] for array in cache.arrays]
    return StaticCache(cache.shape, memory, cache.length, cache.padding)


def gather_from_the_end(cache: PagedCache, blocks: FloatArray, end: int) -> FloatArray:
    cache.table, table = cache.table[:, ::-1], cache.table
    rows = _gather(cache, blocks, end)
    cache.table = table
    return rows


_gather = PagedCache._gather
BROKEN: dict[str, tuple[str, type, str, Any]] = {
    "a ring too short": ("rolling", Ring, "n_turning", property(lambda ring: ring.window - 2)),
    "sinks in the ring": ("rolling", Ring, "place", lambda ring, token: token % ring.n_places),
    "a ring that turns by two": ("rolling", Ring, "place", turning_by_two),
    "a crop that forgets nothing": ("rolling", RollingCache, "crop", crop_forgetting_nothing),
    "a fork that is no copy": ("static", StaticCache, "fork", fork_without_a_copy),
    "padding that stays": ("static", StaticCache, "reorder", reorder_leaving_the_padding),
    "no copy on write": ("paged", PagedCache, "_rows_to_copy", lambda cache: np.arange(0)),
    "a table read from its end": ("paged", PagedCache, "_gather", gather_from_the_end),
}


def run_of_all_operations(storage: str) -> None:
    run = Run(Setting(TINY, storage, "float64", 0, batch_size=2, block_size=4, slack=0))
    run.carry_out(("feed", 0, 3, (0, 1, 0)))
    run.carry_out(("crop", 0, 1))
    for n_new in (4, 1, 3):
        run.carry_out(("fork", 0))
        for branch in range(len(run.branches)):
            run.carry_out(("feed", branch, n_new, (0, 0, 0)))
        run.carry_out(("reorder", 0, [1, 0]))
    run.carry_out(("feed", 0, 1, (0, 0, 0)))


@pytest.mark.parametrize("storage", STORAGES)
def test_the_history_of_the_controls_is_right_as_it_is(storage: str) -> None:
    run_of_all_operations(storage)


@pytest.mark.parametrize(("storage", "owner", "name", "broken"), BROKEN.values(), ids=BROKEN)
def test_a_broken_storage_is_found(
    storage: str, owner: type, name: str, broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, broken)
    with pytest.raises(AssertionError, match="largest_error"):
        run_of_all_operations(storage)
