"""The unit that errors are held against."""

import numpy as np

from kvproof.model.params import FloatArray
from kvproof.model.precision import EPS, precision_of


def rounding_floor(expected: FloatArray) -> float:
    """One unit of rounding at the largest logit: ``eps(precision) * max |logit|``.

    A cache sums the same numbers as a recompute in another order, so even a right one may be off
    by a few of these.
    """
    return EPS[precision_of(expected)] * float(np.abs(expected).max())
