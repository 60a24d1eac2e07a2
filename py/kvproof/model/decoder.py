"""The plain decoder: reads the whole context, knows no cache.

This is the reference.  ``cached_decoder.py`` is the same function with a cache; the difference
between the two files is all that a KV cache changes.  In both C is the number of tokens of a call,
here the whole text.
"""

from typing import Any

from numpy.typing import ArrayLike

from kvproof.model import layers as model_layers
from kvproof.model.config import DecoderConfig
from kvproof.model.inputs import prepare
from kvproof.model.masks import offset_mask, offset_positions
from kvproof.model.params import FloatArray, Params


def forward(
    params: Params,
    tokens: ArrayLike,
    config: DecoderConfig,
    lengths: ArrayLike | None = None,
    layers: Any = model_layers,
) -> FloatArray:
    """Logits of every position of ``tokens``.

    Args:
        params: parameters; their dtype is the dtype of the result.
        tokens: int (B, T), IDs below ``config.vocab_size``; vectors (B, T, W) if that is None.
        config: the configuration that ``params`` was made with.
        lengths: int (B,), how many tokens of each row are real; they stand at its right end,
            after padding.  None: all.
        layers: the functions that the decoder is made of; another namespace injects a mistake.

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
    call = prepare(params, tokens, config, lengths, None, offset_mask, offset_positions, layers)
    x = layers.embed(params, call.tokens, call.positions)  # (B, C, W)
    for block in params.blocks:
        normed = layers.layer_norm(x, block.norm1)  # (B, C, W)
        q, k, v = layers.project_qkv(normed, block, config)  # (B, H, C, D), 2 x (B, H_kv, C, D)
        q = layers.rotate(q, call.rotation)  # (B, H, C, D)
        k = layers.rotate(k, call.rotation)  # (B, H_kv, C, D)
        y = layers.scaled_dot_product_attention(q, k, v, call.visible, call.bias)  # (B, H, C, D)
        x = x + layers.merge_heads(y, block)  # (B, C, W)
        x = layers.mlp(x, block)  # (B, C, W)
    logits: FloatArray = layers.unembed(params, x)  # (B, C, V)
    return logits
