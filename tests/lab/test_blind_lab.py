"""The blind-spot map: the cells drawn are the core's, and the sentence says what they show."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from bokeh.models import Label, Rect
from tests.check.decoders import Plain
from tests.lab.lab_states import all_states, move, sentences

from kvlab.blind_lab import (
    BUGS,
    DTYPES,
    FAINTEST,
    HIDDEN_MARK,
    STRONGEST,
    UNSEEN_MARK,
    BlindLab,
    _spots,
    short,
    texts,
)
from kvlab.candidate import draw
from kvlab.formats import number, percent
from kvlab.session import Session
from kvproof import blind_spots, open_mask
from kvproof.experiments.blind_spots import N_NEW, N_PAST


def test_the_cells_are_those_of_the_core() -> None:
    assert len(all_states("blind")) == len(BUGS) * 2
    for values, state in all_states("blind"):
        bug = BUGS[values["bug"]]
        dtype = DTYPES[values["dtype"]]
        spots = blind_spots(bug.specimen, dtype=dtype, positions=bug.positions)
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
            assert (drawn["text"][i] == UNSEEN_MARK) == (drawn["state"][i] == "unseen") == unseen
            if not unseen:
                assert drawn["text"][i] == short(error)
                assert drawn["twin"][i] == number(error, 2)
            shown = state["agreement.cells"]
            share = spots.agreement.ravel()[i]
            assert (shown["text"][i] == HIDDEN_MARK) == hidden
            assert shown["state"][i] == drawn["state"][i]
            assert (shown["strength"][i] == (1 if unseen else 0)) == (share == 1)
            assert shown["twin"][i].split()[-1] == percent(share)


@pytest.mark.parametrize(
    ("error", "text"),
    [(2.774, "2.8"), (0.27, "0.27"), (0.013, "0.013"), (0.0027, "0.003"), (4.6e-4, "5·10⁻⁴")],
)
def test_an_error_is_short_in_a_cell(error: float, text: str) -> None:
    assert short(error) == text


def test_the_steps_are_even() -> None:
    """Or the axes, which have a cell a step, would mislead."""
    assert set(np.diff(N_PAST)) == set(np.diff(N_NEW)) == {1}


def test_a_larger_error_is_drawn_no_fainter_and_the_largest_strongest() -> None:
    for values, state in all_states("blind"):
        bug, drawn = BUGS[values["bug"]], state["errors.cells"]
        dtype = DTYPES[values["dtype"]]
        errors = blind_spots(bug.specimen, dtype=dtype, positions=bug.positions).errors.ravel()
        columns = zip(errors, drawn["strength"], drawn["state"], strict=True)
        strengths = [s for _, s, state in sorted(columns) if state == "seen"]
        assert all(FAINTEST <= strength <= STRONGEST for strength in strengths)
        assert (np.diff(strengths) >= 0).all()
        assert strengths[-1:] in ([], [STRONGEST])


def test_the_ring_is_around_the_call_that_the_sentence_names() -> None:
    """A smaller one outside the framed row and column, or anywhere if there is none, is blind."""
    said_of_both = 0
    for _, state in all_states("blind"):
        cells, ring = state["errors.cells"], state["errors.ring"]
        calls = zip(cells["row"], cells["column"], cells["state"], strict=True)
        seen = [(row, column) for row, column, shown in calls if shown == "seen"]
        inside = [(row, column) for row, column in seen if row > 0 and column > 0]
        ringed = list(zip(ring["row"], ring["column"], strict=True))
        assert state["agreement.ring"] == ring
        said = dict(sentences(state, "summary"))
        message = "blind.ring-both" if inside else "blind.ring-one"
        said_of_both += bool(inside)
        if not seen:
            assert ringed == []
            assert message not in said
            continue
        [(row, column)] = ringed
        assert said[message] == {"P": str(N_PAST[row]), "C": str(N_NEW[column])}
        assert (row, column) in (inside or seen)
        assert row + column == min(sum(call) for call in inside or seen)
    assert 0 < said_of_both < len(all_states("blind"))


def test_the_first_row_and_the_first_column_are_framed_and_named() -> None:
    lab: Any = Session(BlindLab).lab
    for name in ("errors", "agreement"):
        fig = lab.roots[name]
        rects = [one.data_source.data for one in fig.renderers if type(one.glyph) is Rect]
        [frames] = [data for data in rects if "state" not in data]
        corners = zip(*(frames[side] for side in ("x", "y", "width", "height")), strict=True)
        edges = [(x - w / 2, x + w / 2, y - h / 2, y + h / 2) for x, y, w, h in corners]
        assert edges == [(-0.5, 5.5, -0.5, 0.5), (-0.5, 0.5, -0.5, 8.5)]
        labels = fig.select({"type": Label})
        assert {label.text for label in labels} == {"blind.one-go", "blind.one-by-one"}
        assert all(fig.y_range.end < label.y < fig.y_range.start for label in labels)


BLIND = {
    "blind.summary-history": (True, False),
    "blind.summary-single": (False, True),
    "blind.summary-both": (True, True),
}
"""Sentence -> whether the row without a history is blind, and the column of single tokens."""


def test_the_sentence_names_the_blind_row_or_column() -> None:
    found = set()
    for values, state in all_states("blind"):
        said = dict(sentences(state, "summary"))
        nowhere = "blind.summary-none" if values["bug"] == "none" else "blind.summary-harmless"
        [where] = said.keys() & {*BLIND, nowhere}
        found.add(where)
        circles = np.array([t == UNSEEN_MARK for t in state["errors.cells"]["text"]])
        circles = circles.reshape(len(N_PAST), len(N_NEW))
        if circles.all():
            assert said[where] == {"cells": "54"}
            continue
        row, column = bool(circles[0].all()), bool(circles[:, 0].all())
        assert (row, column) == BLIND[where]
        explained = row * 6 + column * 9 - (row and column)
        assert said[where] == {"unseen": str(explained), "cells": "54"}
        more = circles.sum() - explained
        told = [args for message, args in said.items() if "-more." in message]
        assert told == ([{"more": str(more)}] if more else [])
        hidden = state["agreement.cells"]["text"].count(HIDDEN_MARK)
        seen = str(54 - circles.sum())
        assert said["blind.summary-argmax"] == {"hidden": str(hidden), "seen": seen}
    assert found == {*BLIND, "blind.summary-none", "blind.summary-harmless"}


def test_another_decoder_than_the_reference_is_named() -> None:
    for bug, message in (
        ("mask-topleft", None),
        ("pos-reset-rope", "blind.in-rope"),
        ("pos-reset-alibi", "blind.in-alibi"),
        ("window-obo-decode", "blind.in-window"),
    ):
        said = dict(sentences(move(Session(BlindLab), bug=bug), "summary"))
        assert [one for one in said if one.startswith("blind.in-")] == (
            [message] if message else []
        )


def test_a_mistake_that_shows_in_the_first_cell_has_no_sentence() -> None:
    """Nothing may be said of a row or a column that isn't blind."""
    spots = blind_spots("mask-topleft", n_past=[1, 2], n_new=[1, 2])
    with pytest.raises(ValueError, match="shows with an empty history and with single tokens"):
        list(texts(spots, is_mistake=True))


