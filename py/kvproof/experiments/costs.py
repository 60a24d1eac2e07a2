"""What is computed and stored, with a cache and without: by formula, and counted while it runs.

``count_costs`` is arithmetic and works for any size.  ``measure_costs`` runs our decoders on arrays
that report the matrix products they take part in.  Where both can be had they must be equal.

Both read P tokens (``prefix``), then G more (``steps``) one at a time, and want an output after
each.  The prefill of the P tokens is the same with and without a cache and isn't counted.  Letters
in formulas: B rows of the batch, L layers, H query heads, K heads of keys and values, D features
of a head, s bytes of a number, T = P + G.

**A count is not a speed-up.**  It says how much work there is, not how long it takes: that depends
on how well the machine does each kind of work.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kvproof.experiments.model_shapes import ModelShape
from kvproof.model.cache import new_cache
from kvproof.model.cached_decoder import decode
from kvproof.model.config import DecoderConfig
from kvproof.model.decoder import forward
from kvproof.model.feeding import example_text
from kvproof.model.masks import check_integer
from kvproof.model.params import (
    FloatArray,
    Params,
    init_params,
    params_from_arrays,
    params_to_arrays,
)

BYTES_PER_NUMBER = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}
SCALE_BYTES = 4
"""int8 keeps one float32 scale for each head's key and value of a token."""

NOT_A_SPEED_UP = (
    "A count is not a speed-up: it says how much work there is, not how long it takes. "
    "Measure that on your machine."
)


_TITLES = ("positions per layer", "Q/K/V input rows", "score elements", "K/V bytes kept")


@dataclass(frozen=True)
class Work:
    """What one way of reading the same tokens computes, and what it keeps."""

    positions: int
    """Token positions projected in each layer, over all rows of the batch."""
    qkv_rows: int
    """Input rows of the query, key and value projections, all layers: 3 * L * positions."""
    scores: int
    """Elements of the attention score matrices that are created, masked ones included."""
    kv_bytes: int
    """Bytes held after the last step."""


@dataclass(frozen=True)
class Costs:
    """The work of each way; None where a model has no such way."""

    recomputed: Work
    """All P + j tokens are read anew at step j; nothing is kept."""
    cached: Work
    """Only the new token is read; keys and values of all tokens are kept."""
    rolling: Work | None = None
    """Windowed layers keep a ring of the tokens that a query can still see: the text must have a
    window and be longer than it."""
    latent: Work | None = None
    """Only the compressed vector of each token is kept, shared by all heads."""

    def ways(self) -> dict[str, Work]:
        """Name -> work, those that exist."""
        return {name: work for name, work in vars(self).items() if work is not None}

    def __str__(self) -> str:
        columns = ("positions", "qkv_rows", "scores", "kv_bytes")
        head = f"{'':<12}" + "".join(f"{title:>22}" for title in _TITLES)
        rows = [
            f"{name:<12}" + "".join(f"{getattr(work, column):>22,}" for column in columns)
            for name, work in self.ways().items()
        ]
        return "\n".join([head, *rows, NOT_A_SPEED_UP])


