"""Our masks and attention against PyTorch's scaled_dot_product_attention.

With more keys than queries, ``causal_lower_right`` is our offset mask, and ``is_causal=True`` is
our top-left mask: the flag alone is not enough after a cache.
"""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

from kvproof import offset_mask, scaled_dot_product_attention, top_left_mask

SHAPES = [(0, 1), (0, 5), (1, 1), (1, 2), (4, 2), (10, 3), (3, 10), (31, 17), (64, 1)]
WITH_HISTORY = [(p, c) for p, c in SHAPES if p > 0]
HEADS = {"mha": (4, 4), "gqa": (4, 2), "mqa": (4, 1)}

Arrays = tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.floating]]


@pytest.fixture(params=HEADS)
def heads(request: pytest.FixtureRequest) -> tuple[int, int]:
    return HEADS[request.param]


def qkv(n_past: int, n_new: int, heads: tuple[int, int], dtype: str) -> Arrays:
    """Queries of the new tokens, keys and values of all."""
    rng = np.random.default_rng(n_past * 1000 + n_new)
    n_heads, n_kv_heads = heads
    shapes = ((2, n_heads, n_new, 16), *[(2, n_kv_heads, n_past + n_new, 16)] * 2)
    q, k, v = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    return q, k, v


def pytorchs(arrays: Arrays, **how: Any) -> NDArray[np.floating]:
    q, k, v = map(torch.from_numpy, arrays)
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True, **how).numpy()


def max_error(actual: NDArray[np.floating], expected: NDArray[np.floating]) -> float:
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    return float(np.abs(actual - expected).max())


@pytest.fixture
def close(dtype: str) -> float:
    """Outputs are averages of standard normal values: a few units of rounding."""
    return 8 * float(np.finfo(dtype).eps)


@pytest.mark.parametrize(("n_past", "n_new"), SHAPES)
def test_the_offset_mask_is_causal_lower_right(
    n_past: int, n_new: int, heads: tuple[int, int], dtype: str, close: float
) -> None:
    arrays = qkv(n_past, n_new, heads, dtype)
    ours = scaled_dot_product_attention(*arrays, offset_mask(n_past, n_new))
    theirs = pytorchs(arrays, attn_mask=causal_lower_right(n_new, n_past + n_new))
    assert max_error(ours, theirs) <= close


@pytest.mark.parametrize(("n_past", "n_new"), SHAPES)
def test_the_top_left_mask_is_the_flag_is_causal(
    n_past: int, n_new: int, heads: tuple[int, int], dtype: str, close: float
) -> None:
    arrays = qkv(n_past, n_new, heads, dtype)
    ours = scaled_dot_product_attention(*arrays, top_left_mask(n_past, n_new))
    assert max_error(ours, pytorchs(arrays, is_causal=True)) <= close
    upper_left = causal_upper_left(n_new, n_past + n_new)
    assert max_error(ours, pytorchs(arrays, attn_mask=upper_left)) <= close


@pytest.mark.parametrize(("n_past", "n_new"), WITH_HISTORY)
def test_with_a_history_the_flag_is_not_the_offset_mask(
    n_past: int, n_new: int, heads: tuple[int, int], dtype: str
) -> None:
    """Control of both tests above: the two alignments are far apart, in our code and in theirs."""
    arrays = qkv(n_past, n_new, heads, dtype)
    ours = scaled_dot_product_attention(*arrays, offset_mask(n_past, n_new))
    assert max_error(ours, pytorchs(arrays, is_causal=True)) > 0.1
    theirs = pytorchs(arrays, attn_mask=causal_lower_right(n_new, n_past + n_new))
    assert max_error(theirs, pytorchs(arrays, is_causal=True)) > 0.1


def test_without_a_history_they_are_the_same(heads: tuple[int, int], dtype: str) -> None:
    arrays = qkv(0, 5, heads, dtype)
    offset, top_left = (
        scaled_dot_product_attention(*arrays, mask(0, 5)) for mask in (offset_mask, top_left_mask)
    )
    np.testing.assert_array_equal(offset, top_left)


@pytest.mark.parametrize("n_past", [1, 4, 64])
def test_for_one_token_the_right_mask_is_no_mask(
    n_past: int, heads: tuple[int, int], dtype: str, close: float
) -> None:
    """Why a forgotten mask passes until the first chunk of two."""
    arrays = qkv(n_past, 1, heads, dtype)
    ours = scaled_dot_product_attention(*arrays, offset_mask(n_past, 1))
    assert max_error(ours, pytorchs(arrays)) <= close
    arrays = qkv(n_past, 2, heads, dtype)
    ours = scaled_dot_product_attention(*arrays, offset_mask(n_past, 2))
    assert max_error(ours, pytorchs(arrays)) > 0.05


def test_the_comparison_would_see_other_pairs_of_heads(dtype: str) -> None:
    """Control: key heads 0 1 0 1 in place of 0 0 1 1."""
    q, k, v = qkv(4, 2, (4, 2), dtype)
    theirs = pytorchs((q, np.tile(k, (1, 2, 1, 1)), np.tile(v, (1, 2, 1, 1))))
    every_key = np.ones((2, 6), bool)
    assert max_error(scaled_dot_product_attention(q, k, v, every_key), theirs) > 0.1
