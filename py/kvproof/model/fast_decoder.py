"""The cached decoder once more, tuned: equal to ``cached_decoder.decode`` up to rounding.

Read ``cached_decoder.py`` first; this file says only what it does differently.  One token through
a small model costs as many NumPy calls as one through a large model, and the calls take longer
than the arithmetic.  So whatever follows from the parameters alone is computed once (``_Fold``):

* *Centring.*  Every LayerNorm takes off the mean, so what is added to the stream can have its mean
  taken off before.  With the stream divided by sqrt(W), a norm is ``x / sqrt(x . x + eps)``.
* *Gains, biases, scales.*  A norm's gain and bias, 1 / sqrt(D) and GELU's constants go into the
  weights of the next product.  A bias is a last row of weights; its input's last column is 1.
* *RoPE.*  The turned halves of the heads are further columns of the projection.
* *Maximum.*  Where the weights alone keep all scores small, softmax needs none to be safe.

Letters in shapes are those of ``layers.py``; R = B * C rows, G = H / H_kv heads in a group.
"""

import math
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kvproof.model import layers
from kvproof.model.cache import CacheShape, KVCache
from kvproof.model.config import DecoderConfig
from kvproof.model.masks import IntArray, offset_mask, offset_positions, visible_keys
from kvproof.model.params import Block, FloatArray, Norm, Params

GELU_SLOPE = math.sqrt(2.0 / math.pi)
GELU_STRETCH = (GELU_SLOPE * 0.044715) ** (1.0 / 3.0)
"""With g = stretch * x, what GELU takes the tanh of is ``(g * g + slope / stretch) * g``."""