def test_a_mistake_in_the_right_decoder_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: nothing here knows beforehand where a mistake is blind."""
    session = Session(BlindLab)
    monkeypatch.setitem(BUGS, "none", replace(BUGS["none"], specimen="pos-reset-learned"))
    _spots.cache_clear()
    state = move(session, bug="none")
    _spots.cache_clear()
    assert state["errors.cells"]["text"].count(UNSEEN_MARK) == len(N_NEW)


# --- Something of the visitor's own ---------------------------------------------------------------


def candidate_state(thing: Any, dtype: int = 1) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    """The lab's outputs with something of the visitor's, and what it says."""
    values = {"bug": "pos-reset-learned", "dtype": dtype}
    answer = json.dumps(draw(thing).answer("blind", values))
    session: Any = Session(BlindLab)
    state = json.loads(session.answer(json.dumps(values), answer))
    outputs = dict(zip(session.lab.outputs, state, strict=True))
    return outputs, dict(sentences(outputs, "summary"))


@pytest.mark.parametrize("dtype", [0, 1])
def test_a_mask_of_the_visitors_is_drawn_in_place_of_the_mistake(dtype: int) -> None:
    outputs, said = candidate_state(open_mask, dtype)
    expected = move(Session(BlindLab), bug="mask-skipped-cache", dtype=dtype)
    for name in ("errors.cells", "agreement.cells"):
        assert outputs[name] == expected[name]
    assert said["blind.candidate.summary"] == {"unseen": "9", "cells": "54"}
    worst = sentences(expected, "summary")[-3:]
    assert [(message, said[message]) for message, _ in worst] == worst


def test_a_decoder_of_the_visitors_is_drawn_as_well() -> None:
    outputs, said = candidate_state(Plain())
    assert set(outputs["errors.cells"]["text"]) == {UNSEEN_MARK}
    assert said == {"blind.candidate.right": {"cells": "54"}}

    class Forgets(Plain):
        def step(self, tokens: Any, cache: Any) -> Any:
            return super().full(tokens), "nothing"

    outputs, said = candidate_state(Forgets())
    assert outputs["errors.cells"]["text"].count(UNSEEN_MARK) == len(N_NEW)
    assert said["blind.candidate.summary"] == {"unseen": "6", "cells": "54"}


def test_logits_that_are_no_numbers_are_drawn_as_infinite() -> None:
    class Nan(Plain):
        def step(self, tokens: Any, cache: Any) -> Any:
            logits, cache = super().step(tokens, cache)
            return logits * np.nan, cache

    outputs, said = candidate_state(Nan())
    assert set(outputs["errors.cells"]["text"]) == {"∞"}
    assert set(outputs["errors.cells"]["strength"]) == {STRONGEST}
    assert said["blind.summary-worst"] == {"error": "∞"}
