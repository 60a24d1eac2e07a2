"""A mask or a decoder that a cell defines, in place of a lab's mistake.

The cells' Python computes what it does; the lab's Python, which is another worker's, only draws
that.  NumPy and kvproof only.
"""

from typing import Any

from kvlab.cell_runner import CANDIDATE
from kvproof import (
    REFERENCE,
    Report,
    blind_spots,
    check,
    decode,
    decoder_result,
    init_params,
    mask_result,
    new_cache,
    offset_mask,
)
from kvproof.checking.report import plain
from kvproof.experiments.one_call import decoder_spots
from kvproof.model.masks import BoolArray, Mask

DTYPES = ("float32", "float64", "bfloat16", "float16")
"""As the labs number them."""


class Candidate:
    """What ``draw`` gives: shown as the checker's report, asked by the page for each call."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing
        self._is_mask = not hasattr(thing, "step")
        self._maps: dict[str, dict[str, Any]] = {}
        self.report: Report = check(Masked(thing) if self._is_mask else thing)

    def answer(self, lab: str, values: dict[str, Any]) -> dict[str, Any]:
        """What it does, as the lab's ``show`` takes it; ``error`` says why it can't be told.

        Args:
            lab: which.
            values: the lab's control values.  For "mask", one call: ``n_past``, ``n_new``.  For
                "blind", all calls of its map.  For both ``dtype``, by its place in ``DTYPES``; a
                decoder has its own.

        Returns:
            Lists and numbers only; what isn't finite as text.

        Raises:
            ValueError: the lab draws no candidates.
        """
        if lab not in ("mask", "blind"):
            raise ValueError(f"the lab {lab!r} draws no candidates")
        dtype = DTYPES[values["dtype"]]
        try:
            if lab == "blind":
                content = self._map(dtype)
            else:
                content = self._call(values["n_past"], values["n_new"], dtype)
        except BaseException as error:  # of the visitor's code, which may even exit
            return {"error": f"{type(error).__name__}: {error}"}
        answer: dict[str, Any] = plain(content)
        return answer

    def forget(self) -> None:
        """Measure anew from now on."""
        self._maps.clear()

    def _call(self, n_past: int, n_new: int, dtype: str) -> dict[str, Any]:
        """As ``MaskLab`` takes it."""
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
        """As ``BlindLab`` takes it; a decoder's is the same for both precisions."""
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
        return {**self.report._repr_mimebundle_(**options), CANDIDATE: {"kind": kind}}


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
    """The reference decoder with somebody's mask.

    ``full`` is one pass without a history under the same mask, which may hide any of the past, as a
    window does, but shows no future.  So what is found is how the mask goes wrong after a history.
    """

    vocab_size = REFERENCE.vocab_size
    max_length = 48

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._params = init_params(REFERENCE)

    @property
    def window(self) -> int | None:
        """Tokens that a row sees at most, if the mask hides any of the past."""
        try:
            widest = int(self._mask(0, self.max_length).sum(axis=1).max())
        except Exception:  # of the visitor's code: the report will say it
            return None
        return widest if 0 < widest < self.max_length else None

    def full(self, tokens: Any) -> Any:
        """Without a history, (B, T) -> (B, T, V)."""

        def mask(n_past: int, n_new: int) -> BoolArray:
            return self._mask(n_past, n_new) & offset_mask(n_past, n_new)

        empty = new_cache(REFERENCE, len(tokens))
        return decode(self._params, tokens, empty, REFERENCE, mask=mask)[0]

    def step(self, tokens: Any, cache: Any) -> Any:
        """With one, (B, C) -> (B, C, V) and the next cache."""
        cache = new_cache(REFERENCE, len(tokens)) if cache is None else cache
        return decode(self._params, tokens, cache, REFERENCE, mask=self._mask)

    def length(self, cache: Any) -> int:
        """Tokens that it holds."""
        return int(cache.length)
