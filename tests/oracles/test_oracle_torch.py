"""Every variant of the decoder, held against the same decoder written in PyTorch."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any, get_args

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.core.recompute import max_error
from tests.oracles.torch_decoder import TorchDecoder, alone

import kvproof.model.config
from kvproof import (
    LAB,
    MODERN,
    REFERENCE,
    DecoderConfig,
    Params,
    decode,
    forward,
    in_chunks,
    init_params,
    new_cache,
    params_to_arrays,
)
from kvproof.model.fast_decoder import FastDecoder

N_TOTAL, CHUNKS = 14, (4, 1, 1, 5, 3)
SMALL = DecoderConfig(width=24, vocab_size=31, mlp_width=40, max_positions=16)

POSITIONS = get_args(kvproof.model.config.Positions)
NORMS = get_args(kvproof.model.config.Norm)
MLPS = get_args(kvproof.model.config.Mlp)
HEADS = {"mha": 4, "gqa": 2, "mqa": 1}
WINDOWS = {"": (None, 0), "window": (5, 0), "sinks": (3, 2)}
VARIANTS = {
    " ".join(filter(None, (positions, heads, norm, mlp, window))): replace(
        SMALL,
        positions=positions,
        n_kv_heads=HEADS[heads],
        norm=norm,
        mlp=mlp,
        window=WINDOWS[window][0],
        n_sinks=WINDOWS[window][1],
    )
    for positions, heads, norm, mlp, window in product(POSITIONS, HEADS, NORMS, MLPS, WINDOWS)
}
VARIANTS |= {
    "reference": REFERENCE,
    "modern": MODERN,
    "lab": LAB,
    "lab alibi window": replace(LAB, positions="alibi", window=4),
    "three layers": replace(SMALL, n_layers=3, n_heads=3, n_kv_heads=1, positions="alibi"),
}


def text(config: DecoderConfig, batch_size: int, dtype: str) -> NDArray[np.generic]:
    """IDs (B, N_TOTAL), or vectors (B, N_TOTAL, W)."""
    rng = np.random.default_rng(7)
    if config.vocab_size is None:
        return rng.standard_normal((batch_size, N_TOTAL, config.width)).astype(dtype)
    return rng.integers(config.vocab_size, size=(batch_size, N_TOTAL))


@cache
def drawn(config: DecoderConfig, dtype: str) -> Params:
    return init_params(config, 3, dtype)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_is_pytorchs_plain_and_cached(
    variant: str, dtype: str, tolerance: float
) -> None:
    config = VARIANTS[variant]
    params, tokens = drawn(config, dtype), text(config, 2, dtype)
    expected, keys_values = TorchDecoder(params_to_arrays(params), config)(tokens)
    assert max_error(forward(params, tokens, config), expected) <= tolerance
    logits, kv_cache = in_chunks(params, tokens, config, CHUNKS)
    assert max_error(logits, expected) <= tolerance
    for (k, v), (expected_k, expected_v) in zip(kv_cache.keys_values(), keys_values, strict=True):
        assert max_error(k, expected_k) <= tolerance
        assert max_error(v, expected_v) <= tolerance


WAYS: dict[str, dict[str, Any]] = {
    "static": {"storage": "static", "capacity": N_TOTAL},
    "paged": {"storage": "paged", "block_size": 4},
    "rolling": {"storage": "rolling"},
}
SOME = [
    "reference",
    "modern",
    "lab alibi window",
    "rope gqa rmsnorm swiglu sinks",
    "learned mqa layernorm gelu window",
]


@pytest.mark.parametrize("fast", [False, True], ids=["plain", "fast"])
@pytest.mark.parametrize(
    ("variant", "way"),
    [(v, w) for v in SOME for w in WAYS if w != "rolling" or VARIANTS[v].window is not None],
)
def test_other_storages_and_the_tuned_decoder_are_pytorchs(
    variant: str, way: str, fast: bool, dtype: str, tolerance: float
) -> None:
    config = VARIANTS[variant]
    params, tokens = drawn(config, dtype), text(config, 2, dtype)
    expected, _ = TorchDecoder(params_to_arrays(params), config)(tokens)
    tuned = FastDecoder(params, config)
    kv_cache, logits = new_cache(config, 2, dtype, **WAYS[way]), []
    for chunk in np.split(tokens, np.cumsum(CHUNKS)[:-1], axis=1):
        if fast:
            new_logits, kv_cache = tuned.decode(chunk, kv_cache)
        else:
            new_logits, kv_cache = decode(params, chunk, kv_cache, config)
        logits.append(new_logits)
    assert max_error(np.concatenate(logits, axis=1), expected) <= tolerance


# --- Padding ------------------------------------------------------------------------------------

LENGTHS = (14, 9, 1)
"""Real tokens of three rows: no padding, some, and all but one."""


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("positions", POSITIONS)
def test_a_padded_row_is_the_row_alone(
    positions: str, heads: str, window: str, dtype: str, tolerance: float
) -> None:
    """Whole, and with the padding spread over the first three of five calls."""
    config = VARIANTS[" ".join(filter(None, (positions, heads, "layernorm", "gelu", window)))]
    params, tokens = drawn(config, dtype), text(config, 3, dtype)
    expected = alone(TorchDecoder(params_to_arrays(params), config), tokens, LENGTHS)
    whole = forward(params, tokens, config, lengths=LENGTHS)
    in_calls, _ = in_chunks(params, tokens, config, (3, 3, 5, 1, 2), lengths=LENGTHS)
    for batch in (whole, in_calls):
        assert np.isfinite(batch).all(), "padding must not become NaN"
        for row, length, wanted in zip(batch, LENGTHS, expected, strict=True):
            assert max_error(row[N_TOTAL - length :], wanted) <= tolerance


@pytest.mark.parametrize("positions", POSITIONS)
def test_the_comparison_would_see_that_pads_are_read(positions: str) -> None:
    """Control: the padded row as if its pads were text."""
    config = VARIANTS[f"{positions} gqa layernorm gelu"]
    params, tokens = drawn(config, "float64"), text(config, 3, "float64")
    expected = alone(TorchDecoder(params_to_arrays(params), config), tokens, LENGTHS)
    unaware = forward(params, tokens, config)
    assert max_error(unaware[0], expected[0]) <= 1e-14
    assert max_error(unaware[1, N_TOTAL - LENGTHS[1] :], expected[1]) > 0.1


# --- Controls: a decoder that makes one other choice --------------------------------------------


class SeesTheFuture(TorchDecoder):
    def visible(self, n_total: int) -> torch.Tensor:
        return torch.ones(n_total, n_total, dtype=torch.bool)


class ForgetsThePast(TorchDecoder):
    """The last five tokens as if a top-left mask had been used for them."""

    def visible(self, n_total: int) -> torch.Tensor:
        seen = super().visible(n_total)
        seen[-5:] = torch.ones(5, n_total, dtype=torch.bool).tril()
        return seen


class RestartsPositions(TorchDecoder):
    def positions(self, n_total: int) -> torch.Tensor:
        return torch.arange(n_total) % (n_total - 5)


class InterleavesHeads(TorchDecoder):
    """0 1 0 1 in place of 0 0 1 1."""

    def kv_head_of(self) -> torch.Tensor:
        return torch.arange(self.config.n_heads) % self.config.n_kv_heads


class TurnsNeighbours(TorchDecoder):
    """The other convention of RoPE: features 2d and 2d + 1 are a pair."""

    def turn(self, x: torch.Tensor, n_total: int) -> torch.Tensor:
        half = self.config.head_dim // 2
        order = torch.arange(2 * half).reshape(half, 2).T.flatten()
        return super().turn(x[..., order], n_total)[..., order.argsort()]


class TurnsKeysBackwards(TorchDecoder):
    def positions(self, n_total: int) -> torch.Tensor:
        return -torch.arange(n_total)


class FirstSlopeIsOne(TorchDecoder):
    """Slopes 1, r, r^2, ... in place of r, r^2, r^3, ..."""

    def slopes(self) -> torch.Tensor:
        return super().slopes().roll(1).index_fill(0, torch.tensor([0]), 1.0)


class ExactGelu(TorchDecoder):
    def gelu(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x)


class UpBeforeGate(TorchDecoder):
    def gate(self, x: torch.Tensor) -> torch.Tensor:
        return super().gate(x.roll(x.shape[-1] // 2, dims=-1))


class SmallerEps(TorchDecoder):
    eps = 1e-6


def other(**changes: object) -> Callable[..., TorchDecoder]:
    """The right decoder of another configuration."""
    return lambda arrays, config: TorchDecoder(arrays, replace(config, **changes))


# Variant -> the wrong decoder, and the logit error that it must at least make, in float64.
CONTROLS: dict[str, tuple[str, Callable[..., TorchDecoder], float]] = {
    "future visible": ("learned mha layernorm gelu", SeesTheFuture, 0.05),
    "past forgotten": ("learned mha layernorm gelu", ForgetsThePast, 0.05),
    "learned positions restart": ("learned mha layernorm gelu", RestartsPositions, 0.05),
    "rotary positions restart": ("rope gqa rmsnorm swiglu", RestartsPositions, 0.05),
    "ALiBi's positions restart": ("alibi gqa rmsnorm swiglu", RestartsPositions, 0.05),
    "positions left out": ("rope mha layernorm gelu", other(positions="none"), 0.05),
    "heads interleaved": ("rope gqa rmsnorm swiglu", InterleavesHeads, 0.05),
    "rotary pairs of neighbours": ("rope gqa rmsnorm swiglu", TurnsNeighbours, 0.05),
    "turned backwards": ("rope gqa rmsnorm swiglu", TurnsKeysBackwards, 0.05),
    "slopes one too steep": ("alibi mha layernorm gelu", FirstSlopeIsOne, 0.05),
    "window one too long": ("none mha layernorm gelu window", other(window=6), 0.05),
    "window one too short": ("rope mqa rmsnorm swiglu window", other(window=4), 0.05),
    "one sink too few": ("alibi gqa layernorm none sinks", other(n_sinks=1), 0.05),
    "one sink too many": ("learned gqa layernorm gelu sinks", other(n_sinks=3), 0.05),
    "exact GELU": ("learned mha layernorm gelu", ExactGelu, 2e-5),
    "up before gate": ("rope gqa rmsnorm swiglu", UpBeforeGate, 0.05),
    "a tenth of the eps": ("rope gqa rmsnorm swiglu", SmallerEps, 1e-6),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_the_comparison_would_see(name: str) -> None:
    variant, wrong, at_least = CONTROLS[name]
    config = VARIANTS[variant]
    params, tokens = drawn(config, "float64"), text(config, 2, "float64")
    logits = forward(params, tokens, config)
    expected, _ = TorchDecoder(params_to_arrays(params), config)(tokens)
    assert max_error(logits, expected) <= 1e-14
    mistaken, _ = wrong(params_to_arrays(params), config)(tokens)
    assert max_error(logits, mistaken) > at_least
