"""What the lab says about a state: read-outs, and a sentence for each figure."""

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from kvlab.mask_texts import texts
from kvlab.words import columns
from kvproof import MaskReport, MaskResult, compare_masks, offset_mask, top_left_mask
from kvsite.labs import readouts
from kvsite.words import TEXTS, load_catalogue

ENGLISH = load_catalogue(TEXTS / "en.toml")


def said(result: MaskReport) -> dict[str, str]:
    found = readouts(columns(texts(result)), ENGLISH)
    return {key: readout["text"] for key, readout in found.items()}


def values(result: MaskReport) -> dict[str, str]:
    return {text.key: text.value for text in texts(result)}


def made_up(n_past: int, offset_errors: list[float], top_left_errors: list[float]) -> MaskReport:
    """A report with these row errors, and half of the rows in agreement under the wrong mask."""
    n_new = len(offset_errors)
    right = MaskResult(offset_mask(n_past, n_new), np.array(offset_errors), 1.0, 0)
    wrong = MaskResult(top_left_mask(n_past, n_new), np.array(top_left_errors), 0.5, 0)
    return MaskReport(n_past, n_new, "float64", 3e-16, right, wrong)


def test_the_default_state_in_words() -> None:
    shown = said(made_up(4, [0.0, 1.5e-15], [0.25, 0.69914]))
    assert shown["state"] == "P = 4, C = 2, float64"
    assert shown["rounding-floor"] == "3.0\u00a0×\u00a010⁻¹⁶"
    assert shown["hidden-keys"] == "8"
    assert shown["offset-error"] == "1.5\u00a0×\u00a010⁻¹⁵"
    assert shown["offset-worst-row"] == "1 (position 5)"
    assert shown["offset-argmax"] == "100% (2 of 2)"
    assert shown["top-left-error"] == "0.699"
    assert shown["top-left-argmax"] == "50% (1 of 2)"
    assert "P = 4 and C = 2" in shown["offset-summary"]
    assert "all 4 cached keys" in shown["offset-summary"]
    assert "11 of 12 cells" in shown["offset-summary"]
    assert "opens only 3 of 12 cells" in shown["top-left-summary"]
    assert "P = 4 keys, 8 in all" in shown["top-left-summary"]
    assert "float64: 3.0\u00a0×\u00a010⁻¹⁶" in shown["errors-summary"]
    assert "off by 1.5\u00a0×\u00a010⁻¹⁵, 5.0 times the floor" in shown["errors-summary"]
    assert "off by 0.699" in shown["errors-summary"]
    assert "50% of the queries" in shown["errors-summary"]


def test_both_masks_wrongly_hidden_keys_are_counted() -> None:
    """An offset mask that forgets the history must not be said to hide nothing."""
    result = made_up(4, [0.5, 0.5], [0.5, 0.5])
    broken = replace(result, offset=replace(result.offset, mask=top_left_mask(4, 2)))
    assert said(result)["offset-hidden-keys"] == "0"
    assert said(broken)["offset-hidden-keys"] == values(broken)["offset-hidden-keys"] == "8"


def test_without_history_the_words_say_that_the_masks_are_the_same() -> None:
    shown = said(made_up(0, [0.0, 2e-16], [0.0, 2e-16]))
    assert "the two masks are the same" in shown["top-left-summary"]
    assert "the same mask" in shown["errors-summary"]
    assert "cached" not in shown["offset-summary"]
    assert "3 of 4 cells" in shown["offset-summary"]


def test_an_exact_zero_is_called_one() -> None:
    shown = said(made_up(4, [0.0, 0.0], [0.25, 0.5]))
    assert shown["offset-error"] == "0 (exact)"
    assert shown["offset-worst-row"] == "none"
    assert "equal to the last bit" in shown["errors-summary"]


def test_a_single_token_has_nothing_to_hide() -> None:
    shown = said(compare_masks(7, 1))
    assert "all 7 cached keys" in shown["offset-summary"]
    assert "Every cell is open (8 of 8)" in shown["offset-summary"]
    assert "future" not in shown["offset-summary"]


def test_nan_is_said_and_not_taken_for_a_number() -> None:
    result = made_up(4, [0.0, 2e-16], [np.nan, 0.5])
    result = replace(result, top_left=replace(result.top_left, n_nan=97))
    shown = said(result)
    assert shown["top-left-error"] == "NaN"
    assert shown["top-left-worst-row"] == "0 (position 4)"
    assert shown["top-left-nan"] == values(result)["top-left-nan"] == "97"
    assert values(result)["top-left-error"] == "nan"


SLIPS = {
    "one of many": r"\b1 (cached )?(keys|cells|rows)\b",
    "one in the plural": r"\b1 lie\b",
    "all of one": r"\ball 1\b",
    "yet nothing": r"yet 0%",
    "an empty place": r"  |\( | \.|None|nan",
}


@pytest.fixture(scope="module")
def all_said() -> list[str]:
    """The texts of all states of the sliders."""
    states = product(range(33), range(1, 17), ["float32", "float64"])
    return [text for state in states for text in said(compare_masks(*state)).values()]


@pytest.mark.parametrize("slip", SLIPS.values(), ids=SLIPS)
def test_no_state_is_put_into_clumsy_words(all_said: list[str], slip: str) -> None:
    assert [text for text in all_said if re.search(slip, text)] == []
