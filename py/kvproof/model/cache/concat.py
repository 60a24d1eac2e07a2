"""The plainest storage: concatenate the new keys and values after the old ones."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from kvproof.model.cache.base import DEFAULT_ROOM, CacheShape, KVCache, Room
from kvproof.model.masks import IntArray
from kvproof.model.params import FloatArray


class ConcatCache(KVCache):
    """Keys and values per layer, each (B, H_kv, T, D).

    ``append`` makes new arrays and never writes into old ones, so no handle ever gets stale and a
    fork costs two short lists.
    """

    def __init__(
        self,
        shape: CacheShape,
        keys: list[FloatArray],
        values: list[FloatArray],
        length: int = 0,
        padding: IntArray | None = None,
    ) -> None:
        super().__init__(shape, length, padding)
        self.keys = keys
        self.values = values

    @classmethod
    def empty(cls, shape: CacheShape, room: Room = DEFAULT_ROOM) -> Self:  # noqa: D102
        if room.capacity is not None:
            raise ValueError(f"this storage has no capacity, got {room.capacity}")
        batch_size, n_heads, head_dim = shape.row
        nothing = np.zeros((batch_size, n_heads, 0, head_dim), shape.dtype)
        return cls(shape, [nothing] * shape.n_layers, [nothing] * shape.n_layers)

    def begin(self, n_new: int, padding: IntArray | None = None) -> Self:  # noqa: D102, ARG002
        handle = self.fork()
        handle.padding = self.padding if padding is None else padding
        return handle

    def _append(
        self, layer: int, keys: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        self.keys[layer] = np.concatenate([self.keys[layer], keys], axis=2)
        self.values[layer] = np.concatenate([self.values[layer], values], axis=2)
        return self.keys[layer], self.values[layer]

    def advance(self, n_new: int) -> None:  # noqa: D102
        self.length += n_new

    def crop(self, length: int) -> Self:  # noqa: D102
        length = self._check_crop(length)
        keys = [array[:, :, :length] for array in self.keys]
        values = [array[:, :, :length] for array in self.values]
        return type(self)(self.shape, keys, values, length, np.minimum(self.padding, length))

    def reorder(self, rows: Sequence[int]) -> Self:  # noqa: D102
        index = self._check_rows(rows)
        keys = [array[index] for array in self.keys]
        values = [array[index] for array in self.values]
        shape = replace(self.shape, batch_size=len(index))
        return type(self)(shape, keys, values, self.length, self.padding[index])

    def fork(self) -> Self:  # noqa: D102
        keys, values = list(self.keys), list(self.values)
        return type(self)(self.shape, keys, values, self.length, self.padding)

    def keys_values(self) -> list[tuple[FloatArray, FloatArray]]:  # noqa: D102
        return list(zip(self.keys, self.values, strict=True))

    def memory(self) -> dict[Hashable, int]:
        """All keys and values: ``2 * B * T * n_layers * H_kv * D * itemsize`` bytes."""
        return {id(array): array.nbytes for array in (*self.keys, *self.values)}
