"""Numbers as the labs write them, the same in every language."""

UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]


def byte_text(n: int) -> str:
    """Bytes in units of 1024, three digits: 272 KiB, 1.25 GiB."""
    power = max(0, (n.bit_length() - 1) // 10)
    if n >= 999.5 * 1024**power:  # or rounding would make 1.00e+03 of it
        power += 1
    power = min(power, len(UNITS) - 1)
    value = n / 1024**power
    return f"{value:.3g} {UNITS[power]}" if value < 999.5 else f"{value:.0f} {UNITS[power]}"


def times_text(ratio: float) -> str:
    """How many times: one digit after the point below ten."""
    return f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:,.0f}"
