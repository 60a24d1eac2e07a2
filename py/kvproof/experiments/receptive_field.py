"""Two experiments on what a cached key or value knows.

A key of the first layer depends on its own token alone.  From the second layer on it also depends
on all that its token has attended to: what lies before it, never after it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kvproof.model.cache import ConcatCache, KVCache, new_cache
from kvproof.model.cached_decoder import decode
from kvproof.model.config import LAB, DecoderConfig
from kvproof.model.feeding import example_text
from kvproof.model.masks import (
    BoolArray,
    IntArray,
    Mask,
    Positions,
    check_integer,
    offset_mask,
    offset_positions,
    visible_keys,
)
from kvproof.model.params import init_params


def perturb_future(
    changed: int,
    n_total: int = 24,
    config: DecoderConfig = LAB,
    seed: int = 0,
    dtype: DTypeLike = "float64",
    mask: Mask = offset_mask,
) -> NDArray[np.float64]:
    """Change one token of a text; how far does each position's output move?

    With a causal mask exactly 0 before position ``changed``.  ``open_mask`` shows a leak.

    Args:
        changed: position of the token that is replaced, 0 .. n_total - 1.
        n_total: tokens of the text.
        config: the decoder.
        seed: of its parameters.
        dtype: "float32" or "float64".
        mask: which keys each query sees.

    Returns:
        (n_total,), the largest absolute difference in each position's output.

    Raises:
        ValueError: ``changed``, ``n_total`` or ``dtype`` is out of range.

    Example:
        >>> kvproof.perturb_future(3, n_total=6) > 0
        array([False, False, False,  True,  True,  True])
    """
    changed = check_integer("changed", changed)
    before = example_text(config, n_total)
    if not 0 <= changed < n_total:
        raise ValueError(f"changed must be 0..{n_total - 1}, got {changed}")
    params = init_params(config, seed, dtype)
    after = before.copy()
    after[:, changed] = another_token(before[:, changed], config)
    outputs = [
        decode(params, text, new_cache(config, dtype=dtype), config, mask)[0]
        for text in (before, after)
    ]
    moves: NDArray[np.float64] = np.abs(outputs[1] - outputs[0])[0].max(axis=-1)
    return moves


def another_token(token: NDArray[np.generic], config: DecoderConfig) -> NDArray[np.generic]:
    """The next ID of the vocabulary, or the opposite vector without one."""
    values: NDArray[Any] = token
    return -values if config.vocab_size is None else (values + 1) % config.vocab_size


@dataclass(frozen=True, eq=False)
class TrimReport:
    """The last keys and values of a long text, beside those of its end fed anew."""

    n_total: int
    kept: int
    refed: int
    key_errors: NDArray[np.float64]
    """(n_layers,): largest difference between the kept keys and those fed anew."""
    value_errors: NDArray[np.float64]
    """(n_layers,): the same of the values."""
    next_error: float
    """Largest difference in the next token's output after the one cache and the other."""
    kept_seen: BoolArray
    """(n_layers, kept, n_total): tokens that the kept keys and values depend on."""
    refed_seen: BoolArray
    """The same of those fed anew: they can't know what wasn't fed."""


