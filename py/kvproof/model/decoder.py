"""The plain decoder: reads the whole context, knows no cache.

This is the reference.  ``cached_decoder.py`` is the same function with a cache; the difference
between the two files is all that a KV cache changes.
"""

import numpy as np
from numpy.typing import ArrayLike

from kvproof.model import layers
from kvproof.model.config import DecoderConfig
from kvproof.model.masks import offset_mask, offset_positions, visible_keys
from kvproof.model.params import FloatArray, Params


def forward(
    params: Params, tokens: ArrayLike, config: DecoderConfig, lengths: ArrayLike | None = None
) -> FloatArray:
    """Logits of every position of ``tokens``.

    Args:
        params: parameters; their dtype is the dtype of the result.
        tokens: int (B, T), IDs below ``config.vocab_size``; vectors (B, T, W) if that is None.
        config: the configuration that ``params`` was made with.
        lengths: int (B,), how many tokens of each row are real; they stand at its right end,
            after padding.  None: all.

    Returns:
        (B, T, V), or hidden states (B, T, W) without a vocabulary.  ``logits[:, t]`` predicts the
        token *after* position t.  Rows of padding are finite and mean nothing.

    Raises:
        ValueError: tokens or lengths have the wrong shape, dtype or range, there are too many of
            them, or ``params`` don't fit ``config``.

    Example:
        >>> params = kvproof.init_params(kvproof.REFERENCE)
        >>> logits = kvproof.forward(params, [[12, 7, 31, 4, 9, 18]], kvproof.REFERENCE)
        >>> logits.shape
        (1, 6, 97)
    """
    layers.check_model(params, config)
    tokens = layers.check_tokens(tokens, config, params.dtype)
    batch_size, n_total = tokens.shape[:2]
    padding = layers.check_padding(lengths, n_total, 0, np.zeros(batch_size, np.int64))
    slots = offset_positions(0, n_total)
    keys = slots[None]
    visible = visible_keys(offset_mask(0, n_total), keys, padding, config.window, config.n_sinks)
    bias = layers.alibi(slots, keys, config, params.dtype)
    places = np.maximum(slots - padding[:, None], 0)  # (B, T): a row begins after its padding
    cos_sin = layers.rotation(places, config, params.dtype)
    x = layers.embed(params, tokens, places)
    for block in params.blocks:
        normed = layers.layer_norm(x, block.norm1)
        q, k, v = layers.project_qkv(normed, block.attention, config.n_heads, config.n_kv_heads)
        q, k = layers.rotate(q, cos_sin), layers.rotate(k, cos_sin)
        attended = layers.scaled_dot_product_attention(q, k, v, visible, bias)
        x = x + layers.merge_heads(attended, block.attention)
        x = layers.mlp(x, block)
    return layers.unembed(params, x)
