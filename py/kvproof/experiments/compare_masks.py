"""The right mask beside the wrong one, each held against a full recompute.

``compare_masks`` is what the page's mask lab, the notebook and the tests all call, so that a number
exists once.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kvproof.model.cache import KVCache, new_cache
from kvproof.model.cached_decoder import decode
from kvproof.model.config import REFERENCE, DecoderConfig
from kvproof.model.decoder import forward
from kvproof.model.feeding import example_tokens
from kvproof.model.masks import (
    BoolArray,
    Mask,
    check_lengths,
    offset_mask,
    top_left_mask,
)
from kvproof.model.params import FloatArray, Params, init_params
from kvproof.model.precision import ROUND, precision_name, round_params
from kvproof.model.rounding import rounding_floor


@dataclass(frozen=True, eq=False)
class MaskResult:
    """What one mask does to the new tokens' logits, compared with a full recompute."""

    mask: BoolArray
    """(n_new, n_past + n_new), True = may attend."""
    row_errors: NDArray[np.float64]
    """(n_new,): largest absolute logit error of each row; NaN where a logit isn't a number."""
    argmax_agreement: float
    """Share of rows, 0 to 1, whose largest logit has the same ID as in the recompute; a row with
    a NaN has no largest logit."""
    n_nan: int
    """Logits that aren't a number."""

    @property
    def max_abs_error(self) -> float:
        """Largest absolute logit error of all rows; NaN if any logit isn't a number."""
        return float(self.row_errors.max())

    @property
    def worst_row(self) -> int:
        """The row with the largest error (a NaN counts as the largest), 0 = first new token."""
        return int(self.row_errors.argmax())

    @property
    def right_mask(self) -> BoolArray:
        """(n_new, n_past + n_new): keys ``j <= n_past + i`` of query ``i``.

        Drawn from the definition and not from ``offset_mask``, which it judges as well.
        """
        n_new, n_total = self.mask.shape
        return np.tri(n_new, n_total, k=n_total - n_new, dtype=np.bool_)

    @property
    def wrongly_hidden(self) -> BoolArray:
        """(n_new, n_past + n_new): keys of ``right_mask`` that this mask hides."""
        return self.right_mask & ~self.mask

    @property
    def wrongly_hidden_keys(self) -> int:
        """How many there are."""
        return int(self.wrongly_hidden.sum())

    @property
    def wrongly_seen(self) -> BoolArray:
        """(n_new, n_past + n_new): keys ``j > n_past + i``, the future, that query ``i`` sees."""
        return self.mask & ~self.right_mask


@dataclass(frozen=True, eq=False)
class MaskReport:
    """The right mask beside the wrong one, for one history length and chunk size."""

    n_past: int
    n_new: int
    dtype: str
    rounding_floor: float
    """One unit of rounding at the largest logit: ``eps(precision) * max |logit|``."""
    offset: MaskResult
    top_left: MaskResult

    @property
    def wrongly_hidden(self) -> BoolArray:
        """(n_new, n_past + n_new): keys that the top-left mask hides and shouldn't."""
        return self.top_left.wrongly_hidden

    @property
    def wrongly_hidden_keys(self) -> int:
        """How many there are; always ``n_past * n_new``: each row forgets the whole history."""
        return self.top_left.wrongly_hidden_keys


def compare_masks(
    n_past: int, n_new: int, dtype: DTypeLike = "float64", seed: int = 0
) -> MaskReport:
    """Feed ``n_new`` tokens after ``n_past`` cached ones with each mask; compare the logits.

    The history is prefilled with the right mask in both cases, so the error is that of the one
    call under test.

    Args:
        n_past: tokens in the cache, P >= 0.
        n_new: tokens of the call, C >= 1; P + C at most 512.
        dtype: "float64", "float32", "float16" or "bfloat16" (``kvproof.round_params``).
        seed: seed of the reference decoder's parameters.

    Raises:
        ValueError: a length or the dtype is out of range.

    Example:
        >>> result = kvproof.compare_masks(n_past=4, n_new=2)
        >>> round(result.top_left.max_abs_error, 3), result.wrongly_hidden_keys
        (0.699, 8)
        >>> result.offset.max_abs_error < 10 * result.rounding_floor
        True
    """
    n_past, n_new = check_lengths(n_past, n_new)
    name = precision_name(dtype)
    expected = recomputed(n_past + n_new, name, seed)[:, n_past:]
    floor = rounding_floor(expected)
    right, wrong = (
        mask_result(mask, n_past, n_new, name, seed) for mask in (offset_mask, top_left_mask)
    )
    return MaskReport(n_past, n_new, name, floor, right, wrong)


def mask_result(
    mask: Mask, n_past: int, n_new: int, dtype: DTypeLike = "float64", seed: int = 0
) -> MaskResult:
    """What any mask does in the call that ``compare_masks`` looks at.

    Args:
        mask: ``mask(n_past, n_new)`` -> bool (n_new, n_past + n_new), True = may attend.
        n_past: tokens in the cache, P >= 0.
        n_new: tokens of the call, C >= 1; P + C at most 512.
        dtype: "float64", "float32", "float16" or "bfloat16" (``kvproof.round_params``).
        seed: seed of the reference decoder's parameters.

    Raises:
        ValueError: a length or the dtype is out of range, or the mask isn't such an array.

    Example:
        >>> kvproof.mask_result(kvproof.open_mask, 4, 1).max_abs_error < 1e-14
        True
        >>> kvproof.mask_result(kvproof.open_mask, 4, 2).max_abs_error > 0.01
        True
    """
    n_past, n_new = check_lengths(n_past, n_new)
    name = precision_name(dtype)
    tokens = example_tokens(n_past + n_new)[:, n_past:]
    expected = recomputed(n_past + n_new, name, seed)[:, n_past:]
    cache = prefilled(n_past, name, seed)
    logits, _ = decode(_params(name, seed, REFERENCE), tokens, cache, REFERENCE, mask=mask)
    return compare(logits, expected, np.asarray(mask(n_past, n_new)))


def compare(logits: FloatArray, expected: FloatArray, mask: BoolArray) -> MaskResult:
    """Hold logits against the recomputed ones of the same consumed positions, both (1, C, V)."""
    row_errors = np.abs(logits.astype(np.float64) - expected)[0].max(axis=-1)  # (C,)
    agrees = (logits.argmax(-1) == expected.argmax(-1))[0] & ~np.isnan(row_errors)  # (C,)
    return MaskResult(mask, row_errors, float(agrees.mean()), int(np.isnan(logits).sum()))


# A slider revisits the same few histories.  None of these results is ever written to, so one copy
# serves all calls.
@lru_cache(maxsize=8)
def _params(dtype: str, seed: int, config: DecoderConfig) -> Params:
    if dtype not in ROUND:
        return init_params(config, seed, dtype)
    return round_params(init_params(config, seed), config, dtype)


@lru_cache(maxsize=128)
def recomputed(
    n_total: int, dtype: str, seed: int, config: DecoderConfig = REFERENCE
) -> FloatArray:
    """Logits (1, n_total, V) of a decoder's example text; only to be read."""
    return forward(_params(dtype, seed, config), example_tokens(n_total), config)


@lru_cache(maxsize=128)
def prefilled(n_past: int, dtype: str, seed: int, config: DecoderConfig = REFERENCE) -> KVCache:
    """The cache of that text's first tokens."""
    params = _params(dtype, seed, config)
    cache = new_cache(config, dtype=params.dtype)
    return decode(params, example_tokens(n_past), cache, config)[1] if n_past else cache
