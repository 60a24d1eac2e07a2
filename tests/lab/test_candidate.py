"""A mask or a decoder of the visitor's own: what the cells' Python says, what the lab draws."""

import json
from typing import Any

import numpy as np
import pytest
from tests.check.decoders import Plain, Raises

from kvlab.candidate import Candidate, Masked, draw
from kvlab.cell_runner import CANDIDATE
from kvlab.formats import number
from kvlab.labs import new_session
from kvlab.log_axis import INFINITE_LEVEL
from kvlab.marks import MASK_STATES
from kvlab.mask_lab import MaskLab
from kvlab.session import Session
from kvproof import check, mask_result, offset_mask, open_mask, top_left_mask
from kvproof.model.masks import BoolArray, Mask

CALL = {"n_past": 4, "n_new": 2, "dtype": 1}


def lab() -> Any:
    return Session(MaskLab)


def drawn(candidate: Candidate | None, call: dict[str, int] | None = None) -> dict[str, Any]:
    """Output name -> value of a lab that shows something of the visitor's own."""
    session, call = lab(), call or CALL
    doings = candidate and candidate.answer("mask", call)
    state = json.loads(session.answer(json.dumps(call), json.dumps(doings)))
    return dict(zip(session.lab.outputs, state, strict=True))


def candidate_texts(outputs: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Message -> arguments."""
    texts = outputs["texts"]
    return dict(zip(texts["message"], texts["args"], strict=True))


def keys_apart(n_past: int, n_new: int) -> BoolArray:
    """Sees the last two keys only."""
    query, key = n_past + np.arange(n_new)[:, None], np.arange(n_past + n_new)
    return (key <= query) & (key > query - 2)


def window(extra_decode: int = 0, extra_past: int = 0) -> Mask:
    """Three tokens; more of them in a single token's call, or after a history."""

    def mask(n_past: int, n_new: int) -> BoolArray:
        query, key = n_past + np.arange(n_new)[:, None], np.arange(n_past + n_new)
        width = 3 + extra_decode * (n_new == 1) + extra_past * (n_past > 0)
        return (key <= query) & (key > query - width)

    return mask


@pytest.mark.parametrize(
    ("mask", "kind"),
    [
        (offset_mask, None),
        (window(), None),
        (window(extra_decode=99), "WINDOW-PHASE"),
        (window(extra_past=1), "WINDOW-OBO"),
        (open_mask, "MASK-SKIPPED"),
        (top_left_mask, "MASK-TOPLEFT"),
    ],
)
def test_a_mask_is_checked_against_one_pass_under_the_same_rule(
    mask: Mask, kind: str | None
) -> None:
    """A window is no mistake; one that changes from call to call is."""
    report = check(Masked(mask), budget_s=600)  # as draw() does, however slow the machine
    assert report.ok == (kind is None)
    assert not report.notes
    assert [finding.kind for finding in report.findings][:1] == [kind][: len(report.findings)]


def test_a_mask_is_drawn_with_its_errors() -> None:
    outputs = drawn(draw(keys_apart))
    states = np.array(outputs["top-left-mask.cells"]["state"]).reshape(2, 6)
    assert states[0].tolist() == ["wrongly-hidden"] * 3 + ["history", "chunk", "hidden-future"]
    expected = mask_result(keys_apart, 4, 2)
    assert outputs["errors.rows"]["top_left"] == [number(one) for one in expected.row_errors]
    said = candidate_texts(outputs)
    assert said["mask.candidate.summary"] == {
        "opened": "4",
        "cells": "12",
        "hidden": "7",
        "seen": "0",
    }


@pytest.mark.parametrize("name", ["mask", "blind"])
def test_a_lab_comes_back_to_what_it_came_with(name: str) -> None:
    session: Any = new_session(name)
    values = session.lab.initial
    before = session.answer(json.dumps(values))
    answer = json.dumps(draw(open_mask).answer(name, values))
    assert session.answer(json.dumps(values), answer) != before
    assert session.answer(json.dumps(values)) == before


def test_an_open_future_has_a_mark_of_its_own() -> None:
    states = drawn(draw(open_mask))["top-left-mask.cells"]["state"]
    assert states.count("wrongly-seen") == 1
    assert "wrongly-seen" not in drawn(None)["top-left-mask.cells"]["state"]
    assert set(states) <= set(MASK_STATES)


@pytest.mark.parametrize("thing", [offset_mask, Plain()])
def test_the_right_mask_and_a_right_decoder_are_right(thing: Any) -> None:
    candidate = draw(thing)
    assert candidate.report.ok
    assert candidate_texts(drawn(candidate))["mask.candidate.summary"]["hidden"] == "0"


def test_a_decoder_is_drawn_by_who_moves_whom() -> None:
    class Forgets(Plain):
        def step(self, tokens: Any, cache: Any) -> Any:
            return super().full(tokens), "nothing"

    states = drawn(draw(Forgets()))["top-left-mask.cells"]["state"]
    assert states[:6] == [*["wrongly-hidden"] * 4, "chunk", "hidden-future"]
    assert states[6:] == [*["wrongly-hidden"] * 4, "chunk", "chunk"]


def test_logits_that_are_no_numbers_are_drawn_at_the_top() -> None:
    class Nan(Plain):
        def step(self, tokens: Any, cache: Any) -> Any:
            logits, cache = super().step(tokens, cache)
            return logits * np.nan, cache

    rows = drawn(draw(Nan()))["errors.rows"]
    assert rows["top_left"] == ["NaN", "NaN"]
    assert rows["top_left_y"] == [INFINITE_LEVEL, INFINITE_LEVEL]


@pytest.mark.parametrize(
    ("thing", "says"),
    [
        (lambda n_past, n_new: 1 / 0, "ZeroDivisionError"),
        (lambda n_past, n_new: exit(3), "SystemExit: 3"),
        (lambda n_past, n_new: np.ones((n_new, n_new)), "mask must be bool"),
        (Raises(), "ValueError: step raised IndexError"),
    ],
)
def test_what_cannot_be_drawn_says_why(thing: Any, says: str) -> None:
    candidate = draw(thing)
    assert says in candidate.answer("mask", {**CALL, "n_new": 3})["error"]
    assert says in candidate.answer("blind", {"dtype": 1})["error"]


def test_an_interruption_is_no_fault_of_the_mask() -> None:
    """Stop in a notebook must stop it."""

    def interrupted(n_past: int, n_new: int) -> BoolArray:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _ = Masked(interrupted).window


def test_what_is_neither_is_refused() -> None:
    with pytest.raises(TypeError, match="draw\\(\\) takes a function .* or a decoder .*, got int"):
        draw(3)


def test_a_notebook_gets_the_report_and_the_page_a_sign() -> None:
    bundle = draw(top_left_mask)._repr_mimebundle_()
    assert bundle[CANDIDATE] == {"kind": "mask"}
    assert "MASK-TOPLEFT" in bundle["text/plain"]
    assert draw(Plain())._repr_mimebundle_()[CANDIDATE] == {"kind": "decoder"}
