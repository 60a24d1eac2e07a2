"""Where a mistake shows and where it doesn't: its error over history lengths and chunk sizes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kvproof import zoo
from kvproof.experiments.compare_masks import prefilled, recomputed
from kvproof.model.config import REFERENCE, DecoderConfig, Positions
from kvproof.model.feeding import example_tokens
from kvproof.model.masks import BoolArray, IntArray, Mask, check_lengths
from kvproof.model.params import FloatArray, float_dtype
from kvproof.model.rounding import rounding_floor
from kvproof.zoo.right import RightDecoder

N_PAST = tuple(range(9))
N_NEW = tuple(range(1, 7))
SEEN_FLOORS = 10.0
"""An error beyond so many rounding floors isn't rounding."""
CONTRAST = 1.0
"""The reference decoder's weights are as they are drawn, and not scaled as the zoo's."""


@dataclass(frozen=True, eq=False)
class BlindSpots:
    """What one call does wrong, for each history length and chunk size."""

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
    seen_floors: float = SEEN_FLOORS
    """An error beyond so many rounding floors isn't rounding."""
    config: DecoderConfig | None = None
    """The decoder that the mistake is made in; None: somebody else's."""

    @property
    def unseen(self) -> BoolArray:
        """Where no logit is off by more than rounding: the mistake has no effect there."""
        unseen: BoolArray = self.errors <= self.seen_floors * self.rounding_floor
        return unseen

    @property
    def unseen_by_argmax(self) -> BoolArray:
        """Where logits are wrong, and yet every row's most likely token is right."""
        unseen_by_argmax: BoolArray = ~self.unseen & (self.agreement == 1.0)
        return unseen_by_argmax

    @property
    def smallest_seen(self) -> tuple[int, int] | None:
        """P and C of the call with the fewest tokens that shows the mistake; None: none does.

        One with a history and several new tokens comes before any other: those are the calls that
        neither a test of the whole text nor one token by token makes.
        """
        cells = np.argwhere(~self.unseen).tolist()
        calls = [(self.n_past[row], self.n_new[column]) for row, column in cells]
        both = [(p, c) for p, c in calls if p > 0 and c > 1]
        return min(both or calls, key=lambda call: (sum(call), call), default=None)


def blind_spots(
    mistake: str | Mask | None = "mask-topleft",
    n_past: Sequence[int] = N_PAST,
    n_new: Sequence[int] = N_NEW,
    dtype: DTypeLike = "float64",
    seed: int = 0,
    positions: Positions | None = None,
) -> BlindSpots:
    """Feed each chunk size after each history length with a mistake; compare the logits.

    The mistake is made in the reference decoder, with the specimen's kind of positions and window.
    The history is always the right one, so the error is that of the one call.

    Args:
        mistake: a name of ``kvproof.zoo.SPECIMENS`` whose mistake is made in the call and not in
            the cache; or a mask, ``mask(n_past, n_new)`` -> bool (n_new, n_past + n_new); None: no
            mistake.
        n_past: history lengths, each P >= 0.
        n_new: chunk sizes, each C >= 1; P + C at most 512.
        dtype: "float32" or "float64".
        seed: of the reference decoder's parameters.
        positions: another kind of positions than the specimen's.

    Raises:
        ValueError: a length or the dtype is out of range, there are no lengths, there is no such
            specimen or it isn't of one call, or the mask isn't such an array.

    Example:
        >>> spots = kvproof.blind_spots("mask-topleft", n_past=[0, 1, 4], n_new=[1, 2])
        >>> spots.unseen
        array([[ True,  True],
               [False, False],
               [False, False]])
    """
    check_grid(n_past, n_new)
    name = float_dtype(dtype).name
    decoder = _decoder(mistake, positions, name, seed)
    config, longest = decoder.config, max(n_past)
    text = example_tokens(longest + max(n_new))
    expected = recomputed(text.shape[1], name, seed, config)
    history = prefilled(longest, name, seed, config)

    def call(p: int, c: int) -> tuple[float, float]:
        logits, _ = decoder.step(text[:, p : p + c], history.crop(p))
        return compare(logits, expected[:, p : p + c])

    errors, agreement = grid(n_past, n_new, call)
    floor = rounding_floor(expected)
    return BlindSpots(tuple(n_past), tuple(n_new), errors, agreement, floor, config=config)


def check_grid(n_past: Sequence[int], n_new: Sequence[int]) -> None:
    """Refuse what is no grid of calls.

    Raises:
        ValueError: a length is out of range, or there are none.
    """
    if not (len(n_past) and len(n_new)):
        raise ValueError(f"needs history lengths and chunk sizes, got {n_past} and {n_new}")
    for p in n_past:
        for c in n_new:
            check_lengths(p, c)


def grid(n_past: Sequence[int], n_new: Sequence[int], call: Any) -> NDArray[np.float64]:
    """``call(p, c)`` for each pair, (its results, len(n_past), len(n_new))."""
    return np.moveaxis(np.array([[call(p, c) for c in n_new] for p in n_past]), -1, 0)


def compare(logits: FloatArray, wanted: FloatArray) -> tuple[float, float]:
    """Largest error and share of right argmaxes of one call; an error without number is inf."""
    error = float(np.abs(logits.astype(np.float64) - wanted).max())
    agreement = float((logits.argmax(-1) == wanted.argmax(-1)).mean())
    return (np.inf if np.isnan(error) else error), agreement


class _Masked(RightDecoder):
    """With somebody's mask."""

    def __init__(self, mask: Mask, **options: Any) -> None:
        self._mask = mask
        super().__init__(**options)

    def mask(self, cache: Any, n_new: int, padding: IntArray) -> BoolArray:  # noqa: ARG002
        return self._mask(cache.length, n_new)


def _decoder(
    mistake: str | Mask | None, positions: Positions | None, dtype: str, seed: int
) -> RightDecoder:
    """The reference decoder with a mistake; its weights are not scaled."""
    options: Any = {"seed": seed, "dtype": dtype, "contrast": CONTRAST}
    if callable(mistake):
        return _Masked(mistake, config=_config(RightDecoder, positions), **options)
    make: Any = RightDecoder if mistake is None else zoo.specimen(mistake).make
    if not _is_of_one_call(make):
        raise ValueError(f"the mistake of {mistake!r} isn't in one call of the reference decoder")
    decoder: RightDecoder = make(config=_config(make, positions), **options)
    return decoder


def _config(make: Any, positions: Positions | None) -> DecoderConfig:
    own = make.config
    return replace(
        REFERENCE,
        positions=own.positions if positions is None else positions,
        window=own.window,
        n_sinks=own.n_sinks,
    )


def _is_of_one_call(make: Any) -> bool:
    """Whether a class changes only what a call reads, whatever the decoder's sizes."""
    same = all(getattr(make, n) is getattr(RightDecoder, n) for n in ("empty", "full", "reset"))
    # One that turns queries and keys apart knows them by their numbers of heads, equal here.
    turns = hasattr(make, "rotate") or make.changes_full
    return same and make.storage == "concat" and not turns