def trim_or_refeed(
    n_total: int = 24,
    kept: int = 4,
    refed: int | None = None,
    config: DecoderConfig = LAB,
    seed: int = 0,
    dtype: DTypeLike = "float64",
) -> TrimReport:
    """Is a cache trimmed to its last slots the same as feeding only those tokens again?

    It isn't, from the second layer on: the kept keys and values were computed when their tokens
    still saw the whole text.  Both sides use the tokens' original positions, so that the first
    layer, which looks at single tokens, agrees.  With a window of W it is enough to feed
    ``(n_layers - 1) * (W - 1)`` tokens more than are kept.

    Args:
        n_total: tokens of the text.
        kept: last slots to compare, and to continue from.
        refed: last tokens that are fed again, at least ``kept``; None: as many as are kept.
        config: the decoder; one position more than ``n_total`` for the next token.
        seed: of its parameters.
        dtype: "float32" or "float64".

    Raises:
        ValueError: not 1 <= kept <= refed <= n_total < the decoder's positions, or ``dtype`` is
            out of range.

    Example:
        >>> kvproof.trim_or_refeed(n_total=24, kept=4).key_errors.round(2)
        array([0.  , 0.54])
    """
    n_total, kept = check_integer("n_total", n_total), check_integer("kept", kept)
    refed = kept if refed is None else check_integer("refed", refed)
    if not 1 <= kept <= refed <= n_total < config.max_positions:
        raise ValueError(
            f"needs 1 <= kept <= refed <= n_total < {config.max_positions}, "
            f"got kept {kept}, refed {refed}, n_total {n_total}"
        )
    params = init_params(config, seed, dtype)
    text = example_text(config, n_total + 1)
    empty = new_cache(config, dtype=dtype)
    _, whole = decode(params, text[:, :n_total], empty, config)
    ending = text[:, n_total - refed : n_total]
    _, anew = decode(params, ending, empty, config, positions=positions_from(n_total - refed))
    caches = [last_slots(whole, kept), last_slots(anew, kept)]
    outputs = [
        decode(params, text[:, -1:], cache, config, positions=positions_from(n_total - kept))[0]
        for cache in caches
    ]
    trimmed, fed_anew = (np.array(cache.keys_values()) for cache in caches)  # (L, 2, 1, H, S, D)
    errors = np.abs(trimmed - fed_anew).max(axis=(2, 3, 4, 5)).astype(np.float64)
    next_error = float(np.abs(outputs[0] - outputs[1]).max())
    kept_seen = receptive_field(n_total, config)[:, -kept:]
    unfed = ((0, 0), (0, 0), (n_total - refed, 0))
    refed_seen = np.pad(receptive_field(refed, config)[:, -kept:], unfed)
    return TrimReport(
        n_total, kept, refed, errors[:, 0], errors[:, 1], next_error, kept_seen, refed_seen
    )


def receptive_field(n_total: int, config: DecoderConfig = LAB) -> BoolArray:
    """Which tokens of a text each layer's keys and values depend on.

    Those of the first layer depend on their own token; those of each next layer on all that the
    queries beneath have seen.

    Args:
        n_total: tokens of the text.
        config: of its layers, window and sinks.

    Returns:
        bool (n_layers, n_total, n_total): layer, position of the key, position of the token.

    Raises:
        ValueError: ``n_total`` is less than 1.

    Example:
        >>> first, second = kvproof.receptive_field(3)
        >>> first.astype(int)
        array([[1, 0, 0],
               [0, 1, 0],
               [0, 0, 1]])
        >>> second.astype(int)
        array([[1, 0, 0],
               [1, 1, 0],
               [1, 1, 1]])
    """
    causal = offset_mask(0, n_total)
    keys, no_padding = np.arange(n_total)[None], np.zeros(1, np.int64)
    visible = visible_keys(causal, keys, no_padding, config.window, config.n_sinks)[0, 0]
    seen = [np.eye(n_total, dtype=np.bool_)]
    for _ in range(config.n_layers - 1):
        seen.append(visible @ seen[-1])  # what any visible key has seen
    return np.array(seen)


def last_slots(cache: KVCache, kept: int) -> ConcatCache:
    """A cache of the last ``kept`` slots alone; what they have seen earlier stays in them."""
    pairs = cache.keys_values()
    keys = [k[:, :, -kept:] for k, _ in pairs]
    values = [v[:, :, -kept:] for _, v in pairs]
    return ConcatCache(cache.shape, keys, values, kept)


def positions_from(start: int) -> Positions:
    """Positions of a text that begins at ``start`` although its cache begins at 0."""

    def positions(n_past: int, n_new: int) -> IntArray:
        return offset_positions(start + n_past, n_new)

    return positions
