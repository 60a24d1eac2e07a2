"""The unit that errors are held against."""

import numpy as np

from kvproof.model.params import FloatArray


def rounding_floor(expected: FloatArray) -> float:
    """One unit of rounding at the largest logit: ``eps(dtype) * max |logit|``.

    A cache sums the same numbers as a recompute in another order, so even a right one may be off
    by a few of these.
    """
    return float(np.finfo(expected.dtype).eps) * float(np.abs(expected).max())
