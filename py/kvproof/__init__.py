"""kvproof: a transformer decoder with a KV cache, and the proof that the cache is right.

NumPy and the standard library only; the same code runs in CPython and in the browser.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kvproof.cache import ConcatCache, KVCache, StaleCacheError, new_cache
from kvproof.cached_decoder import decode
from kvproof.config import LAB, MODERN, REFERENCE, DecoderConfig
from kvproof.costs import Costs, count_costs, measure_costs
from kvproof.decoder import forward
from kvproof.fast_decoder import FastDecoder
from kvproof.labs import TrimReport, perturb_future, trim_or_refeed
from kvproof.layers import scaled_dot_product_attention
from kvproof.mask_report import MaskReport, MaskResult, report
from kvproof.masks import (
    offset_mask,
    offset_positions,
    open_mask,
    restarted_positions,
    top_left_mask,
)
from kvproof.params import (
    Params,
    init_params,
    parameter_count,
    params_from_arrays,
    params_to_arrays,
)
from kvproof.paths import every_prefix, example_tokens, example_vectors, in_chunks, one_by_one
from kvproof.proof import Claim, Proof, prove

if TYPE_CHECKING:
    from kvproof.checking import Finding, Report, assert_cache_matches, check

__all__ = [
    "LAB",
    "MODERN",
    "REFERENCE",
    "Claim",
    "ConcatCache",
    "Costs",
    "DecoderConfig",
    "FastDecoder",
    "Finding",
    "KVCache",
    "MaskReport",
    "MaskResult",
    "Params",
    "Proof",
    "Report",
    "StaleCacheError",
    "TrimReport",
    "assert_cache_matches",
    "check",
    "count_costs",
    "decode",
    "every_prefix",
    "example_tokens",
    "example_vectors",
    "forward",
    "in_chunks",
    "init_params",
    "measure_costs",
    "new_cache",
    "offset_mask",
    "offset_positions",
    "one_by_one",
    "open_mask",
    "parameter_count",
    "params_from_arrays",
    "params_to_arrays",
    "perturb_future",
    "prove",
    "report",
    "restarted_positions",
    "scaled_dot_product_attention",
    "top_left_mask",
    "trim_or_refeed",
]


def __getattr__(name: str) -> Any:
    """The checker's names, imported when they are first used: the lab starts sooner without."""
    if name in ("adapters", "zoo"):
        return import_module(f"kvproof.{name}")
    if name not in ("Finding", "Report", "assert_cache_matches", "check"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kvproof import checking

    globals()[name] = value = getattr(checking, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
