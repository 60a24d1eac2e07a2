"""Where keys and values are kept: one file a storage, one protocol for all."""

from typing import Literal, get_args

from numpy.typing import DTypeLike

from kvproof.cache.base import CacheShape, KVCache, StaleCacheError
from kvproof.cache.concat import ConcatCache
from kvproof.cache.static import StaticCache
from kvproof.config import DecoderConfig
from kvproof.masks import check_integer
from kvproof.params import float_dtype

__all__ = [
    "CacheShape",
    "ConcatCache",
    "KVCache",
    "StaleCacheError",
    "StaticCache",
    "Storage",
    "new_cache",
]

Storage = Literal["concat", "static"]


def new_cache(
    config: DecoderConfig,
    batch_size: int = 1,
    dtype: DTypeLike = "float32",
    storage: Storage = "concat",
    capacity: int | None = None,
) -> KVCache:
    """An empty cache for ``batch_size`` rows of a decoder.

    Args:
        config: the decoder's sizes.
        batch_size: rows, at least 1.
        dtype: "float32" or "float64", that of the parameters.
        storage: how keys and values are kept.
        capacity: tokens of a row that "static" has memory for; None: ``config.max_positions``.

    Raises:
        ValueError: ``batch_size`` or ``capacity`` is less than 1, ``dtype`` isn't float32 or
            float64, an unknown storage, or a capacity for one that has none.
    """
    batch_size = _check_positive("batch_size", batch_size)
    shape = CacheShape(
        config.n_layers, batch_size, config.n_kv_heads, config.head_dim, float_dtype(dtype)
    )
    if storage == "static":
        default = config.max_positions
        return StaticCache.empty(
            shape, _check_positive("capacity", default if capacity is None else capacity)
        )
    if storage not in get_args(Storage):
        raise ValueError(f"storage must be one of {', '.join(get_args(Storage))}, got {storage!r}")
    if capacity is not None:
        raise ValueError(f"a {storage} cache grows as it has to and takes no capacity: {capacity}")
    return ConcatCache.empty(shape)


def _check_positive(name: str, value: int) -> int:
    value = check_integer(name, value)
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return value
