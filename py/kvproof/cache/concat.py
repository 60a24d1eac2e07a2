"""The plainest storage: concatenate the new keys and values behind the old ones."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from kvproof.config import DecoderConfig
from kvproof.params import FloatArray, float_dtype


@dataclass(eq=False)
class ConcatCache:
    """Keys and values per layer, each (B, H, T, D), and the one length that all of them share.

    ``append`` makes new arrays and never writes into old ones, so a fork costs two short lists.
    The length moves only in ``advance``, once per call and after all layers: within a call every
    layer must see the same history.
    """

    keys: list[FloatArray]
    values: list[FloatArray]
    length: int = 0

    @classmethod
    def empty(cls, config: DecoderConfig, batch_size: int, dtype: DTypeLike) -> "ConcatCache":
        """A cache of length 0 (see ``new_cache``)."""
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        nothing = np.zeros((batch_size, config.n_heads, 0, config.head_dim), float_dtype(dtype))
        return cls([nothing] * config.n_layers, [nothing] * config.n_layers)

    def fork(self) -> "ConcatCache":
        """An independent cache with the same content; the arrays are shared, never written."""
        return ConcatCache(list(self.keys), list(self.values), self.length)

    def check_layers(self, n_layers: int) -> None:
        """Refuse a decoder with another number of layers.

        Raises:
            ValueError: names both numbers.
        """
        if len(self.keys) != n_layers:
            raise ValueError(f"the cache has {len(self.keys)} layers, the decoder {n_layers}")

    def append(
        self, layer: int, keys: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Add the new tokens' (B, H, C, D) to a layer; returns all of it, (B, H, P + C, D).

        Raises:
            ValueError: keys and values differ in shape or dtype, or batch, heads, head dim or
                dtype differ from the cache's.
        """
        if keys.shape != values.shape or keys.dtype != values.dtype:
            raise ValueError(
                f"the new keys are {keys.shape} {keys.dtype}, "
                f"the new values {values.shape} {values.dtype}"
            )
        held = self.keys[layer]
        if _row_shape(keys) != _row_shape(held) or keys.dtype != held.dtype:
            raise ValueError(
                f"the cache holds (batch, heads, head dim) {_row_shape(held)} {held.dtype}, "
                f"the new tokens have {_row_shape(keys)} {keys.dtype}; "
                "make it with new_cache(config, batch_size, params.dtype)"
            )
        self.keys[layer] = np.concatenate([held, keys], axis=2)
        self.values[layer] = np.concatenate([self.values[layer], values], axis=2)
        return self.keys[layer], self.values[layer]

    def advance(self, n_new: int) -> None:
        """Count ``n_new`` more tokens, after every layer has appended them."""
        self.length += n_new

    def keys_values(self) -> list[tuple[FloatArray, FloatArray]]:
        """(K, V) of each layer, each (B, H, length, D) in position order."""
        return list(zip(self.keys, self.values, strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes of all keys and values: ``2 * B * T * n_layers * H * D * itemsize``."""
        return sum(array.nbytes for array in (*self.keys, *self.values))


def _row_shape(array: FloatArray) -> tuple[int, ...]:
    batch_size, n_heads, _, head_dim = array.shape
    return batch_size, n_heads, head_dim
