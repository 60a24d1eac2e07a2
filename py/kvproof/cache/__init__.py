"""Where keys and values are kept: one file a storage."""

from numpy.typing import DTypeLike

from kvproof.cache.concat import ConcatCache
from kvproof.config import DecoderConfig

__all__ = ["ConcatCache", "new_cache"]


def new_cache(
    config: DecoderConfig, batch_size: int = 1, dtype: DTypeLike = "float32"
) -> ConcatCache:
    """An empty cache for ``batch_size`` rows of a decoder.

    Raises:
        ValueError: ``batch_size`` is less than 1, or ``dtype`` isn't float32 or float64.
    """
    return ConcatCache.empty(config, batch_size, dtype)
