"""Operations that leave the wrong cache: reorder, fork, crop."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from kvproof.kinds import Kind
from kvproof.model.cache import ConcatCache, KVCache, PagedCache, Room, StaticCache
from kvproof.model.cache.in_place import Generation
from kvproof.model.masks import IntArray
from kvproof.model.params import FloatArray
from kvproof.zoo.positions import _Counting, _CountingCache
from kvproof.zoo.right import LEARNED, RightDecoder
from kvproof.zoo.slots import _Paged
from kvproof.zoo.specimen import broken

APPENDED = ("one shot", "ones", "prefill, then ones", "ragged", "padded")
"""Without an operation there is nothing to see."""


@broken(
    "row-perm-none",
    Kind.ROW_PERM,
    "huggingface/transformers#46612",
    "3 rows, reorder [2, 0, 0], then 1",
    "reorder",
    (*APPENDED, "crop", "fork"),
)
class RowPermNone(RightDecoder):
    """Beam search reorders the cache only if it has the expected name; under another name the rows
    stay as they are.
    """

    def reorder(self, cache: Any, rows: Sequence[int]) -> Any:
        n_rows = cache.shape.batch_size
        return super().reorder(cache, [i % n_rows for i in range(len(rows))])


@broken(
    "row-perm-inverse",
    Kind.ROW_PERM,
    "huggingface/transformers#46612",
    "3 rows, reorder [1, 2, 0], then 1",
    "reorder",
    (*APPENDED, "crop", "fork"),
)
class RowPermInverse(RightDecoder):
    """Row i is moved to place rows[i], where place i should get row rows[i]; swapping two rows
    can't tell the two apart.
    """

    def reorder(self, cache: Any, rows: Sequence[int]) -> Any:
        n_rows = cache.shape.batch_size
        moved = [i % n_rows for i in range(len(rows))]
        for source, target in enumerate(rows):
            if target < len(moved) and source < n_rows:
                moved[target] = source
        return super().reorder(cache, moved)


class _KeysOnly(ConcatCache):
    def reorder(self, rows: Sequence[int]) -> Self:
        handle = super().reorder(rows)
        index = np.arange(len(rows)) % self.shape.batch_size
        handle.values = [array[index] for array in self.values]
        return handle


@broken(
    "row-perm-keys-only",
    Kind.ROW_PERM,
    "huggingface/transformers#46612",
    "3 rows, reorder [2, 0, 0], then 1",
    "reorder",
    (*APPENDED, "crop", "fork"),
)
class RowPermKeysOnly(RightDecoder):
    """The loop over the tensors of a layer reorders the first of each pair and forgets the
    second.
    """

    def empty(self, batch_size: int) -> KVCache:
        return _KeysOnly.empty(self.shape(batch_size))


class _SharedLastBlock(PagedCache):
    def _rows_to_copy(self) -> IntArray:
        rows = super()._rows_to_copy()
        if rows.size == 0:
            return rows
        last = self.table[:, -1]
        n_own = (last == last[:, None]).sum(axis=1)
        shared: IntArray = rows[self.pool.counts[last[rows]] > n_own[rows]]
        return shared


@broken(
    "row-perm-shared-block",
    Kind.ROW_PERM,
    "xLLM-AI/xllm#1984",
    "blocks of 4, 3 rows of 6 tokens, reorder [2, 0, 0], then 1",
    "reorder",
    (*APPENDED, "crop", "fork"),
)
class RowPermSharedBlock(_Paged):
    """Two beams that come from one row share its last block, and nobody copies it before both
    write their next tokens into it.
    """

    cache = _SharedLastBlock


class _InPlace(ConcatCache):
    def begin(self, n_new: int, padding: IntArray | None = None) -> Self:
        self.padding = self.padding if padding is None else padding
        return self


@broken(
    "alias-step",
    Kind.ALIAS,
    "MemTensor/MemOS#2301",
    "one cache, go on from it twice: 6, 19, 32 tokens in the report",
    "old cache",
    (*APPENDED, "crop", "reorder", "fork", "next request"),
)
class AliasStep(RightDecoder):
    """A stored prefix is handed out to be continued, and ``step`` appends to the very object that
    it was given, though the caller may use it again.
    """

    def empty(self, batch_size: int) -> KVCache:
        return _InPlace.empty(self.shape(batch_size))


@broken(
    "alias-fork",
    Kind.ALIAS,
    "turboderp/exllama#129",
    "fork after 6 tokens, go on with both",
    "fork",
    (*APPENDED, "crop", "reorder", "next request"),
)
class AliasFork(RightDecoder):
    """``fork`` returns the object itself: two streams of tokens append to one cache."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.keeps_old = False

    def empty(self, batch_size: int) -> KVCache:
        return _InPlace.empty(self.shape(batch_size))

    def fork(self, cache: Any) -> Any:
        return cache


class _ForgetsLength(StaticCache):
    def fork(self) -> Self:
        handle = super().fork()
        handle.length = 0
        return handle


@broken(
    "alias-fork-length",
    Kind.ALIAS,
    "turboderp-org/exllamav2#226",
    "fork after 6 tokens, go on with the fork",
    "fork",
    (*APPENDED, "crop", "reorder", "next request"),
)
class AliasForkLength(RightDecoder):
    """A clone of the cache gets copies of all tensors, but its length begins at 0: what it holds
    is not there.
    """

    storage = "static"

    def empty(self, batch_size: int) -> KVCache:
        return _ForgetsLength.empty(self.shape(batch_size), Room(self.max_length))


