"""The mask lab in words: read-outs for the table, and a sentence for each figure."""

from kvproof import MaskReport, MaskResult


def texts(result: MaskReport) -> dict[str, list[str]]:
    """All texts of one state, as the columns of a data source.

    Returns:
        ``key``: the element's name on the page; ``text``: what it shows; ``value``: the number
        behind it in full precision, or "" for a sentence.
    """
    rows = [
        ("state", f"P = {result.n_past}, C = {result.n_new}, {result.dtype}", ""),
        ("rounding-floor", f"{result.rounding_floor:.2e}", repr(result.rounding_floor)),
        _count("offset-hidden-keys", result.offset.wrongly_hidden_keys),
        _count("hidden-keys", result.top_left.wrongly_hidden_keys),
        *_read_outs("offset", result.offset, result),
        *_read_outs("top-left", result.top_left, result),
        ("offset-summary", _offset_summary(result), ""),
        ("top-left-summary", _top_left_summary(result), ""),
        ("errors-summary", _errors_summary(result), ""),
    ]
    key, text, value = (list(column) for column in zip(*rows, strict=True))
    return {"key": key, "text": text, "value": value}


def _read_outs(name: str, mask: MaskResult, result: MaskReport) -> list[tuple[str, str, str]]:
    rows = result.n_new
    agreeing = round(mask.argmax_agreement * rows)
    return [
        (f"{name}-error", number(mask.max_abs_error), repr(mask.max_abs_error)),
        (f"{name}-worst-row", _worst_row(mask, result), str(mask.worst_row)),
        (
            f"{name}-argmax",
            f"{mask.argmax_agreement:.0%} ({agreeing} of {rows})",
            repr(mask.argmax_agreement),
        ),
        _count(f"{name}-nan", mask.n_nan),
    ]


def _count(key: str, n: int) -> tuple[str, str, str]:
    return key, str(n), str(n)


def number(value: float) -> str:
    """Three significant digits; an exact zero is called one, since 0.00 would hide the question."""
    if value == 0:
        return "0 (exact)"
    return f"{value:#.3g}" if value >= 0.001 else f"{value:.2e}"


def _worst_row(mask: MaskResult, result: MaskReport) -> str:
    if mask.max_abs_error == 0:
        return "none"
    return f"{mask.worst_row} (position {result.n_past + mask.worst_row})"


def _offset_summary(result: MaskReport) -> str:
    n_past, n_new = result.n_past, result.n_new
    cached = {0: "", 1: "the cached key and "}.get(n_past, f"all {n_past} cached keys and ")
    opened, cells = int(result.offset.mask.sum()), result.offset.mask.size
    if opened == cells:
        count = f"every cell is open ({cells} of {cells}), so this mask is no mask at all"
    else:
        count = f"{opened} of {cells} cells are open, the rest is the chunk's own future"
    return (
        f"With P = {n_past} and C = {n_new}, each new query reads {cached}the chunk up to itself: "
        f"{count}."
    )


def _top_left_summary(result: MaskReport) -> str:
    if result.n_past == 0:
        return "With no history the two masks are the same: nothing is wrongly hidden."
    opened, cells = int(result.top_left.mask.sum()), result.top_left.mask.size
    keys = "key" if result.n_past == 1 else "keys"
    return (
        f"The triangle pinned to the top left opens only {opened} of {cells} cells: each new row "
        f"loses exactly P = {result.n_past} {keys}, {result.wrongly_hidden_keys} in all."
    )


def _errors_summary(result: MaskReport) -> str:
    return (
        f"Rounding floor of {result.dtype}: {result.rounding_floor:.1e}. "
        f"With the offset mask the logits are {_against_floor(result)}; {_against_wrong(result)}"
    )


def _against_floor(result: MaskReport) -> str:
    error = result.offset.max_abs_error
    if error == 0:
        return "equal to the last bit"
    return f"off by {number(error)}, {error / result.rounding_floor:.1f} times the floor"


def _against_wrong(result: MaskReport) -> str:
    if result.n_past == 0:
        return "the top-left mask is the same mask here."
    share = result.top_left.argmax_agreement
    kept = f"and yet {share:.0%} of the rows keep" if share else "and no row keeps"
    return (
        f"with the top-left mask they are off by {number(result.top_left.max_abs_error)}, "
        f"{kept} the most likely token."
    )
