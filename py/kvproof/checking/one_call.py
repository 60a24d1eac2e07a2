"""One cached call of anybody's decoder, as the mask lab draws it."""

from typing import Any

import numpy as np

from kvproof.checking import battery
from kvproof.checking.cases import Case, feeds, run
from kvproof.checking.probes import Probes
from kvproof.checking.subject import EPS, NotSupported, Refused, Subject, Trouble
from kvproof.mask_report import MaskResult, compare

UNITS = 256
"""So many units of rounding aren't the work of a token that was changed."""


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
    try:
        return _result(Subject(decoder, np.inf), n_past, n_new, seed)
    except NotSupported as missing:
        raise ValueError(f"{missing} raises NotImplementedError") from None
    except (Trouble, Refused) as trouble:
        raise ValueError(str(trouble)) from None


def _result(subject: Subject, n_past: int, n_new: int, seed: int) -> MaskResult:
    n_total = n_past + n_new
    if n_past < 0 or n_new < 1 or n_total > subject.longest:
        raise Trouble(
            f"{n_past} + {n_new} tokens don't fit: at least 0 and 1, {subject.longest} together"
        )
    text = battery.texts(subject, np.random.default_rng(seed), 1, n_total)[0]
    result = run(subject, Case((text,), feeds([size for size in (n_past, n_new) if size])))
    if result.trouble:
        raise Trouble(result.trouble)
    call = result.observations[-1]
    noise = UNITS * EPS[subject.dtype] * float(np.abs(call.expected).max())
    probes = Probes(subject, noise, noise)
    probes.text = text
    influence = probes.influence(n_past, n_new)
    if influence is None:
        raise Trouble("the call can't be repeated with another token")
    return compare(call.logits, call.expected, np.array(influence.seen))
