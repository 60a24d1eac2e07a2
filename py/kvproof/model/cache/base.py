"""What every storage promises, and the checks that all of them share.

A cache is a *handle*: ``decode``, ``crop``, ``reorder`` and ``fork`` return a new one.  A storage
that writes in place moves its contents to the new handle; the old one is stale from then on and
refuses any use.  ``fork`` first, if two continuations shall start from one prefix.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from kvproof.model.config import DecoderConfig
from kvproof.model.masks import BoolArray, IntArray, check_integer
from kvproof.model.params import FloatArray


class StaleCacheError(ValueError):
    """A handle was used after its storage had been written through a newer one."""


@dataclass(frozen=True)
class CacheShape:
    """What a cache was made for, whatever its length: a configuration, a batch and a precision."""

    config: DecoderConfig
    batch_size: int
    dtype: np.dtype[np.floating]

    @property
    def n_layers(self) -> int:
        """Layers that each have keys and values of their own."""
        return self.config.n_layers

    @property
    def row(self) -> tuple[int, int, int]:
        """(batch, heads, head dim): all but the time axis."""
        return self.batch_size, self.config.n_kv_heads, self.config.head_dim


@dataclass(frozen=True)
class Room:
    """How much memory a cache gets from the start; see ``new_cache``."""

    capacity: int | None = None
    block_size: int = 16
    branches: int = 1


DEFAULT_ROOM = Room()


class KVCache(ABC):
    """A handle on the keys and values of all layers.

    The length moves only in ``advance``, once per call and after all layers: within a call every
    layer must see the same history.

    Example:
        >>> params = kvproof.init_params(kvproof.REFERENCE)
        >>> cache = kvproof.new_cache(kvproof.REFERENCE)
        >>> _, cache = kvproof.decode(params, [[12, 7, 31, 4]], cache, kvproof.REFERENCE)
        >>> branches = cache.fork().crop(3).reorder([0, 0])
        >>> keys, values = branches.keys_values()[0]
        >>> cache.length, branches.length, keys.shape
        (4, 3, (2, 4, 3, 16))
    """

    is_exact: ClassVar[bool] = True
    """Keys and values are read as they were written."""
    keeps_old: ClassVar[bool] = True
    """A handle stays valid when a call, ``crop`` or ``reorder`` has been given it."""

    reserves_memory: ClassVar[bool] = False
    """There is memory for a number of tokens from the start, and no more."""

    shape: CacheShape
    length: int
    """Tokens that the cache has taken in, P; a rolling cache may have let go of some."""
    padding: IntArray
    """(B,): how many slots at the beginning of each row are padding."""
    block_size: int | None = None
    """Tokens in a block, where memory comes in blocks."""

    def __init__(self, shape: CacheShape, length: int = 0, padding: IntArray | None = None) -> None:
        self.shape = shape
        self.length = length
        self.padding = np.zeros(shape.batch_size, np.int64) if padding is None else padding

    @classmethod
    @abstractmethod
    def empty(cls, shape: CacheShape, room: Room = DEFAULT_ROOM) -> Self:
        """A cache of length 0; for the arguments and the errors see ``new_cache``."""

    @property
    def capacity(self) -> int | None:
        """Tokens of a row before the cache refuses one, or lets go of one; None: no limit."""
        return None

    def key_slots(self, n_new: int) -> IntArray:
        """The slot of each key that ``append`` returns in a call of ``n_new``: int (1 or B, S).

        All from 0 to P + C - 1 in order, if the storage keeps all; -1 is a place without a token.
        """
        return np.arange(self.length + n_new)[None]

    def memory_slots(self) -> IntArray:
        """The slot whose token each place in memory holds, int (B, places); -1 for none."""
        place = np.arange(self._n_places)
        slots = np.where(place < self.length, place, -1)
        return np.broadcast_to(slots, (self.shape.batch_size, len(place)))

    @property
    def _n_places(self) -> int:
        """Tokens of a row that the memory has places for, used or not."""
        return self.length if self.capacity is None else self.capacity

    def shared_places(self) -> BoolArray:
        """Which of these places another row or another cache points to as well, (B, places)."""
        return np.zeros(self.memory_slots().shape, np.bool_)

    @abstractmethod
    def memory(self) -> dict[Hashable, int]:
        """Bytes of each piece of memory, by an identity that caches share as they do the piece."""

    @property
    def nbytes(self) -> int:
        """Bytes that the keys and values, and what describes them, take in memory."""
        return sum(self.memory().values())

    @property
    def payload_bytes(self) -> int:
        """Bytes of the keys and values of the tokens that it holds, without room for others."""
        return sum(keys.nbytes + values.nbytes for keys, values in self.keys_values())

    @abstractmethod
    def keys_values(self) -> list[tuple[FloatArray, FloatArray]]:
        """(K, V) of each layer, each (B, H_kv, length, D) in slot order; only to be read.

        A rolling cache gives the S tokens that it still holds; see ``key_slots(0)``.

        Raises:
            StaleCacheError: the handle is stale.
        """

    @abstractmethod
    def begin(self, n_new: int, padding: IntArray | None = None) -> Self:
        """A handle for a call with ``n_new`` more tokens; this one stays valid until ``advance``.

        Raises:
            ValueError: there is no room for them; nothing has changed.
            StaleCacheError: the handle is stale.
        """

    def append(
        self, layer: int, keys: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Add the new tokens' (B, H_kv, C, D) to a layer; returns what the queries attend to.

        Returns:
            K and V (B, H_kv, S, D), those of ``key_slots``; the new ones come last.

        Raises:
            ValueError: keys and values differ in shape or dtype, or batch, heads, head dim or
                dtype differ from the cache's.
        """
        if keys.shape != values.shape or keys.dtype != values.dtype:
            raise ValueError(
                f"the new keys are {keys.shape} {keys.dtype}, "
                f"the new values {values.shape} {values.dtype}"
            )
        batch_size, n_kv_heads, _, head_dim = keys.shape
        self._check_row((batch_size, n_kv_heads, head_dim), keys.dtype)
        return self._append(layer, keys, values)

    @abstractmethod
    def _append(
        self, layer: int, keys: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]: ...

    def extend(self, layer: int, pair: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``append`` for a caller that has checked once: keys and values (2, B, H_kv, C, D).

        The storage keeps its own copy of them: the caller may write over ``pair``.
        """
        keys, values = pair
        return self._append(layer, keys, values)

    @abstractmethod
    def advance(self, n_new: int) -> None:
        """Count ``n_new`` more tokens, after every layer has appended them."""

    def can_crop(self, length: int) -> bool:
        """Whether all that the next token sees after ``crop(length)`` is still there."""
        return 0 <= length <= self.length

    @abstractmethod
    def crop(self, length: int) -> Self:
        """A cache of the first ``length`` tokens.

        Raises:
            ValueError: ``length`` is negative or more than there are.
            StaleCacheError: the handle is stale.
        """

    @abstractmethod
    def reorder(self, rows: Sequence[int]) -> Self:
        """A cache with these rows of the batch, as a beam search picks them; any number of them.

        Raises:
            ValueError: no rows, or one outside the batch.
            StaleCacheError: the handle is stale.
        """

    @abstractmethod
    def fork(self) -> Self:
        """An independent cache with the same content.

        Raises:
            StaleCacheError: the handle is stale.
        """

    def check_fits(
        self, config: DecoderConfig, batch_size: int, dtype: np.dtype[np.floating]
    ) -> None:
        """Refuse a decoder or a batch that this cache wasn't made for.

        Not only another shape: with another window or other positions the same numbers are
        another model's, and a ring has let go of tokens that this one may still see.

        Raises:
            ValueError: the configuration, the batch size or the dtype differs; names both.
        """
        if config != self.shape.config:
            raise ValueError(_difference(self.shape.config, config))
        self._check_row((batch_size, config.n_kv_heads, config.head_dim), dtype)

    def _check_row(self, row: tuple[int, int, int], dtype: np.dtype[np.floating]) -> None:
        if row != self.shape.row or dtype != self.shape.dtype:
            raise ValueError(
                f"the cache holds (batch, heads, head dim) {self.shape.row} {self.shape.dtype}, "
                f"the new tokens have {row} {dtype}; "
                "make it with new_cache(config, batch_size, params.dtype)"
            )

    def _check_crop(self, length: int) -> int:
        length = check_integer("length", length)
        if not 0 <= length <= self.length:
            raise ValueError(f"can't crop to {length} tokens: the cache has {self.length}")
        return length

    def _check_rows(self, rows: ArrayLike) -> IntArray:
        array: IntArray = np.asarray(rows)
        if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer):
            raise ValueError(f"rows must be a list of row numbers and not empty, got {rows!r}")
        batch_size = self.shape.batch_size
        if array.min() < 0 or array.max() >= batch_size:
            bad = array[(array < 0) | (array >= batch_size)][0]
            raise ValueError(f"row {bad} is outside the batch 0..{batch_size - 1}")
        return array


def _difference(made_for: DecoderConfig, config: DecoderConfig) -> str:
    names = [f.name for f in fields(config) if getattr(made_for, f.name) != getattr(config, f.name)]
    theirs, ours = (
        ", ".join(f"{name} {getattr(one, name)!r}" for name in names) for one in (made_for, config)
    )
    return (
        f"the cache was made for a decoder with {theirs}; this one has {ours}; "
        "make it with new_cache(config, batch_size, params.dtype)"
    )


def bytes_together(caches: Iterable[KVCache]) -> int:
    """Memory of several caches, what they share counted once."""
    pieces: dict[Hashable, int] = {}
    for cache in caches:
        pieces |= cache.memory()
    return sum(pieces.values())


def reserved(shape: CacheShape, room: Room) -> int:
    """Tokens of a row that there shall be memory for.

    Raises:
        ValueError: less than one.
    """
    capacity = shape.config.max_positions if room.capacity is None else room.capacity
    return check_integer("capacity", capacity, least=1)
