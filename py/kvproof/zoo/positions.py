"""Wrong positions: restarted, drifting, not per row, rotated in another frame or frequency."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from kvproof.kinds import Kind
from kvproof.model import layers
from kvproof.model.cache import ConcatCache, KVCache
from kvproof.model.config import DecoderConfig
from kvproof.model.masks import IntArray, offset_positions, restarted_positions
from kvproof.model.params import FloatArray
from kvproof.zoo.right import ALIBI, LEARNED, ROPE, WINDOW, RightDecoder
from kvproof.zoo.specimen import broken

ROOMY = replace(ROPE, max_positions=128)
"""Positions that run ahead must not run out of the table."""
WINDOWED_ROPE = replace(ROPE, window=WINDOW)
ONE_LAYER = replace(ROPE, n_layers=1)


class _Restarted(RightDecoder):
    def positions(self, cache: Any, n_new: int, padding: IntArray) -> IntArray:
        if cache.length == 0:
            return super().positions(cache, n_new, padding)
        restarted = restarted_positions(cache.length, n_new)
        # One position for all rows where that will do: ALiBi takes no other.
        return restarted + padding[:, None] if padding.any() else restarted


@broken(
    "pos-reset-learned",
    Kind.POS_RESET,
    "huggingface/transformers#15751",
    "learned positions, chunks [2, 1]",
    "prefill, then ones",
    ("one shot",),
)
class PosResetLearned(_Restarted):
    """The position embedding of each call begins at 0 again, because one branch of the helper that
    numbers the tokens forgot to add the past length.
    """


@broken(
    "pos-reset-rope",
    Kind.POS_RESET,
    "Blaizzy/mlx-vlm#1983",
    "rope, chunks [2, 1]",
    "prefill, then ones",
    ("one shot",),
)
class PosResetRope(_Restarted):
    """Queries and keys of each call are rotated from position 0: a helper always passes the numbers
    of the current chunk, so that the branch in attention that knows the offset is dead code.
    """

    config = ROPE


class _OtherQueries(RightDecoder):
    """Rotates keys by one table and queries by another; told apart by the number of heads."""

    config = ROPE

    def rotate(self, x: FloatArray, tables: tuple[FloatArray, FloatArray]) -> FloatArray:
        of_queries, of_keys = tables
        is_query = x.shape[1] == self.config.n_heads
        return layers.rotate(x, of_queries if is_query else of_keys)


def _table(places: IntArray, config: DecoderConfig, dtype: DTypeLike) -> FloatArray:
    table = layers.rotation(places, config, dtype)
    assert table is not None  # all that ask have rope
    return table


@broken(
    "pos-reset-query",
    Kind.POS_RESET,
    "RobertCsordas/moeut#6",
    "rope, chunks [2, 1]",
    "prefill, then ones",
    ("one shot",),
)
class PosResetQuery(_OtherQueries):
    """Only the queries restart at 0: their offset is the number of cached keys, read before the
    cached keys have been put in front of the new ones.
    """

    def rotation(
        self, places: IntArray, config: DecoderConfig, dtype: DTypeLike
    ) -> tuple[FloatArray, FloatArray]:
        return _table(places - places[:, :1], config, dtype), _table(places, config, dtype)


class _CountingCache(ConcatCache):
    """Has a position counter besides its length, as many decoders do."""

    offset = 0
    calls = 0

    def count(self, n_new: int) -> int:
        """By how much a call moves the counter."""
        return n_new

    def advance(self, n_new: int) -> None:
        super().advance(n_new)
        self.calls += 1
        self.offset += self.count(n_new)

    def fork(self) -> Self:
        return self._counted(super().fork())

    def reorder(self, rows: Sequence[int]) -> Self:
        return self._counted(super().reorder(rows))

    def crop(self, length: int) -> Self:
        handle = self._counted(super().crop(length))
        handle.offset = length
        return handle

    def _counted(self, handle: Self) -> Self:
        handle.offset, handle.calls = self.offset, self.calls
        return handle


class _Counting(RightDecoder):
    """Takes positions from the cache's counter."""

    config = ROOMY
    longest = LEARNED.max_positions
    cache: type[_CountingCache]

    def empty(self, batch_size: int) -> KVCache:
        return self.cache.empty(self.shape(batch_size))

    def positions(self, cache: Any, n_new: int, padding: IntArray) -> IntArray:
        return offset_positions(cache.offset, n_new)


class _PromptTwice(_CountingCache):
    def count(self, n_new: int) -> int:
        return self.length - n_new if self.calls == 2 else n_new


