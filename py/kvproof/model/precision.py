"""Arithmetic in 16 bits: every operation's result is rounded, sums and products add up in float32.

NumPy has no bfloat16, and its float16 adds up in float16.  Here an array is float32 and holds only
numbers that 16 bits can hold; whatever is computed with it is rounded to them again.  The decoders
need no change for it: they compute with the arrays that they are given.

That is how accelerators do single operations.  A fused kernel, of a norm or a softmax, rounds once
at its end, so it is a little closer to float32; and where it wouldn't, a square in float16 is
infinite from 256 on.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from kvproof.model.config import DecoderConfig
from kvproof.model.params import (
    FloatArray,
    Params,
    float_dtype,
    params_from_arrays,
    params_to_arrays,
)

EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""Precisions that the decoders compute in, and the distance from 1 to the next number."""


def precision_name(dtype: DTypeLike) -> str:
    """One of ``EPS``.

    Raises:
        ValueError: anything else.
    """
    if isinstance(dtype, str) and dtype in EPS:
        return dtype
    try:
        if np.dtype(dtype) == np.float16:
            return "float16"
        return float_dtype(dtype).name
    except (TypeError, ValueError):
        raise ValueError(f"dtype must be one of {', '.join(EPS)}, got {dtype!r}") from None


def precision_of(array: FloatArray) -> str:
    """One of ``EPS``: what an array's numbers are rounded to."""
    return array.precision if isinstance(array, Rounded) else array.dtype.name


class Rounded(NDArray[np.float32]):
    """A float32 array of numbers that ``precision`` can hold; so is what ufuncs make of it.

    A product of matrices or a sum is one operation, so it adds up in float32.  Only float32 results
    are rounded: those of ``astype(np.float64)`` are exact, which errors are measured in.  A single
    number taken out of it is NumPy's own.
    """

    precision: str

    def __array_finalize__(self, made_from: Any) -> None:
        """Views and copies keep the precision."""
        self.precision = getattr(made_from, "precision", "float32")

    def __reduce__(self) -> Any:
        """What it is pickled as."""
        return round_to, (_plain(self), self.precision)

    def __setitem__(self, place: Any, value: Any) -> None:
        """What is put into it is rounded, too."""
        super().__setitem__(place, ROUND[self.precision](np.asarray(_plain(value), np.float32)))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Every elementwise operation, reduction and product of matrices."""
        precisions = {one.precision for one in inputs if isinstance(one, Rounded)}
        if len(precisions) > 1:
            raise ValueError(f"one operation can't mix {' and '.join(sorted(precisions))}")
        outs = kwargs.pop("out", ())  # as `x += y` has it
        result = getattr(ufunc, method)(*map(_plain, inputs), **kwargs)
        if not outs:
            return self._rounded(result)
        outs[0][...] = result
        return outs[0]

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """``np.where``, ``np.concatenate`` and the like choose among numbers, and make none."""
        return self._rounded(super().__array_function__(function, types, args, kwargs))

    def _rounded(self, result: Any) -> Any:
        if isinstance(result, tuple):
            return tuple(map(self._rounded, result))
        if getattr(result, "dtype", None) != np.float32 or self.precision not in ROUND:
            return result
        return round_to(result, self.precision)


def _plain(array: Any) -> Any:
    return array.view(np.ndarray) if isinstance(array, Rounded) else array


def round_to(x: ArrayLike, precision: str) -> Rounded:
    """The nearest numbers of a 16-bit precision, ties to even, as an array that goes on so.

    Args:
        x: numbers of any shape; they go through float32, as in PyTorch.
        precision: "float16", infinite beyond 65,504, or "bfloat16", as far as float32.

    Raises:
        ValueError: another precision.

    Example:
        >>> third = kvproof.round_to([1 / 3], "bfloat16")
        >>> third[0], (third + 100)[0]
        (np.float32(0.33398438), np.float32(100.5))
    """
    if precision not in ROUND:
        raise ValueError(f"precision must be one of {', '.join(ROUND)}, got {precision!r}")
    rounded = ROUND[precision](np.asarray(_plain(x), np.float32)).view(Rounded)
    rounded.precision = precision
    return rounded


def _to_float16(x: FloatArray) -> FloatArray:
    with np.errstate(over="ignore", invalid="ignore"):
        return x.astype(np.float16).astype(np.float32)


def _to_bfloat16(x: FloatArray) -> FloatArray:
    """The upper 16 bits of a float32, which has the same exponents."""
    bits = x.view(np.uint32)
    half_up = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))  # ties to even
    upper = ((bits + half_up) & np.uint32(0xFFFF0000)).view(np.float32)
    return np.where(np.isnan(x), x, upper)


ROUND: dict[str, Callable[[FloatArray], FloatArray]] = {
    "float16": _to_float16,
    "bfloat16": _to_bfloat16,
}


def round_params(params: Params, config: DecoderConfig, precision: str) -> Params:
    """The nearest parameters in 16 bits, with which the decoders compute in 16 bits.

    The cache that goes with them is a float32 one.

    Args:
        params: float32 or float64.
        config: the configuration that they were made with.
        precision: "float16" or "bfloat16".

    Raises:
        ValueError: another precision.

    Example:
        >>> params = kvproof.init_params(kvproof.REFERENCE)
        >>> coarse = kvproof.round_params(params, kvproof.REFERENCE, "bfloat16")
        >>> text = kvproof.example_tokens(6)
        >>> expected = kvproof.forward(params, text, kvproof.REFERENCE)
        >>> apart = kvproof.forward(coarse, text, kvproof.REFERENCE) - expected
        >>> 1e-3 < float(abs(apart).max()) < 0.1
        True
    """
    arrays = params_to_arrays(params).items()
    return params_from_arrays({name: round_to(x, precision) for name, x in arrays}, config)
