"""Ways to feed the same text: every prefix anew, token by token, in chunks.

All of them give the logits of every position, so that they can be held against one ``forward``.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kvproof.model.cache import KVCache, new_cache
from kvproof.model.cached_decoder import decode
from kvproof.model.config import REFERENCE, DecoderConfig
from kvproof.model.decoder import forward
from kvproof.model.masks import Mask, Positions, check_integer, offset_mask, offset_positions
from kvproof.model.params import FloatArray, Params

WORKED_EXAMPLE = (12, 7, 31, 4, 9, 18)
"""Six token IDs to look at closely: prefill four, then feed two in one call."""


def example_tokens(
    n_total: int, batch_size: int = 1, config: DecoderConfig = REFERENCE
) -> NDArray[np.int64]:
    """Token IDs (batch_size, n_total): the worked example, then a fixed random continuation.

    A longer text begins with the shorter one, so that sliders extend a text instead of
    replacing it.  A larger batch adds rows of other texts.  IDs that the vocabulary lacks are
    taken modulo its size.

    Args:
        n_total: tokens of each row.
        batch_size: rows.
        config: the decoder that shall read them.

    Raises:
        ValueError: ``n_total`` isn't between 1 and the decoder's positions, ``batch_size`` is
            less than 1, or the decoder has no vocabulary (see ``example_vectors``).

    Example:
        >>> kvproof.example_tokens(6)
        array([[12,  7, 31,  4,  9, 18]])
    """
    if config.vocab_size is None:
        raise ValueError("this decoder reads vectors, not token IDs: use example_vectors")
    rng = _rng(n_total, batch_size, config)
    tokens = rng.integers(config.vocab_size, size=(batch_size, config.max_positions))
    n_example = min(len(WORKED_EXAMPLE), config.max_positions)
    tokens[0, :n_example] = np.array(WORKED_EXAMPLE[:n_example]) % config.vocab_size
    return tokens[:, :n_total]


def example_vectors(
    n_total: int, batch_size: int = 1, config: DecoderConfig = REFERENCE
) -> NDArray[np.float64]:
    """Vectors (batch_size, n_total, width), standard normal: a text for a decoder without IDs.

    Args:
        n_total: vectors of each row.
        batch_size: rows.
        config: the decoder that shall read them.

    Raises:
        ValueError: ``n_total`` isn't between 1 and the decoder's positions, or ``batch_size`` is
            less than 1.

    Example:
        >>> kvproof.example_vectors(6, config=kvproof.LAB).shape
        (1, 6, 16)
    """
    rng = _rng(n_total, batch_size, config)
    shape = (batch_size, config.max_positions, config.width)
    return rng.standard_normal(shape)[:, :n_total]


def example_text(config: DecoderConfig, n_total: int, batch_size: int = 1) -> NDArray[np.generic]:
    """What this decoder reads: ``example_tokens``, or ``example_vectors`` without a vocabulary."""
    if config.vocab_size is None:
        return example_vectors(n_total, batch_size, config)
    return example_tokens(n_total, batch_size, config)


def _rng(n_total: int, batch_size: int, config: DecoderConfig) -> np.random.Generator:
    n_total = check_integer("n_total", n_total)
    if not 1 <= n_total <= config.max_positions:
        raise ValueError(f"n_total must be 1..{config.max_positions}, got {n_total}")
    check_integer("batch_size", batch_size, least=1)
    return np.random.default_rng(2026)


def every_prefix(params: Params, tokens: ArrayLike, config: DecoderConfig) -> FloatArray:
    """Without a cache: recompute each prefix of the text, keep its last row; (B, T, V).

    Args:
        params: parameters.
        tokens: int (B, T), or vectors (B, T, W).
        config: the configuration that ``params`` was made with.

    Raises:
        ValueError: as ``forward``.

    Example:
        >>> params = kvproof.init_params(kvproof.REFERENCE)
        >>> tokens = kvproof.example_tokens(6)
        >>> last_rows = kvproof.every_prefix(params, tokens, kvproof.REFERENCE)
        >>> np.allclose(last_rows, kvproof.forward(params, tokens, kvproof.REFERENCE), atol=1e-5)
        True
    """
    text = np.asarray(tokens)
    ends = range(1, text.shape[1] + 1)
    last_rows = [forward(params, text[:, :end], config)[:, -1:] for end in ends]
    return np.concatenate(last_rows, axis=1)


def one_by_one(
    params: Params, tokens: ArrayLike, config: DecoderConfig, cache: KVCache | None = None
) -> tuple[FloatArray, KVCache]:
    """One call a token: ``in_chunks`` of one.

    Args:
        params: parameters.
        tokens: int (B, T), or vectors (B, T, W).
        config: the configuration that ``params`` was made with.
        cache: what comes before; None: nothing, in a new ``concat`` cache.

    Returns:
        logits (B, T, V) of all calls, and the last call's cache.

    Raises:
        ValueError: as ``decode``.

    Example:
        >>> params = kvproof.init_params(kvproof.REFERENCE)
        >>> tokens = kvproof.example_tokens(6)
        >>> logits, cache = kvproof.one_by_one(params, tokens, kvproof.REFERENCE)
        >>> logits.shape, cache.length
        ((1, 6, 97), 6)
    """
    return in_chunks(params, tokens, config, [1] * np.asarray(tokens).shape[1], cache)


def in_chunks(
    params: Params,
    tokens: ArrayLike,
    config: DecoderConfig,
    sizes: Sequence[int],
    cache: KVCache | None = None,
    lengths: ArrayLike | None = None,
    mask: Mask = offset_mask,
    positions: Positions = offset_positions,
) -> tuple[FloatArray, KVCache]:
    """One call a chunk: the logits (B, T, V) of all of them, and the last call's cache.

    Args:
        params: parameters.
        tokens: int (B, T), or vectors (B, T, W).
        config: the configuration that ``params`` was made with.
        sizes: tokens of each call; they add up to T.
        cache: what comes before; None: nothing, in a new ``concat`` cache.
        lengths: int (B,), real tokens of each row of the whole text; None: all.
        mask: as for ``decode``.
        positions: as for ``decode``.

    Raises:
        ValueError: ``sizes`` don't add up to T, or as ``decode``.

    Example:
        >>> params = kvproof.init_params(kvproof.REFERENCE)
        >>> tokens = kvproof.example_tokens(24)
        >>> logits, cache = kvproof.in_chunks(params, tokens, kvproof.REFERENCE, [5, 3, 7, 9])
        >>> np.allclose(logits, kvproof.forward(params, tokens, kvproof.REFERENCE), atol=1e-5)
        True
    """
    text = np.asarray(tokens)
    batch_size, n_total = text.shape[:2]
    if sum(sizes) != n_total or min(sizes, default=0) < 1:
        raise ValueError(f"chunks of {list(sizes)} don't cut a text of {n_total} tokens")
    cache = new_cache(config, batch_size, params.dtype) if cache is None else cache
    logits = []
    for end, size in zip(np.cumsum(sizes), sizes, strict=True):
        chunk = text[:, end - size : end]
        real = None if lengths is None else real_tokens(lengths, n_total, end - size, size)
        new_logits, cache = decode(params, chunk, cache, config, mask, real, positions)
        logits.append(new_logits)
    return np.concatenate(logits, axis=1), cache


def real_tokens(lengths: ArrayLike, n_total: int, start: int, size: int) -> NDArray[np.int64]:
    """How many tokens of the chunk ``start .. start + size - 1`` are real, int (B,).

    ``lengths`` (B,) counts the real tokens of the whole text (B, n_total), at its right end.
    """
    padding: NDArray[np.int64] = n_total - np.asarray(lengths)
    return np.clip(start + size - padding, 0, size)
