"""transformers' models with our parameters compute our logits, plain and with their own caches.

GPT-2 stands for REFERENCE, Llama for MODERN, Mistral for MODERN with a window, BLOOM for ALiBi.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.core.recompute import max_error
from tests.oracles import hf_models as hf

from kvproof import (
    MODERN,
    REFERENCE,
    DecoderConfig,
    Params,
    example_tokens,
    forward,
    in_chunks,
    init_params,
    params_to_arrays,
)

WINDOW = 5
FAMILIES: dict[str, tuple[DecoderConfig, Callable[..., hf.Model]]] = {
    "gpt2": (REFERENCE, hf.gpt2),
    "llama": (MODERN, hf.llama),
    "mistral": (replace(MODERN, window=WINDOW), hf.mistral),
    "bloom": (replace(REFERENCE, positions="alibi"), hf.bloom),
}
N_TOTAL = 24
SIZES = {
    "whole": [N_TOTAL],
    "one by one": [1] * N_TOTAL,
    "chunks": [4, 1, 1, 8, 10],  # longer than the window, too
}
CACHES = {"dynamic": hf.dynamic, "static": hf.static}


@dataclass(frozen=True)
class Pair:
    """A model of transformers, and ours with the same parameters."""

    config: DecoderConfig
    params: Params
    model: hf.Model
    tolerance: float

    def decoded(
        self, sizes: list[int], lengths: tuple[int, ...] | None = None
    ) -> tuple[NDArray[np.floating], Any]:
        """Our logits of the text in calls of these sizes, and our cache at the end."""
        return in_chunks(self.params, TOKENS, self.config, sizes, lengths=lengths)


TOKENS = example_tokens(N_TOTAL, batch_size=2)


@cache
def pair(family: str, dtype: str, **changes: Any) -> Pair:
    """Never written to: a call of a model leaves it as it was."""
    config, make = FAMILIES[family]
    params = init_params(config, 0, dtype)
    tolerance = {"float32": 3e-6, "float64": 1e-14}[dtype]
    if (family, dtype) == ("bloom", "float64"):
        tolerance = 1e-9  # its GELU has sqrt(2 / pi) with eight digits
    return Pair(config, params, make(params_to_arrays(params), config, **changes), tolerance)


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ours_and_theirs(family: str, dtype: str) -> Pair:
    return pair(family, dtype)


# --- They agree ---------------------------------------------------------------------------------


def test_a_plain_pass(ours_and_theirs: Pair) -> None:
    logits = forward(ours_and_theirs.params, TOKENS, ours_and_theirs.config)
    assert max_error(hf.full(ours_and_theirs.model, TOKENS), logits) <= ours_and_theirs.tolerance


@pytest.mark.parametrize("family", ["gpt2", "llama", "mistral"])
def test_a_plain_pass_through_the_other_attention(family: str, dtype: str) -> None:
    """transformers has one written out beside PyTorch's; BLOOM has that one only."""
    found = pair(family, dtype, attn_implementation="eager")
    assert found.model.config._attn_implementation == "eager"
    assert pair(family, dtype).model.config._attn_implementation == "sdpa"
    logits = forward(found.params, TOKENS, found.config)
    assert max_error(hf.full(found.model, TOKENS), logits) <= found.tolerance


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("make_cache", CACHES.values(), ids=CACHES)
def test_with_a_cache(
    make_cache: Callable[..., Any], sizes: list[int], ours_and_theirs: Pair
) -> None:
    model, tolerance = ours_and_theirs.model, ours_and_theirs.tolerance
    theirs = hf.cached(model, TOKENS, sizes, make_cache(model, N_TOTAL))
    whole = forward(ours_and_theirs.params, TOKENS, ours_and_theirs.config)
    assert max_error(theirs, whole) <= tolerance
    assert max_error(theirs, ours_and_theirs.decoded(sizes)[0]) <= tolerance


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_keys_and_values_of_each_layer(sizes: list[int], ours_and_theirs: Pair) -> None:
    model, config = ours_and_theirs.model, ours_and_theirs.config
    theirs = hf.dynamic(model, N_TOTAL)
    hf.cached(model, TOKENS, sizes, theirs)
    _, ours = ours_and_theirs.decoded(sizes)
    # Theirs keeps what the next query can see: itself and ``window - 1`` before it.
    kept = N_TOTAL if config.window is None else config.window - 1
    for layer, (k, v) in zip(theirs.layers, ours.keys_values(), strict=True):
        assert k.shape == (2, config.n_kv_heads, N_TOTAL, config.head_dim)
        assert max_error(layer.keys.numpy(), k[:, :, -kept:]) <= ours_and_theirs.tolerance
        assert max_error(layer.values.numpy(), v[:, :, -kept:]) <= ours_and_theirs.tolerance


