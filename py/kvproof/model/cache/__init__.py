"""Where keys and values are kept: one file a storage, one protocol for all."""

from typing import Literal, get_args

from numpy.typing import DTypeLike

from kvproof.model.cache.base import CacheShape, KVCache, StaleCacheError
from kvproof.model.cache.concat import ConcatCache
from kvproof.model.cache.paged import BlockPool, PagedCache
from kvproof.model.cache.quantized import QuantizedCache
from kvproof.model.cache.rolling import Ring, RollingCache
from kvproof.model.cache.static import StaticCache
from kvproof.model.config import DecoderConfig
from kvproof.model.masks import check_integer
from kvproof.model.params import float_dtype

__all__ = [
    "BlockPool",
    "CacheShape",
    "ConcatCache",
    "KVCache",
    "PagedCache",
    "QuantizedCache",
    "RollingCache",
    "StaleCacheError",
    "StaticCache",
    "Storage",
    "new_cache",
]

Storage = Literal["concat", "static", "rolling", "paged", "int8"]


def new_cache(
    config: DecoderConfig,
    batch_size: int = 1,
    dtype: DTypeLike = "float32",
    storage: Storage = "concat",
    capacity: int | None = None,
    block_size: int = 16,
) -> KVCache:
    """An empty cache for ``batch_size`` rows of a decoder.

    Args:
        config: that of the decoder; no other one may use the cache.
        batch_size: rows, at least 1.
        dtype: "float32" or "float64", that of the parameters.
        storage: how keys and values are kept: "concat" as they come, in new arrays; "int8" the
            same, quantised; "static" in memory for all tokens; "paged" in blocks that rows and
            forks share; "rolling" only those that the window and the sinks still reach.
        capacity: tokens of a row that there is memory for.  None: ``config.max_positions`` for
            "static" and "paged" (there rounded up to blocks, and one pool for all rows),
            ``config.window + config.n_sinks`` for "rolling", where more allows to crop further
            back.  "concat" and "int8" have none.
        block_size: tokens in a block of "paged".

    Raises:
        ValueError: a size is less than 1, ``dtype`` isn't float32 or float64, an unknown storage,
            "rolling" without a window or with less capacity than it needs, or a capacity for a
            storage that has none.

    Example:
        >>> cache = kvproof.new_cache(kvproof.MODERN, batch_size=2, storage="static", capacity=64)
        >>> cache.length, cache.nbytes
        (0, 65536)
    """
    batch_size = _check_positive("batch_size", batch_size)
    block_size = _check_positive("block_size", block_size)
    shape = CacheShape(config, batch_size, float_dtype(dtype))
    if storage not in get_args(Storage):
        raise ValueError(f"storage must be one of {', '.join(get_args(Storage))}, got {storage!r}")
    if storage == "rolling":
        return RollingCache.empty(shape, _ring(config, capacity))
    if storage in ("static", "paged"):
        tokens = config.max_positions if capacity is None else capacity
        tokens = _check_positive("capacity", tokens)
        if storage == "static":
            return StaticCache.empty(shape, tokens)
        return BlockPool(shape, batch_size * -(-tokens // block_size), block_size).cache(batch_size)
    if capacity is not None:
        raise ValueError(f"a cache of storage {storage!r} has no capacity, got {capacity}")
    return QuantizedCache.empty(shape) if storage == "int8" else ConcatCache.empty(shape)


def _ring(config: DecoderConfig, capacity: int | None) -> Ring:
    if config.window is None:
        raise ValueError(
            "a rolling cache keeps the last `window` tokens, and the decoder has no window; "
            "take another storage, or a DecoderConfig with a window"
        )
    needed = config.window + config.n_sinks
    places = needed if capacity is None else check_integer("capacity", capacity)
    if places < needed:
        raise ValueError(
            f"capacity {places} is too small for a window of {config.window} and {config.n_sinks} "
            f"sinks: {needed} tokens"
        )
    return Ring(config.n_sinks, config.window, places)


def _check_positive(name: str, value: int) -> int:
    value = check_integer(name, value)
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return value
