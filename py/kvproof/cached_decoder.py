"""The same decoder with a cache: reads only the new tokens.

Each layer keeps the keys and values of all tokens that it has seen.  A key or value depends on
its own token's past only, so it never has to be computed again; a query is used once, so it isn't
kept.
"""

from numpy.typing import ArrayLike

from kvproof import layers
from kvproof.cache import ConcatCache
from kvproof.config import DecoderConfig
from kvproof.masks import Mask, Positions, offset_mask, offset_positions
from kvproof.params import FloatArray, Params


def decode(
    params: Params,
    tokens: ArrayLike,
    cache: ConcatCache,
    config: DecoderConfig,
    mask: Mask = offset_mask,
    positions: Positions = offset_positions,
) -> tuple[FloatArray, ConcatCache]:
    """Logits of the new tokens, and the cache that includes them.

    Args:
        params: parameters; their dtype is the dtype of the result.
        tokens: int (B, C), the tokens that follow those in ``cache``.
        cache: from ``new_cache`` or an earlier call.  It is never changed, so several
            continuations may start from the same one.
        config: the sizes that ``params`` was made with.
        mask: which keys each query sees; ``top_left_mask`` injects the classic mistake.
        positions: where the new tokens stand; ``restarted_positions`` injects another.

    Returns:
        logits (B, C, V), where ``logits[:, i]`` predicts the token after position P + i, and a
        cache of length P + C.

    Raises:
        ValueError: tokens have the wrong shape, dtype or range, there are too many of them,
            ``params`` don't fit ``config``, or layers, batch size or dtype differ from the cache's.
    """
    layers.check_model(params, config)
    cache.check_layers(config.n_layers)
    n_past = cache.length
    tokens = layers.check_tokens(tokens, config, n_past)
    n_new = tokens.shape[1]
    visible = mask(n_past, n_new)
    x = layers.embed(params, tokens, positions(n_past, n_new))
    cache = cache.fork()
    for layer, block in enumerate(params.blocks):
        normed = layers.layer_norm(x, block.norm1)
        q, k, v = layers.project_qkv(normed, block.attention, config.n_heads)
        k, v = cache.append(layer, k, v)
        attended = layers.scaled_dot_product_attention(q, k, v, visible)
        x = x + layers.merge_heads(attended, block.attention)
        x = x + layers.mlp(layers.layer_norm(x, block.norm2), block.mlp)
    cache.advance(n_new)
    return layers.unembed(params, x), cache
