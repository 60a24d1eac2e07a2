"""kvproof: a transformer decoder with a KV cache, and the proof that the cache is right.

NumPy and the standard library only; the same code runs in CPython and in the browser.
"""

from kvproof.cache import ConcatCache, KVCache, StaleCacheError, new_cache
from kvproof.cached_decoder import decode
from kvproof.config import LAB, MODERN, REFERENCE, DecoderConfig
from kvproof.decoder import forward
from kvproof.layers import scaled_dot_product_attention
from kvproof.masks import offset_mask, offset_positions, restarted_positions, top_left_mask
from kvproof.params import (
    Params,
    init_params,
    parameter_count,
    params_from_arrays,
    params_to_arrays,
)
from kvproof.proof import MaskReport, MaskResult, example_tokens, report

__all__ = [
    "LAB",
    "MODERN",
    "REFERENCE",
    "ConcatCache",
    "DecoderConfig",
    "KVCache",
    "MaskReport",
    "MaskResult",
    "Params",
    "StaleCacheError",
    "decode",
    "example_tokens",
    "forward",
    "init_params",
    "new_cache",
    "offset_mask",
    "offset_positions",
    "parameter_count",
    "params_from_arrays",
    "params_to_arrays",
    "report",
    "restarted_positions",
    "scaled_dot_product_attention",
    "top_left_mask",
]
