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
from kvproof.labs import TrimReport, perturb_future, receptive_field, trim_or_refeed
from kvproof.layers import scaled_dot_product_attention
from kvproof.mask_report import MaskReport, MaskResult, mask_result, report
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
    from kvproof.call_trace import Call, trace_calls
    from kvproof.checking import Finding, Report, assert_cache_matches, check
    from kvproof.checking.one_call import decoder_result
    from kvproof.error_map import BlindSpots, blind_spots
    from kvproof.memory_plan import KeptBytes, plan_memory
    from kvproof.storage_report import StorageReport, compare_storages

__all__ = [
    "LAB",
    "MODERN",
    "REFERENCE",
    "BlindSpots",
    "Call",
    "Claim",
    "ConcatCache",
    "Costs",
    "DecoderConfig",
    "FastDecoder",
    "Finding",
    "KVCache",
    "KeptBytes",
    "MaskReport",
    "MaskResult",
    "Params",
    "Proof",
    "Report",
    "StaleCacheError",
    "StorageReport",
    "TrimReport",
    "assert_cache_matches",
    "blind_spots",
    "check",
    "compare_storages",
    "count_costs",
    "decode",
    "decoder_result",
    "every_prefix",
    "example_tokens",
    "example_vectors",
    "forward",
    "in_chunks",
    "init_params",
    "mask_result",
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
    "plan_memory",
    "prove",
    "receptive_field",
    "report",
    "restarted_positions",
    "scaled_dot_product_attention",
    "top_left_mask",
    "trace_calls",
    "trim_or_refeed",
]


_LATE = {
    "BlindSpots": "error_map",
    "Call": "call_trace",
    "Finding": "checking",
    "KeptBytes": "memory_plan",
    "Report": "checking",
    "StorageReport": "storage_report",
    "assert_cache_matches": "checking",
    "blind_spots": "error_map",
    "check": "checking",
    "compare_storages": "storage_report",
    "decoder_result": "checking.one_call",
    "plan_memory": "memory_plan",
    "trace_calls": "call_trace",
}


def __getattr__(name: str) -> Any:
    """Names that are imported when they are first used: the page starts sooner without."""
    if name in ("adapters", "zoo"):
        return import_module(f"kvproof.{name}")
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"kvproof.{_LATE[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
