"""What a cached decoder is held against: the plain one, on the padded batch and on each row alone.

An int8 cache has a reference of its own: the plain decoder whose attention reads rounded keys and
values, rounded here and not by the cache.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from kvproof import DecoderConfig, Params, forward, init_params
from kvproof.model import layers
from kvproof.model.layers import Tokens
from kvproof.model.masks import IntArray
from kvproof.model.params import FloatArray

TINY = DecoderConfig(
    width=8,
    n_heads=2,
    n_kv_heads=1,
    vocab_size=11,
    mlp_width=8,
    max_positions=24,
    positions="rope",
    window=4,
    n_sinks=1,
)

tiny_params = cache(init_params)
"""Parameters of (config, seed, dtype), drawn once; never written to."""


def splits(n_total: int) -> list[list[int]]:
    """All 2**(n_total - 1) ways to cut a text into chunks."""
    if n_total == 0:
        return [[]]
    return [[first, *rest] for first in range(1, n_total + 1) for rest in splits(n_total - first)]


def random_tokens(config: DecoderConfig, batch_size: int, n: int, seed: int) -> Tokens:
    """IDs (B, n), or vectors (B, n, W) for a decoder without a vocabulary."""
    rng = np.random.default_rng(seed)
    if config.vocab_size is None:
        return rng.standard_normal((batch_size, n, config.width))
    return rng.integers(config.vocab_size, size=(batch_size, n))


def rows_alone(
    params: Params, tokens: Tokens, config: DecoderConfig, padding: IntArray
) -> list[FloatArray]:
    """Logits of each row's real tokens, recomputed without padding and without the other rows."""
    return [
        forward(params, tokens[[row], start:], config)[0]
        if start < tokens.shape[1]
        else np.zeros((0, 1), params.dtype)
        for row, start in enumerate(padding)
    ]


def max_error(actual: FloatArray, expected: FloatArray) -> float:
    """Largest absolute difference of two arrays that are of one shape and dtype."""
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    return float(np.abs(actual - expected).max())


def largest_error(logits: FloatArray, expected: list[FloatArray]) -> float:
    """Largest difference between the last rows of both, over a batch; NaN if there is one.

    ``logits`` (B, C, V) are those of a call; ``expected`` a row's real tokens from its first on,
    of which the call has fed the last C or fewer.
    """
    errors = [0.0]
    for actual, wanted in zip(logits, expected, strict=True):
        n_real = min(len(actual), len(wanted))
        if n_real:
            errors.append(np.abs(actual[-n_real:] - wanted[-n_real:]).max())
    return float(np.max(errors))


def rounded_to_int8(x: FloatArray) -> FloatArray:
    """Each vector of the last axis to 255 levels, as the definition reads."""
    largest = np.max(np.abs(x), axis=-1, keepdims=True)
    step: FloatArray = np.where(largest == 0, 1, largest) / 127
    rounded: FloatArray = np.round(x / step) * step
    return rounded


@contextmanager
def reads_int8(yes: bool = True) -> Iterator[None]:
    """Inside, attention reads keys and values that are rounded to int8."""
    exact = layers.scaled_dot_product_attention

    def rounded(
        q: FloatArray, k: FloatArray, v: FloatArray, *rest: NDArray[np.generic]
    ) -> FloatArray:
        return exact(q, rounded_to_int8(k), rounded_to_int8(v), *rest)  # type: ignore[arg-type]

    with patch.object(layers, "scaled_dot_product_attention", rounded if yes else exact):
        yield
