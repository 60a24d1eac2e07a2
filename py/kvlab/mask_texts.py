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
        ("offset-hidden-keys", "0", "0"),
        ("hidden-keys", f"{result.wrongly_hidden_keys}", f"{result.wrongly_hidden_keys}"),
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
        (f"{name}-nan", str(mask.n_nan), str(mask.n_nan)),
    ]


def number(value: float) -> str:
    """Three significant digits; an exact zero is called one, since 0.00 would hide the question."""
    if value == 0:
        return "0 (exact)"
    return f"{value:.3f}" if value >= 0.01 else f"{value:.2e}"


def _worst_row(mask: MaskResult, result: MaskReport) -> str:
    if mask.max_abs_error == 0:
        return "none"
    return f"{mask.worst_row} (position {result.n_past + mask.worst_row})"


def _offset_summary(result: MaskReport) -> str:
    mask = result.offset.mask
    opened = int(mask.sum())
    history = f"all {result.n_past} cached keys and " if result.n_past else ""
    future = mask.size - opened
    hidden = f"the other {future} lie in the chunk's own future" if future else "none is hidden"
    return (
        f"With P = {result.n_past} and C = {result.n_new}, each new query reads {history}the chunk "
        f"up to itself: {opened} of {mask.size} cells are open, {hidden}."
    )


def _top_left_summary(result: MaskReport) -> str:
    if result.n_past == 0:
        return "With no history the two masks are the same: nothing is wrongly hidden."
    opened = int(result.top_left.mask.sum())
    return (
        f"The triangle pinned to the top left opens {opened} of {result.top_left.mask.size} cells: "
        f"each new row loses exactly P = {result.n_past} keys, {result.wrongly_hidden_keys} in all."
    )


def _errors_summary(result: MaskReport) -> str:
    floor = result.rounding_floor
    right, wrong = result.offset, result.top_left
    against = (
        "equal to the last bit"
        if right.max_abs_error == 0
        else f"off by {number(right.max_abs_error)}, {right.max_abs_error / floor:.1f} times the floor"
    )
    ending = (
        "the top-left mask is the same mask here."
        if result.n_past == 0
        else f"with the top-left mask they are off by {number(wrong.max_abs_error)}, yet "
        f"{wrong.argmax_agreement:.0%} of the rows keep their most likely token."
    )
    return (
        f"Rounding floor of {result.dtype}: {floor:.1e}. With the offset mask the logits are "
        f"{against}; {ending}"
    )
