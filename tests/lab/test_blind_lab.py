"""The blind-spot map: the cells drawn are the core's, and the sentence says what they show."""

import numpy as np
import pytest
from tests.lab.lab_states import all_states, move, sentences

from kvlab.blind_lab import BUGS, DTYPES, FAINTEST, HIDDEN_MARK, STRONGEST, UNSEEN_MARK, BlindLab
from kvlab.session import Session
from kvproof import blind_spots, report
from kvproof.error_map import N_NEW, N_PAST

SPECIMENS = list(BUGS.values())


def test_the_cells_are_those_of_the_core() -> None:
    assert len(all_states("blind")) == len(BUGS) * 2 == 14
    for values, state in all_states("blind"):
        spots = blind_spots(SPECIMENS[values["bug"]], dtype=DTYPES[values["dtype"]])
        for name in ("errors", "agreement"):
            cells = state[f"{name}.cells"]
            pairs = list(zip(cells["n_past"], cells["n_new"], strict=True))
            assert pairs == [(p, c) for p in N_PAST for c in N_NEW]
            rows, columns = cells["row"], cells["column"]
            assert [N_PAST[row] for row in rows] == cells["n_past"]
            assert [N_NEW[column] for column in columns] == cells["n_new"]
        for i, error in enumerate(spots.errors.ravel()):
            unseen, hidden = spots.unseen.ravel()[i], spots.unseen_by_argmax.ravel()[i]
            drawn = state["errors.cells"]
            assert (drawn["text"][i] == UNSEEN_MARK) == (drawn["strength"][i] == 0) == unseen
            if not unseen:
                assert float(drawn["text"][i]) == pytest.approx(error, rel=0.05)
                assert drawn["twin"][i] == drawn["text"][i]
            shown = state["agreement.cells"]
            share = spots.agreement.ravel()[i]
            assert (shown["text"][i] == HIDDEN_MARK) == hidden
            assert (shown["strength"][i] == 0) == (share == 1)
            assert shown["twin"][i].split()[-1] == f"{int(100 * share + 1e-9)}%"


def test_the_worked_example_stands_in_both_labs() -> None:
    cells = all_states("blind")[1][1]["errors.cells"]
    i = list(zip(cells["n_past"], cells["n_new"], strict=True)).index((4, 2))
    assert cells["text"][i] == f"{report(4, 2).top_left.max_abs_error:.2f}" == "0.70"


def test_a_larger_error_is_drawn_no_fainter() -> None:
    for _, state in all_states("blind"):
        drawn = state["errors.cells"]
        seen = [(float(t), s) for t, s in zip(drawn["text"], drawn["strength"], strict=True) if s]
        strengths = [strength for _, strength in sorted(seen)]
        assert all(FAINTEST <= strength <= STRONGEST for strength in strengths)
        assert (np.diff(strengths) >= -0.01).all()


@pytest.mark.parametrize(
    ("bug", "summary"),
    [
        ("blind.mask-topleft", "blind.summary-history"),
        ("blind.mask-topleft-chunks", "blind.summary-both"),
        ("blind.mask-skipped", "blind.summary-single"),
        ("blind.mask-skipped-past", "blind.summary-both"),
        ("blind.pos-reset", "blind.summary-history"),
        ("blind.self-read", "blind.summary-history"),
        ("blind.none", "blind.summary-none"),
    ],
)
@pytest.mark.parametrize("dtype", [0, 1])
def test_the_sentence_names_the_blind_row_or_column(bug: str, summary: str, dtype: int) -> None:
    state = move(Session(BlindLab), bug=list(BUGS).index(bug), dtype=dtype)
    said = dict(sentences(state, "summary"))
    assert next(iter(said)) == summary
    circles = state["errors.cells"]["text"].count(UNSEEN_MARK)
    if bug == "blind.none":
        assert circles == len(N_PAST) * len(N_NEW)
        return
    assert said[summary] == {"unseen": str(circles), "cells": "54"}
    hidden = state["agreement.cells"]["text"].count(HIDDEN_MARK)
    assert said["blind.summary-argmax"] == {"hidden": str(hidden), "seen": str(54 - circles)}


def test_a_mistake_in_the_right_decoder_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: nothing here knows beforehand where a mistake is blind."""
    monkeypatch.setitem(BUGS, "blind.none", "pos-reset-learned")
    state = move(Session(BlindLab), bug=list(BUGS).index("blind.none"))
    assert state["errors.cells"]["text"].count(UNSEEN_MARK) == len(N_NEW)


@pytest.mark.parametrize("values", [{"bug": 7}, {"dtype": 2}])
def test_what_no_control_can_send_is_an_error(values: dict[str, int]) -> None:
    with pytest.raises(IndexError):
        move(Session(BlindLab), **values)