def count_costs(
    config: DecoderConfig | ModelShape,
    prefix: int,
    steps: int,
    batch_size: int = 1,
    dtype: str = "float32",
) -> Costs:
    """The work of ``steps`` tokens after a prefix, by closed formula.

    With S1(n) = n(n+1)/2 and S2(n) = n(n+1)(2n+1)/6, the sums of the first n numbers and squares::

                 positions               scores                      kv_bytes
        recomputed  B (S1(T) - S1(P))    B H L (S2(T) - S2(P))       0
        cached      B G                  B H L (S1(T) - S1(P))       2 B T L K D s
        rolling     B G                  B H L G (R + 1)             2 B R L K D s
        latent      B G                  as cached                   B T L latent_dim s

    S1(T) - S1(P) is G*P + G(G+1)/2.  R = window + sinks < T, for windowed layers only: a query
    reads all places of the ring, empty ones too, and its own key.  int8 adds one float32 scale for
    each vector.  Keys and values of different widths count as they are.

    Args:
        config: one of our decoders, or a published model such as
            ``MODEL_SHAPES["llama-3-8b"]``.
        prefix: P >= 0 tokens that are read already.
        steps: G >= 1 tokens, one at a time.
        batch_size: B >= 1 rows of equal length.
        dtype: of the kept numbers: "float64", "float32", "float16", "bfloat16" or "int8".

    Raises:
        ValueError: a number is out of range, or the dtype unknown.

    Example:
        >>> costs = kvproof.count_costs(kvproof.REFERENCE, prefix=256, steps=16)
        >>> costs.recomputed.positions, costs.cached.positions, costs.cached.kv_bytes
        (4232, 16, 278528)
    """
    shape = ModelShape.of(config) if isinstance(config, DecoderConfig) else config
    prefix, steps, batch_size = _check(prefix, steps, batch_size)
    number_bytes, scale_bytes = _bytes(dtype)
    total, n_layers = prefix + steps, shape.n_layers
    tokens, squares = _s1(total) - _s1(prefix), _s2(total) - _s2(prefix)
    head_bytes = (shape.head_dim + shape.value_dim) * number_bytes + 2 * scale_bytes
    token_bytes = shape.n_kv_heads * head_bytes

    def work(positions: int, scores: int, kv_bytes: int) -> Work:
        positions *= batch_size
        scores *= batch_size * shape.n_heads
        return Work(positions, 3 * n_layers * positions, scores, batch_size * kv_bytes)

    cached = work(steps, n_layers * tokens, n_layers * total * token_bytes)
    rolling = latent = None
    room = (shape.window or total) + shape.n_sinks
    if room < total:
        n_windowed = shape.n_windowed_layers
        n_full = n_layers - n_windowed
        scores = n_full * tokens + n_windowed * steps * (room + 1)
        rolling = work(steps, scores, (n_full * total + n_windowed * room) * token_bytes)
    if shape.latent_dim is not None:
        kv_bytes = n_layers * total * (shape.latent_dim * number_bytes + scale_bytes)
        latent = work(steps, n_layers * tokens, kv_bytes)
    return Costs(work(tokens, n_layers * squares, 0), cached, rolling, latent)


def _s1(n: int) -> int:
    return n * (n + 1) // 2


def _s2(n: int) -> int:
    return n * (n + 1) * (2 * n + 1) // 6


def _check(prefix: int, steps: int, batch_size: int) -> tuple[int, int, int]:
    return (
        check_integer("prefix", prefix, least=0),
        check_integer("steps", steps, least=1),
        check_integer("batch_size", batch_size, least=1),
    )


def _bytes(dtype: str) -> tuple[int, int]:
    """Bytes of one kept number, and of the scale beside each kept vector."""
    if dtype not in BYTES_PER_NUMBER:
        raise ValueError(f"dtype must be one of {', '.join(BYTES_PER_NUMBER)}, got {dtype!r}")
    return BYTES_PER_NUMBER[dtype], SCALE_BYTES if dtype == "int8" else 0


# ------------------------------------------------------------------ counted while it runs


@dataclass
class Tally:
    """What arrays of ``watch`` have reported."""

    rows: Counter[str] = field(default_factory=Counter)
    """Parameter name -> input rows that were multiplied by it."""
    scores: int = 0
    """Elements of the products queries @ keys."""
    _scores_next: bool = False

    def product(self, name: str, result: FloatArray) -> None:
        """Note one matrix product; ``name`` is that of its right operand, "" for an activation.

        After a Q/K/V projection the first product of two activations is the scores, the second
        the weighted sum of the values.  The left operand reports: a parameter or what was computed
        from one, as queries are.
        """
        self.rows[name] += result.size // result.shape[-1]
        if name:
            self._scores_next = name.endswith(".w_qkv")
        elif self._scores_next:
            self.scores += result.size
            self._scores_next = False

    def work(self, kv_bytes: int) -> Work:
        """What has been reported so far, beside the bytes that were kept."""
        rows = {name: n for name, n in self.rows.items() if name.endswith(".w_qkv")}
        positions = rows["block0.attention.w_qkv"]
        return Work(positions, 3 * sum(rows.values()), self.scores, kv_bytes)


