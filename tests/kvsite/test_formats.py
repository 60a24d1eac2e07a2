"""How pages and labs write numbers."""

import math

import numpy as np
import pytest

from kvlab import formats
from kvlab.formats import multiple, percent, size
from kvsite.formats import number, shape


@pytest.mark.parametrize(
    ("written", "texts"),
    [
        ([number(n) for n in (0, 0.0, 145_280, np.int64(1_800))], "0; 0; 145,280; 1,800"),
        ([number(n) for n in (0.6991, 1.4186, 264.5, 12.5)], "0.699; 1.42; 264; 12.5"),
        ([number(n) for n in (0.9999, 9.9996, -0.25, 12_345.6)], "1.00; 10.0; -0.250; 12,346"),
        ([number(n) for n in (9.5367e-07, 1.33e-15)], "9.5 × 10⁻⁷; 1.3 × 10⁻¹⁵"),
        ([number(n) for n in (0.00099, 0.000999)], "9.9 × 10⁻⁴; 1.0 × 10⁻³"),
        ([number(264.5, 4), number(5.13, 2), number(3.5e-7, 4)], "264.5; 5.1; 3.50 × 10⁻⁷"),
        ([formats.fixed(n, 1) for n in (78.54, -17.75, -0.04, 0)], "78.5; −17.8; 0.0; 0.0"),
        ([formats.number(n) for n in (np.inf, -np.inf, np.nan)], "∞; −∞; NaN"),
        ([percent(n) for n in (0, 0.001, 0.778, 0.999, 1)], "0%; 1%; 78%; 99%; 100%"),
        ([size(n) for n in (512, 1_023, 278_528, 2**30)], "512 B; 1,023 B; 272 KiB; 1 GiB"),
        ([size(n) for n in (40_936_407_040, 2**20 * 3 // 2)], "38.1 GiB; 1.50 MiB"),
        ([size(n) for n in (2**20 - 1, 3 * 2**60)], "1.00 MiB; 3,072 PiB"),
        ([multiple(n) for n in (1.0, 9.94, 9.96, 71.1, 12_345.6)], "1.0; 9.9; 10; 71; 12,346"),
        ([shape((1, 4, 2, 16)), shape([3])], "[1, 4, 2, 16]; [3]"),
    ],
)
def test_amounts_are_written_alike(written: list[str], texts: str) -> None:
    assert "; ".join(written).replace("\u00a0", " ") == texts


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="no page shows"):
        number(value)
