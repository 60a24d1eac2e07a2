"""kvproof: a transformer decoder with a KV cache, and the proof that the cache is right.

NumPy and the standard library only; the same code runs in CPython and in the browser.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kvproof.experiments.compare_masks import MaskReport, MaskResult, compare_masks, mask_result
from kvproof.experiments.costs import Costs, count_costs, measure_costs
from kvproof.experiments.proof import Claim, Proof, prove
from kvproof.experiments.receptive_field import (
    TrimReport,
    perturb_future,
    receptive_field,
    trim_or_refeed,
)
from kvproof.model.cache import ConcatCache, KVCache, StaleCacheError, new_cache
from kvproof.model.cached_decoder import decode
from kvproof.model.config import LAB, MODERN, REFERENCE, DecoderConfig
from kvproof.model.decoder import forward
from kvproof.model.fast_decoder import FastDecoder
from kvproof.model.feeding import (
    every_prefix,
    example_tokens,
    example_vectors,
    in_chunks,
    one_by_one,
)
from kvproof.model.layers import scaled_dot_product_attention
from kvproof.model.masks import (
    offset_mask,
    offset_positions,
    open_mask,
    restarted_positions,
    top_left_mask,
)
from kvproof.model.params import (
    Params,
    init_params,
    parameter_count,
    params_from_arrays,
    params_to_arrays,
)
from kvproof.model.precision import round_params, round_to

__version__ = "0.1.0"

if TYPE_CHECKING:
    from kvproof.checking import Finding, Report, assert_cache_matches, check
    from kvproof.experiments.blind_spots import BlindSpots, blind_spots
    from kvproof.experiments.call_trace import Feed, Step, TakeBack, trace_calls
    from kvproof.experiments.compare_storages import StorageReport, compare_storages
    from kvproof.experiments.memory_plan import KeptBytes, plan_memory
    from kvproof.experiments.one_call import decoder_result

__all__ = [
    "LAB",
    "MODERN",
    "REFERENCE",
    "BlindSpots",
    "Claim",
    "ConcatCache",
    "Costs",
    "DecoderConfig",
    "FastDecoder",
    "Feed",
    "Finding",
    "KVCache",
    "KeptBytes",
    "MaskReport",
    "MaskResult",
    "Params",
    "Proof",
    "Report",
    "StaleCacheError",
    "Step",
    "StorageReport",
    "TakeBack",
    "TrimReport",
    "assert_cache_matches",
    "blind_spots",
    "check",
    "compare_masks",
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
    "restarted_positions",
    "round_params",
    "round_to",
    "scaled_dot_product_attention",
    "top_left_mask",
    "trace_calls",
    "trim_or_refeed",
]


_LATE = {
    "BlindSpots": "experiments.blind_spots",
    "Feed": "experiments.call_trace",
    "Finding": "checking",
    "KeptBytes": "experiments.memory_plan",
    "Report": "checking",
    "Step": "experiments.call_trace",
    "StorageReport": "experiments.compare_storages",
    "TakeBack": "experiments.call_trace",
    "assert_cache_matches": "checking",
    "blind_spots": "experiments.blind_spots",
    "check": "checking",
    "compare_storages": "experiments.compare_storages",
    "decoder_result": "experiments.one_call",
    "plan_memory": "experiments.memory_plan",
    "trace_calls": "experiments.call_trace",
}


def __getattr__(name: str) -> Any:
    """Names that are imported when they are first used: the page starts sooner without."""
    if name in ("adapters", "story", "zoo"):
        return import_module(f"kvproof.{name}")
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"kvproof.{_LATE[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
