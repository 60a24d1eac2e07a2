"""Keys and values in the wrong slot or page, in none, or read where nobody has written."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from kvproof.kinds import Kind
from kvproof.model.cache import BlockPool, ConcatCache, KVCache, PagedCache
from kvproof.model.masks import BoolArray, IntArray, visible_keys
from kvproof.model.params import FloatArray
from kvproof.zoo.right import BLOCK_SIZE, LEARNED, RightDecoder
from kvproof.zoo.specimen import broken

ROOMY = replace(LEARNED, max_positions=64)
SMALL = 12
"""Slots of a buffer that is shorter than the texts."""
FRESH = ("one shot", "ones", "prefill, then ones", "ragged", "padded", "crop", "reorder", "fork")
"""All that a first request does; bugs that need a second one don't show in it."""


class _HoledCache(ConcatCache):
    has_hole = False

    def with_hole(self) -> Self:
        """The same with a slot of zeros at the end."""
        batch_size, n_heads, head_dim = self.shape.row
        zeros = np.zeros((batch_size, n_heads, 1, head_dim), self.shape.dtype)
        handle = self.fork()
        for arrays in (handle.keys, handle.values):
            arrays[:] = [np.concatenate([array, zeros], axis=2) for array in arrays]
        handle.length += 1
        handle.has_hole = True
        return handle

    def fork(self) -> Self:
        return self._marked(super().fork())

    def crop(self, length: int) -> Self:
        return self._marked(super().crop(length))

    def reorder(self, rows: Sequence[int]) -> Self:
        return self._marked(super().reorder(rows))

    def _marked(self, handle: Self) -> Self:
        handle.has_hole = self.has_hole
        return handle


@broken(
    "slot-write-hole",
    Kind.SLOT_WRITE,
    "microsoft/onnxruntime-genai#2354",
    "chunks [6, 1]: slot 6 is never written and always read",
    "prefill, then ones",
    ("one shot",),
)
class SlotWriteHole(RightDecoder):
    """The past length is the length of the token list, which already includes the token at hand:
    decoding writes, rotates and reads one slot too far and leaves a hole after the prompt.
    """

    config = ROOMY
    longest = LEARNED.max_positions

    def empty(self, batch_size: int) -> KVCache:
        return _HoledCache.empty(self.shape(batch_size))

    def step(
        self, tokens: ArrayLike, cache: Any = None, lengths: ArrayLike | None = None
    ) -> tuple[FloatArray, Any]:
        if cache is not None and cache.length and not cache.has_hole:
            cache = cache.with_hole()
        return super().step(tokens, cache, lengths)


