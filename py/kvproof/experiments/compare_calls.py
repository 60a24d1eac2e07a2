"""One call on a cache, made rightly and with a mistake: what each says next, and how far it is off.

``compare_masks`` asks the same of the reference decoder and its random text; here the parameters,
the text and the mistake are the caller's.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kvproof.experiments.compare_masks import MaskResult, compare
from kvproof.model.cache import KVCache, new_cache
from kvproof.model.cached_decoder import decode
from kvproof.model.config import DecoderConfig
from kvproof.model.decoder import forward
from kvproof.model.masks import (
    IntArray,
    Mask,
    Positions,
    check_lengths,
    offset_mask,
    offset_positions,
)
from kvproof.model.params import FloatArray, Params
from kvproof.model.precision import precision_of
from kvproof.model.rounding import rounding_floor


@dataclass(frozen=True, eq=False)
class CallResult(MaskResult):
    """What one way to make the call comes to, beside a decoder without a cache."""

    positions: IntArray
    """(n_new,): where the call takes its tokens to stand."""
    next_token: int
    """The most likely token after the last one."""

    def is_made_like(self, other: "CallResult") -> bool:
        """Whether both calls use the same mask and the same positions."""
        return np.array_equal(self.mask, other.mask) and np.array_equal(
            self.positions, other.positions
        )


@dataclass(frozen=True, eq=False)
class CallReport:
    """A call after ``n_past`` cached tokens, made rightly and with a mistake."""

    n_past: int
    n_new: int
    dtype: str
    """What its numbers are rounded to: "float64", "float32", "float16" or "bfloat16"."""
    rounding_floor: float
    """One unit of rounding at the largest logit: ``eps(dtype) * max |logit|``."""
    next_token: int
    """The most likely token after the text, as a decoder without a cache says."""
    right: CallResult
    wrong: CallResult


def compare_calls(
    params: Params,
    config: DecoderConfig,
    tokens: Sequence[int],
    n_past: int,
    mask: Mask = offset_mask,
    positions: Positions = offset_positions,
) -> CallReport:
    """Read ``tokens[:n_past]`` into a cache, the rest in one more call, rightly and with a mistake.

    The history is read rightly in both cases, so the error is that of the one call.

    Args:
        params: of any decoder.
        config: its configuration.
        tokens: the text, T token IDs.
        n_past: tokens in the cache, 0 <= P < T; the call reads the other C = T - P.
        mask: the mistaken call's: ``mask(P, C)`` -> bool (C, T), True = may attend.
        positions: the mistaken call's: ``positions(P, C)`` -> int (C,).

    Raises:
        ValueError: nothing is left for the call, or tokens, mask or positions can't be read.

    Example:
        >>> from kvproof.experiments.compare_calls import compare_calls
        >>> params, config = kvproof.story.load_story_decoder("float64")
        >>> text = "Ada is in the tent. The key fell in the bag. Where's my key? In the"
        >>> tokens = kvproof.story.encode(text)
        >>> report = compare_calls(params, config, tokens, 11, mask=kvproof.top_left_mask)
        >>> kvproof.story.render([report.right.next_token, report.wrong.next_token])
        'bag. tent.'
        >>> report.right.max_abs_error < 10 * report.rounding_floor
        True
        >>> report.wrong.max_abs_error > 5
        True
    """
    n_past, n_new = check_lengths(n_past, len(tokens) - n_past)
    text = np.asarray(tokens)[None]  # (1, T)
    expected = forward(params, text, config)[:, n_past:]
    cache = new_cache(config, dtype=params.dtype)
    if n_past:
        _, cache = decode(params, text[:, :n_past], cache, config)

    def call(mask: Mask, positions: Positions) -> CallResult:
        return _call(params, config, text[:, n_past:], cache, expected, mask, positions)

    return CallReport(
        n_past,
        n_new,
        precision_of(expected),
        rounding_floor(expected),
        int(expected[0, -1].argmax()),
        call(offset_mask, offset_positions),
        call(mask, positions),
    )


def _call(
    params: Params,
    config: DecoderConfig,
    tokens: IntArray,
    cache: KVCache,
    expected: FloatArray,
    mask: Mask,
    positions: Positions,
) -> CallResult:
    """Tokens (1, C) after the cache; expected logits (1, C, V)."""
    lengths = cache.length, tokens.shape[1]
    logits, _ = decode(params, tokens, cache, config, mask=mask, positions=positions)
    compared = compare(logits, expected, np.asarray(mask(*lengths)))
    last = int(logits[0, -1].argmax())
    return CallResult(**vars(compared), positions=np.asarray(positions(*lengths)), next_token=last)
