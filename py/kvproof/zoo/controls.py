"""Right decoders that look wrong: what a checker must not report."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from kvproof.model import layers
from kvproof.model.cache import STORAGES, KVCache, PagedCache, new_cache
from kvproof.model.config import DecoderConfig
from kvproof.model.masks import BoolArray, IntArray, visible_keys
from kvproof.model.params import FloatArray
from kvproof.zoo.positions import ROOMY
from kvproof.zoo.reuse import PrefixStore
from kvproof.zoo.right import ALIBI, BLOCK_SIZE, LEARNED, ROPE, WINDOW, RightDecoder
from kvproof.zoo.slots import _OneBuffer, _Paged


@dataclass(frozen=True)
class Control:
    """A decoder that is right, and why one might think otherwise."""

    name: str
    story: str
    make: Callable[..., RightDecoder]
    """``make(seed=0)``."""


class ShiftedRope(RightDecoder):
    """All rotary positions are 5 higher: a score depends on the distance only, so keys differ from
    those of a recompute and logits don't.
    """

    config = ROOMY
    longest = LEARNED.max_positions

    def positions(self, cache: Any, n_new: int, padding: IntArray) -> IntArray:
        return super().positions(cache, n_new, padding) + 5


class SlotsEverywhere(RightDecoder):
    """In a padded batch rotary positions count the padding, in the prompt and later alike: one
    shift for each row, and the same as above.
    """

    config = ROPE

    def positions(self, cache: Any, n_new: int, padding: IntArray) -> IntArray:
        return super().positions(cache, n_new, padding) + padding[:, None]


class AlibiByKeys(RightDecoder):
    """The ALiBi bias is slope * key position, without the query's: a constant for each query, which
    the softmax doesn't see.
    """

    config = ALIBI

    def alibi(
        self, queries: IntArray, keys: IntArray, config: DecoderConfig, dtype: DTypeLike
    ) -> FloatArray | None:
        return layers.alibi(np.zeros_like(queries), keys, config, dtype)


class _Shuffled(PagedCache):
    def _append(
        self, layer: int, keys: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        pair = super()._append(layer, keys, values)
        if self.padding.any():
            return pair
        n_full = self.length // BLOCK_SIZE
        order = np.arange(n_full * BLOCK_SIZE).reshape(n_full, BLOCK_SIZE)[::-1].ravel()
        order = np.concatenate([order, np.arange(len(order), pair[0].shape[2])])
        return pair[0][:, :, order], pair[1][:, :, order]


class ShuffledPages(_Paged):
    """The full pages of a row are read in reverse: attention over keys that are all visible is a
    sum, and a rotated key carries its position with it.
    """

    config = ROPE
    cache = _Shuffled


class StaleButMasked(_OneBuffer):
    """After the tokens lies what an earlier request left in the buffer, and the mask hides it."""

    def visible_keys(
        self, causal: BoolArray, keys: IntArray, padding: IntArray, *limits: Any
    ) -> BoolArray:
        return visible_keys(causal, keys, padding, *limits)


class RefedAfterTrim(PrefixStore):
    """On an exact hit the last token of a known prompt is removed from the cache, then fed again to
    get its logits.
    """


class RightInt8(RightDecoder):
    """Keys and values as int8 with a scale for each token and head: inexact, as declared, and the
    same in every chunking.
    """

    storage = "int8"


class OneMorePlace(RightDecoder):
    """A ring with more places than the window needs holds keys that nobody sees any more."""

    config = replace(ROPE, window=WINDOW)
    storage = "rolling"

    def empty(self, batch_size: int) -> KVCache:
        return new_cache(self.config, batch_size, self.params.dtype, "rolling", 2 * WINDOW)


def _control(name: str, decoder: type[RightDecoder]) -> Control:
    return Control(name, " ".join((decoder.__doc__ or "").split()), decoder)


CONTROLS: dict[str, Control] = {
    name: _control(name, decoder)
    for name, decoder in {
        "shifted-rope": ShiftedRope,
        "slots-everywhere": SlotsEverywhere,
        "alibi-by-keys": AlibiByKeys,
        "shuffled-pages": ShuffledPages,
        "stale-but-masked": StaleButMasked,
        "refed-after-trim": RefedAfterTrim,
        "right-int8": RightInt8,
        "one-more-place": OneMorePlace,
    }.items()
}
"""Name -> control."""

VARIANTS: dict[str, DecoderConfig] = {
    "learned": LEARNED,
    "rope": ROPE,
    "alibi": ALIBI,
    "no-positions": replace(LEARNED, positions="none"),
    "modern": replace(ROPE, norm="rmsnorm", mlp="swiglu"),
    "one-kv-head": replace(ROPE, n_kv_heads=1),
    "all-kv-heads": replace(LEARNED, n_kv_heads=4),
    "attention-only": replace(ROPE, mlp="none"),
    "one-layer": replace(ROPE, n_layers=1),
    "window": replace(ROPE, window=WINDOW),
    "window-learned": replace(LEARNED, window=WINDOW),
    "sinks": replace(ROPE, window=WINDOW, n_sinks=2),
}
"""Configurations of the core that differ in one thing or two."""


def _suits(storage: str, config: DecoderConfig) -> bool:
    try:
        new_cache(config, storage=storage)
    except ValueError:
        return False
    return True


RIGHT: dict[str, Callable[..., RightDecoder]] = {
    f"{name}-{storage}": partial(RightDecoder, config=config, storage=storage)
    for name, config in VARIANTS.items()
    for storage in STORAGES
    if _suits(storage, config)
}
"""Every storage under every variant: name -> ``make(seed=0)``."""
