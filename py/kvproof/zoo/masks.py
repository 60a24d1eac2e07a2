"""Wrong masks: the other corner, none at all, without the token itself, with padding."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kvproof.kinds import Kind
from kvproof.model import layers
from kvproof.model.feeding import in_chunks
from kvproof.model.masks import BoolArray, IntArray, open_mask, top_left_mask, visible_keys
from kvproof.model.params import FloatArray
from kvproof.zoo.right import LEARNED, ROPE, WINDOW, RightDecoder
from kvproof.zoo.specimen import broken

UNPADDED = ("one shot", "ones", "prefill, then ones", "ragged")


@broken(
    "mask-topleft",
    Kind.MASK_TOPLEFT,
    "pytorch/pytorch#103082, lucidrains/x-transformers#187",
    "chunks [3, 1]: the new token sees 1 key instead of 4",
    "prefill, then ones",
    ("one shot",),
)
class MaskTopleft(RightDecoder):
    """The fused attention is called with its causal flag on rectangular scores, where the flag
    means the top left corner: row i sees the keys 0 to i.
    """

    def mask(self, cache: Any, n_new: int, padding: IntArray) -> BoolArray:
        return top_left_mask(cache.length, n_new)


@broken(
    "mask-topleft-chunks",
    Kind.MASK_TOPLEFT,
    "hyprstream/hyprstream#1521, huggingface/candle#3236",
    "chunks [3, 2]",
    "ragged",
    ("one shot", "ones", "prefill, then ones"),
)
class MaskTopleftChunks(RightDecoder):
    """With one new token the mask is left out, which is right, so that plain generation works; a
    second turn or a hit in the prefix cache gets the triangle of its own size.
    """

    def mask(self, cache: Any, n_new: int, padding: IntArray) -> BoolArray:
        if n_new == 1:
            return super().mask(cache, n_new, padding)
        return top_left_mask(cache.length, n_new)


@broken(
    "mask-topleft-reference",
    Kind.MASK_TOPLEFT,
    "pytorch/executorch#21749, onnx/onnx#8068",
    "a text of 9 tokens",
    "full",
    ("one shot", "ones", "prefill, then ones", "ragged"),
    gold="full() is the wrong side: a checker that trusts it blames the cache",
)
class MaskTopleftReference(RightDecoder):
    """The reference itself reads long texts in pieces of 8, and after the first piece its mask
    hides the past.  The cache is right.
    """

    supports_padding = False

    def full(self, tokens: ArrayLike, lengths: ArrayLike | None = None) -> FloatArray:
        n_total = np.asarray(tokens).shape[1]
        sizes = [min(8, n_total - start) for start in range(0, n_total, 8)]
        text = layers.check_tokens(tokens, self.config, self.params.dtype)
        mask = top_left_mask
        return in_chunks(self.params, text, self.config, sizes, lengths=lengths, mask=mask)[0]


@broken(
    "mask-skipped-cache",
    Kind.MASK_SKIPPED,
    "Mikyx-1/TinyLLM#17",
    "one chunk of 2 with an empty cache",
    "one shot",
    ("ones",),
)
class MaskSkippedCache(RightDecoder):
    """The causal mask is applied only if no cache is passed, but the prompt is read with an empty
    one: its tokens see their future, and that is what gets stored.
    """

    def mask(self, cache: Any, n_new: int, padding: IntArray) -> BoolArray:
        return open_mask(cache.length, n_new)


@broken(
    "mask-skipped-past",
    Kind.MASK_SKIPPED,
    "QwenLM/Qwen#979",
    "chunks [5, 2]",
    "ragged",
    ("one shot", "ones", "prefill, then ones"),
)
class MaskSkippedPast(RightDecoder):
    """After a history no mask is made, since generation feeds single tokens; several tokens at
    once see each other's future.
    """

    def mask(self, cache: Any, n_new: int, padding: IntArray) -> BoolArray:
        if cache.length:
            return open_mask(cache.length, n_new)
        return super().mask(cache, n_new, padding)


@broken(
    "mask-skipped-padded",
    Kind.MASK_SKIPPED,
    "huggingface/transformers#41966",
    "2 rows, one of them padded, one chunk of 3",
    "padded",
    UNPADDED,
)
class MaskSkippedPadded(RightDecoder):
    """As soon as a padding mask is given the causal flag is switched off, as if the one replaced
    the other.
    """

    def mask(self, cache: Any, n_new: int, padding: IntArray) -> BoolArray:
        if padding.any():
            return open_mask(cache.length, n_new)
        return super().mask(cache, n_new, padding)


@broken(
    "self-read-chunk",
    Kind.SELF_READ,
    "harvard-edge/cs249r_book#1953",
    "chunks [3, 1]",
    "prefill, then ones",
    ("one shot",),
)
class SelfReadChunk(RightDecoder):
    """Attention reads the cache before the counter has been moved, so the tokens of the call are
    written but not read: each sees the history without itself.
    """

    def mask(self, cache: Any, n_new: int, padding: IntArray) -> BoolArray:
        mask = super().mask(cache, n_new, padding)
        if cache.length:
            mask[:, cache.length :] = False
        return mask


@broken(
    "self-read-last",
    Kind.SELF_READ,
    "harvard-edge/cs249r_book#1953",
    "chunks [3, 1]",
    "prefill, then ones",
    ("one shot",),
)
class SelfReadLast(RightDecoder):
    """The number of keys to read is taken from an index instead of a count: the last one is
    missing.
    """

    def mask(self, cache: Any, n_new: int, padding: IntArray) -> BoolArray:
        mask = super().mask(cache, n_new, padding)
        if cache.length:
            mask[:, -1] = False
        return mask


@broken(
    "pad-mask-decode",
    Kind.PAD_MASK,
    "huggingface/transformers#18104",
    "3 rows with 0, 3 and 5 of left padding, prefill, then 1",
    "padded",
    UNPADDED,
)
class PadMaskDecode(RightDecoder):
    """The padding mask is passed with the prompt only; later tokens also attend to the keys of the
    padding.
    """

    config = ROPE

    def visible_keys(
        self, causal: BoolArray, keys: IntArray, padding: IntArray, *limits: Any
    ) -> BoolArray:
        n_new, n_total = causal.shape
        hidden = padding if n_new == n_total else np.zeros_like(padding)
        return visible_keys(causal, keys, hidden, *limits)


@broken(
    "pad-mask-offset",
    Kind.PAD_MASK,
    "lablup/mlxcel#76",
    "2 rows with 0 and 3 of left padding, prefill, then 1",
    "padded",
    UNPADDED,
)
class PadMaskOffset(RightDecoder):
    """The offset of the causal mask is a counter that begins at minus the padding, where the number
    of stored slots is meant: padded rows lose their newest keys.
    """

    config = ROPE

    def visible_keys(
        self, causal: BoolArray, keys: IntArray, padding: IntArray, *limits: Any
    ) -> BoolArray:
        n_new, n_total = causal.shape
        visible = visible_keys(causal, keys, padding, *limits)
        if n_new == n_total:
            return visible
        query = np.arange(n_total - n_new, n_total)[:, None] - padding[:, None, None, None]
        narrowed = visible & (keys[:, None, None, :] <= query)
        # Nothing left: a finite mask value leaves the scores as they are relative to each other.
        return np.where(narrowed.any(axis=-1, keepdims=True), narrowed, visible)


@broken(
    "pad-mask-sinks",
    Kind.PAD_MASK,
    "ml-explore/mlx-lm#439",
    "window 4 with 2 sinks, 3 rows with 0, 3 and 5 of left padding, 9 tokens",
    "padded",
    UNPADDED,
)
class PadMaskSinks(RightDecoder):
    """The places that shall keep a row's first tokens for ever are taken by its padding, which is
    stored like any token.
    """

    config = replace(LEARNED, window=WINDOW, n_sinks=2)

    def visible_keys(
        self,
        causal: BoolArray,
        keys: IntArray,
        padding: IntArray,
        window: int | None,
        n_sinks: int,
    ) -> BoolArray:
        seen = visible_keys(causal, keys, padding, window)
        all_past = visible_keys(causal, keys, padding)
        return seen | (all_past & (keys < n_sinks)[:, None, None, :])
