"""A mask or a decoder that a cell defines, in place of a lab's mistake.

The cells' Python computes what it does; the lab's Python, which is another worker's, only draws
that.  NumPy and kvproof only.
"""

import json
from typing import Any

from kvproof import (
    REFERENCE,
    Report,
    blind_spots,
    check,
    decode,
    decoder_result,
    forward,
    init_params,
    mask_result,
    new_cache,
)
from kvproof.checking.report import plain
from kvproof.experiments.one_call import decoder_spots
from kvproof.model.masks import Mask

MIME_TYPE = "application/vnd.kvproof.candidate+json"
"""Of what a cell shows for the page to redraw from."""
DTYPES = ("float32", "float64")
"""As the labs number them."""


class Candidate:
    """What ``draw`` gives: shown as the checker's report, asked by the page for each call."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing
        self._is_mask = not hasattr(thing, "step")
        self._maps: dict[str, dict[str, Any]] = {}
        self.report: Report = check(Masked(thing) if self._is_mask else thing)

    def answer(self, values_json: str, lab: str = "mask") -> str:
        """What it does, as JSON for a lab's ``replace``; ``error`` says why it can't be told.

        Args:
            values_json: the lab's control values.  For "mask", one call: ``n_past``, ``n_new``.
                For "blind", all calls of its map.  For both ``dtype`` (0: float32, 1: float64; a
                decoder has its own).
            lab: which.
        """
        if lab not in ("mask", "blind"):
            raise ValueError(f"the lab {lab!r} draws nothing of a visitor's")
        values = json.loads(values_json)
        dtype = DTYPES[values["dtype"]]
        try:
            if lab == "blind":
                content = self._map(dtype)
            else:
                content = self._call(values["n_past"], values["n_new"], dtype)
        except BaseException as error:  # of the visitor's code, which may even exit
            return json.dumps({"error": f"{type(error).__name__}: {error}"})
        return json.dumps(plain(content), allow_nan=False)

    def forget(self) -> None:
        """Measure anew from now on."""
        self._maps.clear()

    def _call(self, n_past: int, n_new: int, dtype: str) -> dict[str, Any]:
        """As ``MaskLab.replace`` takes it."""
        if self._is_mask:
            result = mask_result(self._thing, n_past, n_new, dtype)
        else:
            result = decoder_result(self._thing, n_past, n_new)
        return {
            "mask": result.mask.astype(int).tolist(),
            "row_errors": result.row_errors.tolist(),
            "argmax_agreement": result.argmax_agreement,
            "n_nan": result.n_nan,
        }

    def _map(self, dtype: str) -> dict[str, Any]:
        """As ``BlindLab.replace`` takes it; a decoder's is the same for both precisions."""
        key = dtype if self._is_mask else ""
        if key not in self._maps:
            thing = self._thing
            found = blind_spots(thing, dtype=dtype) if self._is_mask else decoder_spots(thing)
            self._maps[key] = {
                "n_past": list(found.n_past),
                "n_new": list(found.n_new),
                "errors": found.errors.tolist(),
                "agreement": found.agreement.tolist(),
                "rounding_floor": found.rounding_floor,
                "seen_floors": found.seen_floors,
            }
        return self._maps[key]

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        kind = "mask" if self._is_mask else "decoder"
        return {**self.report._repr_mimebundle_(**options), MIME_TYPE: {"kind": kind}}


def draw(thing: Any) -> Candidate:
    """Have the labs redraw from a mask or a decoder, as the last line of a cell.

    Args:
        thing: ``mask(n_past, n_new)`` -> bool (n_new, n_past + n_new), put into the reference
            decoder; or a decoder as ``kvproof.check`` takes it.

    Raises:
        TypeError: it is neither.
    """
    if not callable(thing) and not hasattr(thing, "step"):
        raise TypeError(
            f"draw() takes a function mask(n_past, n_new) or a decoder with full() and step(), "
            f"got {type(thing).__name__}"
        )
    return Candidate(thing)


class Masked:
    """The reference decoder with somebody's mask in its cached path."""

    vocab_size = REFERENCE.vocab_size
    max_length = 48

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._params = init_params(REFERENCE)

    def full(self, tokens: Any) -> Any:
        """Without a cache, (B, T) -> (B, T, V)."""
        return forward(self._params, tokens, REFERENCE)

    def step(self, tokens: Any, cache: Any) -> Any:
        """With one, (B, C) -> (B, C, V) and the next cache."""
        cache = new_cache(REFERENCE, len(tokens)) if cache is None else cache
        return decode(self._params, tokens, cache, REFERENCE, mask=self._mask)

    def length(self, cache: Any) -> int:
        """Tokens that it holds."""
        return int(cache.length)
