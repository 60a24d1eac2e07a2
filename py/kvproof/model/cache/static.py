"""Memory for all tokens from the start; new ones are written in place, nothing is copied."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from kvproof.model.cache.base import DEFAULT_ROOM, CacheShape, Room, reserved
from kvproof.model.cache.in_place import Generation, InPlaceCache
from kvproof.model.masks import IntArray
from kvproof.model.params import FloatArray


class StaticCache(InPlaceCache):
    """An array for each layer, (2, B, H_kv, capacity, D): keys, then values; ``length`` slots used.

    What ``append`` and ``keys_values`` return are views: a later call from a cropped handle
    writes over what they show.
    """

    reserves_memory = True

    def __init__(
        self,
        shape: CacheShape,
        arrays: list[FloatArray],
        length: int = 0,
        padding: IntArray | None = None,
        generation: Generation | None = None,
    ) -> None:
        super().__init__(shape, length, padding, generation)
        self.arrays = arrays

    @classmethod
    def empty(cls, shape: CacheShape, room: Room = DEFAULT_ROOM) -> Self:
        """A cache of length 0 (see ``new_cache``).

        A feature's numbers of all tokens lie side by side: the products of a query with all keys
        and of its weights with all values run along them, in half the time for 500 tokens.
        """
        batch_size, n_heads, head_dim = shape.row
        size = (2, batch_size, n_heads, head_dim, reserved(shape, room))
        arrays = [np.zeros(size, shape.dtype).swapaxes(3, 4) for _ in range(shape.n_layers)]
        return cls(shape, arrays)

    @property
    def capacity(self) -> int:
        """Tokens of a row that there is room for."""
        capacity: int = self.arrays[0].shape[3]
        return capacity

    def begin(self, n_new: int, padding: IntArray | None = None) -> Self:  # noqa: D102
        self._check_live()
        n_total = self.length + n_new
        if n_total > self.capacity:
            raise ValueError(
                f"{self.length} cached + {n_new} new tokens = {n_total}, "
                f"the cache has room for {self.capacity}; make it with a larger capacity"
            )
        return self._handle(self.length, self.padding if padding is None else padding)

    def _append(
        self, layer: int, keys: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        self._check_writer()
        array, end = self.arrays[layer], self.length + keys.shape[2]
        array[0, :, :, self.length : end] = keys
        array[1, :, :, self.length : end] = values
        return array[0, :, :, :end], array[1, :, :, :end]

    def extend(self, layer: int, pair: FloatArray) -> tuple[FloatArray, FloatArray]:  # noqa: D102
        self._check_writer()
        array, end = self.arrays[layer], self.length + pair.shape[3]
        array[:, :, :, self.length : end] = pair
        return array[0, :, :, :end], array[1, :, :, :end]

    def crop(self, length: int) -> Self:  # noqa: D102
        length = self._check_crop(length)
        return self._handle(length, np.minimum(self.padding, length))._take_over()

    def reorder(self, rows: Sequence[int]) -> Self:  # noqa: D102
        index = self._check_rows(rows)
        arrays = [array[:, index] for array in self.arrays]
        shape = replace(self.shape, batch_size=len(index))
        cache = type(self)(shape, arrays, self.length, self.padding[index], self._generation)
        return cache._take_over()

    def fork(self) -> Self:  # noqa: D102
        self._check_live()
        arrays = [array.copy(order="K") for array in self.arrays]
        return type(self)(self.shape, arrays, self.length, self.padding)

    def keys_values(self) -> list[tuple[FloatArray, FloatArray]]:  # noqa: D102
        self._check_live()
        filled = slice(self.length)
        return [(array[0, :, :, filled], array[1, :, :, filled]) for array in self.arrays]

    def memory(self) -> dict[Hashable, int]:
        """Room for all: ``2 * B * capacity * n_layers * H_kv * D * itemsize`` bytes."""
        return {id(array): array.nbytes for array in self.arrays}

    def _handle(self, length: int, padding: IntArray) -> Self:
        return type(self)(self.shape, self.arrays, length, padding, self._generation)
