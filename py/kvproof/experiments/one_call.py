"""One cached call of anybody's decoder, as the labs draw it; or one of each size."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from kvproof.checking import battery
from kvproof.checking.cases import Case, Observation, feeds, run
from kvproof.checking.probes import Probes
from kvproof.checking.rounding import EPS, UNITS, Rounding
from kvproof.checking.subject import NotSupported, Refused, Row, Subject, Trouble
from kvproof.experiments.blind_spots import N_NEW, N_PAST, BlindSpots, check_grid, grid
from kvproof.experiments.blind_spots import compare as compare_call
from kvproof.experiments.compare_masks import MaskResult, compare


def decoder_result(decoder: Any, n_past: int, n_new: int, seed: int = 0) -> MaskResult:
    """Feed ``n_new`` random tokens after ``n_past`` cached ones; compare with ``full``.

    Args:
        decoder: see ``check``.
        n_past: tokens of the first call, P >= 0; 0: there is none.
        n_new: tokens of the call under test, C >= 1; P + C at most the decoder's longest text.
        seed: of the text.

    Returns:
        As for a mask, but ``mask`` is measured: True where another token j moves the logits of row
        i.  A token also acts through later ones that have read it.

    Raises:
        ValueError: the lengths don't fit, or a call raised or gave something odd.

    Example:
        >>> class Decoder:
        ...     vocab_size, max_length = 97, 32
        ...     params = kvproof.init_params(kvproof.REFERENCE)
        ...     def full(self, tokens):
        ...         return kvproof.forward(self.params, tokens, kvproof.REFERENCE)
        ...     def step(self, tokens, cache):
        ...         if cache is None:
        ...             cache = kvproof.new_cache(kvproof.REFERENCE, len(tokens))
        ...         return kvproof.decode(self.params, tokens, cache, kvproof.REFERENCE)
        >>> kvproof.decoder_result(Decoder(), 2, 2).mask.astype(int).tolist()
        [[1, 1, 1, 0], [1, 1, 1, 1]]
    """
    with _troubles_as_value_errors():
        subject = Subject(decoder, np.inf)
        text = _text(subject, n_past, n_new, seed)
        call = _call(subject, text, n_past, n_new)
        noise = Rounding(subject.dtype, _scale(call)).allowed
        probes = Probes(subject, noise, noise)
        probes.text = text
        influence = probes.influence(n_past, n_new)
        if influence is None:
            raise ValueError("the call can't be repeated with another token")
        return compare(call.logits, call.expected, np.array(influence.seen))


def decoder_spots(
    decoder: Any, n_past: Sequence[int] = N_PAST, n_new: Sequence[int] = N_NEW, seed: int = 0
) -> BlindSpots:
    """Feed each chunk size after each history length; compare the call's logits with ``full``'s.

    Args:
        decoder: see ``check``.
        n_past: history lengths, each P >= 0; one call reads a history.
        n_new: chunk sizes, each C >= 1; P + C at most the decoder's longest text.
        seed: of the text.

    Raises:
        ValueError: the lengths don't fit, or a call raised or gave something odd.
    """
    check_grid(n_past, n_new)
    with _troubles_as_value_errors():
        subject = Subject(decoder, np.inf)
        longest = _text(subject, max(n_past), max(n_new), seed)
        scales = []

        def call(p: int, c: int) -> tuple[float, float]:
            one = _call(subject, longest[: p + c], p, c)
            scales.append(_scale(one))
            return compare_call(one.logits, one.expected)

        errors, agreement = grid(n_past, n_new, call)
        floor, seen = EPS[subject.dtype] * max(scales), UNITS[subject.dtype]
        return BlindSpots(tuple(n_past), tuple(n_new), errors, agreement, floor, seen)


@contextmanager
def _troubles_as_value_errors() -> Iterator[None]:
    try:
        yield
    except NotSupported as missing:
        raise ValueError(f"{missing} raises NotImplementedError") from None
    except (Trouble, Refused) as trouble:
        raise ValueError(str(trouble)) from None


def _text(subject: Subject, n_past: int, n_new: int, seed: int) -> Row:
    n_total = n_past + n_new
    if n_past < 0 or n_new < 1 or n_total > subject.longest:
        raise ValueError(
            f"{n_past} + {n_new} tokens don't fit: at least 0 and 1, {subject.longest} together"
        )
    return battery.texts(subject, np.random.default_rng(seed), 1, n_total)[0]


def _call(subject: Subject, text: Row, n_past: int, n_new: int) -> Observation:
    """The last call of one that reads ``n_past`` tokens, if any, and one that reads the rest."""
    result = run(subject, Case((text,), feeds([size for size in (n_past, n_new) if size])))
    if result.trouble:
        raise Trouble(result.trouble)
    return result.observations[-1]


def _scale(call: Observation) -> float:
    """The call's largest logit."""
    return float(np.abs(call.expected).max())
