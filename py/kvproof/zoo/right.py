"""The right decoder with the whole contract of the checker: specimens break it in one place.

A class around the core, on any configuration and storage.  A subclass is a small injection: it
overrides what a call reads (``empty``, ``mask``, ``positions``), an operation, or it has a method
with the name of a function that the core's ``decode`` calls, which is then called instead.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kvproof.model import layers
from kvproof.model.cache import (
    CacheShape,
    KVCache,
    StaleCacheError,
    new_cache,
)
from kvproof.model.cached_decoder import decode
from kvproof.model.config import DecoderConfig
from kvproof.model.decoder import forward
from kvproof.model.masks import BoolArray, IntArray, offset_mask, offset_positions
from kvproof.model.params import FloatArray, Params, init_params, params_to_arrays

LEARNED = DecoderConfig(
    width=32, n_heads=4, n_kv_heads=2, vocab_size=23, mlp_width=64, max_positions=48
)
"""Two layers, 4 query heads on 2 of keys and values: small, and nothing is equal by accident."""
ROPE = replace(LEARNED, positions="rope")
ALIBI = replace(LEARNED, positions="alibi")
WINDOW = 4
"""Of the specimens with a window; their texts are longer."""
BLOCK_SIZE = 4

CONTRAST = 3.0
"""The weights are drawn for training and then scaled: small ones give flat attention, in which a
wrong position or a forgotten key hardly shows in the logits."""

HOOKS = (
    "visible_keys",
    "embed",
    "rotation",
    "rotate",
    "alibi",
    "scaled_dot_product_attention",
    "unembed",
)
"""Functions of the core that a subclass replaces by having a method of that name."""


class RightDecoder:
    """``full`` and ``step`` of the core, with everything that the contract leaves optional.

    ``lengths`` goes with the first chunk only.  Of a storage that writes in place, a cache that
    ``step``, ``crop`` or ``reorder`` has been given is spent (``keeps_old`` is False) and says so
    when it is used; ``fork`` gives an independent one.  ``crop`` beyond the length raises
    ValueError, and NotImplementedError where a ring has overwritten what it would need.

    Args:
        seed: of the parameters.
        config: with a vocabulary; None: that of the class.
        storage: see ``new_cache``; None: that of the class.
        dtype: "float32" or "float64".
        contrast: what the weight matrices are multiplied by.

    Raises:
        ValueError: the configuration has no vocabulary, or doesn't suit the storage.
    """

    config: DecoderConfig = LEARNED
    storage: str = "concat"
    changes_full: ClassVar[bool] = False
    """Whether the hooks go for ``full`` as well."""
    supports_padding: ClassVar[bool] = True
    longest: ClassVar[int | None] = None
    """Less than ``max_positions`` in a specimen that counts too far and shall not crash."""

    def __init__(
        self,
        seed: int = 0,
        config: DecoderConfig | None = None,
        storage: str | None = None,
        dtype: str = "float64",
        contrast: float = CONTRAST,
    ) -> None:
        self.config = self.config if config is None else config
        self.storage = self.storage if storage is None else storage
        if self.config.vocab_size is None:
            raise ValueError("the contract's decoders read token IDs: vocab_size must not be None")
        self.vocab_size = self.config.vocab_size
        self.params = weights(self.config, seed, dtype, contrast)
        hooks = {name: getattr(self, name) for name in HOOKS if hasattr(self, name)}
        self._layers = SimpleNamespace(**{**vars(layers), **hooks})
        self.reset()
        self._unused = self.empty(1)
        """Says what the storage is like."""
        self.keeps_old, self.quantized = self._unused.keeps_old, not self._unused.is_exact

    @property
    def max_length(self) -> int:
        """The longest sequence that ``full`` and a cache take."""
        return self.config.max_positions if self.longest is None else self.longest

    @property
    def window(self) -> int | None:
        """Tokens that a query sees, itself included; None: all."""
        return self.config.window

    @property
    def block_size(self) -> int | None:
        """Tokens of a block of a paged cache."""
        return self._unused.block_size

    @property
    def capacity(self) -> int | None:
        """Slots before the cache lets go of a token or refuses one."""
        return self._unused.capacity

    def full(self, tokens: ArrayLike, lengths: ArrayLike | None = None) -> FloatArray:
        """Logits (B, T, V) of all tokens, without a cache."""
        own = self._layers if self.changes_full else layers
        return forward(self.params, tokens, self.config, lengths, own)

    def step(
        self, tokens: ArrayLike, cache: Any = None, lengths: ArrayLike | None = None
    ) -> tuple[FloatArray, Any]:
        """Logits (B, C, V) of the new tokens, and the cache to go on with.

        Raises:
            ValueError: as ``decode``, or lengths for a chunk that isn't the first.
        """
        chunk = layers.check_tokens(tokens, self.config, self.params.dtype)
        if cache is None:
            cache = self.empty(len(chunk))
        elif lengths is not None:
            raise ValueError("lengths go with the first chunk: padding can't follow real tokens")

        def padding(n_new: int) -> IntArray:
            return cache.padding if lengths is None else n_new - np.asarray(lengths)

        with np.errstate(invalid="ignore"):  # a mask that hides all gives NaN, as elsewhere
            return decode(
                self.params,
                chunk,
                cache,
                self.config,
                lambda _, n_new: self.mask(cache, n_new, padding(n_new)),
                lengths,
                lambda _, n_new: self.positions(cache, n_new, padding(n_new)),
                self._layers,
            )

    def mask(self, cache: Any, n_new: int, padding: IntArray) -> BoolArray:
        """Which slots each new token sees, bool (C, P + C)."""
        return offset_mask(cache.length, n_new)

    def positions(self, cache: Any, n_new: int, padding: IntArray) -> IntArray:
        """The slots of the new tokens, (C,) or (B, C); ``padding`` is taken off later."""
        return offset_positions(cache.length, n_new)

    def shape(self, batch_size: int) -> CacheShape:
        """What a cache for so many rows has to hold."""
        return CacheShape(self.config, batch_size, self.params.dtype)

    def empty(self, batch_size: int) -> KVCache:
        """A cache without tokens."""
        # A pool must also hold what forks and additional beams write.
        dtype, room = self.params.dtype, {"block_size": BLOCK_SIZE, "branches": 4}
        return new_cache(self.config, batch_size, dtype, self.storage, **room)

    def length(self, cache: Any) -> int:
        """Slots that the cache has taken in, padding included."""
        length: int = cache.length
        return length

    def keys_values(self, cache: Any) -> list[tuple[FloatArray, FloatArray]]:
        """Copies of (K, V) of each layer, (B, H_kv, S, D) in the order of positions.

        A ring gives what it holds, newest last, with zeros in front in rows that hold less.
        """
        slots = cache.key_slots(0)  # (1 or B, S), -1 for none
        n_kept = int((slots >= 0).sum(axis=1).max())
        order = np.argsort(slots, axis=1, kind="stable")[:, slots.shape[1] - n_kept :]
        is_token = np.take_along_axis(slots, order, axis=1)[:, None, :, None] >= 0
        order = order[:, None, :, None]

        def in_order(array: FloatArray) -> FloatArray:
            return np.where(is_token, np.take_along_axis(array, order, axis=2), 0)

        return [(in_order(k), in_order(v)) for k, v in cache.keys_values()]

    def crop(self, cache: Any, length: int) -> Any:
        """A cache of the first ``length`` slots."""
        try:
            return cache.crop(length)
        except StaleCacheError:
            raise
        except ValueError as error:
            if 0 <= length <= cache.length and not cache.can_crop(length):
                raise NotImplementedError(str(error)) from None
            raise

    def reorder(self, cache: Any, rows: Sequence[int]) -> Any:
        """A cache of these rows, any number of them."""
        return cache.reorder(rows)

    def fork(self, cache: Any) -> Any:
        """A second, independent cache with the same content."""
        return cache.fork()

    def reset(self) -> None:
        """Back to the first state.  Nothing outlives a request here: there is no other."""


@lru_cache(maxsize=8)
def weights(config: DecoderConfig, seed: int, dtype: str, contrast: float) -> Params:
    """The parameters of a decoder of the zoo; many share one set, so nobody may write into it."""
    params = sharpened(init_params(config, seed, dtype), contrast)
    for array in params_to_arrays(params).values():
        array.setflags(write=False)
    return params


def sharpened(params: Params, contrast: float) -> Params:
    """The same parameters with all weight matrices multiplied by ``contrast``."""

    def scaled(part: Any) -> Any:
        weights = {name: a * contrast for name, a in vars(part).items() if name.startswith("w_")}
        return replace(
            part, **{name: array.astype(params.dtype) for name, array in weights.items()}
        )

    blocks = tuple(
        replace(
            block,
            attention=scaled(block.attention),
            mlp=None if block.mlp is None else scaled(block.mlp),
        )
        for block in params.blocks
    )
    return replace(params, blocks=blocks)


def random_text(decoder: RightDecoder, n_tokens: int, seed: int, n_rows: int = 1) -> NDArray[Any]:
    """Token IDs (n_rows, n_tokens), uniform."""
    rng = np.random.default_rng([seed, n_rows, n_tokens])
    return rng.integers(decoder.vocab_size, size=(n_rows, n_tokens))