class FastDecoder:
    """A decoder made ready for many calls; covers every ``DecoderConfig`` and storage.

    It holds its own copy of the weights, and work buffers that each call writes over: changes of
    ``params`` pass unseen, and each thread needs a decoder of its own.

    Example:
        >>> params = kvproof.init_params(kvproof.REFERENCE, seed=0, dtype="float64")
        >>> fast = kvproof.FastDecoder(params, kvproof.REFERENCE)
        >>> tokens = kvproof.example_tokens(6)
        >>> cache = kvproof.new_cache(kvproof.REFERENCE, dtype="float64", storage="static")
        >>> _, cache = fast.decode(tokens[:, :4], cache)
        >>> logits, cache = fast.decode(tokens[:, 4:], cache)
        >>> expected = kvproof.forward(params, tokens, kvproof.REFERENCE)[:, 4:]
        >>> bool(np.abs(logits - expected).max() < 1e-13)
        True
    """

    def __init__(self, params: Params, config: DecoderConfig) -> None:
        """Fold the parameters, which are only read.

        Args:
            params: parameters; their dtype is the dtype of the logits.
            config: the configuration that ``params`` was made with.

        Raises:
            ValueError: ``params`` don't fit ``config``.
        """
        layers.check_model(params, config)
        fold = _Fold(config, params.dtype)
        self.config = config
        self.dtype = params.dtype
        self._to_stream = fold.to_stream
        self._embedding = fold.table(params.token_embedding)
        self._positions = fold.table(params.position_embedding)
        self._turns = fold.turns()
        self._blocks = [fold.block(block) for block in params.blocks]
        self._unembedding = fold.unembedding(params)
        self._gelu_offset = np.array(GELU_SLOPE / GELU_STRETCH, params.dtype)
        self._workspace = lru_cache(maxsize=4)(partial(_Desk, config, params.dtype))

    def decode(
        self, tokens: ArrayLike, cache: KVCache, lengths: ArrayLike | None = None
    ) -> tuple[FloatArray, KVCache]:
        """Logits of the new tokens, and the cache that includes them.

        Arguments, result, errors, and what becomes of ``cache``: see ``cached_decoder.decode``.
        The mask and the positions are always the right ones.
        """
        n_past = cache.length
        tokens = self._check_tokens(tokens, n_past)
        batch_size, n_new = tokens.shape[:2]
        workspace = self._workspace(batch_size, n_new)
        if cache.shape is not workspace.fits:  # a handle passes its shape on, so this is seldom
            cache.check_fits(self.config, batch_size, self.dtype)
            workspace.fits = cache.shape
        padding = layers.check_padding(lengths, n_new, n_past, cache.padding)
        padded = any(padding.tolist())  # for a few rows quicker than NumPy's any
        places = _places(n_past, n_new, padding, padded)
        penalty = self._penalty(cache, n_new, padding, padded)
        x = self._embed(tokens, places)
        turns = [table[places] for table in self._turns]
        cache = cache.begin(n_new, padding)
        for layer, block in enumerate(self._blocks):
            workspace.project(x, block.w_qkv, turns)
            keys, values = cache.extend(layer, workspace.new_pair)
            workspace.attend(keys, values, penalty, block.bounded)
            x += workspace.merged.dot(block.w_out)
            if block.w_up is not None and block.w_down is not None:
                self._activate(workspace.norm(x).dot(block.w_up), workspace.active)
                x += workspace.mlp_input.dot(block.w_down)
        logits = workspace.norm(x).dot(self._unembedding).reshape(batch_size, n_new, -1)
        cache.advance(n_new)
        return logits, cache

    def _check_tokens(self, tokens: ArrayLike, n_past: int) -> layers.Tokens:
        """As ``layers.check_tokens``, with a short way for the one good ID of a step."""
        array = np.asarray(tokens)
        if array.shape == (1, 1) and array.dtype.kind in "iu" and self._embedding is not None:
            good = 0 <= array.item() < len(self._embedding)
            if good and n_past < self.config.max_positions:
                return array
        return layers.check_tokens(array, self.config, self.dtype, n_past)

    def _penalty(
        self, cache: KVCache, n_new: int, padding: IntArray, padded: bool
    ) -> FloatArray | None:
        """What is added to the scores, (1 or B, 1 or H, C, S): ALiBi, and -inf for hidden keys.

        None where it would be zero.  A single new token sees all keys: none lies in its future.
        """
        config = self.config
        if n_new == 1 and not padded and config.window is None and config.positions != "alibi":
            return None
        keys = cache.key_slots(n_new)
        causal = offset_mask(cache.length, n_new)
        visible = visible_keys(causal, keys, padding, config.window, config.n_sinks)
        slots = offset_positions(cache.length, n_new)
        bias = layers.alibi(slots, keys, config, self.dtype)
        return np.where(visible, 0.0 if bias is None else bias, -math.inf).astype(self.dtype)

    def _embed(self, tokens: layers.Tokens, places: slice | IntArray) -> FloatArray:
        """The stream that the first block reads, (R, W)."""
        if self._embedding is None:
            x = self._to_stream(tokens)
        else:
            x = self._embedding.take(tokens, axis=0)  # a third of the time of [tokens]
        x = x.reshape(-1, self.config.width)
        if self._positions is not None:
            x += self._positions[places]
        return x

    def _activate(self, hidden: FloatArray, out: FloatArray) -> None:
        """GELU or SwiGLU of (R, M) or (R, 2M), in place; their constants are in the weights."""
        if self.config.mlp == "gelu":
            cubic = hidden * hidden
            cubic += self._gelu_offset
            cubic *= hidden
            np.tanh(cubic, cubic)
            cubic *= hidden
            np.add(cubic, hidden, out)
        else:
            gate, up = hidden[:, : out.shape[1]], hidden[:, out.shape[1] :]
            silu = np.tanh(gate)
            silu *= gate
            silu += gate
            np.multiply(silu, up, out)


def _places(n_past: int, n_new: int, padding: IntArray, padded: bool) -> slice | IntArray:
    """Which rows of the position tables the R rows of a call need: a slice needs no copy."""
    if len(padding) == 1 and not padded:
        return slice(n_past, n_past + n_new)
    slots = offset_positions(n_past, n_new)
    places: IntArray = np.maximum(slots - padding[:, None], 0)
    return places.reshape(-1)


