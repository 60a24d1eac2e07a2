"""The layers that both decoders share: embedding, norm, attention, MLP, unembedding.

Letters in shapes: B batch, T tokens, W width, H heads, H_kv heads of keys and values, D head dim,
V vocabulary; Tq query rows and Tk key columns of an attention, Tk >= Tq when there is a history.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from kvproof.model.config import DecoderConfig
from kvproof.model.masks import BoolArray, IntArray
from kvproof.model.masks import visible_keys as visible_keys  # one of what a decoder is made of
from kvproof.model.params import Block, FloatArray, Norm, Params

NORM_EPS = 1e-5
ROPE_BASE = 10_000.0

Tokens = NDArray[Any]
"""IDs (B, T), or vectors (B, T, W) where the decoder has no vocabulary."""


def embed(params: Params, tokens: Tokens, positions: IntArray) -> FloatArray:
    """What the first block reads: (B, T) IDs, or vectors (B, T, W), -> (B, T, W).

    Adds the learned embedding of ``positions``, (T,) or (B, T), where the model has one.
    """
    x = tokens if params.token_embedding is None else params.token_embedding[tokens]
    return x if params.position_embedding is None else x + params.position_embedding[positions]


def layer_norm(x: FloatArray, norm: Norm) -> FloatArray:
    """The norm over the last axis, eps = 1e-5: (..., W) -> (..., W).

    LayerNorm (Ba, Kiros, Hinton 2016), or RMSNorm (Zhang and Sennrich 2019) where there is no
    bias: the same without centring.
    """
    if norm.bias is None:
        return _scaled(x, norm)
    return _scaled(x - _mean(x), norm) + norm.bias


def _scaled(x: FloatArray, norm: Norm) -> FloatArray:
    scaled: FloatArray = x / np.sqrt(_mean(x * x) + NORM_EPS) * norm.gain
    return scaled


def _mean(x: FloatArray) -> FloatArray:
    """The mean over the last axis, which stays: NumPy's to the bit, in half its time."""
    mean: FloatArray = x.sum(axis=-1, keepdims=True) / x.shape[-1]
    return mean


def linear(x: FloatArray, weight: FloatArray, bias: FloatArray | None) -> FloatArray:
    """``x @ weight + bias``, where there is a bias: (..., in) -> (..., out)."""
    y: FloatArray = x @ weight
    return y if bias is None else y + bias


