"""Keys and values as int8, with one scale for each token and head."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kvproof.model.cache.base import DEFAULT_ROOM, CacheShape, Room
from kvproof.model.cache.concat import ConcatCache
from kvproof.model.params import FloatArray

QuantizedArray = NDArray[Any]
"""Records (B, H_kv, T) of ``levels``, int8 (D,), and ``scale``, a float: one token of one head."""


class QuantizedCache(ConcatCache):
    """``ConcatCache`` of records: a scale can't lose its token when rows or tokens move.

    ``append`` and ``keys_values`` return what has been stored, dequantised, the new tokens
    included: whether a key comes from this call or an earlier one makes no difference, and so
    neither does the way that a text is cut.
    """

    is_exact = False

    @classmethod
    def empty(cls, shape: CacheShape, room: Room = DEFAULT_ROOM) -> Self:  # noqa: D102
        floats = ConcatCache.empty(shape, room)
        keys, values = ([quantize(x) for x in side] for side in (floats.keys, floats.values))
        return cls(shape, keys, values)

    def _append(
        self, layer: int, keys: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        all_keys, all_values = super()._append(layer, quantize(keys), quantize(values))
        return dequantize(all_keys), dequantize(all_values)

    def keys_values(self) -> list[tuple[FloatArray, FloatArray]]:  # noqa: D102
        return [(dequantize(keys), dequantize(values)) for keys, values in super().keys_values()]

    @property
    def payload_bytes(self) -> int:
        """Bytes of levels and scales: ``2 * B * T * n_layers * H_kv * (D + itemsize)``."""
        return self.nbytes  # what keys_values gives are floats again


def quantize(x: FloatArray) -> QuantizedArray:
    """Each token's vector, (B, H, T, D), as integers -127..127 times ``max |x| / 127``.

    The largest feature is met exactly but for rounding, each other one to half a scale.  A vector
    of zeros has scale 1.
    """
    scale = np.abs(x).max(axis=-1, initial=0.0) / 127
    scale = np.where(scale > 0, scale, np.ones_like(scale))
    record = np.dtype([("levels", np.int8, x.shape[-1:]), ("scale", x.dtype)])
    records = np.empty(x.shape[:-1], record)
    records["levels"] = np.rint(x / scale[..., None])
    records["scale"] = scale
    return records


def dequantize(records: QuantizedArray) -> FloatArray:
    """The vectors (B, H, T, D) that ``quantize`` has kept, in the dtype of their scales."""
    x: FloatArray = records["levels"] * records["scale"][..., None]
    return x