class _Desk:
    """Work buffers for B rows of C tokens, and all views of them that a call needs.

    Whatever is multiplied by weights with biases has a last column of ones, written here and never
    again.
    """

    fits: CacheShape | None = None
    """The shape of the last cache that was found to fit."""

    def __init__(
        self, config: DecoderConfig, dtype: np.dtype[np.floating], batch_size: int, n_new: int
    ) -> None:
        n_rows, ones = batch_size * n_new, int(config.has_biases)

        def buffer(width: int) -> tuple[FloatArray, FloatArray]:
            array = np.ones((n_rows, width + ones), dtype)
            return array, array[:, :width]

        def heads(rows: FloatArray) -> FloatArray:
            """(R, H D) as (B, H_kv, G, C, D), without C where it is 1."""
            by_token = rows.reshape(batch_size, n_new, config.n_kv_heads, -1, config.head_dim)
            by_head = by_token.transpose(0, 2, 3, 1, 4)
            return by_head[:, :, :, 0] if n_new == 1 else by_head

        n_queries, n_keys = config.width, config.n_kv_heads * config.head_dim
        n_turned = n_queries + n_keys
        n_qkv = n_turned + n_keys
        self.normed_input, self.normed = buffer(config.width)
        self.merged, merged = buffer(config.width)
        self.mlp_input, self.active = buffer(config.mlp_width)
        n_columns = n_qkv + (n_turned if config.positions == "rope" else 0)
        self.qkv = np.empty((n_rows, n_columns), dtype)
        self.unturned, self.turned = self.qkv[:, :n_turned], self.qkv[:, n_qkv:]
        self.queries = heads(self.qkv[:, :n_queries])
        pair = self.qkv[:, n_queries:n_qkv].reshape(batch_size, n_new, 2, config.n_kv_heads, -1)
        self.new_pair = pair.transpose(2, 0, 3, 1, 4)  # keys and values (2, B, H_kv, C, D)
        self.attended = heads(merged)
        self.scores_shape = (batch_size, config.n_heads, n_new, -1)

    def norm(self, x: FloatArray) -> FloatArray:
        """The stream (R, W) over its length, and a column of ones if there are biases."""
        if len(x) == 1:  # scalars are quicker than arrays of one element
            row = x[0]
            np.multiply(x, (row.dot(row) + layers.NORM_EPS) ** -0.5, self.normed)
        else:
            length = np.sqrt(np.vecdot(x, x) + layers.NORM_EPS)
            np.divide(x, length[:, None], self.normed)
        return self.normed_input

    def project(self, x: FloatArray, w_qkv: FloatArray, turns: list[FloatArray]) -> None:
        """Fill queries, keys and values; ``turns`` are RoPE's cosines and sines, (R, columns)."""
        np.dot(self.norm(x), w_qkv, self.qkv)
        if turns:
            cos, sin = turns
            self.unturned *= cos
            self.turned *= sin
            self.unturned += self.turned

    def attend(
        self, keys: FloatArray, values: FloatArray, penalty: FloatArray | None, bounded: bool
    ) -> None:
        """Fill ``merged`` with the attention over keys and values (B, H_kv, S, D)."""
        if self.queries.ndim == 5:  # the heads of a group read the same keys
            keys, values = keys[:, :, None], values[:, :, None]
        weights = np.matmul(self.queries, keys.swapaxes(-1, -2))  # (B, H_kv, G[, C], S)
        if penalty is not None:
            by_head = weights.reshape(self.scores_shape)  # a view
            by_head += penalty
        if not bounded:
            weights -= np.maximum.reduce(weights, axis=-1, keepdims=True)
        np.exp(weights, weights)
        total = np.add.reduce(weights, axis=-1, keepdims=True)
        np.divide(np.matmul(weights, values), total, self.attended)  # D numbers, not S, to divide


@dataclass(frozen=True, eq=False)
class _FoldedBlock:
    """The weights of a block, each with its bias as a last row."""

    w_qkv: FloatArray
    """(W + 1, columns): q, k, v, and with RoPE the turned halves of q and k."""
    w_out: FloatArray
    w_up: FloatArray | None
    w_down: FloatArray | None
    bounded: bool
    """No input can make a score so large or so small that its exponential leaves the dtype."""


