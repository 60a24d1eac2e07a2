"""Where keys and values are kept: one file a storage, one protocol for all."""

from numpy.typing import DTypeLike

from kvproof.model.cache.base import (
    CacheShape,
    KVCache,
    Room,
    StaleCacheError,
    bytes_together,
)
from kvproof.model.cache.concat import ConcatCache
from kvproof.model.cache.paged import BlockPool, PagedCache
from kvproof.model.cache.quantized import QuantizedCache
from kvproof.model.cache.rolling import RollingCache
from kvproof.model.cache.static import StaticCache
from kvproof.model.config import DecoderConfig
from kvproof.model.masks import check_integer
from kvproof.model.params import float_dtype

__all__ = [
    "STORAGES",
    "BlockPool",
    "CacheShape",
    "ConcatCache",
    "KVCache",
    "PagedCache",
    "QuantizedCache",
    "RollingCache",
    "Room",
    "StaleCacheError",
    "StaticCache",
    "bytes_together",
    "new_cache",
]

STORAGES: dict[str, type[KVCache]] = {
    "concat": ConcatCache,
    "static": StaticCache,
    "rolling": RollingCache,
    "paged": PagedCache,
    "int8": QuantizedCache,
}
"""Name -> storage: the one place that lists them."""


def new_cache(
    config: DecoderConfig,
    batch_size: int = 1,
    dtype: DTypeLike = "float32",
    storage: str = "concat",
    capacity: int | None = None,
    block_size: int = 16,
    branches: int = 1,
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
        branches: continuations with tokens of their own, by forks, that the pool of "paged" has
            room for; other storages give each fork memory of its own.

    Raises:
        ValueError: a size is less than 1, ``dtype`` isn't float32 or float64, an unknown storage,
            "rolling" without a window or with less capacity than it needs, or a capacity for a
            storage that has none.

    Example:
        >>> cache = kvproof.new_cache(kvproof.MODERN, batch_size=2, storage="static", capacity=64)
        >>> cache.length, cache.nbytes
        (0, 65536)
    """
    if storage not in STORAGES:
        raise ValueError(f"storage must be one of {', '.join(STORAGES)}, got {storage!r}")
    batch_size = check_integer("batch_size", batch_size, least=1)
    shape = CacheShape(config, batch_size, float_dtype(dtype))
    block_size = check_integer("block_size", block_size, least=1)
    branches = check_integer("branches", branches, least=1)
    return STORAGES[storage].empty(shape, Room(capacity, block_size, branches))
