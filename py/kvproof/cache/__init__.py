"""Where keys and values are kept: one file a storage, one protocol for all."""

from typing import Literal

from numpy.typing import DTypeLike

from kvproof.cache.base import CacheShape, KVCache, StaleCacheError
from kvproof.cache.concat import ConcatCache
from kvproof.config import DecoderConfig
from kvproof.masks import check_integer
from kvproof.params import float_dtype

__all__ = ["CacheShape", "ConcatCache", "KVCache", "StaleCacheError", "Storage", "new_cache"]

Storage = Literal["concat", "static", "rolling", "paged", "int8"]


def new_cache(
    config: DecoderConfig,
    batch_size: int = 1,
    dtype: DTypeLike = "float32",
    storage: Storage = "concat",
) -> KVCache:
    """An empty cache for ``batch_size`` rows of a decoder.

    Args:
        config: the decoder's sizes.
        batch_size: rows, at least 1.
        dtype: "float32" or "float64", that of the parameters.
        storage: how keys and values are kept.

    Raises:
        ValueError: ``batch_size`` is less than 1, ``dtype`` isn't float32 or float64, or an
            unknown storage.
    """
    batch_size = check_integer("batch_size", batch_size)
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    shape = CacheShape(
        config.n_layers, batch_size, config.n_kv_heads, config.head_dim, float_dtype(dtype)
    )
    if storage != "concat":
        raise ValueError(f"storage must be one of concat, got {storage!r}")
    return ConcatCache.empty(shape)