class _Watched(np.ndarray[Any, np.dtype[np.floating]]):
    """An array that reports the matrix products that it takes part in.

    What NumPy makes of it reports as well.  The products themselves are those of plain arrays.
    Each ``watch`` makes a subclass of its own: the tally is the class's, since NumPy hands on the
    class of an array everywhere and its attributes not always (``concatenate`` forgets them).
    """

    __array_priority__ = 1.0  # or `concatenate` gives a plain array
    tally: Tally
    name: str = ""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if "out" in kwargs:
            kwargs["out"] = tuple(_plain(array) for array in kwargs["out"])
        result = getattr(ufunc, method)(*(_plain(array) for array in inputs), **kwargs)
        if not isinstance(result, np.ndarray):
            return result
        if ufunc is np.matmul and isinstance(inputs[0], _Watched):
            self.tally.product(getattr(inputs[1], "name", ""), result)
        return result.view(type(self))


def _plain(array: Any) -> Any:
    return array.view(np.ndarray) if isinstance(array, _Watched) else array


def watch(params: Params, config: DecoderConfig) -> tuple[Params, Tally]:
    """The same parameters as arrays that count: give them to any decoder, then read the tally.

    Nothing else changes: no function is replaced, the results are the same to the last bit.

    Returns:
        ``(watched, tally)``; the tally grows with each call that gets ``watched``.
    """
    tally = Tally()
    watched_class: type[_Watched] = type("_Watched", (_Watched,), {"tally": tally})
    arrays: dict[str, FloatArray] = {}
    for name, array in params_to_arrays(params).items():
        watched = array.view(watched_class)
        watched.name = name
        arrays[name] = watched
    return params_from_arrays(arrays, config), tally


def measure_costs(
    config: DecoderConfig,
    prefix: int,
    steps: int,
    batch_size: int = 1,
    dtype: DTypeLike = "float32",
) -> Costs:
    """The same as ``count_costs``, counted while our decoders run; equal to it.

    Args:
        config: sizes; P + G tokens must fit into ``max_positions``.
        prefix: P >= 0.
        steps: G >= 1.
        batch_size: B >= 1.
        dtype: "float32" or "float64".

    Raises:
        ValueError: a number is out of range, or another dtype.

    Example:
        >>> costs = kvproof.measure_costs(kvproof.LAB, prefix=0, steps=24)
        >>> costs.recomputed.qkv_rows, costs.cached.qkv_rows
        (1800, 144)
        >>> costs == kvproof.count_costs(kvproof.LAB, prefix=0, steps=24)
        True
    """
    prefix, steps, batch_size = _check(prefix, steps, batch_size)
    params, text = _model(config, prefix + steps, batch_size, dtype)
    watched, tally = watch(params, config)
    for n_total in range(prefix + 1, prefix + steps + 1):
        forward(watched, text[:, :n_total], config)
    case = (config, prefix, steps, batch_size, dtype)
    rolls = config.window is not None and config.window + config.n_sinks < prefix + steps
    rolling = measure_cached(*case, "rolling") if rolls else None
    return Costs(tally.work(0), measure_cached(*case), rolling)


def measure_cached(
    config: DecoderConfig,
    prefix: int,
    steps: int,
    batch_size: int = 1,
    dtype: DTypeLike = "float32",
    storage: str = "concat",
) -> Work:
    """The work with a cache of any storage, counted while ``decode`` runs.

    Args:
        config: as for ``measure_costs``, as are the next four.
        prefix: P.
        steps: G.
        batch_size: B.
        dtype: of the parameters.
        storage: how keys and values are kept.

    Raises:
        ValueError: as ``measure_costs``, or the storage doesn't suit ``config``.
    """
    prefix, steps, batch_size = _check(prefix, steps, batch_size)
    params, text = _model(config, prefix + steps, batch_size, dtype)
    cache = new_cache(config, batch_size, params.dtype, storage)
    if prefix:
        cache = decode(params, text[:, :prefix], cache, config)[1]
    watched, tally = watch(params, config)
    for i in range(prefix, prefix + steps):
        cache = decode(watched, text[:, i : i + 1], cache, config)[1]
    return tally.work(cache.payload_bytes)


def _model(
    config: DecoderConfig, n_total: int, batch_size: int, dtype: DTypeLike
) -> tuple[Params, NDArray[np.generic]]:
    if n_total > config.max_positions:
        raise ValueError(
            f"{n_total} tokens don't fit: the decoder has {config.max_positions} positions"
        )
    return init_params(config, 0, dtype), example_text(config, n_total, batch_size)
