"""Wrong windows: one token too wide, only in one phase; rings that lose what is still needed."""

from dataclasses import replace
from typing import Any

import numpy as np

from kvproof.kinds import Kind
from kvproof.model.cache import KVCache, RollingCache
from kvproof.model.masks import BoolArray, IntArray, visible_keys
from kvproof.zoo.right import LEARNED, WINDOW, RightDecoder
from kvproof.zoo.specimen import broken

WINDOWED = replace(LEARNED, window=WINDOW)


class _Windowed(RightDecoder):
    """Takes another window, depending on the call."""

    config = WINDOWED

    def other_window(self, n_past: int, n_new: int) -> int | None:
        raise NotImplementedError

    def visible_keys(
        self,
        causal: BoolArray,
        keys: IntArray,
        padding: IntArray,
        window: int | None,
        n_sinks: int,
    ) -> BoolArray:
        n_new, n_total = causal.shape
        window = self.other_window(n_total - n_new, n_new)
        return visible_keys(causal, keys, padding, window, n_sinks)


@broken(
    "window-obo-prefill",
    Kind.WINDOW_OBO,
    "mistralai/mistral-inference#60",
    "window 4, one chunk of 5",
    "one shot",
    ("ones",),
)
class WindowOboPrefill(_Windowed):
    """The mask of the prompt lets W + 1 keys through, since its diagonal starts at -W; a decode
    step sees W.
    """

    def other_window(self, n_past: int, n_new: int) -> int | None:
        return WINDOW if n_past else WINDOW + 1


@broken(
    "window-obo-decode",
    Kind.WINDOW_OBO,
    "ml-explore/mlx-lm#390, huggingface/transformers#26792",
    "window 4, chunks [4, 1]",
    "prefill, then ones",
    ("one shot",),
)
class WindowOboDecode(_Windowed):
    """After a history a query sees W earlier keys and itself, W + 1 in all: the mask and the cache
    differ in whether the window counts the token itself.
    """

    def other_window(self, n_past: int, n_new: int) -> int | None:
        return WINDOW + 1 if n_past else WINDOW


@broken(
    "window-obo-short",
    Kind.WINDOW_OBO,
    "ml-explore/mlx-lm#390",
    "window 4, chunks [4, 1]",
    "prefill, then ones",
    ("one shot",),
)
class WindowOboShort(_Windowed):
    """After a history a query sees W - 1 keys, itself included: one token less than in the
    prompt.
    """

    def other_window(self, n_past: int, n_new: int) -> int | None:
        return WINDOW - 1 if n_past else WINDOW


@broken(
    "window-phase-decode",
    Kind.WINDOW_PHASE,
    "karpathy/nanochat#456",
    "window 4, chunks [6, 1]",
    "prefill, then ones",
    ("one shot",),
)
class WindowPhaseDecode(_Windowed):
    """With one new token no mask is made, because it may see all the past; the window is forgotten
    with it.
    """

    def other_window(self, n_past: int, n_new: int) -> int | None:
        return None if n_past and n_new == 1 else WINDOW


@broken(
    "window-phase-short-chunk",
    Kind.WINDOW_PHASE,
    "keras-team/keras-hub#1738",
    "window 4, chunks [6, 1]",
    "prefill, then ones",
    ("one shot",),
)
class WindowPhaseShortChunk(_Windowed):
    """The band is cut out of a square of the size of the chunk, so that the window is no wider than
    the chunk: a single token sees itself.
    """

    def other_window(self, n_past: int, n_new: int) -> int | None:
        return min(n_new, WINDOW)


@broken(
    "window-phase-local",
    Kind.WINDOW_PHASE,
    "trymirai/lalamo#200",
    "window 4, chunks [6, 1]",
    "prefill, then ones",
    ("one shot",),
)
class WindowPhaseLocal(RightDecoder):
    """After a history the window is counted from the row number within the chunk, which is too
    small by the length of the past: nothing is ever left behind.
    """

    config = WINDOWED

    def visible_keys(
        self,
        causal: BoolArray,
        keys: IntArray,
        padding: IntArray,
        window: int,
        n_sinks: int,
    ) -> BoolArray:
        row = np.arange(len(causal))[:, None]
        return visible_keys(causal, keys, padding) & (row - keys[:, None, None, :] < window)


@broken(
    "ring-order-write-first",
    Kind.RING_ORDER,
    "Lightning-AI/litgpt#2215",
    "a ring of 4, chunks [2, 2, 2]",
    "ragged",
    ("ones",),
)
class RingWriteFirst(RightDecoder):
    """The chunk is written into the ring before its queries read: the late tokens have overwritten
    keys that the early ones still need, and a chunk longer than the ring its own.
    """

    config = WINDOWED
    storage = "rolling"

    def visible_keys(
        self, causal: BoolArray, keys: IntArray, padding: IntArray, *limits: Any
    ) -> BoolArray:
        visible = visible_keys(causal, keys, padding, *limits)
        in_ring = keys[:, None, None, :] >= causal.shape[1] - WINDOW
        left = visible & in_ring
        # A query without keys: a finite mask value lets it read whatever the ring holds.
        read: BoolArray = np.where(left.any(axis=-1, keepdims=True), left, in_ring)
        return read


class _SortedRing(RollingCache):
    def key_slots(self, n_new: int) -> IntArray:
        slots = super().key_slots(n_new)
        held = self.slots.shape[1]
        if n_new > 1 and (self.slots >= 0).all():
            slots[:, :held] = np.sort(slots[:, :held], axis=1)
        return slots


@broken(
    "ring-order-assumed",
    Kind.RING_ORDER,
    "Lightning-AI/litgpt#2215, ml-explore/mlx-examples#1000",
    "a ring of 4, chunks [5, 2]",
    "ragged",
    ("one shot", "ones", "prefill, then ones"),
)
class RingOrderAssumed(RightDecoder):
    """The mask of a chunk takes the ring for sorted by time, which it is not once it has wrapped.
    With single tokens no mask is needed and nothing shows.
    """

    config = WINDOWED

    def empty(self, batch_size: int) -> KVCache:
        return _SortedRing.empty(self.shape(batch_size))


@broken(
    "ring-order-early",
    Kind.RING_ORDER,
    "huggingface/transformers#37574",
    "window 4, chunks of 1, the 4th token",
    "ones",
    ("one shot", "prefill, then ones"),
)
class RingEarly(RightDecoder):
    """The ring rolls when the length reaches the window, one step too early: the first token is
    gone while the last query of the first window still needs it.
    """

    config = WINDOWED

    def visible_keys(
        self, causal: BoolArray, keys: IntArray, padding: IntArray, *limits: Any
    ) -> BoolArray:
        visible = visible_keys(causal, keys, padding, *limits)
        n_new, n_total = causal.shape
        if n_total == WINDOW and n_new < WINDOW:
            visible[:, :, -1] &= (keys != 0)[:, None]
        return visible


class _NoQuestions(RollingCache):
    def _gone(self, length: int) -> BoolArray:
        return np.zeros((self.shape.batch_size, length), np.bool_)


@broken(
    "ring-order-crop",
    Kind.RING_ORDER,
    "Blaizzy/mlx-vlm#1715",
    "a ring of 4, 10 tokens, crop to 7, then 1",
    "crop",
    ("one shot", "ones", "prefill, then ones", "ragged"),
)
class RingCrop(RightDecoder):
    """After it has wrapped, the ring is cut back as if it still held all tokens; those that were
    overwritten are missing from the window, without a word.
    """

    config = WINDOWED

    def empty(self, batch_size: int) -> KVCache:
        return _NoQuestions.empty(self.shape(batch_size))
