"""Attention held against PyTorch's, and what it refuses; the other layers: tests/oracles."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given, settings
from hypothesis import strategies as st

from kvproof import offset_mask, scaled_dot_product_attention
from kvproof.model.masks import BoolArray
from kvproof.model.params import FloatArray

ROUNDING = {"float32": 2e-6, "float64": 1e-14}


def random(*shape: int, dtype: str, seed: int = 0) -> FloatArray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def pytorchs_attention(
    q: FloatArray, k: FloatArray, v: FloatArray, visible: BoolArray
) -> FloatArray:
    as_torch = torch.from_numpy
    attended: FloatArray = F.scaled_dot_product_attention(
        as_torch(q), as_torch(k), as_torch(v), as_torch(visible), enable_gqa=True
    ).numpy()
    return attended


@given(data=st.data(), dtype=st.sampled_from(sorted(ROUNDING)))
@settings(derandomize=True, deadline=None, max_examples=100)
def test_attention_is_pytorchs_whatever_its_shapes_and_mask(
    data: st.DataObject, dtype: str
) -> None:
    n_queries, n_keys, head_dim, value_dim = (
        data.draw(st.integers(1, 9), label=name) for name in ("Tq", "Tk", "D", "Dv")
    )
    n_heads, n_kv_heads = data.draw(st.sampled_from([(1, 1), (4, 4), (4, 2), (4, 1)]))
    seed = data.draw(st.integers(0, 2**32 - 1), label="seed")
    visible = np.random.default_rng(seed).random((n_queries, n_keys)) < 0.5
    visible[np.arange(n_queries), np.arange(n_queries) % n_keys] = True  # no row without a key
    q = 3 * random(2, n_heads, n_queries, head_dim, dtype=dtype, seed=seed)
    k = random(2, n_kv_heads, n_keys, head_dim, dtype=dtype, seed=seed + 1)
    v = random(2, n_kv_heads, n_keys, value_dim, dtype=dtype, seed=seed + 2)
    attended = scaled_dot_product_attention(q, k, v, visible)
    assert attended.shape == (2, n_heads, n_queries, value_dim)
    assert attended.dtype == dtype
    expected = pytorchs_attention(q, k, v, visible)
    np.testing.assert_allclose(attended, expected, rtol=0, atol=ROUNDING[dtype])


def test_large_scores_do_not_overflow() -> None:
    q = np.array([[1e4, 0.0], [-1e4, 0.0]])
    k, v = np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[1.0], [2.0]])
    attended = scaled_dot_product_attention(q, k, v, np.full((2, 2), True))
    assert attended.ravel().tolist() == [1.0, 2.0]


def test_a_query_without_any_key_gives_nan_and_only_there() -> None:
    """An average over nothing has no value; a zero in its place would look like an answer."""
    q, k, v = (random(2, 3, 4, dtype="float64", seed=seed) for seed in range(3))
    visible = offset_mask(0, 3)
    expected = scaled_dot_product_attention(q, k, v, visible)
    visible[1] = False
    with np.errstate(invalid="ignore"):
        attended = scaled_dot_product_attention(q, k, v, visible)
    assert np.isnan(attended[:, 1]).all()
    np.testing.assert_array_equal(attended[:, [0, 2]], expected[:, [0, 2]])


@pytest.mark.parametrize("shape", [(2, 5), (3, 6), (6,), (1, 6), (6, 2)])
def test_a_mask_of_another_shape_is_refused_even_if_it_would_broadcast(
    shape: tuple[int, ...],
) -> None:
    q, k = random(2, 4, dtype="float64"), random(6, 4, dtype="float64")
    with pytest.raises(ValueError, match=r"\(2, 6\)") as refused:
        scaled_dot_product_attention(q, k, k, np.full(shape, True))
    assert str(shape) in str(refused.value)


def test_an_additive_mask_is_refused() -> None:
    """Its 0 means "seen" and our False means "hidden": read as bool it would do the opposite."""
    q = random(3, 4, dtype="float64")
    additive = np.where(offset_mask(0, 3), 0.0, -np.inf)
    with pytest.raises(ValueError, match=r"must be bool \(3, 3\), got float64 \(3, 3\)"):
        scaled_dot_product_attention(q, q, q, additive)
