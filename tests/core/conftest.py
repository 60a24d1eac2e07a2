"""What most tests of the core need: parameters in both precisions, and one way to feed a text."""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest
import torch
from numpy.typing import ArrayLike

from kvproof import (
    REFERENCE,
    DecoderConfig,
    KVCache,
    Params,
    decode,
    init_params,
    new_cache,
    offset_mask,
    offset_positions,
)
from kvproof.model.masks import Mask, Positions
from kvproof.model.params import FloatArray

# On arrays this small PyTorch's threads only wait for each other: 30 times slower with two.
torch.set_num_threads(1)

Feed = Callable[..., tuple[FloatArray, KVCache]]


@pytest.fixture(params=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def params(dtype: str) -> Params:
    """The reference decoder's parameters of seed 0; never written to."""
    return _reference_params(dtype)


@pytest.fixture
def tolerance(dtype: str) -> float:
    """What a right cache may be off by: room for a few units of rounding, none for a mistake."""
    return {"float32": 2e-6, "float64": 1e-14}[dtype]


@pytest.fixture
def feed() -> Feed:
    return _feed


def _feed(
    params: Params,
    tokens: ArrayLike,
    chunks: Sequence[int],
    config: DecoderConfig = REFERENCE,
    mask: Mask = offset_mask,
    positions: Positions = offset_positions,
) -> tuple[FloatArray, KVCache]:
    """All logits (B, T, V) and the final cache of a text fed in calls of these lengths."""
    tokens = np.asarray(tokens)
    assert sum(chunks) == tokens.shape[1]
    kv_cache = new_cache(config, len(tokens), params.dtype)
    logits = []
    for chunk in np.split(tokens, np.cumsum(chunks)[:-1], axis=1):
        new_logits, kv_cache = decode(
            params, chunk, kv_cache, config, mask=mask, positions=positions
        )
        logits.append(new_logits)
    return np.concatenate(logits, axis=1), kv_cache


@cache
def _reference_params(dtype: str) -> Params:
    return init_params(REFERENCE, 0, dtype)
