"""The plain decoder, held against the same decoder written with PyTorch's functions."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import ArrayLike

from kvproof import (
    REFERENCE,
    DecoderConfig,
    Params,
    decode,
    example_tokens,
    forward,
    init_params,
    new_cache,
    params_to_arrays,
)
from kvproof.model.params import FloatArray

THREE_LAYERS = DecoderConfig(
    n_layers=3, width=24, n_heads=3, vocab_size=11, mlp_width=40, max_positions=16
)


def pytorch_decoder(
    params: Params, tokens: ArrayLike, config: DecoderConfig, gelu: str = "tanh"
) -> tuple[FloatArray, list[tuple[FloatArray, FloatArray]]]:
    """Logits (B, T, V), and K and V (B, H, T, D) of each layer."""
    p = {name: torch.from_numpy(array) for name, array in params_to_arrays(params).items()}

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return F.layer_norm(x, (config.width,), p[f"{name}.gain"], p[f"{name}.bias"])

    def linear(x: torch.Tensor, name: str, suffix: str) -> torch.Tensor:
        return F.linear(x, p[f"{name}.w_{suffix}"].T, p[f"{name}.b_{suffix}"])

    ids = torch.as_tensor(np.array(tokens))
    x = F.embedding(ids, p["token_embedding"]) + p["position_embedding"][: ids.shape[1]]
    keys_values = []
    for i in range(config.n_layers):
        qkv = linear(norm(x, f"block{i}.norm1"), f"block{i}.attention", "qkv")
        q, k, v = (
            part.unflatten(-1, (config.n_heads, config.head_dim)).transpose(1, 2)
            for part in qkv.split(config.width, dim=-1)
        )
        keys_values.append((k.numpy(), v.numpy()))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(attended.transpose(1, 2).flatten(2), f"block{i}.attention", "out")
        hidden = F.gelu(linear(norm(x, f"block{i}.norm2"), f"block{i}.mlp", "in"), approximate=gelu)
        x = x + linear(hidden, f"block{i}.mlp", "out")
    return (norm(x, "final_norm") @ p["unembedding"]).numpy(), keys_values


@pytest.mark.parametrize("n_total", [1, 6, 64])
@pytest.mark.parametrize("batch_size", [1, 2])
def test_logits_are_those_of_pytorch(
    params: Params, tolerance: float, n_total: int, batch_size: int
) -> None:
    tokens = example_tokens(n_total, batch_size)
    logits = forward(params, tokens, REFERENCE)
    expected, _ = pytorch_decoder(params, tokens, REFERENCE)
    assert logits.shape == (batch_size, n_total, REFERENCE.vocab_size)
    np.testing.assert_allclose(logits, expected, rtol=0, atol=tolerance)


def test_the_comparison_would_see_another_gelu(params: Params, tolerance: float) -> None:
    """Negative control: the smallest change of the architecture we could think of."""
    tokens = example_tokens(6)
    other, _ = pytorch_decoder(params, tokens, REFERENCE, gelu="none")
    assert np.abs(forward(params, tokens, REFERENCE) - other).max() > 10 * tolerance


def test_a_decoder_of_another_shape_is_pytorchs_too(dtype: str, tolerance: float) -> None:
    params = init_params(THREE_LAYERS, seed=5, dtype=dtype)
    tokens = np.random.default_rng(0).integers(11, size=(3, 16))
    expected, _ = pytorch_decoder(params, tokens, THREE_LAYERS)
    np.testing.assert_allclose(
        forward(params, tokens, THREE_LAYERS), expected, rtol=0, atol=tolerance
    )


def test_keys_and_values_of_each_layer_are_those_of_pytorch(
    params: Params, dtype: str, tolerance: float
) -> None:
    tokens = example_tokens(24, batch_size=2)
    logits, cache = decode(params, tokens, new_cache(REFERENCE, 2, dtype), REFERENCE)
    expected_logits, expected = pytorch_decoder(params, tokens, REFERENCE)
    np.testing.assert_allclose(logits, expected_logits, rtol=0, atol=tolerance)
    for (k, v), (expected_k, expected_v) in zip(cache.keys_values(), expected, strict=True):
        assert k.shape == v.shape == (2, 4, 24, 16)
        np.testing.assert_allclose(k, expected_k, rtol=0, atol=tolerance)
        np.testing.assert_allclose(v, expected_v, rtol=0, atol=tolerance)
    layer_1, layer_2 = expected
    assert np.abs(layer_1[0] - layer_2[0]).max() > 0.1, "no control: the layers' keys are alike"


def test_logits_have_the_dtype_of_the_parameters(params: Params, dtype: str) -> None:
    """NumPy 2 promotes float32 to float64 wherever a NumPy scalar slips in."""
    assert params.dtype == dtype
    tokens = example_tokens(6)
    assert forward(params, tokens, REFERENCE).dtype == dtype
    logits, cache = decode(params, tokens, new_cache(REFERENCE, dtype=dtype), REFERENCE)
    assert logits.dtype == dtype
    assert {array.dtype for pair in cache.keys_values() for array in pair} == {np.dtype(dtype)}


def test_a_later_token_changes_no_earlier_logit(params: Params) -> None:
    tokens = example_tokens(24, batch_size=2)
    logits = forward(params, tokens, REFERENCE)
    for t in range(24):
        changed = tokens.copy()
        changed[:, t] = (changed[:, t] + 1) % 97
        moved = forward(params, changed, REFERENCE)
        np.testing.assert_array_equal(moved[:, :t], logits[:, :t])
        assert (np.abs(moved[:, t:] - logits[:, t:]).max(axis=(0, 2)) > 1e-3).all(), (
            "each later position reads the changed token"
        )


def test_a_longer_text_leaves_the_logits_of_its_beginning(params: Params, tolerance: float) -> None:
    """Prefix stability: what the whole idea of a cache rests on."""
    tokens = example_tokens(24)
    logits = forward(params, tokens, REFERENCE)
    for n_total in range(1, 24):
        prefix = forward(params, tokens[:, :n_total], REFERENCE)
        np.testing.assert_allclose(prefix, logits[:, :n_total], rtol=0, atol=tolerance)


def test_rows_of_a_batch_do_not_read_each_other(params: Params, tolerance: float) -> None:
    tokens = example_tokens(24, batch_size=3)
    together = forward(params, tokens, REFERENCE)
    for row in range(3):
        alone = forward(params, tokens[row : row + 1], REFERENCE)
        np.testing.assert_allclose(together[row : row + 1], alone, rtol=0, atol=tolerance)
    assert np.abs(together[0] - together[1]).max() > 0.1, "no control: the rows are alike"


def test_all_512_positions_can_be_used_and_no_more() -> None:
    params = init_params(REFERENCE)
    assert forward(params, example_tokens(512), REFERENCE).shape == (1, 512, 97)
    with pytest.raises(ValueError, match="513 positions, the decoder has 512"):
        forward(params, np.zeros((1, 513), int), REFERENCE)


BAD_TOKENS = {
    "no batch axis": ([12, 7, 31], r"got shape \(3,\)"),
    "an axis too many": ([[[12, 7, 31]]], r"got shape \(1, 1, 3\)"),
    "no tokens": (np.zeros((1, 0), int), r"not empty, got shape \(1, 0\)"),
    "no rows": (np.zeros((0, 3), int), r"not empty, got shape \(0, 3\)"),
    "floats": ([[12.0, 7.0]], "must be integers, got float64"),
    "booleans": ([[True, False]], "must be integers, got bool"),
    "an ID too large": ([[12, 97]], r"token ID 97 is outside the vocabulary 0\.\.96"),
    "a negative ID": ([[12, -1]], r"token ID -1 is outside the vocabulary 0\.\.96"),
}


@pytest.mark.parametrize(("tokens", "message"), BAD_TOKENS.values(), ids=BAD_TOKENS)
def test_bad_tokens_are_refused_with_what_is_wrong(tokens: ArrayLike, message: str) -> None:
    params = init_params(REFERENCE)
    with pytest.raises(ValueError, match=message):
        forward(params, tokens, REFERENCE)
    with pytest.raises(ValueError, match=message):
        decode(params, tokens, new_cache(REFERENCE), REFERENCE)


@pytest.mark.parametrize("integer", ["uint8", "int32", "int64"])
def test_any_integer_type_and_plain_lists_will_do(integer: str) -> None:
    params = init_params(REFERENCE)
    logits = forward(params, [[12, 7, 96]], REFERENCE)
    as_array = np.array([[12, 7, 96]], dtype=integer)
    np.testing.assert_array_equal(forward(params, as_array, REFERENCE), logits)
