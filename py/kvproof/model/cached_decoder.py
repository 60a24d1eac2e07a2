"""The same decoder with a cache: reads only the new tokens.

Each layer keeps the keys and values of all tokens that it has seen.  A key or value depends on
its own token's past only, so it never has to be computed again; a query is used once, so it isn't
kept.
"""

from typing import Any

from numpy.typing import ArrayLike

from kvproof.model import layers as model_layers
from kvproof.model.cache import KVCache
from kvproof.model.config import DecoderConfig
from kvproof.model.inputs import prepare
from kvproof.model.masks import Mask, Positions, offset_mask, offset_positions
from kvproof.model.params import FloatArray, Params


def decode(
    params: Params,
    tokens: ArrayLike,
    cache: KVCache,
    config: DecoderConfig,
    mask: Mask = offset_mask,
    lengths: ArrayLike | None = None,
    positions: Positions = offset_positions,
    layers: Any = model_layers,
) -> tuple[FloatArray, KVCache]:
    """Logits of the new tokens, and the cache that includes them.

    Args:
        params: parameters; their dtype is the dtype of the result.
        tokens: int (B, C), or vectors (B, C, W): what follows the tokens in ``cache``.
        cache: from ``new_cache`` or an earlier call.  Its contents are never changed.  A storage
            that writes in place goes over to the returned cache and refuses this one from then
            on; ``cache.fork()`` first to continue twice from the same prefix.
        config: the configuration that ``params`` was made with.
        mask: which keys each query sees; ``top_left_mask`` injects the classic mistake.
        lengths: int (B,), how many of the new tokens of each row are real; they stand at its right
            end.  Padding comes before a row's first real token, never after one.  None: all.
        positions: where the new tokens stand; ``restarted_positions`` injects another.
        layers: the functions that the decoder is made of; another namespace injects a mistake.

    Returns:
        logits (B, C, V), where ``logits[:, i]`` predicts the token after slot P + i, and a
        cache of length P + C.

    Raises:
        ValueError: tokens or lengths have the wrong shape, dtype or range, there are too many of
            them, ``params`` don't fit ``config``, or configuration, batch size or dtype differ
            from those that the cache was made for.  The cache is as it was.
        StaleCacheError: ``cache`` was used up by an earlier call.

    Example:
        >>> params = kvproof.init_params(kvproof.REFERENCE)
        >>> cache = kvproof.new_cache(kvproof.REFERENCE)
        >>> _, cache = kvproof.decode(params, [[12, 7, 31, 4]], cache, kvproof.REFERENCE)
        >>> logits, cache = kvproof.decode(params, [[9, 18]], cache, kvproof.REFERENCE)
        >>> logits.shape, cache.length
        ((1, 2, 97), 6)
        >>> whole = kvproof.forward(params, [[12, 7, 31, 4, 9, 18]], kvproof.REFERENCE)
        >>> np.allclose(logits, whole[:, 4:], rtol=0, atol=1e-5)
        True
    """
    call = prepare(params, tokens, config, lengths, cache, mask, positions, layers)
    x = layers.embed(params, call.tokens, call.positions)  # (B, C, W)
    cache = cache.begin(call.n_new, call.padding)
    for layer, block in enumerate(params.blocks):
        normed = layers.layer_norm(x, block.norm1)  # (B, C, W)
        q, k, v = layers.project_qkv(normed, block, config)  # (B, H, C, D), 2 x (B, H_kv, C, D)
        q = layers.rotate(q, call.rotation)  # (B, H, C, D)
        k = layers.rotate(k, call.rotation)  # (B, H_kv, C, D)
        k, v = cache.append(layer, k, v)  # 2 x (B, H_kv, S, D): the keys and values of all tokens
        y = layers.scaled_dot_product_attention(q, k, v, call.visible, call.bias)  # (B, H, C, D)
        x = x + layers.merge_heads(y, block)  # (B, C, W)
        x = layers.mlp(x, block)  # (B, C, W)
    logits: FloatArray = layers.unembed(params, x)  # (B, C, V)
    cache.advance(call.n_new)  # last, so that whatever fails above leaves the given cache valid
    return logits, cache