class _Fold:
    """Computes in float64 what ``FastDecoder`` keeps in the dtype of the parameters."""

    def __init__(self, config: DecoderConfig, dtype: np.dtype[np.floating]) -> None:
        self.config = config
        self.dtype = dtype

    def to_stream(self, array: FloatArray) -> FloatArray:
        """What is added to the stream, (..., W): centred under LayerNorm, divided by sqrt(W)."""
        array = array.astype(np.float64)
        if self.config.norm == "layernorm":
            array = array - array.mean(axis=-1, keepdims=True)
        return (array / math.sqrt(self.config.width)).astype(self.dtype)

    def table(self, embedding: FloatArray | None) -> FloatArray | None:
        """The rows of an embedding, where there is one."""
        return None if embedding is None else self.to_stream(embedding)

    def from_stream(self, weight: FloatArray, bias: FloatArray | None, norm: Norm) -> FloatArray:
        """A norm and the projection after it, (W [+ 1], columns) in float64."""
        weight = weight.astype(np.float64)
        scaled = weight * norm.gain[:, None] * math.sqrt(self.config.width)
        return _with_bias(scaled, None if norm.bias is None else norm.bias @ weight, bias)

    def block(self, block: Block) -> _FoldedBlock:
        """All weights of a block."""
        attention, mlp = block.attention, block.mlp
        w_qkv = self.from_stream(attention.w_qkv, attention.b_qkv, block.norm1)
        w_qkv[:, : self.config.width] /= math.sqrt(self.config.head_dim)
        bounded = self._bounded(w_qkv)
        if self.config.positions == "rope":
            w_qkv = np.hstack([w_qkv, self._turned(w_qkv)])
        w_out = self.to_stream(_with_bias(attention.w_out, attention.b_out))
        w_up = w_down = None
        if mlp is not None and block.norm2 is not None:
            up_scale, down_scale = self._mlp_scales()
            w_up = self.from_stream(mlp.w_in, mlp.b_in, block.norm2) * up_scale
            w_up = w_up.astype(self.dtype)
            w_down = self.to_stream(_with_bias(mlp.w_out * down_scale, mlp.b_out))
        return _FoldedBlock(w_qkv.astype(self.dtype), w_out, w_up, w_down, bounded)

    def _mlp_scales(self) -> tuple[NDArray[np.float64], float]:
        """What the columns of the first and all of the second matrix are multiplied by.

        GELU is then ``(1 + tanh(cubic)) * g``, SiLU ``(1 + tanh(g)) * g``.
        """
        columns = np.full(self.config.mlp_width, GELU_STRETCH)
        if self.config.mlp == "gelu":
            return columns, 0.5 / GELU_STRETCH
        return np.concatenate([0.5 * np.ones_like(columns), np.ones_like(columns)]), 1.0

    def _heads(self, w_qkv: FloatArray) -> FloatArray:
        """The columns of queries and keys, (rows, H + H_kv, D)."""
        n_columns = (self.config.n_heads + self.config.n_kv_heads) * self.config.head_dim
        return w_qkv[:, :n_columns].reshape(len(w_qkv), -1, self.config.head_dim)

    def _turned(self, w_qkv: FloatArray) -> FloatArray:
        """The columns that RoPE multiplies by the sine: a head's halves, swapped, one negated."""
        first, second = np.split(self._heads(w_qkv), 2, axis=-1)
        return np.concatenate([-second, first], axis=-1).reshape(len(w_qkv), -1)

    def turns(self) -> list[FloatArray]:
        """RoPE's cosines and sines, each (max_positions, columns); nothing without RoPE."""
        config = self.config
        places = np.arange(config.max_positions)[None]
        cos_sin = layers.rotation(places, config, self.dtype)  # (2, 1, 1, positions, D / 2)
        if cos_sin is None:
            return []
        return [np.tile(half[0, 0], 2 * (config.n_heads + config.n_kv_heads)) for half in cos_sin]

    def _bounded(self, w_qkv: FloatArray) -> bool:
        """Whether no score can exceed half of the exponents' range.

        The normed stream is at most 1 long, so a query or key is at most as long as its weights'
        largest singular value, and its bias; turning it by RoPE changes nothing.
        """
        if not np.isfinite(w_qkv).all():
            return False
        heads = self._heads(w_qkv).swapaxes(0, 1)  # (H + H_kv, W [+ 1], D)
        weights, biases = np.split(heads, [self.config.width], axis=1)
        longest = np.linalg.norm(weights, 2, (1, 2)) + np.linalg.norm(biases, axis=(1, 2))
        queries, keys = np.split(longest, [self.config.n_heads])
        return bool(queries.max() * keys.max() <= 0.5 * math.log(np.finfo(self.dtype).max))

    def unembedding(self, params: Params) -> FloatArray:
        """The final norm and the unembedding; the identity where the model has none."""
        weight = params.unembedding
        if weight is None:
            weight = np.eye(self.config.width)
        return self.from_stream(weight, None, params.final_norm).astype(self.dtype)


def _with_bias(weight: FloatArray, *biases: FloatArray | None) -> FloatArray:
    """The sum of the biases as a last row, if there are any."""
    rows = [bias for bias in biases if bias is not None]
    return np.vstack([weight, np.sum(rows, axis=0)]) if rows else weight
