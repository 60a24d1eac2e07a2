"""A mask or a decoder that a cell defines, in the lab's wrong mask's place.

The cells' Python computes what it does in a call; the lab's Python, which is another worker's, only
draws that.  NumPy and kvproof only.
"""

import json
from typing import Any

from kvproof import (
    REFERENCE,
    Report,
    check,
    decode,
    decoder_result,
    forward,
    init_params,
    mask_result,
    new_cache,
)
from kvproof.checking.report import plain
from kvproof.masks import Mask

MIME_TYPE = "application/vnd.kvproof.own+json"
"""Of what a cell shows for the page to redraw from."""


class Own:
    """What ``draw`` gives: shown as the checker's report, asked by the page for each call."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing
        self._is_mask = not hasattr(thing, "step")
        self.report: Report = check(Masked(thing) if self._is_mask else thing)

    def answer(self, values_json: str, lab: str = "mask") -> str:
        """What it does in a call, as JSON; ``error`` says why where it can't be told.

        Args:
            lab: the one that draws it; there is only one so far.
            values_json: the mask lab's ``n_past``, ``n_new``, and ``dtype`` (0: float32, 1:
                float64; a decoder has its own).
        """
        if lab != "mask":
            raise ValueError(f"the lab {lab!r} draws nothing of a visitor's")
        values = json.loads(values_json)
        n_past, n_new = values["n_past"], values["n_new"]
        try:
            if self._is_mask:
                dtype = ("float32", "float64")[values["dtype"]]
                result = mask_result(self._thing, n_past, n_new, dtype)
            else:
                result = decoder_result(self._thing, n_past, n_new)
        except Exception as error:  # of the visitor's code
            return json.dumps({"error": f"{type(error).__name__}: {error}"})
        content = {
            "mask": result.mask.astype(int).tolist(),
            "row_errors": result.row_errors.tolist(),
            "argmax_agreement": result.argmax_agreement,
            "n_nan": result.n_nan,
        }
        return json.dumps(plain(content), allow_nan=False)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        kind = "mask" if self._is_mask else "decoder"
        return {**self.report._repr_mimebundle_(**options), MIME_TYPE: {"kind": kind}}


def draw(thing: Any) -> Own:
    """Have the mask lab redraw from a mask or a decoder, as the last line of a cell.

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
    return Own(thing)


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
