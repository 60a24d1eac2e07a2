"""What each call computes, keeps and computes again, with a cache and without; one query up close.

A plan says what is read: tokens that are given, the token that the decoder itself says comes next,
and tokens that are taken back again, as after a rejected draft.  Nothing is said from the outside:
what is counted is noted by the parameters and by the attention while the decoders run.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from kvproof.experiments.costs import watch
from kvproof.model import layers as model_layers
from kvproof.model.cache import new_cache
from kvproof.model.cached_decoder import decode
from kvproof.model.config import DecoderConfig
from kvproof.model.decoder import forward
from kvproof.model.masks import BoolArray, IntArray, check_integer
from kvproof.model.params import FloatArray, Params


@dataclass(frozen=True)
class Feed:
    """A call that reads tokens."""

    tokens: tuple[int, ...] = ()
    """IDs; with ``writes`` they come after the written one."""
    writes: bool = False
    """The call first reads the token that its decoder has just said comes next."""
    query: int = -1
    """Which of the call's tokens is looked at up close."""


@dataclass(frozen=True)
class TakeBack:
    """No call: the last tokens leave the text, and the cache by ``crop``."""

    n_tokens: int


@dataclass(frozen=True, eq=False)
class CloseUp:
    """One query in all layers and heads: L layers, H heads, S keys at hand, D features of a head.

    ``scores`` and ``weights`` are recomputed from the decoder's own queries and keys as
    ``scaled_dot_product_attention`` does it; ``attended`` and ``logits`` are the decoder's.
    """

    column: int
    """The query's token, an index of ``Trace.tokens``."""
    keys: IntArray
    """(S,): those of the keys."""
    visible: BoolArray
    """(S,), True = the mask lets the query attend to the key."""
    scores: FloatArray
    """(L, H, S): q k / sqrt(D), before the mask."""
    weights: FloatArray
    """(L, H, S): softmax of the visible scores, 0 elsewhere."""
    values: FloatArray
    """(L, H, S, D): what each key stands for."""
    attended: FloatArray
    """(L, H, D): the sum of the weighted values, as the attention of the call gave it."""
    logits: FloatArray
    """(V,): what the query's token predicts in the end."""

    @property
    def weighted(self) -> FloatArray:
        """(L, H, S, D): each key's part of ``attended``."""
        return self.weights[..., None] * self.values

    def most_likely(self, n_tokens: int) -> IntArray:
        """(n_tokens,): what is most likely to come after the query's token, the first most."""
        likely: IntArray = np.argsort(-self.logits)[:n_tokens]
        return likely


@dataclass(frozen=True, eq=False)
class Step:
    """A call, or what is taken back.  Columns are indices of ``Trace.tokens``.

    One entry is the key and the value of one token in one layer; every layer does the same.
    """

    text: IntArray
    """(T,): columns of the text after this step, the call's own C at the end."""
    n_new: int
    """C; 0: no call."""
    taken_back: IntArray
    """Columns that leave."""
    computed: IntArray
    """Columns whose entries are computed in each layer."""
    again: IntArray
    """Of these, what an earlier step had computed as well."""
    read: IntArray
    """Columns whose entries are taken from the cache in each layer."""
    scores: int
    """Elements of the score matrix that is created in each layer and head."""
    next_token: int
    """What is most likely to come after the text."""
    close_up: CloseUp | None
    """None: no call."""


@dataclass(frozen=True, eq=False)
class Trace:
    """All steps, and all tokens that they read."""

    tokens: IntArray
    """(N,): in the order in which they were read; those that were taken back stay here."""
    steps: tuple[Step, ...]


def trace_calls(
    params: Params,
    config: DecoderConfig,
    plan: Sequence[Feed | TakeBack],
    cached: bool = True,
) -> Trace:
    """Carry out a plan, one sequence, and note what each step touches.

    Args:
        params: of any decoder with a vocabulary.
        config: its configuration.
        plan: the steps; the first reads tokens that are given.
        cached: with a cache; otherwise each call reads the whole text so far.

    Raises:
        ValueError: a step that can't be: a call of no tokens, a query that isn't the call's, more
            taken back than there is, or tokens that the decoder doesn't read.

    Example:
        >>> params, config = kvproof.story.load_story_decoder()
        >>> prompt = kvproof.story.encode("The key fell in the cave. Where's my key? In the")
        >>> plan = [kvproof.Feed(tuple(prompt)), kvproof.Feed(writes=True)]
        >>> with_cache, without = (kvproof.trace_calls(params, config, plan, cached)
        ...                        for cached in (True, False))
        >>> kvproof.story.render([with_cache.steps[0].next_token])
        'cave.'
        >>> [len(step.computed) for step in with_cache.steps]
        [11, 1]
        >>> [len(step.computed) for step in without.steps]
        [11, 12]
    """
    reader = _Reader(params, config, cached)
    steps = tuple(reader.step(move) for move in plan)
    return Trace(np.array(reader.tokens, np.int64), steps)


