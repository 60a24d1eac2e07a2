"""All storages with the same tokens: what lies where, its bytes, and its errors."""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import DTypeLike

from kvproof.model.cache import STORAGES, KVCache, bytes_together, new_cache
from kvproof.model.cached_decoder import decode
from kvproof.model.config import REFERENCE
from kvproof.model.decoder import forward
from kvproof.model.feeding import example_tokens
from kvproof.model.masks import BoolArray, IntArray, check_integer
from kvproof.model.params import FloatArray, Params, float_dtype, init_params
from kvproof.model.rounding import rounding_floor

WINDOWED = replace(REFERENCE, window=8)
"""The reference decoder with a window, so that a ring can serve it as well as the others."""
CAPACITY = 32
"""Tokens of a row that "static" and "paged" have memory for."""
BLOCK_SIZE = 4
N_CONTINUED = 3
"""Tokens of its own that each branch reads after the prefix."""


@dataclass(frozen=True, eq=False)
class StorageReport:
    """What one storage holds after the branches have gone on from one prefix."""

    storage: str
    slots: IntArray
    """(branches, places): the slot whose token each place holds; -1 for none."""
    shared: BoolArray
    """The same shape: places of memory that more than one branch points to."""
    block_size: int | None
    """Places in a block, where memory comes in blocks."""
    nbytes: int
    """All memory of the branches, what they share counted once."""
    max_abs_error: float
    """Of the branches' own tokens: largest difference to a full recompute's logits."""
    rounding_floor: float
    """One unit of rounding at the largest logit: ``eps(dtype) * max |logit|``."""


def compare_storages(
    prefix: int, branches: int = 2, dtype: DTypeLike = "float32", seed: int = 0
) -> dict[str, StorageReport]:
    """Read a prefix once, fork the cache, and go on with three other tokens in each branch.

    The decoder is the reference with a window of 8 tokens, the blocks of "paged" hold 4.

    Args:
        prefix: tokens that the branches have in common, 1 to 29.
        branches: continuations, at least 1.
        dtype: "float32" or "float64".
        seed: of the parameters.

    Returns:
        Storage -> report, in the order of ``new_cache``'s list.

    Raises:
        ValueError: a number or the dtype is out of range.

    Example:
        >>> alone, both = (kvproof.compare_storages(8, branches=n) for n in (1, 2))
        >>> [round(both[name].nbytes / alone[name].nbytes, 1) for name in ("concat", "paged")]
        [2.0, 1.3]
    """
    prefix, branches = check_integer("prefix", prefix), check_integer("branches", branches, 1)
    if not 1 <= prefix <= CAPACITY - N_CONTINUED:
        raise ValueError(f"prefix must be 1..{CAPACITY - N_CONTINUED}, got {prefix}")
    case = prefix, branches, float_dtype(dtype).name, seed
    return {storage: _report(storage, *case) for storage in STORAGES}


def _report(storage: str, prefix: int, branches: int, dtype: str, seed: int) -> StorageReport:
    params, expected = _recomputed(prefix, branches, dtype, seed)
    texts = _texts(prefix, branches)
    _, past = decode(params, texts[:1, :prefix], _empty(storage, branches, dtype), WINDOWED)
    caches, errors = [], []
    for branch, start in enumerate([*(past.fork() for _ in range(1, branches)), past]):
        logits, cache = decode(params, texts[branch : branch + 1, prefix:], start, WINDOWED)
        caches.append(cache)
        errors.append(np.abs(logits - expected[branch]).max())
    slots = np.concatenate([cache.memory_slots() for cache in caches])
    shared = np.concatenate([cache.shared_places() for cache in caches])
    return StorageReport(
        storage,
        slots,
        shared,
        caches[0].block_size,
        bytes_together(caches),
        float(max(errors)),
        rounding_floor(expected),
    )


def _empty(storage: str, branches: int, dtype: str) -> KVCache:
    """A cache of one row, with room for all branches."""
    capacity = CAPACITY if STORAGES[storage].reserves_memory else None
    return new_cache(WINDOWED, 1, dtype, storage, capacity, BLOCK_SIZE, branches)


def _texts(prefix: int, branches: int) -> IntArray:
    """(branches, prefix + N_CONTINUED): one beginning, other endings."""
    texts = example_tokens(prefix + N_CONTINUED, branches)
    texts[:, :prefix] = texts[0, :prefix]
    return texts


@lru_cache(maxsize=128)
def _recomputed(prefix: int, branches: int, dtype: str, seed: int) -> tuple[Params, FloatArray]:
    """The parameters, and the logits (branches, N_CONTINUED, V) of the branches' own tokens."""
    params = init_params(WINDOWED, seed, dtype)
    return params, forward(params, _texts(prefix, branches), WINDOWED)[:, prefix:]