def project_qkv(
    x: FloatArray, block: Block, config: DecoderConfig
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Queries (B, H, T, D), keys and values (B, H_kv, T, D) of the tokens in ``x`` (B, T, W)."""
    batch_size, n_tokens, _ = x.shape
    attention, n_heads, n_kv_heads = block.attention, config.n_heads, config.n_kv_heads
    qkv = linear(x, attention.w_qkv, attention.b_qkv)  # (B, T, (H + 2 H_kv) D)
    heads = qkv.reshape(batch_size, n_tokens, n_heads + 2 * n_kv_heads, config.head_dim)
    heads = heads.swapaxes(1, 2)  # (B, H + 2 H_kv, T, D)
    values_start = n_heads + n_kv_heads
    return heads[:, :n_heads], heads[:, n_heads:values_start], heads[:, values_start:]


def rotation(positions: IntArray, config: DecoderConfig, dtype: DTypeLike) -> FloatArray | None:
    """How RoPE turns the heads at ``positions`` (B, T): cos and sin (2, B, 1, T, D / 2).

    None for a model without RoPE.
    """
    if config.positions != "rope":
        return None
    return _rope_table(config, np.dtype(dtype))[:, positions][:, :, None]


@lru_cache(maxsize=16)
def _rope_table(config: DecoderConfig, dtype: np.dtype[np.floating]) -> FloatArray:
    """Cosines and sines of every position, (2, max_positions, D / 2)."""
    pairs = np.arange(config.head_dim // 2)
    frequencies = ROPE_BASE ** (-2.0 * pairs / config.head_dim)
    angles = np.outer(np.arange(config.max_positions), frequencies)
    return np.stack([np.cos(angles), np.sin(angles)]).astype(dtype)


def rotate(x: FloatArray, cos_sin: FloatArray | None) -> FloatArray:
    """RoPE (Su et al. 2021): turn feature i with feature i + D/2; (B, H, T, D) -> the same.

    The angle is the position times ``10000 ** (-2 i / D)``, so a score depends on the distance of
    query and key only.  ``cos_sin`` None leaves ``x`` as it is.
    """
    if cos_sin is None:
        return x
    cos, sin = cos_sin
    first, second = _halves(x)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def _halves(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Views of both halves of the last axis; ``np.split`` takes ten times as long."""
    middle = x.shape[-1] // 2
    return x[..., :middle], x[..., middle:]


def alibi(
    query_positions: IntArray, key_positions: IntArray, config: DecoderConfig, dtype: DTypeLike
) -> FloatArray | None:
    """ALiBi (Press et al. 2022): what distance takes off the scores, (1 or B, H, Tq, Tk).

    Head h of H has the slope ``2 ** (-8 (h + 1) / H)``.  None for a model without ALiBi.

    Args:
        query_positions: int (Tq,).
        key_positions: int (1 or B, Tk).
        config: of the decoder.
        dtype: of the scores.
    """
    if config.positions != "alibi":
        return None
    slopes = 2.0 ** (-8.0 * np.arange(1, config.n_heads + 1) / config.n_heads)
    distance = query_positions[:, None] - key_positions[:, None, None, :]  # (1 or B, 1, Tq, Tk)
    return (-slopes[:, None, None] * distance).astype(dtype)


def scaled_dot_product_attention(
    q: FloatArray,
    k: FloatArray,
    v: FloatArray,
    visible: BoolArray,
    bias: FloatArray | None = None,
) -> FloatArray:
    """softmax(q k^T / sqrt(D) + bias) v over the visible keys (Vaswani et al. 2017, eq. 1).

    With fewer heads of keys than of queries, a group of ``H / H_kv`` successive query heads reads
    one of them (Ainslie et al. 2023).

    Args:
        q: (..., Tq, D), or (B, H, Tq, D) with fewer heads in ``k`` and ``v``.
        k: (..., Tk, D), or (B, H_kv, Tk, D).
        v: (..., Tk, Dv), or (B, H_kv, Tk, Dv).
        visible: bool (..., Tq, Tk), True = may attend.  A row without any visible key gives NaN
            and NumPy's ``RuntimeWarning``.
        bias: (..., Tq, Tk), added to the scores.

    Returns:
        (..., Tq, Dv) in the dtype of ``q``.

    Raises:
        ValueError: ``visible`` isn't bool (..., Tq, Tk).  An additive mask, 0 where a key is seen,
            would mean the opposite here.

    Example:
        >>> q = k = v = np.eye(2)
        >>> kvproof.scaled_dot_product_attention(q, k, v, kvproof.offset_mask(0, 2)).round(2)
        array([[1.  , 0.  ],
               [0.33, 0.67]])
    """
    n_queries, n_keys = q.shape[-2], k.shape[-2]
    if visible.shape[-2:] != (n_queries, n_keys) or visible.dtype != np.bool_:
        raise ValueError(
            f"mask must be bool ({n_queries}, {n_keys}), got {visible.dtype} {visible.shape}"
        )
    # The heads of a group lie one after another and read the same keys: one taller matrix.
    grouped = q.reshape(*k.shape[:-2], -1, k.shape[-1])  # (..., H_kv, H / H_kv * Tq, D)
    # A Python float: a NumPy scalar would promote float32 to float64 under NumPy 2.
    scores = grouped @ k.swapaxes(-1, -2) * (1.0 / math.sqrt(q.shape[-1]))
    scores = scores.reshape(*q.shape[:-1], n_keys)  # (..., H, Tq, Tk)
    if bias is not None:
        scores += bias
    scores = np.where(visible, scores, -math.inf)
    weights: FloatArray = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    attended: FloatArray = weights.reshape(*grouped.shape[:-1], n_keys) @ v
    return attended.reshape(*q.shape[:-1], v.shape[-1])


def merge_heads(x: FloatArray, block: Block) -> FloatArray:
    """Heads side by side, then the output projection: (B, H, T, D) -> (B, T, W)."""
    batch_size, n_heads, n_tokens, head_dim = x.shape
    merged = x.swapaxes(1, 2).reshape(batch_size, n_tokens, n_heads * head_dim)
    return linear(merged, block.attention.w_out, block.attention.b_out)


def mlp(x: FloatArray, block: Block) -> FloatArray:
    """The second half of a block: x plus the MLP of its norm, (B, T, W) -> (B, T, W).

    Two linear layers with GELU, or with SwiGLU (Shazeer 2020): ``silu(gate) * up``, between.
    ``x`` itself where the model has no MLP.
    """
    if block.mlp is None or block.norm2 is None:
        return x
    weights = block.mlp
    hidden = linear(layer_norm(x, block.norm2), weights.w_in, weights.b_in)
    if hidden.shape[-1] == len(weights.w_out):
        activated = gelu(hidden)
    else:
        gate, up = _halves(hidden)
        activated = silu(gate) * up
    return x + linear(activated, weights.w_out, weights.b_out)


def gelu(x: FloatArray) -> FloatArray:
    """GELU in its tanh form (Hendrycks and Gimpel 2016), elementwise."""
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))