class _SharedMemory(StaticCache):
    def fork(self) -> Self:
        self._check_live()
        handle = self._handle(self.length, self.padding)
        handle._generation = Generation()  # as a right fork: both may go on
        handle._version = handle._generation.version
        return handle


@broken(
    "alias-fork-shallow",
    Kind.ALIAS,
    "turboderp-org/exllamav2#226",
    "fork after 6 tokens, go on with both in turns",
    "fork",
    (*APPENDED, "crop", "reorder", "next request"),
)
class AliasForkShallow(RightDecoder):
    """A clone copies the object and its counters, but both go on writing into the same arrays: each
    overwrites what the other has added.
    """

    storage = "static"

    def empty(self, batch_size: int) -> KVCache:
        return _SharedMemory.empty(self.shape(batch_size), Room(self.max_length))


ROLLED = (*APPENDED, "reorder", "fork")


@broken(
    "rollback-none",
    Kind.ROLLBACK,
    "ml-explore/mlx-lm#1109, nicedreamzapp/claude-code-local#47",
    "6 + 4 tokens, crop to 7, then 1",
    "crop",
    ROLLED,
)
class RollbackNone(RightDecoder):
    """Trimming is a no-op for this kind of cache, and nobody asks whether it was done: rejected
    drafts stay.
    """

    def crop(self, cache: Any, length: int) -> Any:
        return cache


@broken(
    "rollback-one-left",
    Kind.ROLLBACK,
    "spiritbuun/buun-llama-cpp#58",
    "6 + 4 tokens, crop to 7, then 1",
    "crop",
    ROLLED,
)
class RollbackOneLeft(RightDecoder):
    """One rejected token stays: the bound of the cut counts positions, one of which is not a
    token.
    """

    def crop(self, cache: Any, length: int) -> Any:
        return super().crop(cache, length + 1 if length < cache.length else length)


@broken(
    "rollback-one-more",
    Kind.ROLLBACK,
    "spiritbuun/buun-llama-cpp#58",
    "6 + 4 tokens, crop to 7, then 1",
    "crop",
    ROLLED,
)
class RollbackOneMore(RightDecoder):
    """One accepted token is cut off with the rejected ones, by a bound that is a last index instead
    of a count.
    """

    def crop(self, cache: Any, length: int) -> Any:
        return super().crop(cache, length - 1 if 0 < length < cache.length else length)


@broken(
    "rollback-bounds",
    Kind.ROLLBACK,
    "huggingface/transformers#47433",
    "3 tokens, crop to 0, then 1",
    "crop to 0",
    (*ROLLED, "crop"),
)
class RollbackBounds(RightDecoder):
    """The length goes into a slice as it is: 0 keeps everything, as -0 would, and more than there
    is is accepted.
    """

    def crop(self, cache: Any, length: int) -> Any:
        return super().crop(cache, min(length, cache.length) or cache.length)


@broken(
    "rollback-reset",
    Kind.ROLLBACK,
    "paiml/aprender#2014",
    "6 + 4 tokens, crop to 7, then 1",
    "crop",
    (*ROLLED, "crop to 0"),
)
class RollbackReset(RightDecoder):
    """Rejecting drafts resets the cache on the device to 0 instead of to the snapshot; the copy on
    the host, which is what gets counted, is right.
    """

    def crop(self, cache: Any, length: int) -> Any:
        super().crop(cache.fork(), length)  # refuses what must be refused
        return super().crop(cache, 0)


class _CountOnly(ConcatCache):
    def crop(self, length: int) -> Self:
        length = self._check_crop(length)
        handle = self.fork()
        handle.length = length
        return handle

    def recounted(self) -> Self:
        """With the length that the arrays have."""
        handle = self.fork()
        handle.length = self.keys[0].shape[2]
        return handle

    def keys_values(self) -> list[tuple[FloatArray, FloatArray]]:
        return [(k[:, :, : self.length], v[:, :, : self.length]) for k, v in super().keys_values()]


@broken(
    "rollback-resurrected",
    Kind.ROLLBACK,
    "ml-explore/mlx-lm#1502",
    "6 + 4 tokens, crop to 7, then 1",
    "crop",
    ROLLED,
)
class RollbackResurrected(RightDecoder):
    """Trimming takes tokens off the counter and leaves the arrays; the next update reads the
    length from the arrays, and the rejected tokens are back.
    """

    def empty(self, batch_size: int) -> KVCache:
        return _CountOnly.empty(self.shape(batch_size))

    def step(
        self, tokens: ArrayLike, cache: Any = None, lengths: ArrayLike | None = None
    ) -> tuple[FloatArray, Any]:
        return super().step(tokens, None if cache is None else cache.recounted(), lengths)


class _OffsetStays(_CountingCache):
    def crop(self, length: int) -> Self:
        handle = super().crop(length)
        handle.offset = self.offset
        return handle


@broken(
    "rollback-positions",
    Kind.ROLLBACK,
    "Blaizzy/mlx-vlm#1155",
    "learned positions or rope, 6 + 4 tokens, crop to 7, then 1",
    "crop",
    ROLLED,
)
class RollbackPositions(_Counting):
    """Keys and values of rejected drafts are removed, but the counter that new tokens are rotated
    by has moved by the whole draft and stays there.
    """

    cache = _OffsetStays
    longest = LEARNED.max_positions
