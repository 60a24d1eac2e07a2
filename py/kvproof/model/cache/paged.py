"""Memory in blocks from a pool: rows and caches with the same beginning share its blocks."""

import weakref
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from kvproof.model.cache.base import DEFAULT_ROOM, CacheShape, Room, reserved
from kvproof.model.cache.in_place import Generation, InPlaceCache
from kvproof.model.masks import BoolArray, IntArray
from kvproof.model.params import FloatArray


class BlockPool:
    """Blocks of ``block_size`` tokens for any number of caches (Kwon et al. 2023, vLLM).

    ``keys`` and ``values`` hold, for each layer, (n_blocks, H_kv, block_size, D).  ``counts``
    (n_blocks,) says how many entries of block tables point to a block, ``free`` lists the blocks
    without any.
    """

    def __init__(self, shape: CacheShape, n_blocks: int, block_size: int) -> None:
        _, n_heads, head_dim = shape.row
        size = (n_blocks, n_heads, block_size, head_dim)
        self.keys = [np.zeros(size, shape.dtype) for _ in range(shape.n_layers)]
        self.values = [np.zeros(size, shape.dtype) for _ in range(shape.n_layers)]
        self.counts: IntArray = np.zeros(n_blocks, np.int64)
        self.free = list(range(n_blocks))[::-1]
        self.block_size = block_size
        self._shape = shape

    def cache(self, batch_size: int = 1) -> "PagedCache":
        """An empty cache that takes its blocks from this pool."""
        shape = replace(self._shape, batch_size=batch_size)
        return PagedCache(shape, self, np.zeros((batch_size, 0), np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks, used or free."""
        return sum(array.nbytes for array in (*self.keys, *self.values))

    def blocks_for(self, n_tokens: int) -> int:
        """How many blocks a row of ``n_tokens`` needs; the last one may be in part empty."""
        return -(-n_tokens // self.block_size)

    def take(self, n_blocks: int) -> IntArray:
        """So many free blocks; the table that they are written into is then to ``hold`` them.

        Raises:
            ValueError: there are fewer; nothing is taken.
        """
        if n_blocks > len(self.free):
            raise ValueError(
                f"the call needs {n_blocks} more blocks of {self.block_size} tokens, the pool has "
                f"{len(self.free)} free of {len(self.counts)}; crop or release() a cache, or make "
                "the pool with a larger capacity"
            )
        return np.array([self.free.pop() for _ in range(n_blocks)], np.int64)

    def copy(self, source: IntArray, target: IntArray) -> None:
        """Copy the contents of blocks, in all layers."""
        for array in (*self.keys, *self.values):
            array[target] = array[source]

    def hold(self, table: IntArray) -> None:
        """Count one more reference for each entry of a table."""
        np.add.at(self.counts, table, 1)

    def drop(self, table: IntArray) -> None:
        """Take these references back; blocks without any are free."""
        np.subtract.at(self.counts, table, 1)
        used = np.unique(table)
        self.free.extend(used[self.counts[used] == 0].tolist())


class PagedCache(InPlaceCache):
    """A table (B, blocks) of which pool block holds which tokens of each row.

    Slot s of row b is token ``s % block_size`` of block ``table[b, s // block_size]``.  ``fork``
    and ``reorder`` copy the table only; the first to write into a block that it shares copies
    that block.  ``append`` and ``keys_values`` gather the blocks into new arrays, where a kernel
    would read them in place.

    A handle gives its blocks back when another takes over, when it is released and when it dies.
    """

    reserves_memory = True

    def __init__(
        self,
        shape: CacheShape,
        pool: BlockPool,
        table: IntArray,
        length: int = 0,
        padding: IntArray | None = None,
        generation: Generation | None = None,
    ) -> None:
        super().__init__(shape, length, padding, generation)
        self.pool = pool
        self.table = table
        self._parent: Self | None = None
        pool.hold(table)
        self._drop_blocks = weakref.finalize(self, pool.drop, table)  # whenever, but once

    @classmethod
    def empty(cls, shape: CacheShape, room: Room = DEFAULT_ROOM) -> Self:
        """A cache of length 0 with a pool of its own (see ``new_cache``)."""
        n_blocks = room.branches * shape.batch_size * -(-reserved(shape, room) // room.block_size)
        pool = BlockPool(shape, n_blocks, room.block_size)
        return cls(shape, pool, np.zeros((shape.batch_size, 0), np.int64))

    def begin(self, n_new: int, padding: IntArray | None = None) -> Self:  # noqa: D102
        self._check_live()
        pool, (batch_size, n_held) = self.pool, self.table.shape
        n_more = pool.blocks_for(self.length + n_new) - n_held
        rows = self._rows_to_copy()
        fresh = pool.take(len(rows) + batch_size * n_more)
        copies, more = np.split(fresh, [len(rows)])
        table = np.concatenate([self.table, more.reshape(batch_size, n_more)], axis=1)
        if len(rows):
            pool.copy(self.table[rows, -1], copies)
            table[rows, n_held - 1] = copies
        handle = self._handle(table, self.length, self.padding if padding is None else padding)
        handle._parent = self
        return handle

    def _rows_to_copy(self) -> IntArray:
        """The rows whose last block is part empty and isn't theirs alone to go on writing.

        Of the rows that share a block nobody else holds, the first may keep it.
        """
        rows = np.arange(self.shape.batch_size)
        if self.length % self.pool.block_size == 0:
            return rows[:0]
        blocks, first, n_own = np.unique(self.table[:, -1], return_index=True, return_counts=True)
        return np.setdiff1d(rows, first[self.pool.counts[blocks] == n_own])

    def _append(
        self, layer: int, keys: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        self._check_live()
        end = self.length + keys.shape[2]
        block, place = np.divmod(np.arange(self.length, end), self.pool.block_size)
        block = self.table[:, block]  # (B, C)
        self.pool.keys[layer][block, :, place] = keys.swapaxes(1, 2)
        self.pool.values[layer][block, :, place] = values.swapaxes(1, 2)
        return self._gather(self.pool.keys[layer], end), self._gather(self.pool.values[layer], end)

    def _gather(self, blocks: FloatArray, end: int) -> FloatArray:
        batch_size, n_heads, head_dim = self.shape.row
        rows = blocks[self.table].swapaxes(1, 2)  # (B, H_kv, blocks, block_size, D)
        return rows.reshape(batch_size, n_heads, -1, head_dim)[:, :, :end]

    def advance(self, n_new: int) -> None:  # noqa: D102
        super().advance(n_new)
        if self._parent is not None:
            self._parent._drop_blocks()
            self._parent = None

    def crop(self, length: int) -> Self:  # noqa: D102
        length = self._check_crop(length)
        table = self.table[:, : self.pool.blocks_for(length)]
        return self._replaced_by(self._handle(table, length, np.minimum(self.padding, length)))

    def reorder(self, rows: Sequence[int]) -> Self:  # noqa: D102
        index = self._check_rows(rows)
        shape = replace(self.shape, batch_size=len(index))
        table, padding = self.table[index], self.padding[index]
        cache = type(self)(shape, self.pool, table, self.length, padding, self._generation)
        return self._replaced_by(cache)

    def fork(self) -> Self:  # noqa: D102
        self._check_live()
        return type(self)(self.shape, self.pool, self.table, self.length, self.padding)

    def release(self) -> None:
        """Give the blocks back now, not when the handle dies; it is stale from then on."""
        self._version = -1
        self._drop_blocks()

    def keys_values(self) -> list[tuple[FloatArray, FloatArray]]:  # noqa: D102
        self._check_live()
        pairs = zip(self.pool.keys, self.pool.values, strict=True)
        return [(self._gather(k, self.length), self._gather(v, self.length)) for k, v in pairs]

    @property
    def block_size(self) -> int:  # type: ignore[override]
        """Tokens in a block."""
        return self.pool.block_size

    @property
    def _n_places(self) -> int:
        n_blocks: int = self.table.shape[1]
        return n_blocks * self.block_size

    def shared_places(self) -> BoolArray:
        """Places of blocks that more than one entry of a table points to."""
        return np.repeat(self.pool.counts[self.table] > 1, self.block_size, axis=1)

    def memory(self) -> dict[Hashable, int]:
        """The table and its blocks; caches share blocks."""
        block_bytes = self.pool.nbytes // len(self.pool.counts)
        blocks = np.unique(self.table).tolist()
        pieces: dict[Hashable, int] = {(id(self.pool), block): block_bytes for block in blocks}
        return {id(self.table): self.table.nbytes, **pieces}

    def _handle(self, table: IntArray, length: int, padding: IntArray) -> Self:
        return type(self)(self.shape, self.pool, table, length, padding, self._generation)

    def _replaced_by(self, handle: Self) -> Self:
        handle._take_over()
        self._drop_blocks()
        return handle