# --- Left padding -------------------------------------------------------------------------------

LENGTHS = (N_TOTAL, 11)
"""Real tokens of the two rows: the second begins after 13 pads."""
REAL = hf.real_tokens(N_TOTAL, LENGTHS)
POSITION_IDS = (REAL.cumsum(-1) - 1).clamp(min=0)
"""As transformers' ``generate`` makes them from the attention mask."""
PADDED_SIZES = [4, 10, 1, 5, 4]


def of_real_tokens(logits: NDArray[np.floating]) -> NDArray[np.floating]:
    found: NDArray[np.floating] = logits[REAL.bool().numpy()]  # (real tokens of all rows, V)
    return found


@pytest.mark.parametrize(
    ("family", "make_cache"),
    [(f, c) for f in FAMILIES for c in CACHES if (f, c) != ("bloom", "static")],
    indirect=["family"],
)  # BLOOM makes its ALiBi as wide as the attention mask, which a static cache is not.
def test_left_padding(make_cache: str, ours_and_theirs: Pair) -> None:
    model, config, params = ours_and_theirs.model, ours_and_theirs.config, ours_and_theirs.params
    told = {} if model.config.model_type == "bloom" else {"position_ids": POSITION_IDS}
    kv_cache = CACHES[make_cache](model, N_TOTAL)
    theirs = hf.cached(model, TOKENS, PADDED_SIZES, kv_cache, REAL, **told)
    ours = forward(params, TOKENS, config, lengths=LENGTHS)
    alone = forward(params, TOKENS[1:, -LENGTHS[1] :], config)
    decoded, _ = ours_and_theirs.decoded(PADDED_SIZES, LENGTHS)
    tolerance = ours_and_theirs.tolerance
    assert max_error(of_real_tokens(theirs), of_real_tokens(ours)) <= tolerance
    assert max_error(of_real_tokens(theirs), of_real_tokens(decoded)) <= tolerance
    assert max_error(theirs[1:, -LENGTHS[1] :], alone) <= tolerance


def padded_error(family: str, **told: torch.Tensor) -> float:
    """Largest difference of theirs from ours when only this is told of the padding."""
    found = pair(family, "float64")
    theirs = hf.cached(found.model, TOKENS, PADDED_SIZES, hf.dynamic(found.model, N_TOTAL), **told)
    ours = forward(found.params, TOKENS, found.config, lengths=LENGTHS)
    return max_error(of_real_tokens(theirs), of_real_tokens(ours))


@pytest.mark.parametrize("family", ["gpt2", "llama", "mistral"])
def test_the_comparison_would_see_that_pads_are_read(family: str) -> None:
    assert padded_error(family, position_ids=POSITION_IDS) > 0.1


def test_learned_positions_must_be_told_and_rotary_ones_need_not() -> None:
    """One position vector for all rows moves each row as a whole: RoPE sees distances only."""
    assert padded_error("gpt2", attention_mask=REAL) > 0.5
    assert padded_error("llama", attention_mask=REAL) < 1e-13
    assert padded_error("gpt2", attention_mask=REAL, position_ids=POSITION_IDS) < 1e-14


# --- The window's edge --------------------------------------------------------------------------


