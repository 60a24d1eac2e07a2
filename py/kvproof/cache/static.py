"""Memory for all tokens from the start; new ones are written in place, nothing is copied."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from kvproof.cache.base import CacheShape
from kvproof.cache.in_place import InPlaceCache, Lease
from kvproof.masks import IntArray
from kvproof.params import FloatArray


class StaticCache(InPlaceCache):
    """Keys and values per layer, each (B, H_kv, capacity, D), the first ``length`` slots in use.

    What ``append`` and ``keys_values`` return are views: a later call from a cropped handle
    writes over what they show.
    """

    def __init__(
        self,
        shape: CacheShape,
        keys: list[FloatArray],
        values: list[FloatArray],
        length: int = 0,
        padding: IntArray | None = None,
        lease: Lease | None = None,
    ) -> None:
        super().__init__(shape, length, padding, lease)
        self.keys = keys
        self.values = values

    @classmethod
    def empty(cls, shape: CacheShape, capacity: int) -> Self:
        """A cache of length 0 with room for ``capacity`` tokens a row (see ``new_cache``)."""
        batch_size, n_heads, head_dim = shape.row

        def arrays() -> list[FloatArray]:
            size = (batch_size, n_heads, capacity, head_dim)
            return [np.zeros(size, shape.dtype) for _ in range(shape.n_layers)]

        return cls(shape, arrays(), arrays())

    @property
    def capacity(self) -> int:
        """Tokens of a row that there is room for."""
        capacity: int = self.keys[0].shape[2]
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
        end = self.length + keys.shape[2]
        all_keys, all_values = self.keys[layer], self.values[layer]
        all_keys[:, :, self.length : end] = keys
        all_values[:, :, self.length : end] = values
        return all_keys[:, :, :end], all_values[:, :, :end]

    def crop(self, length: int) -> Self:  # noqa: D102
        length = self._check_crop(length)
        return self._handle(length, np.minimum(self.padding, length))._take_over()

    def reorder(self, rows: Sequence[int]) -> Self:  # noqa: D102
        index = self._check_rows(rows)
        keys = [array[index] for array in self.keys]
        values = [array[index] for array in self.values]
        shape = replace(self.shape, batch_size=len(index))
        cache = type(self)(shape, keys, values, self.length, self.padding[index], self._lease)
        return cache._take_over()

    def fork(self) -> Self:  # noqa: D102
        self._check_live()
        keys = [array.copy() for array in self.keys]
        values = [array.copy() for array in self.values]
        return type(self)(self.shape, keys, values, self.length, self.padding)

    def keys_values(self) -> list[tuple[FloatArray, FloatArray]]:  # noqa: D102
        self._check_live()
        filled = slice(self.length)
        pairs = zip(self.keys, self.values, strict=True)
        return [(keys[:, :, filled], values[:, :, filled]) for keys, values in pairs]

    @property
    def nbytes(self) -> int:
        """Bytes of the whole memory: ``2 * B * capacity * n_layers * H_kv * D * itemsize``."""
        return sum(array.nbytes for array in (*self.keys, *self.values))

    def _handle(self, length: int, padding: IntArray) -> Self:
        return type(self)(self.shape, self.keys, self.values, length, padding, self._lease)
