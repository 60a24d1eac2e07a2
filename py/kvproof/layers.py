"""The layers that both decoders share: embedding, LayerNorm, attention, MLP, unembedding.

Letters in shapes: B batch, T tokens, W width, H heads, D head dim, V vocabulary;
Tq query rows and Tk key columns of an attention, Tk >= Tq when there is a history.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kvproof.config import DecoderConfig
from kvproof.masks import BoolArray, IntArray
from kvproof.params import Attention, FloatArray, Mlp, Norm, Params

NORM_EPS = 1e-5


def embed(params: Params, tokens: IntArray, positions: IntArray) -> FloatArray:
    """Token plus learned position embedding: (B, T) and (T,) -> (B, T, W)."""
    return params.token_embedding[tokens] + params.position_embedding[positions]


def layer_norm(x: FloatArray, norm: Norm) -> FloatArray:
    """LayerNorm over the last axis (Ba, Kiros, Hinton 2016), eps = 1e-5: (..., W) -> (..., W)."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    normed: FloatArray = centred / np.sqrt(variance + NORM_EPS) * norm.gain + norm.bias
    return normed


def project_qkv(
    x: FloatArray, attention: Attention, n_heads: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Queries, keys and values of the tokens in ``x``: (B, T, W) -> three (B, H, T, D)."""
    batch_size, n_tokens, width = x.shape
    qkv = x @ attention.w_qkv + attention.b_qkv  # (B, T, 3W)
    qkv = qkv.reshape(batch_size, n_tokens, 3, n_heads, width // n_heads)
    q, k, v = qkv.transpose(2, 0, 3, 1, 4)  # each (B, H, T, D)
    return q, k, v


def scaled_dot_product_attention(
    q: FloatArray, k: FloatArray, v: FloatArray, visible: BoolArray
) -> FloatArray:
    """softmax(q k^T / sqrt(D)) v over the visible keys (Vaswani et al. 2017, eq. 1).

    Args:
        q: (..., Tq, D).
        k: (..., Tk, D).
        v: (..., Tk, D).
        visible: bool (Tq, Tk), True = may attend.  A row without any visible key gives NaN and
            NumPy's ``RuntimeWarning``.

    Returns:
        (..., Tq, D) in the dtype of ``q``.

    Raises:
        ValueError: ``visible`` isn't bool (Tq, Tk).  An additive mask, 0 where a key is seen,
            would mean the opposite here.
    """
    n_queries, n_keys = q.shape[-2], k.shape[-2]
    if visible.shape != (n_queries, n_keys) or visible.dtype != np.bool_:
        raise ValueError(
            f"mask must be bool ({n_queries}, {n_keys}), got {visible.dtype} {visible.shape}"
        )
    # A Python float: a NumPy scalar would promote float32 to float64 under NumPy 2.
    scores = q @ k.swapaxes(-1, -2) * (1.0 / math.sqrt(q.shape[-1]))  # (..., Tq, Tk)
    scores = np.where(visible, scores, -math.inf)
    weights: FloatArray = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights @ v


def merge_heads(x: FloatArray, attention: Attention) -> FloatArray:
    """Heads side by side, then the output projection: (B, H, T, D) -> (B, T, W)."""
    batch_size, n_heads, n_tokens, head_dim = x.shape
    merged = x.swapaxes(1, 2).reshape(batch_size, n_tokens, n_heads * head_dim)
    return merged @ attention.w_out + attention.b_out


def mlp(x: FloatArray, weights: Mlp) -> FloatArray:
    """Two linear layers with GELU between: (B, T, W) -> (B, T, W)."""
    return gelu(x @ weights.w_in + weights.b_in) @ weights.w_out + weights.b_out


def gelu(x: FloatArray) -> FloatArray:
    """GELU in its tanh form (Hendrycks and Gimpel 2016), elementwise."""
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))


def unembed(params: Params, x: FloatArray) -> FloatArray:
    """Final LayerNorm and vocabulary projection: (B, T, W) -> logits (B, T, V)."""
    return layer_norm(x, params.final_norm) @ params.unembedding


def check_model(params: Params, config: DecoderConfig) -> None:
    """Refuse parameters that were made with another configuration.

    Raises:
        ValueError: names both sizes.
    """
    wanted = (config.n_layers, config.vocab_size, config.max_positions, config.width)
    vocab_size, width = params.token_embedding.shape
    found = (len(params.blocks), vocab_size, len(params.position_embedding), width)
    if found != wanted:
        raise ValueError(
            f"the parameters have (layers, vocabulary, positions, width) {found}, "
            f"the configuration says {wanted}"
        )


def check_tokens(tokens: ArrayLike, config: DecoderConfig, n_past: int = 0) -> IntArray:
    """Tokens as an int array (B, T), or a ``ValueError`` that says what is wrong with them.

    Raises:
        ValueError: not integers, not two-dimensional, empty, an ID outside the vocabulary, or
            ``n_past + T`` beyond ``config.max_positions``.
    """
    array: NDArray[np.int64] = np.asarray(tokens)
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"tokens must be (batch, time) and not empty, got shape {array.shape}")
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"tokens must be integers, got {array.dtype}")
    if array.min() < 0 or array.max() >= config.vocab_size:
        bad = array[(array < 0) | (array >= config.vocab_size)][0]
        raise ValueError(f"token ID {bad} is outside the vocabulary 0..{config.vocab_size - 1}")
    n_total = n_past + array.shape[1]
    if n_total > config.max_positions:
        raise ValueError(
            f"{n_past} cached + {array.shape[1]} new tokens = {n_total} positions, "
            f"the decoder has {config.max_positions}"
        )
    return array
