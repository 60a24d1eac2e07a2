"""Memory for a window only: a ring that the newest tokens overwrite, and places for the sinks."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from kvproof.model.cache.base import DEFAULT_ROOM, CacheShape, Room
from kvproof.model.cache.in_place import Generation, InPlaceCache
from kvproof.model.config import DecoderConfig
from kvproof.model.masks import BoolArray, IntArray, check_integer
from kvproof.model.params import FloatArray


@dataclass(frozen=True)
class Ring:
    """Which place of a row keeps which of its tokens.

    A row's tokens count from 0 after its padding.  The first ``n_sinks`` keep their places for
    ever, the others go round through the rest.
    """

    n_sinks: int
    window: int
    n_places: int

    @classmethod
    def of(cls, config: DecoderConfig, capacity: int | None) -> Self:
        """The ring of a decoder with a window.

        Raises:
            ValueError: it has none, or ``capacity`` is less than window and sinks.
        """
        if config.window is None:
            raise ValueError(
                "a rolling cache keeps the last `window` tokens, and the decoder has no window; "
                "take another storage, or a DecoderConfig with a window"
            )
        needed = config.window + config.n_sinks
        places = needed if capacity is None else check_integer("capacity", capacity)
        if places < needed:
            raise ValueError(
                f"capacity {places} is too small for a window of {config.window} and "
                f"{config.n_sinks} sinks: {needed} tokens"
            )
        return cls(config.n_sinks, config.window, places)

    @property
    def n_turning(self) -> int:
        """Places that are used again and again; at least ``window``."""
        return self.n_places - self.n_sinks

    def place(self, token: IntArray) -> IntArray:
        """The place of each token, 0 .. n_places - 1."""
        turning = self.n_sinks + (token - self.n_sinks) % self.n_turning
        return np.where(token < self.n_sinks, token, turning)


class RollingCache(InPlaceCache):
    """Keys and values per layer, each (B, H_kv, places, D): sinks, then the ring.

    ``slots`` (B, places) is the slot of the token in each place, -1 for none; padding isn't kept.
    Within a call the new tokens stand after the held ones, since early queries of a long chunk
    still read what its late tokens will overwrite; ``advance`` writes them into the ring.
    """

    def __init__(
        self,
        shape: CacheShape,
        ring: Ring,
        keys: list[FloatArray],
        values: list[FloatArray],
        slots: IntArray,
        length: int = 0,
        padding: IntArray | None = None,
        generation: Generation | None = None,
    ) -> None:
        super().__init__(shape, length, padding, generation)
        self.ring = ring
        self.keys = keys
        self.values = values
        self.slots = slots
        self._new: dict[int, tuple[FloatArray, FloatArray]] = {}

    @classmethod
    def empty(cls, shape: CacheShape, room: Room = DEFAULT_ROOM) -> Self:
        """A cache of length 0 (see ``new_cache``)."""
        ring = Ring.of(shape.config, room.capacity)
        batch_size, n_heads, head_dim = shape.row

        def arrays() -> list[FloatArray]:
            size = (batch_size, n_heads, ring.n_places, head_dim)
            return [np.zeros(size, shape.dtype) for _ in range(shape.n_layers)]

        return cls(shape, ring, arrays(), arrays(), np.full((batch_size, ring.n_places), -1))

    @property
    def capacity(self) -> int:
        """Places of a row."""
        return self.ring.n_places

    def memory_slots(self) -> IntArray:  # noqa: D102
        return self.slots

    def key_slots(self, n_new: int) -> IntArray:
        """The slots of the held keys, (B, places), then those of the new ones: (B, places + C)."""
        new = np.arange(self.length, self.length + n_new)
        return np.concatenate([self.slots, np.tile(new, (self.shape.batch_size, 1))], axis=1)

    def begin(self, n_new: int, padding: IntArray | None = None) -> Self:  # noqa: D102, ARG002
        self._check_live()
        return self._handle(self.slots, self.length, self.padding if padding is None else padding)

    def _append(
        self, layer: int, keys: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        self._check_live()
        all_keys = np.concatenate([self.keys[layer], keys], axis=2)
        all_values = np.concatenate([self.values[layer], values], axis=2)
        # Not the arrays that were given: their owner may use them again.
        n_places = self.ring.n_places
        self._new[layer] = all_keys[:, :, n_places:], all_values[:, :, n_places:]
        return all_keys, all_values

    def advance(self, n_new: int) -> None:  # noqa: D102
        self._check_live()
        new = [self._new[layer] for layer in range(self.shape.n_layers)]
        start = self.length
        super().advance(n_new)
        token = np.arange(start, self.length) - self.padding[:, None]  # (B, C)
        end = (self.length - self.padding)[:, None]
        stays = (token >= 0) & ((token < self.ring.n_sinks) | (token >= end - self.ring.n_turning))
        row, column = np.nonzero(stays)
        place = self.ring.place(token[row, column])
        for layer, (keys, values) in enumerate(new):
            self.keys[layer][row, :, place] = keys[row, :, column]
            self.values[layer][row, :, place] = values[row, :, column]
        self.slots = self.slots.copy()  # a call from another handle may still be reading them
        self.slots[row, place] = start + column
        self._new = {}

    def crop(self, length: int) -> Self:
        """A cache of the first ``length`` tokens, as far as the next one can see them.

        Raises:
            ValueError: ``length`` is negative or more than there are, or a token that the window
                then reaches is gone.  A larger capacity keeps more of them.
            StaleCacheError: the handle is stale.
        """
        length = self._check_crop(length)
        for row, slot in np.argwhere(self._gone(length))[:1]:
            raise ValueError(
                f"can't crop {self.length} tokens to {length}: the next one would read slot "
                f"{slot} of row {row}, which has been overwritten; a capacity of more than "
                f"{self.ring.n_places} allows for longer steps back"
            )
        slots = np.where(self.slots < length, self.slots, -1)
        return self._handle(slots, length, np.minimum(self.padding, length))._take_over()

    def can_crop(self, length: int) -> bool:  # noqa: D102
        return super().can_crop(length) and not self._gone(length).any()

    def _gone(self, length: int) -> BoolArray:
        """Which slots the next token after a crop would see, and are overwritten, (B, length)."""
        slot = np.arange(length)
        token = slot - self.padding[:, None]  # (B, length)
        seen = (token >= 0) & (slot > length - self.ring.window)
        place = self.ring.place(np.maximum(token, 0))
        gone: BoolArray = seen & (np.take_along_axis(self.slots, place, axis=1) != slot)
        return gone

    def reorder(self, rows: Sequence[int]) -> Self:  # noqa: D102
        index = self._check_rows(rows)
        return self._copy(index, self._generation)._take_over()

    def fork(self) -> Self:  # noqa: D102
        self._check_live()
        return self._copy(np.arange(self.shape.batch_size), Generation())

    def keys_values(self) -> list[tuple[FloatArray, FloatArray]]:
        """(K, V) of each layer, each (B, H_kv, places, D) in the order of ``slots``."""
        self._check_live()
        return list(zip(self.keys, self.values, strict=True))

    def memory(self) -> dict[Hashable, int]:
        """All places and their slot numbers, whatever the length."""
        return {id(array): array.nbytes for array in (self.slots, *self.keys, *self.values)}

    def _copy(self, index: IntArray, generation: Generation) -> Self:
        shape = replace(self.shape, batch_size=len(index))
        keys = [array[index] for array in self.keys]
        values = [array[index] for array in self.values]
        slots, padding = self.slots[index], self.padding[index]
        return type(self)(shape, self.ring, keys, values, slots, self.length, padding, generation)

    def _handle(self, slots: IntArray, length: int, padding: IntArray) -> Self:
        keys, values = self.keys, self.values
        return type(self)(
            self.shape, self.ring, keys, values, slots, length, padding, self._generation
        )