def test_the_window_begins_where_ours_does() -> None:
    """Query ``window`` is the first to lose a key, in theirs and in ours."""
    found = pair("mistral", "float64")
    unlimited = hf.full(pair("llama", "float64").model, TOKENS)
    ours = forward(found.params, TOKENS, found.config)
    for logits in (hf.full(found.model, TOKENS), ours):
        moved = np.abs(logits - unlimited).max(axis=(0, 2))
        assert (moved[:WINDOW] < 1e-14).all()
        assert moved[WINDOW] > 0.01


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("window", [WINDOW - 1, WINDOW + 1])
def test_the_comparison_would_see_a_window_off_by_one(window: int, sizes: list[int]) -> None:
    found, off = pair("mistral", "float64"), pair("mistral", "float64", sliding_window=window)
    ours = forward(found.params, TOKENS, found.config)
    for make_cache in CACHES.values():
        theirs = hf.cached(off.model, TOKENS, sizes, make_cache(off.model, N_TOTAL))
        assert max_error(theirs, ours) > 0.1


# --- Controls -----------------------------------------------------------------------------------

# Name -> family, how the model differs, and the least difference in the logits, in float64.
OTHER_MODELS: dict[str, tuple[str, dict[str, Any], float]] = {
    "exact GELU": ("gpt2", {"activation_function": "gelu"}, 2e-5),
    "another eps": ("gpt2", {"layer_norm_epsilon": 1e-6}, 1e-6),
    "scores divided once more": ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, 0.02),
    "scores not divided": ("gpt2", {"scale_attn_weights": False}, 0.1),
    "transformers' own eps for Llama": ("llama", {"rms_norm_eps": 1e-6}, 1e-6),
    "GELU in place of SiLU": ("llama", {"hidden_act": "gelu"}, 0.05),
    "slower rotation": (
        "llama",
        {"rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0}},
        0.05,
    ),
}


@pytest.mark.parametrize("name", OTHER_MODELS)
def test_the_comparison_would_see(name: str) -> None:
    family, changes, at_least = OTHER_MODELS[name]
    config, make = FAMILIES[family]
    params = init_params(config, 0, "float64")
    model = make(params_to_arrays(params), config, **changes)
    assert max_error(hf.full(model, TOKENS), forward(params, TOKENS, config)) > at_least


def test_the_comparison_would_see_other_pairs_of_heads() -> None:
    """Query heads 1 and 2 change places: heads 0 1 0 1 read what 0 0 1 1 read."""
    found, dim = pair("llama", "float64"), MODERN.head_dim
    arrays = params_to_arrays(found.params)
    columns = np.arange(arrays["block0.attention.w_qkv"].shape[1])
    columns[dim : 3 * dim] = np.roll(columns[dim : 3 * dim], dim)
    for i in range(MODERN.n_layers):
        arrays[f"block{i}.attention.w_qkv"] = arrays[f"block{i}.attention.w_qkv"][:, columns]
        arrays[f"block{i}.attention.w_out"] = arrays[f"block{i}.attention.w_out"][
            columns[: 4 * dim]
        ]
    theirs = hf.full(hf.llama(arrays, MODERN), TOKENS)
    assert max_error(theirs, forward(found.params, TOKENS, MODERN)) > 0.1


@pytest.mark.parametrize("family", ["gpt2", "llama", "mistral"])
def test_the_comparison_would_see_positions_that_restart(family: str) -> None:
    found = pair(family, "float64")
    restarted = torch.cat([torch.arange(14), torch.arange(10)]).expand(2, -1)
    model, ours = found.model, forward(found.params, TOKENS, found.config)
    theirs = hf.cached(model, TOKENS, [14, 10], hf.dynamic(model, N_TOTAL), position_ids=restarted)
    assert max_error(theirs[:, :14], ours[:, :14]) < 1e-14
    assert max_error(theirs[:, 14:], ours[:, 14:]) > 0.05


def test_left_alone_transformers_rounds_to_float32_in_float64_models() -> None:
    """Why ``hf_models.AllDouble`` is there: without it Llama's error is that of float32."""
    found = pair("llama", "float64")
    with torch.inference_mode():
        theirs = found.model(torch.from_numpy(TOKENS.copy()), use_cache=False).logits.numpy()
    assert 1e-9 < max_error(theirs, forward(found.params, TOKENS, found.config)) < 1e-6
