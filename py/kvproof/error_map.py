"""Where a mistake shows and where it doesn't: its error over history lengths and chunk sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kvproof import zoo
from kvproof.config import REFERENCE
from kvproof.mask_report import prefilled, recomputed
from kvproof.masks import BoolArray, check_lengths
from kvproof.params import FloatArray, float_dtype
from kvproof.paths import example_tokens
from kvproof.zoo.right import LEARNED, RightDecoder

N_PAST = (0, 1, 2, 3, 4, 6, 8, 12, 16)
N_NEW = (1, 2, 3, 4, 6, 8)
SEEN_FLOORS = 10.0
"""An error beyond so many rounding floors isn't rounding."""


@dataclass(frozen=True, eq=False)
class BlindSpots:
    """What one call does wrong, for each history length and chunk size."""

    specimen: str | None
    """Its name in the zoo; None: nothing is wrong."""
    n_past: tuple[int, ...]
    """P, the rows of both maps."""
    n_new: tuple[int, ...]
    """C, their columns."""
    errors: NDArray[np.float64]
    """(len(n_past), len(n_new)): largest absolute logit error of the call."""
    agreement: NDArray[np.float64]
    """The same shape: share of the new rows, 0 to 1, whose most likely token is the right one."""
    rounding_floor: float
    """One unit of rounding at the largest logit: ``eps(dtype) * max |logit|``."""

    @property
    def unseen(self) -> BoolArray:
        """Where no logit is off by more than rounding: the mistake has no effect there."""
        unseen: BoolArray = self.errors <= SEEN_FLOORS * self.rounding_floor
        return unseen

    @property
    def unseen_by_argmax(self) -> BoolArray:
        """Where logits are wrong, and yet every row's most likely token is right."""
        unseen_by_argmax: BoolArray = ~self.unseen & (self.agreement == 1.0)
        return unseen_by_argmax


def blind_spots(
    specimen: str | None = "mask-topleft",
    n_past: Sequence[int] = N_PAST,
    n_new: Sequence[int] = N_NEW,
    dtype: DTypeLike = "float64",
    seed: int = 0,
) -> BlindSpots:
    """Feed each chunk size after each history length with a mistake of the zoo; compare logits.

    The mistake is made in the reference decoder.  The history is always the right one, so the error
    is that of the one call.

    Args:
        specimen: a name of ``kvproof.zoo.SPECIMENS`` whose mistake is made in the call and not in
            the cache; None: no mistake.
        n_past: history lengths, each P >= 0.
        n_new: chunk sizes, each C >= 1; P + C at most 512.
        dtype: "float32" or "float64".
        seed: of the reference decoder's parameters.

    Raises:
        ValueError: a length or the dtype is out of range, there are no lengths, or there is no such
            specimen or it has a cache or a configuration of its own.

    Example:
        >>> spots = kvproof.blind_spots("mask-topleft", n_past=[0, 1, 4], n_new=[1, 2])
        >>> spots.unseen
        array([[ True,  True],
               [False, False],
               [False, False]])
    """
    if not (len(n_past) and len(n_new)):
        raise ValueError(f"needs history lengths and chunk sizes, got {n_past} and {n_new}")
    name = float_dtype(dtype).name
    decoder = _decoder(specimen, name, seed)
    pairs = [[check_lengths(p, c) for c in n_new] for p in n_past]
    n_total = max(p + c for row in pairs for p, c in row)
    expected = recomputed(n_total, name, seed)
    cells = [[_compare(decoder, p, c, expected, seed) for p, c in row] for row in pairs]
    errors, agreement = np.moveaxis(np.array(cells), -1, 0)
    floor = float(np.finfo(name).eps) * float(np.abs(expected).max())
    return BlindSpots(specimen, tuple(n_past), tuple(n_new), errors, agreement, floor)


def _compare(
    decoder: RightDecoder, n_past: int, n_new: int, expected: FloatArray, seed: int
) -> tuple[float, float]:
    """Largest error and share of right argmaxes of one call; an error without number is inf."""
    chunk = example_tokens(n_past + n_new)[:, n_past:]
    history = prefilled(n_past, decoder.params.dtype.name, seed)
    logits, _ = decoder.step(chunk, history.fork())
    wanted = expected[:, n_past : n_past + n_new]
    error = float(np.abs(logits.astype(np.float64) - wanted).max())
    agreement = float((logits.argmax(-1) == wanted.argmax(-1)).mean())
    return (np.inf if np.isnan(error) else error), agreement


@lru_cache(maxsize=32)
def _decoder(specimen: str | None, dtype: str, seed: int) -> RightDecoder:
    """The reference decoder with a specimen's mistake; its weights are not scaled."""
    make: Any = RightDecoder if specimen is None else zoo.specimen(specimen).make
    if make.empty is not RightDecoder.empty or make.config != LEARNED:
        raise ValueError(f"{specimen!r} needs a cache or a configuration of its own")
    decoder: RightDecoder = make(seed, config=REFERENCE, dtype=dtype, contrast=1.0)
    return decoder
