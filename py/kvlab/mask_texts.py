"""The mask lab in words: read-outs for the table, and a sentence for each figure."""

from collections.abc import Iterator

from kvlab.formats import number, percent
from kvlab.words import Text, plain
from kvproof import MaskReport, MaskResult


def state_text(n_past: int, n_new: int, dtype: str) -> Text:
    """Where the controls stand; of 16 bits also how they are computed with."""
    state = {"P": str(n_past), "C": str(n_new), "dtype": dtype}
    is_rounded = dtype in ("float16", "bfloat16")
    return Text("state", "mask.state-rounded" if is_rounded else "mask.state", state)


def texts(result: MaskReport, candidate: bool = False) -> list[Text]:
    """All texts of one state; ``candidate``: one stands in the wrong mask's place."""
    floor = result.rounding_floor
    return [
        state_text(result.n_past, result.n_new, result.dtype),
        plain("rounding-floor", number(floor), repr(floor)),
        _count("offset-hidden-keys", result.offset.wrongly_hidden_keys),
        _count("hidden-keys", result.top_left.wrongly_hidden_keys),
        *_read_outs("offset", result.offset, result),
        *_read_outs("top-left", result.top_left, result),
        *_offset_summary(result),
        _candidate_summary(result) if candidate else _top_left_summary(result),
        *_errors_summary(result, candidate),
    ]


def _read_outs(name: str, mask: MaskResult, result: MaskReport) -> list[Text]:
    agreement = mask.argmax_agreement
    agreeing = {
        "percent": percent(agreement),
        "rows": str(round(agreement * result.n_new)),
        "all": str(result.n_new),
    }
    return [
        _error(f"{name}-error", mask.max_abs_error),
        _worst_row(f"{name}-worst-row", mask, result),
        Text(f"{name}-argmax", "mask.argmax", agreeing, repr(agreement)),
        _count(f"{name}-nan", mask.n_nan),
    ]


def _count(key: str, n: int) -> Text:
    return plain(key, str(n), str(n))


def _error(key: str, value: float) -> Text:
    """An exact zero is called one, since 0.00 would hide the question."""
    if value == 0:
        return Text(key, "number.exact-zero", {}, repr(value))
    return plain(key, number(value), repr(value))


def _worst_row(key: str, mask: MaskResult, result: MaskReport) -> Text:
    row = mask.worst_row
    if mask.max_abs_error == 0:
        return Text(key, "mask.no-worst-row", {}, str(row))
    place = {"row": str(row), "position": str(result.n_past + row)}
    return Text(key, "mask.worst-row", place, str(row))


def _offset_summary(result: MaskReport) -> Iterator[Text]:
    key = "offset-summary"
    reads = {
        0: "mask.reads.none",
        1: "mask.reads.one",
    }.get(result.n_past, "mask.reads.many")
    yield Text(key, reads, {"P": str(result.n_past), "C": str(result.n_new)})
    opened, cells = int(result.offset.mask.sum()), result.offset.mask.size
    count = "mask.opens-all" if opened == cells else "mask.opens"
    yield Text(key, count, {"opened": str(opened), "cells": str(cells)})


def _top_left_summary(result: MaskReport) -> Text:
    key = "top-left-summary"
    if result.n_past == 0:
        return Text(key, "mask.same")
    loses = "mask.loses.one" if result.n_past == 1 else "mask.loses.many"
    mask = result.top_left.mask
    counts = {
        "opened": str(int(mask.sum())),
        "cells": str(mask.size),
        "P": str(result.n_past),
        "hidden": str(result.top_left.wrongly_hidden_keys),
    }
    return Text(key, loses, counts)


def _candidate_summary(result: MaskReport) -> Text:
    shown = result.top_left
    counts = {
        "opened": str(int(shown.mask.sum())),
        "cells": str(shown.mask.size),
        "hidden": str(shown.wrongly_hidden_keys),
        "seen": str(int(shown.wrongly_seen.sum())),
    }
    return Text("top-left-summary", "mask.candidate.summary", counts)


def _errors_summary(result: MaskReport, candidate: bool) -> Iterator[Text]:
    key, floor = "errors-summary", result.rounding_floor
    yield Text(key, "mask.floor", {"dtype": result.dtype, "floor": number(floor)})
    error = result.offset.max_abs_error
    if error == 0:
        yield Text(key, "mask.right-exact")
    else:
        times = f"{error / floor:.1f}"
        yield Text(key, "mask.right-rounded", {"error": number(error), "times": times})
    yield _against_candidate(key, result) if candidate else _against_wrong(key, result)


def _against_candidate(key: str, result: MaskReport) -> Text:
    shown = result.top_left
    error, kept = number(shown.max_abs_error), percent(shown.argmax_agreement)
    counts = {"error": error, "percent": kept}
    return Text(key, "mask.candidate.errors", counts)


def _against_wrong(key: str, result: MaskReport) -> Text:
    if result.n_past == 0:
        return Text(key, "mask.wrong-same")
    error, share = number(result.top_left.max_abs_error), result.top_left.argmax_agreement
    if share:
        return Text(key, "mask.wrong-kept", {"error": error, "percent": percent(share)})
    return Text(key, "mask.wrong-lost", {"error": error})
