"""The wrong head, layer or array: what is read belongs to another key."""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from kvproof.kinds import Kind
from kvproof.model.cache import ConcatCache, KVCache
from kvproof.model.params import FloatArray
from kvproof.zoo.right import BLOCK_SIZE, RightDecoder
from kvproof.zoo.specimen import broken

Pair = tuple[FloatArray, FloatArray]


class _Reading(ConcatCache):
    """Stores what is right and returns something else to read."""

    def _append(self, layer: int, keys: FloatArray, values: FloatArray) -> Pair:
        pair = super()._append(layer, keys, values)
        return self.read(layer, pair, keys.shape[2])

    def read(self, layer: int, pair: Pair, n_new: int) -> Pair:
        """What queries of ``layer`` get of (K, V), each (B, H_kv, P + C, D)."""
        raise NotImplementedError


class _ReadsOther(RightDecoder):
    cache: type[_Reading]

    def empty(self, batch_size: int) -> KVCache:
        return self.cache.empty(self.shape(batch_size))


class _LastLayer(_Reading):
    def read(self, layer: int, pair: Pair, n_new: int) -> Pair:
        if self.length == 0 or layer == self.shape.n_layers - 1:
            return pair
        keys, values = (array[-1][:, :, : self.length] for array in (self.keys, self.values))
        new_keys, new_values = (array[:, :, -n_new:] for array in pair)
        return np.concatenate([keys, new_keys], 2), np.concatenate([values, new_values], 2)


@broken(
    "layer-mix-last",
    Kind.LAYER_MIX,
    "TrenTorch/TrenTorch#141",
    "2 layers, chunks [2, 1]",
    "prefill, then ones",
    ("one shot",),
)
class LayerMixLast(_ReadsOther):
    """Each layer reads the history of the last one: a function made in a loop keeps the variable,
    not its value.
    """

    cache = _LastLayer


class _FirstLayer(_Reading):
    def read(self, layer: int, pair: Pair, n_new: int) -> Pair:
        return self.keys[0], self.values[0]


@broken(
    "layer-mix-shared",
    Kind.LAYER_MIX,
    "ml-explore/mlx-lm#1702",
    "2 layers, one chunk",
    "one shot",
    gold="which side is right depends on the model's definition; from outside they only differ",
)
class LayerMixShared(_ReadsOther):
    """Layers share keys and values if there is a cache, and use their own if there is none: the
    sharing hangs on the cache object, so the two paths are two models.
    """

    cache = _FirstLayer


class _Heads(_Reading):
    heads: Sequence[int]
    single_only = False

    def read(self, layer: int, pair: Pair, n_new: int) -> Pair:
        if self.single_only and (n_new > 1 or self.length == 0):
            return pair
        return pair[0][:, self.heads], pair[1][:, self.heads]


class _Tiled(_Heads):
    heads = (0, 1, 0, 1)


@broken(
    "head-map-cached",
    Kind.HEAD_MAP,
    "ekzhang/jax-js#180",
    "4 query heads, 2 kv heads, one token",
    "one shot",
)
class HeadMapCached(_ReadsOther):
    """On its way out of the cache the kv heads are tiled (0, 1, 0, 1) instead of repeated
    (0, 0, 1, 1), so that query heads read the other group's keys.
    """

    cache = _Tiled


@broken(
    "head-map-both",
    Kind.HEAD_MAP,
    "onnx/onnx#7274",
    "4 query heads, 2 kv heads, one token; needs another implementation to compare with",
    "one shot",
    gold="full() and step() share the mistake: no comparison between the two can show it",
)
class HeadMapBoth(_ReadsOther):
    """The operator tiles the kv heads where the model was trained with repeated ones, with a cache
    and without.
    """

    cache = _Tiled

    def full(self, tokens: ArrayLike, lengths: ArrayLike | None = None) -> FloatArray:
        return self.step(tokens, None, lengths)[0]


class _Straddling(_Heads):
    heads = (0, 0, 0, 1)
    single_only = True


@broken(
    "head-map-straddling",
    Kind.HEAD_MAP,
    "FlashML-org/FreeToken#177",
    "4 query heads, 2 kv heads, chunks [2, 1]",
    "prefill, then ones",
    ("one shot",),
)
class HeadMapStraddling(_ReadsOther):
    """The kernel for one token works on tiles of 3 query heads and takes the kv head of the first
    in each, though a tile can reach into the next group.
    """

    cache = _Straddling


class _ValuesFromKeys(ConcatCache):
    def reorder(self, rows: Sequence[int]) -> Self:
        handle = super().reorder(rows)
        handle.values = list(handle.keys)
        return handle


@broken(
    "kv-layout-reorder",
    Kind.KV_LAYOUT,
    "huggingface/transformers#34232",
    "3 rows, reorder [2, 0, 0], then 1",
    "reorder",
    ("one shot", "ones", "prefill, then ones", "ragged", "padded", "crop", "fork"),
)
class KvLayoutReorder(RightDecoder):
    """Selecting rows of the batch fills the values from the keys, by a copied line; both have the
    same shape, so nothing complains.
    """

    def empty(self, batch_size: int) -> KVCache:
        return _ValuesFromKeys.empty(self.shape(batch_size))


class _Strides(_Reading):
    def read(self, layer: int, pair: Pair, n_new: int) -> Pair:
        if self.length == 0:
            return pair
        # (B, T, H, D) in memory, taken for (B, H, T, D)
        keys, values = (np.ascontiguousarray(a.swapaxes(1, 2)).reshape(a.shape) for a in pair)
        return keys, values


@broken(
    "kv-layout-strides",
    Kind.KV_LAYOUT,
    "pytorch/pytorch#181133",
    "2 kv heads, chunks [2, 1]",
    "prefill, then ones",
    ("one shot",),
)
class KvLayoutStrides(_ReadsOther):
    """The cache is a transposed view of a buffer (batch, time, heads), and a kernel reads its
    memory as if it were contiguous (batch, heads, time).
    """

    cache = _Strides


class _Interleaved(_Reading):
    def read(self, layer: int, pair: Pair, n_new: int) -> Pair:
        n_tokens = pair[0].shape[2]
        memory = [
            array[:, :, start : start + BLOCK_SIZE]
            for start in range(0, n_tokens, BLOCK_SIZE)
            for array in pair
        ]
        if n_tokens % BLOCK_SIZE:
            gap = np.zeros_like(pair[0][:, :, : BLOCK_SIZE - n_tokens % BLOCK_SIZE])
            memory[-2:] = [np.concatenate([block, gap], axis=2) for block in memory[-2:]]
        n_blocks = len(memory) // 2
        keys = np.concatenate(memory[:n_blocks], axis=2)[:, :, :n_tokens]
        values = np.concatenate(memory[1 : n_blocks + 1], axis=2)[:, :, :n_tokens]
        return keys, values


@broken(
    "kv-layout-interleaved",
    Kind.KV_LAYOUT,
    "ROCm/aiter#3498",
    "blocks of 4, 5 tokens",
    "one shot",
    (),
)
class KvLayoutInterleaved(_ReadsOther):
    """Blocks of keys and of values alternate in memory; the kernel works out the distance of two
    blocks from their size and finds values where it looks for keys.
    """

    cache = _Interleaved
