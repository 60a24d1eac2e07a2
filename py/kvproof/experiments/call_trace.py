"""Which rows of keys and values each call computes and reads, with a cache and without.

Nothing is said from the outside: the rows are noted by the cache and the parameters while the
decoders run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, cast

import numpy as np

from kvproof.experiments.costs import watch
from kvproof.experiments.proof import in_chunks_of
from kvproof.model.cache import ConcatCache, KVCache, new_cache
from kvproof.model.cached_decoder import decode
from kvproof.model.config import LAB, DecoderConfig
from kvproof.model.decoder import forward
from kvproof.model.feeding import example_text
from kvproof.model.masks import BoolArray, IntArray, check_integer
from kvproof.model.params import FloatArray, init_params


@dataclass(frozen=True, eq=False)
class Call:
    """What one call does in each layer; the text has T tokens, ``n_past + n_new`` are read so far.

    Rows are those of keys and values, one a token.
    """

    n_past: int
    """Tokens that earlier calls have read."""
    n_new: int
    """Tokens that this call adds."""
    computed: BoolArray
    """(n_layers, T): rows that are computed in this call."""
    read: BoolArray
    """(n_layers, T): rows of earlier calls that are read from the cache."""
    scores: int
    """Elements of the score matrices that are created, in all layers and heads."""

    @property
    def again(self) -> BoolArray:
        """(n_layers, T): rows that an earlier call had computed as well."""
        return self.computed & (np.arange(self.computed.shape[1]) < self.n_past)


def trace_calls(
    n_total: int = 12,
    chunk: int = 1,
    cached: bool = True,
    config: DecoderConfig = LAB,
    first: int | None = None,
) -> list[Call]:
    """Read a text in chunks of one size, the last may be short; note what each call touches.

    Args:
        n_total: T >= 1 tokens of the text.
        chunk: tokens that each call adds, at least 1.
        cached: with a cache; otherwise each call reads the whole text so far.
        config: the decoder.
        first: tokens of the first call, the prefill, at least 1; None: as many as of the others.

    Raises:
        ValueError: a number is out of range.

    Example:
        >>> first, second = kvproof.trace_calls(n_total=4, chunk=2, cached=False)
        >>> second.again[0].astype(int)
        array([1, 1, 0, 0])
        >>> kvproof.trace_calls(n_total=4, chunk=2)[1].read[0].astype(int)
        array([1, 1, 0, 0])
    """
    chunk = check_integer("chunk", chunk, least=1)
    first = chunk if first is None else check_integer("first", first, least=1)
    text = example_text(config, n_total)
    watched, tally = watch(init_params(config), config)
    cache: KVCache = _Recorder.empty(new_cache(config).shape)
    calls: list[Call] = []
    start = 0
    for size in [min(first, n_total), *in_chunks_of(chunk, n_total - first)]:
        tally.rows.clear()
        scores_before = tally.scores
        if cached:
            _, cache = decode(watched, text[:, start : start + size], cache, config)
            kept = cast(_Recorder, cache).held
        else:
            forward(watched, text[:, : start + size], config)
            kept = [0] * config.n_layers
        # Rows come in the order of the text, in each layer: first the kept ones, then the computed.
        n_computed = [tally.rows[f"block{i}.attention.w_qkv"] for i in range(config.n_layers)]
        computed = _spans(kept, n_computed, n_total)
        read = _spans([0] * config.n_layers, kept, n_total)
        calls.append(Call(start, size, computed, read, tally.scores - scores_before))
        start += size
    return calls


def _spans(starts: Sequence[int], sizes: Sequence[int], n_total: int) -> BoolArray:
    """(n_layers, n_total): in each layer so many rows from the start on."""
    row = np.arange(n_total)
    first, size = np.array(starts)[:, None], np.array(sizes)[:, None]
    inside: BoolArray = (first <= row) & (row < first + size)
    return inside


class _Recorder(ConcatCache):
    """Notes for each layer how many rows it holds when the new ones come."""

    held: list[int]

    def begin(self, n_new: int, padding: IntArray | None = None) -> Self:
        handle = super().begin(n_new, padding)
        handle.held = []
        return handle

    def _append(
        self, layer: int, keys: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        all_keys, all_values = super()._append(layer, keys, values)
        self.held.append(all_keys.shape[2] - keys.shape[2])
        return all_keys, all_values