def silu(x: FloatArray) -> FloatArray:
    """SiLU, x * sigmoid(x), elementwise; the sigmoid by tanh, which can't overflow."""
    activated: FloatArray = 0.5 * x * (1.0 + np.tanh(0.5 * x))
    return activated


def unembed(params: Params, x: FloatArray) -> FloatArray:
    """Final norm and vocabulary projection: (B, T, W) -> logits (B, T, V).

    Without a vocabulary the normed hidden states (B, T, W).
    """
    normed = layer_norm(x, params.final_norm)
    return normed if params.unembedding is None else normed @ params.unembedding


def check_model(params: Params, config: DecoderConfig) -> None:
    """Refuse parameters that were made with another configuration.

    Raises:
        ValueError: names both sizes.
    """
    names = "(layers, vocabulary, positions, width, q/k/v columns, MLP columns, biases)"
    wanted = (
        config.n_layers,
        config.vocab_size or 0,
        config.max_positions if config.positions == "learned" else 0,
        config.width,
        (config.n_heads + 2 * config.n_kv_heads) * config.head_dim,
        {"gelu": 1, "swiglu": 2, "none": 0}[config.mlp] * config.mlp_width,
        config.has_biases,
    )
    first = params.blocks[0]
    found = (
        len(params.blocks),
        _rows(params.token_embedding),
        _rows(params.position_embedding),
        *first.attention.w_qkv.shape,
        0 if first.mlp is None else first.mlp.w_in.shape[1],
        first.norm1.bias is not None,
    )
    if found != wanted:
        raise ValueError(f"the parameters have {names} {found}, the configuration says {wanted}")


def _rows(array: FloatArray | None) -> int:
    return 0 if array is None else len(array)


def check_tokens(
    tokens: ArrayLike, config: DecoderConfig, dtype: DTypeLike, n_past: int = 0
) -> Tokens:
    """Tokens as an int array (B, T), or, without a vocabulary, vectors (B, T, W) as ``dtype``.

    Raises:
        ValueError: the wrong kind of number, the wrong shape, empty, an ID outside the
            vocabulary, or ``n_past + T`` beyond ``config.max_positions``.
    """
    array = np.asarray(tokens)
    if config.vocab_size is None:
        array = _check_vectors(array, config.width).astype(dtype, copy=False)
    else:
        _check_ids(array, config.vocab_size)
    n_total = n_past + array.shape[1]
    if n_total > config.max_positions:
        raise ValueError(
            f"{n_past} cached + {array.shape[1]} new tokens = {n_total} positions, "
            f"the decoder has {config.max_positions}"
        )
    return array


def _check_ids(array: IntArray, vocab_size: int) -> None:
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"tokens must be (batch, time) and not empty, got shape {array.shape}")
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"tokens must be integers, got {array.dtype}")
    if array.min() < 0 or array.max() >= vocab_size:
        bad = array[(array < 0) | (array >= vocab_size)][0]
        raise ValueError(f"token ID {bad} is outside the vocabulary 0..{vocab_size - 1}")


def _check_vectors(array: FloatArray, width: int) -> FloatArray:
    if array.ndim != 3 or array.size == 0 or array.shape[2] != width:
        raise ValueError(
            f"a decoder without a vocabulary reads vectors (batch, time, {width}), not empty; "
            f"got shape {array.shape}"
        )
    if not np.issubdtype(array.dtype, np.floating):
        raise ValueError(f"vectors must be floating-point numbers, got {array.dtype}")
    return array


def check_padding(
    lengths: ArrayLike | None, n_new: int, n_past: int, padding: IntArray
) -> IntArray:
    """Padding slots of each row after a call with ``n_new`` tokens, of which ``lengths`` are real.

    Args:
        lengths: int (B,), the real tokens of each row of the call, at its right end; None: all.
        n_new: tokens of the call, C.
        n_past: tokens before it, P.
        padding: int (B,), the padding slots of each row before it.

    Raises:
        ValueError: not B integers from 0 to C, or padding after a real token.
    """
    if lengths is None:
        return padding
    array: IntArray = np.asarray(lengths)
    if array.shape != padding.shape or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"lengths must be {len(padding)} integers, one for each row, "
            f"got {array.dtype} {array.shape}"
        )
    if array.min() < 0 or array.max() > n_new:
        raise ValueError(f"lengths must be 0..{n_new}, the tokens of the call, got {array}")
    array = array.astype(np.int64)  # a narrow or unsigned one would wrap around below
    for row in np.flatnonzero((array < n_new) & (padding < n_past)):
        raise ValueError(
            f"row {row} has {n_past - padding[row]} real tokens in the cache and lengths says "
            f"{array[row]} of {n_new} new ones: padding must come before all of them"
        )
    return padding + (n_new - array)