@broken(
    "pos-drift-prompt-twice",
    Kind.POS_DRIFT,
    "skyzh/tiny-llm#46",
    "rope, chunks [6, 1, 1]: offsets 0, 6, 12 instead of 0, 6, 7",
    "prefill, then ones",
    ("one shot", "ones"),
)
class PosDriftPromptTwice(_Counting):
    """The loop adds the size of the prompt to the offset again after the first decode step, since
    the variable still holds the prompt, where it should add the one new token.
    """

    cache = _PromptTwice


class _HeadsCounted(_CountingCache):
    def count(self, n_new: int) -> int:
        return self.shape.config.n_kv_heads


@broken(
    "pos-drift-heads",
    Kind.POS_DRIFT,
    "fla-org/flash-linear-attention#126",
    "rope, 2 kv heads, chunks [3, 1]",
    "prefill, then ones",
    ("one shot", "twos"),
)
class PosDriftHeads(_Counting):
    """Each call moves the counter by the number of heads: after a transposition the code still
    reads the size of the axis where time used to be.
    """

    cache = _HeadsCounted


class _OneCounted(_CountingCache):
    def count(self, n_new: int) -> int:
        return n_new if self.calls == 1 else 1


@broken(
    "pos-drift-accept",
    Kind.POS_DRIFT,
    "huggingface/transformers#30042",
    "rope, chunks [6, 3, 1]",
    "ragged",
    ("one shot", "ones", "prefill, then ones"),
)
class PosDriftAccept(_Counting):
    """Every call after the prompt moves the counter by 1, although speculative decoding accepts
    several tokens at once: the update was written for a loop that feeds single tokens.
    """

    cache = _OneCounted


@broken(
    "pos-drift-window-length",
    Kind.POS_DRIFT,
    "huggingface/transformers#38156",
    "learned positions, window 4, chunks [6, 1]",
    "prefill, then ones",
    ("one shot",),
)
class PosDriftWindowLength(RightDecoder):
    """Positions come from the number of tokens held by a sliding layer, which stops growing at the
    window: from there on each token gets the same position.
    """

    config = replace(LEARNED, window=WINDOW)

    def positions(self, cache: Any, n_new: int, padding: IntArray) -> IntArray:
        held: IntArray = np.minimum(cache.length - padding, WINDOW)  # (B,)
        return (held + padding)[:, None] + np.arange(n_new)


class _SlotsInDecode(RightDecoder):
    def positions(self, cache: Any, n_new: int, padding: IntArray) -> IntArray:
        slots = offset_positions(cache.length, n_new)
        return slots if cache.length == 0 else slots + padding[:, None]


@broken(
    "pos-perrow-learned",
    Kind.POS_PERROW,
    "unslothai/unsloth#4078",
    "learned positions, 3 rows with 0, 3 and 5 of left padding, prefill, then 1",
    "padded",
    ("one shot", "ones", "prefill, then ones", "ragged"),
)
class PosPerrowLearned(_SlotsInDecode):
    """While decoding, all rows of a left-padded batch get the slot number as their position: only
    the row without padding is right.
    """


@broken(
    "pos-perrow-rope",
    Kind.POS_PERROW,
    "scouzi1966/maclocal-api#92",
    "rope, 3 rows with 0, 3 and 5 of left padding, prefill, then 1",
    "padded",
    ("one shot", "ones", "prefill, then ones", "ragged"),
)
class PosPerrowRope(_SlotsInDecode):
    """Prompts are rotated from 0 in each row, later tokens by the batch's common cursor, which
    counts the padding.  Either rule alone would do.
    """

    config = ROPE


@broken(
    "pos-perrow-cumsum",
    Kind.POS_PERROW,
    "mosaicml/examples#257",
    "learned positions, one padded row, chunks [6, 1]",
    "padded",
    ("one shot", "ones", "prefill, then ones", "ragged"),
)
class PosPerrowCumsum(_Restarted):
    """With a padding mask, positions are a running count of real tokens, but the cut to the newest
    tokens happens before the counting instead of after it.
    """

    def positions(self, cache: Any, n_new: int, padding: IntArray) -> IntArray:
        if padding.any():
            return super().positions(cache, n_new, padding)
        return offset_positions(cache.length, n_new)


