"""How numbers are written, the same everywhere and in every language: articles, labs, tables.

The scripts write none: they put these texts into their places.
"""

import math
from typing import SupportsFloat

UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
SMALLEST_POWER = -3
"""Numbers below this power of ten are written with one."""
LARGEST_POWER = 8
"""As are those from the next one on."""


def number(value: SupportsFloat, digits: int = 3) -> str:
    """A number: 145,280; 0.699; 9.5 × 10⁻⁷; ∞.

    Args:
        value: integers are written in full, others rounded.
        digits: significant digits, one less before a power of ten.
    """
    if hasattr(value, "__index__"):
        return f"{value:,}"
    value = float(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    exponent = int(f"{value:.{digits - 1}e}".split("e")[1])  # of the rounded one: 0.9999 is 1.00
    if SMALLEST_POWER <= exponent <= LARGEST_POWER:
        return f"{value:,.{max(0, digits - 1 - exponent)}f}"
    mantissa, power = f"{value:.{digits - 2}e}".split("e")
    return f"{mantissa}\u00a0×\u00a0{ten_to_the(int(power))}"


def fixed(value: SupportsFloat, digits: int) -> str:
    """A number with so many digits after the point, for columns: 0.07; −17.8; 0.0, never −0.0."""
    return f"{float(value):z.{digits}f}".replace("-", "−")


def ten_to_the(power: int) -> str:
    """A power of ten: 10⁻⁷."""
    return f"10{str(power).translate(SUPERSCRIPTS)}"


def percent(share: float) -> str:
    """A share of 1 in whole percent: 78%; only all is 100%, only nothing is 0%."""
    whole = round(100 * share)
    return f"{min(max(whole, 1), 99) if 0 < share < 1 else whole}%"


def size(n_bytes: int) -> str:
    """Bytes in the largest unit of 1024 that isn't above them: 272 KiB, 38.1 GiB."""
    power = max(0, (n_bytes.bit_length() - 1) // 10)
    if n_bytes >= 1023.5 * 1024**power:  # or rounding would make 1,024 of it
        power += 1
    power = min(power, len(UNITS) - 1)
    value = n_bytes / 1024**power
    return f"{number(int(value) if value == int(value) else value)}\u00a0{UNITS[power]}"


def multiple(ratio: float) -> str:
    """How many times: one digit after the point below ten."""
    return f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:,.0f}"
