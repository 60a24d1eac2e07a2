"""The plain decoder: reads the whole context, knows no cache.

This is the reference.  ``cached_decoder.py`` is the same function with a cache; the difference
between the two files is all that a KV cache changes.
"""

from numpy.typing import ArrayLike

from kvproof import layers
from kvproof.config import DecoderConfig
from kvproof.masks import offset_mask, offset_positions
from kvproof.params import FloatArray, Params


def forward(params: Params, tokens: ArrayLike, config: DecoderConfig) -> FloatArray:
    """Logits of every position of ``tokens``.

    Args:
        params: parameters; their dtype is the dtype of the result.
        tokens: int (B, T), IDs below ``config.vocab_size``.
        config: the sizes that ``params`` was made with.

    Returns:
        (B, T, V).  ``logits[:, t]`` predicts the token *after* position t.

    Raises:
        ValueError: tokens have the wrong shape, dtype or range, there are too many of them, or
            ``params`` don't fit ``config``.
    """
    layers.check_model(params, config)
    tokens = layers.check_tokens(tokens, config)
    n_total = tokens.shape[1]
    visible = offset_mask(0, n_total)
    x = layers.embed(params, tokens, offset_positions(0, n_total))
    for block in params.blocks:
        normed = layers.layer_norm(x, block.norm1)
        q, k, v = layers.project_qkv(normed, block.attention, config.n_heads)
        attended = layers.scaled_dot_product_attention(q, k, v, visible)
        x = x + layers.merge_heads(attended, block.attention)
        x = x + layers.mlp(layers.layer_norm(x, block.norm2), block.mlp)
    return layers.unembed(params, x)
