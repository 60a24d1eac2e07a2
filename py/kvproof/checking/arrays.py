"""Arrays of anybody's making as NumPy's, their distance, and words for values that may be odd."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float64]


def distance(one: Logits, other: Logits) -> Logits:
    """Largest absolute difference along the last axis, (..., V) -> (...).

    Equal infinities are no difference: a masked vocabulary has them.  Where there is NaN, or an
    infinity on one side only, it is inf.
    """
    with np.errstate(all="ignore"):
        apart = np.where(one == other, 0.0, np.abs(one - other))
    largest = apart.max(axis=-1, initial=0.0)
    return np.where(np.isfinite(largest), largest, np.inf)


def compressed(logits: Logits, limit: float) -> Logits:
    """Logits beyond a limit by their logarithm, as if they went on from there; the rest unchanged.

    Their rounding would hide an error in all others; so it counts relative to them.
    """
    with np.errstate(all="ignore"):
        beyond = np.sign(logits) * limit * (1 + np.log(np.abs(logits) / limit))
    return np.where(np.isfinite(logits) & (np.abs(logits) > limit), beyond, logits)


def to_array(value: Any) -> tuple[Logits, str]:
    """Any array as float64, and the name of its own dtype.  Tensors needn't be on the CPU.

    Raises:
        Exception: whatever the conversion raises; TypeError if it gives no real numbers.
    """
    for method in ("detach", "cpu"):
        convert: Callable[[], Any] | None = getattr(value, method, None)
        value = convert() if callable(convert) else value
    dtype = str(getattr(value, "dtype", "float64")).rpartition(".")[2]
    if dtype == "bfloat16" and callable(getattr(value, "float", None)):
        value = value.float()  # NumPy has no such type
    array = np.asarray(value)
    if array.dtype == object or array.dtype.kind in "USMmcb":
        raise TypeError(f"numbers are needed, got {array.dtype}")
    return array.astype(np.float64), dtype


def shown(value: Any) -> str:
    """``repr``, on one line and not too long; the type's name where that raises."""
    try:
        text = " ".join(repr(value).split())
    except Exception:
        return f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def what(value: Any) -> str:
    """The type of a value, and its shape if it has one."""
    try:
        shape = getattr(value, "shape", None)
        return type(value).__name__ + ("" if shape is None else f" {tuple(shape)}")
    except Exception:
        return type(value).__name__


def first_line(error: BaseException) -> str:
    """Of what an exception says; "" if it says nothing."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:
        lines = []
    return lines[0] if lines else ""
