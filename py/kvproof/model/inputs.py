"""What a call needs besides its parameters, the same for all layers: checked and looked up once."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kvproof.model import layers as model_layers
from kvproof.model.cache import KVCache
from kvproof.model.config import DecoderConfig
from kvproof.model.masks import (
    BoolArray,
    IntArray,
    Mask,
    Positions,
    check_mask,
)
from kvproof.model.params import FloatArray, Params


@dataclass(frozen=True, eq=False)
class Inputs:
    """The tokens of a call, where they stand, and what they may attend to.

    Letters as in ``layers``; C new tokens, S keys at hand: P + C of them, or those of a ring.
    """

    tokens: model_layers.Tokens
    """Int (B, C), or vectors (B, C, W)."""
    padding: IntArray
    """(B,): slots at the beginning of each row that hold no token, those of this call included."""
    positions: IntArray
    """(B, C): a row begins after its padding; 0 in the padding itself."""
    visible: BoolArray
    """(B, 1, C, S), True = may attend."""
    bias: FloatArray | None
    """ALiBi, (1 or B, H, C, S)."""
    rotation: FloatArray | None
    """RoPE's cosines and sines, (2, B, 1, C, D / 2)."""

    @property
    def n_new(self) -> int:
        """C."""
        n_new: int = self.tokens.shape[1]
        return n_new


def prepare(
    params: Params,
    tokens: ArrayLike,
    config: DecoderConfig,
    lengths: ArrayLike | None,
    cache: KVCache | None,
    mask: Mask,
    positions: Positions,
    layers: Any,
) -> Inputs:
    """Check what a decoder was given, and look up all that no layer changes.

    Args:
        params: see ``decode``, as for all that follow.
        tokens: the new ones.
        config: of the decoder.
        lengths: real tokens of each row.
        cache: what comes before; None: nothing does.
        mask: of the call.
        positions: of the call.
        layers: the functions to call.

    Raises:
        ValueError: something doesn't fit; nothing has changed.
    """
    layers.check_model(params, config)
    n_past = 0 if cache is None else cache.length
    new: model_layers.Tokens = layers.check_tokens(tokens, config, params.dtype, n_past)
    batch_size, n_new = new.shape[:2]
    if cache is None:
        padding, keys = np.zeros(batch_size, np.int64), np.arange(n_new)[None]
    else:
        cache.check_fits(config, batch_size, params.dtype)
        padding, keys = cache.padding, cache.key_slots(n_new)
    padding = layers.check_padding(lengths, n_new, n_past, padding)
    slots = positions(n_past, n_new)
    causal = check_mask(mask(n_past, n_new), n_past, n_new)
    standing = np.maximum(slots - padding[:, None], 0)
    return Inputs(
        new,
        padding,
        standing,
        layers.visible_keys(causal, keys, padding, config.window, config.n_sinks),
        layers.alibi(slots, keys, config, params.dtype),
        layers.rotation(standing, config, params.dtype),
    )
