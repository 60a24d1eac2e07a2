"""The pages' filters: how values are written, in every language (see ``kvlab.formats``)."""

import math
from collections.abc import Sequence
from typing import SupportsFloat

from kvlab import formats
from kvlab.formats import percent, size


def number(value: SupportsFloat, digits: int = 3) -> str:
    """A number as all pages write it: 145,280; 0.699; 9.5 × 10⁻⁷.

    Args:
        value: integers are written in full, others rounded.
        digits: significant digits, one less before a power of ten.

    Raises:
        ValueError: not a finite number.
    """
    if not math.isfinite(value):
        raise ValueError(f"no page shows {value}")
    return formats.number(value, digits)


def shape(sizes: Sequence[int]) -> str:
    """An array's shape: [1, 4, 2, 16]."""
    return f"[{', '.join(map(str, sizes))}]"


FILTERS = {"number": number, "percent": percent, "size": size, "shape": shape}
"""Name in a page -> filter."""
