"""How pages and labs write numbers."""

import math
from typing import Any

import numpy as np
import pytest

from kvlab import formats
from kvlab.formats import multiple, percent, size
from kvsite.formats import number, shape


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0, "0"),
        (145_280, "145,280"),
        (np.int64(1_800), "1,800"),
        (0.6991, "0.699"),
        (1.4186, "1.42"),
        (264.5, "264"),
        (12.5, "12.5"),
        (0.9999, "1.00"),
        (9.9996, "10.0"),
        (-0.25, "-0.250"),
        (12_345.6, "12,346"),
        (9.5367e-07, "9.5 × 10⁻⁷"),
        (1.33e-15, "1.3 × 10⁻¹⁵"),
        (0.00099, "9.9 × 10⁻⁴"),
        (0.000999, "1.0 × 10⁻³"),
    ],
)
def test_numbers_are_written_alike(value: float | np.integer[Any], text: str) -> None:
    assert number(value).replace("\u00a0", " ") == text


def test_digits() -> None:
    assert [number(264.5, 4), number(5.13, 2), number(3.5e-7, 4)] == [
        "264.5",
        "5.1",
        "3.50\u00a0×\u00a010⁻⁷",
    ]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="no page shows"):
        number(value)


def test_shares_sizes_and_shapes() -> None:
    assert [percent(share) for share in (0, 0.001, 0.778, 0.999, 1)] == [
        "0%",
        "1%",
        "78%",
        "99%",
        "100%",
    ]
    sizes = [512, 1_023, 278_528, 2**30, 40_936_407_040, 2**20 * 3 // 2, 2**20 - 1, 3 * 2**60]
    assert [size(n).replace("\u00a0", " ") for n in sizes] == [
        "512 B",
        "1,023 B",
        "272 KiB",
        "1 GiB",
        "38.1 GiB",
        "1.50 MiB",
        "1.00 MiB",
        "3,072 PiB",
    ]
    assert shape((1, 4, 2, 16)) == shape([1, 4, 2, 16]) == "[1, 4, 2, 16]"


def test_how_many_times() -> None:
    assert [multiple(ratio) for ratio in (1.0, 9.94, 9.96, 71.1, 12_345.6)] == [
        "1.0",
        "9.9",
        "10",
        "71",
        "12,346",
    ]


def test_a_lab_may_show_what_is_no_number() -> None:
    assert [formats.number(value) for value in (np.inf, -np.inf, np.nan)] == ["∞", "−∞", "NaN"]
