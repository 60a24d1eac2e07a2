"""Who may use memory that several handles point to: shared by all storages that write in place."""

from threading import Lock
from typing import Self

from numpy.typing import ArrayLike

from kvproof.model.cache.base import CacheShape, KVCache, StaleCacheError
from kvproof.model.masks import IntArray


class Generation:
    """Two counters that the handles on one memory share."""

    version = 0
    """Goes up when a handle takes the memory over; handles with an older number are stale."""
    call = 0
    """Goes up when a call begins to write; an unfinished older one has been overwritten."""

    def __init__(self) -> None:
        self.lock = Lock()  # of two threads with one handle only one may go on


class InPlaceCache(KVCache):
    """A handle that is valid until another one takes its memory over.

    ``begin`` makes a second valid handle, which writes after the tokens of the first and takes
    over in ``advance``; so a call that fails halfway has harmed nobody.  ``crop`` and ``reorder``
    take over at once, ``fork`` gets memory and a generation of its own.
    """

    keeps_old = False

    def __init__(
        self,
        shape: CacheShape,
        length: int = 0,
        padding: IntArray | None = None,
        generation: Generation | None = None,
    ) -> None:
        super().__init__(shape, length, padding)
        self._generation = Generation() if generation is None else generation
        self._version = self._generation.version
        self._call = 0

    def advance(self, n_new: int) -> None:
        """Count ``n_new`` more tokens and make all other handles on this memory stale.

        Raises:
            StaleCacheError: another handle was faster.
        """
        self._take_over()
        self.length += n_new

    def _take_over(self) -> Self:
        with self._generation.lock:
            self._check_live()
            self._generation.version += 1
            self._version = self._generation.version
        return self

    def _check_live(self) -> None:
        if self._version != self._generation.version:
            raise StaleCacheError(
                f"this {type(self).__name__} of {self.length} tokens is stale: a decode, crop, "
                "reorder or release has used it up; go on with the handle that the call returned, "
                "or fork() before the call to keep both"
            )

    def _check_writer(self) -> None:
        """Before each write: two calls begun from one handle must not mix their tokens."""
        self._check_live()
        if self._call == 0:
            with self._generation.lock:
                self._generation.call += 1
                self._call = self._generation.call
        if self._call != self._generation.call:
            raise StaleCacheError(
                f"another call from the same {type(self).__name__} of {self.length} tokens has "
                "written over the tokens of this one; fork() before the call to keep both"
            )

    def _check_crop(self, length: int) -> int:
        self._check_live()
        return super()._check_crop(length)

    def _check_rows(self, rows: ArrayLike) -> IntArray:
        self._check_live()
        return super()._check_rows(rows)