class _Reader:
    """The text so far, and the decoder that reads it."""

    def __init__(self, params: Params, config: DecoderConfig, cached: bool) -> None:
        self._params, self._tally = watch(params, config)
        self._config = config
        self._cache = new_cache(config, dtype=params.dtype) if cached else None
        self._layers, self._attention = _recording()
        self.tokens: list[int] = []
        """All that were read."""
        self._text: list[int] = []
        """Their indices that are the text."""
        self._computed: set[int] = set()
        self._next: dict[int, int] = {}
        """Index -> the most likely token after it."""

    def step(self, move: Feed | TakeBack) -> Step:
        return self._take_back(move) if isinstance(move, TakeBack) else self._feed(move)

    def _take_back(self, move: TakeBack) -> Step:
        n_left = len(self._text) - check_integer("n_tokens", move.n_tokens, least=1)
        if n_left < 1:
            raise ValueError(
                f"{move.n_tokens} of {len(self._text)} tokens can't be taken back: one must stay"
            )
        gone = self._text[n_left:]
        self._text = self._text[:n_left]
        if self._cache is not None:
            self._cache = self._cache.crop(n_left)
        nothing = _columns([])
        return Step(
            text=_columns(self._text),
            n_new=0,
            taken_back=_columns(gone),
            computed=nothing,
            again=nothing,
            read=nothing,
            scores=0,
            next_token=self._next[self._text[-1]],
            close_up=None,
        )

    def _feed(self, move: Feed) -> Step:
        new = self._new_tokens(move)
        query = check_integer("query", move.query)
        if not -len(new) <= query < len(new):
            raise ValueError(f"query must be one of the call's {len(new)} tokens, got {query}")
        columns = list(range(len(self.tokens), len(self.tokens) + len(new)))
        self.tokens += new
        self._text = [*self._text, *columns]
        logits, computed, read, scores = self._call(new)
        again = [column for column in computed if column in self._computed]
        self._computed |= set(computed)
        self._next |= dict(zip(columns, logits.argmax(axis=-1).tolist(), strict=True))
        query %= len(new)
        return Step(
            text=_columns(self._text),
            n_new=len(new),
            taken_back=_columns([]),
            computed=_columns(computed),
            again=_columns(again),
            read=_columns(read),
            scores=scores,
            next_token=self._next[columns[-1]],
            close_up=self._close_up(columns[query], query - len(new), logits[query]),
        )

    def _new_tokens(self, move: Feed) -> list[int]:
        if not (move.tokens or move.writes):
            raise ValueError("a call must read at least one token: give tokens, or writes=True")
        if move.writes and not self._text:
            raise ValueError("the first call has nothing to write on: give it tokens")
        written = [self._next[self._text[-1]]] if move.writes else []
        return [*written, *move.tokens]

    def _call(self, new: list[int]) -> tuple[FloatArray, list[int], list[int], int]:
        """Logits (C, V) of the new tokens; the columns computed and read; scores of each head."""
        self._tally.rows.clear()
        self._attention.clear()
        before = self._tally.scores
        if self._cache is None:
            text = [[self.tokens[column] for column in self._text]]
            logits = forward(self._params, text, self._config, layers=self._layers)[0, -len(new) :]
        else:
            whole, self._cache = decode(
                self._params, [new], self._cache, self._config, layers=self._layers
            )
            logits = whole[0]
        computed = {
            self._tally.rows[f"block{layer}.attention.w_qkv"]
            for layer in range(self._config.n_layers)
        }
        at_hand = {attention.k.shape[2] for attention in self._attention}
        assert (len(computed), at_hand) == (1, {len(self._text)}), "all layers do the same"
        # Entries come in the order of the text: first the kept ones, then the computed.
        n_read = len(self._text) - computed.pop()
        n_heads = self._config.n_layers * self._config.n_heads
        scores = (self._tally.scores - before) // n_heads
        return np.asarray(logits), self._text[n_read:], self._text[:n_read], scores

    def _close_up(self, column: int, query: int, logits: FloatArray) -> CloseUp:
        """``query`` is counted from the end of the call, where both ways have the same tokens."""
        parts = [attention.of(query) for attention in self._attention]
        scores, weights, values, attended = (np.stack(part) for part in zip(*parts, strict=True))
        visible = np.asarray(self._attention[0].visible[0, 0, query])
        keys = _columns(self._text)
        return CloseUp(column, keys, visible, scores, weights, values, attended, logits)


@dataclass(frozen=True, eq=False)
class _Attention:
    """What went into the attention of one layer, and what came out."""

    q: FloatArray
    k: FloatArray
    v: FloatArray
    visible: BoolArray
    bias: FloatArray | None
    attended: FloatArray

    def of(self, query: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Scores and weights (H, S), values (H, S, D) and what they sum up to (H, D)."""
        q = self.q[0, :, query]  # (H, D)
        group = len(q) // self.k.shape[1]  # query heads that read the same keys
        k, v = (kept[0].repeat(group, axis=0) for kept in (self.k, self.v))  # (H, S, D)
        scores = (k @ q[..., None])[..., 0] * (1.0 / math.sqrt(q.shape[-1]))  # (H, S)
        if self.bias is not None:
            scores += self.bias[0, :, query]
        hidden = np.where(self.visible[0, :, query], scores, -math.inf)
        weights = np.exp(hidden - hidden.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return scores, weights, v, self.attended[0, :, query]


def _recording() -> tuple[Any, list[_Attention]]:
    """The layers of ``decode``, and a list to which their attention adds what it is given."""
    seen: list[_Attention] = []

    def attention(
        q: FloatArray,
        k: FloatArray,
        v: FloatArray,
        visible: BoolArray,
        bias: FloatArray | None = None,
    ) -> FloatArray:
        attended = model_layers.scaled_dot_product_attention(q, k, v, visible, bias)
        q, k, v = (array.view(np.ndarray) for array in (q, k, v))  # not to be counted any more
        seen.append(_Attention(q, k, v, visible, bias, attended.view(np.ndarray)))
        return attended

    functions = vars(model_layers) | {"scaled_dot_product_attention": attention}
    return SimpleNamespace(**functions), seen


def _columns(indices: list[int]) -> IntArray:
    return np.array(indices, np.int64)