class _RotatedAgain(ConcatCache):
    def _append(
        self, layer: int, keys: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        if self.length:
            table = _table(np.arange(self.length)[None], ROPE, self.shape.dtype)
            self.keys[layer] = layers.rotate(self.keys[layer], table)
        return super()._append(layer, keys, values)


@broken(
    "rope-frame-again",
    Kind.ROPE_FRAME,
    "NeuraLegion/shainet#110",
    "rope, 1 layer, chunks [2, 1]",
    "prefill, then ones",
    ("one shot",),
)
class RopeFrameAgain(RightDecoder):
    """Keys are stored rotated, and each call rotates all that it reads from the cache once more:
    the code was written for a cache of unrotated keys.
    """

    config = ROPE

    def empty(self, batch_size: int) -> KVCache:
        return _RotatedAgain.empty(self.shape(batch_size))


class _SlidBack(ConcatCache):
    def _append(
        self, layer: int, keys: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        n_total = self.length + keys.shape[2]
        slide = max(0, n_total - WINDOW) - max(0, self.length - WINDOW)
        cos, sin = _table(np.array([[slide]]), WINDOWED_ROPE, self.shape.dtype)
        if self.length:
            self.keys[layer] = layers.rotate(self.keys[layer], np.stack([cos, -sin]))
        return super()._append(layer, keys, values)


@broken(
    "rope-frame-slide",
    Kind.ROPE_FRAME,
    "huggingface/transformers#33691",
    "rope, window 4, 1 layer, chunks [5, 1]",
    "prefill, then ones",
    ("one shot",),
)
class RopeFrameSlide(RightDecoder):
    """When the window slides, the keys that stay are rotated back to positions within the window,
    but the new tokens keep their absolute ones.
    """

    config = WINDOWED_ROPE

    def empty(self, batch_size: int) -> KVCache:
        return _SlidBack.empty(self.shape(batch_size))


@broken(
    "rope-frame-memo",
    Kind.ROPE_FRAME,
    "lucidrains/rotary-embedding-torch#11",
    "rope, chunks [1, 1]",
    "ones",
    ("one shot",),
)
class RopeFrameMemo(RightDecoder):
    """The table of angles is memoised by the number of tokens alone: a later chunk of the same
    size gets the angles of the first.
    """

    config = ROPE

    def reset(self) -> None:
        self._memo: dict[tuple[int, ...], FloatArray] = {}

    def rotation(self, places: IntArray, config: DecoderConfig, dtype: DTypeLike) -> FloatArray:
        return self._memo.setdefault(places.shape, _table(places, config, dtype))


@broken(
    "rope-frame-evict",
    Kind.ROPE_FRAME,
    "rajveer43/VeloxQuant-MLX#389",
    "rope, window 4, chunks [6, 1]",
    "prefill, then ones",
    ("one shot",),
)
class RopeFrameEvict(RightDecoder):
    """New tokens are rotated by the number of rows that eviction has kept, not by the number of
    tokens that were read.
    """

    config = WINDOWED_ROPE
    storage = "rolling"

    def positions(self, cache: Any, n_new: int, padding: IntArray) -> IntArray:
        n_kept: IntArray = np.minimum(cache.length - padding, WINDOW)  # (B,)
        return (n_kept + padding)[:, None] + np.arange(n_new)


@broken(
    "rope-frame-fragment",
    Kind.ROPE_FRAME,
    "MemTensor/MemOS#2315",
    "rope, 1 layer, the same fragment twice in a text",
    "repeated fragment",
    ("one shot",),
)
class RopeFrameFragment(_OtherQueries):
    """Keys of a fragment that was read before are pasted as they were stored, rotated for the place
    where they stood then.  With one layer, rotating them on would make it exact.
    """

    config = ONE_LAYER

    def reset(self) -> None:
        self._fragments: dict[tuple[object, ...], FloatArray] = {}

    def step(
        self, tokens: ArrayLike, cache: Any = None, lengths: ArrayLike | None = None
    ) -> tuple[FloatArray, Any]:
        chunk = np.asarray(tokens)
        self._fragment = (chunk.shape, chunk.astype(np.int64).tobytes())
        return super().step(tokens, cache, lengths)

    def rotation(
        self, places: IntArray, config: DecoderConfig, dtype: DTypeLike
    ) -> tuple[FloatArray, FloatArray]:
        right = _table(places, config, dtype)
        return right, self._fragments.setdefault(self._fragment, right)


SWITCH = 7
"""Tokens from which on a model of ``ROPE-LEN`` takes other frequencies."""


class _LengthDependent(RightDecoder):
    """Frequencies depend on the length, in ``full`` as well: that is how the model is defined."""

    config = ROPE
    changes_full = True

    def base(self, n_total: int) -> float:
        raise NotImplementedError

    def rotation(self, places: IntArray, config: DecoderConfig, dtype: DTypeLike) -> FloatArray:
        n_total = int(places.max()) + 1
        pairs = np.arange(config.head_dim // 2)
        angles = places[..., None] * self.base(n_total) ** (-2.0 * pairs / config.head_dim)
        return np.stack([np.cos(angles), np.sin(angles)])[:, :, None].astype(dtype)


class _Switch(_LengthDependent):
    def base(self, n_total: int) -> float:
        return 10_000.0 if n_total <= SWITCH else 10.0


class _Dynamic(_LengthDependent):
    def base(self, n_total: int) -> float:
        dim = self.config.head_dim
        stretch: float = max(1.0, n_total / SWITCH) ** (dim / (dim - 2))
        return 10_000.0 * stretch


class _EveryPrefix(_LengthDependent):
    """The only exact way: each new token reads its whole prefix anew, at that length."""

    def step(
        self, tokens: ArrayLike, cache: Any = None, lengths: ArrayLike | None = None
    ) -> tuple[FloatArray, Any]:
        if lengths is not None:
            raise NotImplementedError("without padding only")
        n_past = 0 if cache is None else cache.shape[1]
        text = np.asarray(tokens) if cache is None else np.concatenate([cache, tokens], axis=1)
        ends = range(n_past + 1, text.shape[1] + 1)
        return np.concatenate([self.full(text[:, :end])[:, -1:] for end in ends], axis=1), text

    def fork(self, cache: Any) -> Any:
        return cache

    def crop(self, cache: Any, length: int) -> Any:
        return cache[:, :length] if length else None

    def reorder(self, cache: Any, rows: Sequence[int]) -> Any:
        return cache[list(rows)]


class _RightSwitch(_EveryPrefix, _Switch):
    pass


class _RightDynamic(_EveryPrefix, _Dynamic):
    pass


@broken(
    "rope-len-switch",
    Kind.ROPE_LEN,
    "huggingface/transformers#25104",
    "rope whose base switches after 7 tokens, chunks of 1, against full(x[:t])[-1]",
    "ones",
    right=_RightSwitch,
    gold="full() isn't prefix-stable: with longer texts its earlier logits change, too",
)
class RopeLenSwitch(_Switch):
    """Beyond a length the rotation takes long-context frequencies, but the keys in the cache were
    rotated with the short ones.
    """


@broken(
    "rope-len-dynamic",
    Kind.ROPE_LEN,
    "huggingface/transformers#25104",
    "rope with dynamic NTK scaling from 7 tokens on, chunks of 1, against full(x[:t])[-1]",
    "ones",
    right=_RightDynamic,
    gold="full() isn't prefix-stable: with longer texts its earlier logits change, too",
)
class RopeLenDynamic(_Dynamic):
    """The base of the frequencies grows with the length; each cached key keeps that of the call in
    which it was written.
    """


class _BiasOfAlibi(RightDecoder):
    config = ALIBI

    def right_bias(
        self, queries: IntArray, keys: IntArray, config: DecoderConfig, dtype: DTypeLike
    ) -> FloatArray:
        bias = layers.alibi(queries, keys, config, dtype)
        assert bias is not None  # the configuration has alibi
        return bias


@broken(
    "bias-len-alibi",
    Kind.BIAS_LEN,
    "keras-team/keras-hub#2977",
    "alibi, 2 slopes or more, chunks [2, 1]",
    "prefill, then ones",
    ("one shot",),
)
class BiasLenAlibi(_BiasOfAlibi):
    """The ALiBi bias is built over the new tokens alone: with one of them it is a single 0 that
    broadcasts over all keys, and the past has no distance.
    """

    def alibi(
        self, queries: IntArray, keys: IntArray, config: DecoderConfig, dtype: DTypeLike
    ) -> FloatArray:
        bias = self.right_bias(queries, keys, config, dtype)
        bias[..., : keys.shape[1] - len(queries)] = 0
        return bias


@broken(
    "bias-len-distance",
    Kind.BIAS_LEN,
    "huggingface/transformers#19045",
    "a bias of |distance|, chunks [2, 1]",
    "prefill, then ones",
    ("one shot",),
)
class BiasLenDistance(_BiasOfAlibi):
    """The table of distances counts the queries from 0, as if nothing came before: the oldest keys
    look nearest.
    """

    def alibi(
        self, queries: IntArray, keys: IntArray, config: DecoderConfig, dtype: DTypeLike
    ) -> FloatArray:
        return -np.abs(self.right_bias(queries - queries[0], keys, config, dtype))