class _Editing(ConcatCache):
    """Stores something else than it returns to the call at hand."""

    def _append(
        self, layer: int, keys: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        pair = super()._append(layer, keys, values)
        self.keys[layer], self.values[layer] = pair[0].copy(), pair[1].copy()
        for array in (self.keys[layer], self.values[layer]):
            self.edit(array, keys.shape[2])
        return pair

    def edit(self, stored: FloatArray, n_new: int) -> None:
        """Change (B, H_kv, P + C, D) in place."""


class _FirstMissing(_Editing):
    def edit(self, stored: FloatArray, n_new: int) -> None:
        if self.length == 0:
            stored[:, :, 0] = 0


@broken(
    "slot-write-first",
    Kind.SLOT_WRITE,
    "TrenTorch/TrenTorch#192",
    "chunks [1, 1]",
    "prefill, then ones",
    ("one shot",),
)
class SlotWriteFirst(RightDecoder):
    """The path for the first token moves the counter and stores nothing: all later tokens attend
    to a slot of zeros in its place.
    """

    def empty(self, batch_size: int) -> KVCache:
        return _FirstMissing.empty(self.shape(batch_size))


class _TailMissing(_Editing):
    def edit(self, stored: FloatArray, n_new: int) -> None:
        if n_new > 1 and n_new % 4 == 1:
            stored[:, -1, -1] = 0


@broken(
    "slot-write-lengths",
    Kind.SLOT_WRITE,
    "tenstorrent/tt-metal#54413",
    "chunks [5, 1]; a prompt of 6 is right",
    "ragged",
    ("one shot", "ones", "prefill, then ones"),
)
class SlotWriteLengths(RightDecoder):
    """The work of storing a prompt is split into runs of 4 tokens, and where one token is left over
    the last head loses it.
    """

    def empty(self, batch_size: int) -> KVCache:
        return _TailMissing.empty(self.shape(batch_size))


class _ClampedCache(ConcatCache):
    """As if its arrays had ``SMALL`` slots from the start."""

    def key_slots(self, n_new: int) -> IntArray:
        return np.arange(min(self.length + n_new, SMALL))[None]

    def _append(
        self, layer: int, keys: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        super()._append(layer, keys, values)
        for arrays in (self.keys, self.values):
            if arrays[layer].shape[2] > SMALL:
                arrays[layer] = arrays[layer][:, :, [*range(SMALL - 1), -1]]
        return self.keys[layer], self.values[layer]


@broken(
    "slot-write-clamp",
    Kind.SLOT_WRITE,
    "vllm-project/tpu-inference#2366",
    "a buffer of 12 slots, 13 tokens",
    "ones",
)
class SlotWriteClamp(RightDecoder):
    """Writing beyond the end of the buffer is clipped to the last slot instead of refused, as array
    libraries with static shapes do: the newest tokens overwrite each other.
    """

    @property
    def capacity(self) -> int:
        """Slots of the buffer."""
        return SMALL

    def empty(self, batch_size: int) -> KVCache:
        return _ClampedCache.empty(self.shape(batch_size))


class _ClippedPool(BlockPool):
    def take(self, n_blocks: int) -> IntArray:
        return np.minimum(super().take(n_blocks), 5)


@broken(
    "slot-write-pool",
    Kind.SLOT_WRITE,
    "vllm-project/tpu-inference#2366",
    "blocks of 4, a pool that has 6 of them, 3 rows of 9 tokens",
    "batch of 3, ones",
    ("one shot", "ones", "prefill, then ones", "ragged"),
)
class SlotWritePool(RightDecoder):
    """Block numbers count a larger pool than this layer has; those beyond its end are clipped, so
    that several rows share the last block.
    """

    storage = "paged"

    def empty(self, batch_size: int) -> KVCache:
        return _ClippedPool(self.shape(batch_size), 800, BLOCK_SIZE).cache(batch_size)


class _BufferCache(ConcatCache):
    """Reads a whole buffer: after its own tokens what the buffer held before."""

    before: Sequence[tuple[FloatArray, FloatArray]] = ()
    """(K, V) of each layer: the buffer without this request."""
    overwrites = True
    """Whether the tokens take the places of what was there before."""

    def rest(self, layer: int, n_total: int) -> tuple[FloatArray, FloatArray]:
        """What lies after ``n_total`` tokens."""
        start = n_total if self.overwrites else 0
        keys, values = self.before[layer]
        return keys[:, :, start:], values[:, :, start:]

    def key_slots(self, n_new: int) -> IntArray:
        slots = super().key_slots(n_new)
        if n_new == 0 or not self.before:
            return slots
        n_rest = self.rest(0, self.length + n_new)[0].shape[2]
        return np.concatenate([slots, np.full((1, n_rest), -1)], axis=1)

    def _append(
        self, layer: int, keys: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        pair = super()._append(layer, keys, values)
        if not self.before:
            return pair
        rest = self.rest(layer, pair[0].shape[2])
        return np.concatenate([pair[0], rest[0]], axis=2), np.concatenate([pair[1], rest[1]], 2)

    def fork(self) -> Self:
        return self._on(self.before, super().fork())

    def crop(self, length: int) -> Self:
        return self._on(self.before, super().crop(length))

    def reorder(self, rows: Sequence[int]) -> Self:
        index = list(rows)
        return self._on([(k[index], v[index]) for k, v in self.before], super().reorder(rows))

    def _on(self, before: Sequence[tuple[FloatArray, FloatArray]], handle: Self) -> Self:
        handle.before, handle.overwrites = before, self.overwrites
        return handle


class _ReadsAll(RightDecoder):
    """Opens the slots without a token, which have the number -1, to all queries."""

    def visible_keys(
        self, causal: BoolArray, keys: IntArray, padding: IntArray, *limits: Any
    ) -> BoolArray:
        is_empty: BoolArray = (keys == -1)[:, None, None, :]
        return visible_keys(causal, keys, padding, *limits) | is_empty


class _ZeroBuffer(_ReadsAll):
    def empty(self, batch_size: int) -> KVCache:
        cache = _BufferCache.empty(self.shape(batch_size))
        n_heads, head_dim = self.config.n_kv_heads, self.config.head_dim
        zeros = np.zeros((batch_size, n_heads, self.max_length, head_dim), self.params.dtype)
        cache.before = [(zeros, zeros)] * self.config.n_layers
        return cache


@broken(
    "slot-stale-zeros",
    Kind.SLOT_STALE,
    "huggingface/transformers#30400",
    "a buffer of 48 slots, 1 token",
    "one shot",
)
class SlotStaleZeros(_ZeroBuffer):
    """The whole preallocated buffer is read, and its empty slots aren't masked: a key of zeros has
    the score 0, which still takes its share of the softmax.
    """


@broken(
    "slot-stale-one-query",
    Kind.SLOT_STALE,
    "Lightning-AI/litgpt#2248",
    "a buffer of 48 slots, chunks [6, 1]",
    "prefill, then ones",
    ("one shot",),
)
class SlotStaleOneQuery(_ZeroBuffer):
    """With one new token the mask is dropped, to be faster; in a preallocated buffer it did hide
    the slots that are still empty.
    """

    def visible_keys(
        self, causal: BoolArray, keys: IntArray, padding: IntArray, *limits: Any
    ) -> BoolArray:
        reads_all = super().visible_keys if len(causal) == 1 else visible_keys
        return reads_all(causal, keys, padding, *limits)


class _OneBuffer(_ReadsAll):
    """All requests of an object use the same memory."""

    overwrites = True

    def reset(self) -> None:
        self._last: Any = None

    def empty(self, batch_size: int) -> _BufferCache:
        cache = _BufferCache.empty(self.shape(batch_size))
        if self._last is not None and self._last.shape == cache.shape:
            cache.before = self._last.keys_values()
            cache.overwrites = self.overwrites
        return cache

    def step(
        self, tokens: ArrayLike, cache: Any = None, lengths: ArrayLike | None = None
    ) -> tuple[FloatArray, Any]:
        logits, self._last = super().step(tokens, cache, lengths)
        return logits, self._last


@broken(
    "slot-stale-leftover",
    Kind.SLOT_STALE,
    "rajveer43/VeloxQuant-MLX#59",
    "two different prompts on one object, the second one shorter",
    "next request, short",
    FRESH,
)
class SlotStaleLeftover(_OneBuffer):
    """A second request finds the keys of the first in the buffer that both share, and whatever it
    hasn't overwritten yet is read as if it were its own.
    """


@broken(
    "slot-stale-zeroed",
    Kind.SLOT_STALE,
    "huggingface/transformers#48809",
    "two prompts on one object",
    "next request, short",
    FRESH,
)
class SlotStaleZeroed(_OneBuffer):
    """Between two requests the tensors are filled with zeros, which empties a preallocated buffer,
    but not one whose length is its shape: the new tokens are appended to zeros.
    """

    overwrites = False

    def empty(self, batch_size: int) -> _BufferCache:
        cache = super().empty(batch_size)
        cache.before = [(np.zeros_like(k), np.zeros_like(v)) for k, v in cache.before]
        return cache


@broken(
    "slot-stale-pointer",
    Kind.SLOT_STALE,
    "rasbt/LLMs-from-scratch#925",
    "learned positions, two prompts on one object",
    "next request, short",
    FRESH,
)
class SlotStalePointer(RightDecoder):
    """A new request empties the cache, but not the pointer that positions are counted from, which
    goes on where the last request ended.
    """

    config = replace(LEARNED, max_positions=96)
    longest = LEARNED.max_positions

    def reset(self) -> None:
        self._start, self._pointer = 0, 0

    def step(
        self, tokens: ArrayLike, cache: Any = None, lengths: ArrayLike | None = None
    ) -> tuple[FloatArray, Any]:
        if cache is None:
            self._start = self._pointer
        logits, cache = super().step(tokens, cache, lengths)
        self._pointer = cache.length
        return logits, cache

    def positions(self, cache: Any, n_new: int, padding: IntArray) -> IntArray:
        return super().positions(cache, n_new, padding) + self._start


class _OtherTable(PagedCache):
    """Reads its pages through another table than it writes them."""

    def read_table(self, n_tokens: int) -> IntArray:
        """(B, blocks), for the first ``n_tokens``."""
        raise NotImplementedError

    def _gather(self, blocks: FloatArray, end: int) -> FloatArray:
        if self.length == 0:  # a prompt attends to the keys that it has just made
            return super()._gather(blocks, end)
        table, self.table = self.table, self.read_table(end)
        try:
            return super()._gather(blocks, end)
        finally:
            self.table = table


class _Paged(RightDecoder):
    storage = "paged"
    cache: type[PagedCache]
    n_blocks = 100

    def reset(self) -> None:
        self._pool: Any = None

    def pool(self, batch_size: int) -> BlockPool:
        """The memory of a new request."""
        return BlockPool(self.shape(batch_size), self.n_blocks, BLOCK_SIZE)

    def empty(self, batch_size: int) -> KVCache:
        table = np.zeros((batch_size, 0), np.int64)
        return self.cache(self.shape(batch_size), self.pool(batch_size), table)


class _Contiguous(_OtherTable):
    def read_table(self, n_tokens: int) -> IntArray:
        return np.arange(self.table.size).reshape(self.table.shape)


@broken(
    "page-map-contiguous",
    Kind.PAGE_MAP,
    "tanishqkumar/ssd#23",
    "blocks of 4, 2 rows, chunks [4, 1]",
    "batch of 3, ones",
    ("one shot", "ones", "prefill, then ones"),
)
class PageMapContiguous(_Paged):
    """The kernel gets the paged memory without its block table and reads it as if the blocks of a
    row lay one after another.
    """

    cache = _Contiguous


class _Truncated(_OtherTable):
    def read_table(self, n_tokens: int) -> IntArray:
        return self.table & 7


@broken(
    "page-map-truncated",
    Kind.PAGE_MAP,
    "ROCm/ATOM#702",
    "blocks of 4, numbers cut to 3 bits, 3 rows of 9 tokens",
    "batch of 3, ones",
    ("one shot", "ones", "prefill, then ones", "ragged"),
)
class PageMapTruncated(_Paged):
    """A block's number is stored in an integer that is too narrow (16 bits in the report, 3 here):
    high numbers wrap around to blocks of other rows.
    """

    cache = _Truncated


class _StaleTail(_OtherTable):
    def read_table(self, n_tokens: int) -> IntArray:
        table = self.table[:, : -(-n_tokens // BLOCK_SIZE)].copy()
        if n_tokens % BLOCK_SIZE == 1 and table.shape[1] > 1:
            table[:, -1] = table[:, -2]
        return table


@broken(
    "page-map-stale-tail",
    Kind.PAGE_MAP,
    "EricLBuehler/mistral.rs#552",
    "blocks of 4, chunks [4, 1]",
    "ones",
    ("one shot",),
)
class PageMapStaleTail(_Paged):
    """Where a token begins a new block, the table that the kernel reads hasn't grown yet, and the
    position beyond its end is sent to the last block there is.
    """

    cache = _StaleTail


class _ByPosition(_OtherTable):
    def _append(
        self, layer: int, keys: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        writers: dict[tuple[int, int], int] = self.pool.__dict__.setdefault("by_position", {})
        first = self.length // BLOCK_SIZE
        writers |= {
            (row, column): int(self.table[row, column])
            for row in range(self.table.shape[0])
            for column in range(first, self.table.shape[1])
        }
        return super()._append(layer, keys, values)

    def read_table(self, n_tokens: int) -> IntArray:
        table = self.table.copy()
        for (row, column), block in self.pool.__dict__["by_position"].items():
            if row < table.shape[0] and column < table.shape[1]:
                table[row, column] = block
        return table


@broken(
    "page-map-by-position",
    Kind.PAGE_MAP,
    "ggml-org/llama.cpp#27994",
    "two requests in turns, 5 tokens each",
    "in turns",
    ("one shot", "ones", "prefill, then ones", "ragged", "padded", "next request"),
)
class PageMapByPosition(_Paged):
    """Several requests share one pool, and the map from positions to blocks doesn't know whose
    position it is: the last writer wins.
    """

    cache = _ByPosition
    n_blocks = 800

    def pool(self, batch_size: int) -> BlockPool:
        if self._pool is None:
            self._pool = super().pool(batch_size)
        shared: BlockPool = self._pool
        return shared


class _OnePageMore(PagedCache):
    def _is_full(self, n_new: int) -> bool:
        return n_new == 1 and (self.length + n_new) % BLOCK_SIZE == 0

    def key_slots(self, n_new: int) -> IntArray:
        slots = super().key_slots(n_new)
        if not self._is_full(n_new):
            return slots
        return np.concatenate([slots, np.full((1, BLOCK_SIZE), -1)], axis=1)

    def _append(
        self, layer: int, keys: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        pair = super()._append(layer, keys, values)
        if not self._is_full(keys.shape[2]):
            return pair
        page = np.zeros_like(pair[0][:, :, :BLOCK_SIZE])
        return np.concatenate([pair[0], page], axis=2), np.concatenate([pair[1], page], axis=2)


@broken(
    "page-map-one-more",
    Kind.PAGE_MAP,
    "pegainfer-project/pegainfer#291",
    "blocks of 4, chunks [3, 1]",
    "ones",
    ("one shot",),
)
class PageMapOneMore(_Paged, _ReadsAll):
    """The allocator takes the next block as soon as one is full, and the kernel derives the length
    from the number of blocks: at each boundary it reads a whole empty block.
    """

    cache = _OnePageMore
