"""Window and receptive field: the cells are what definitions say, the errors the core's."""

from dataclasses import replace

import numpy as np
import pytest
from tests.lab.lab_states import all_states, move, sentences, value

from kvlab.log_axis import ZERO_LEVEL
from kvlab.session import Session
from kvlab.window_lab import ERRORS, KEPT, SAME, STRIDE, WINDOWS, WindowLab
from kvproof import REFERENCE, trim_or_refeed

WINDOW_SIZES = list(WINDOWS.values())


def sees(layer: int, key: int, token: int, first: int, window: int | None) -> bool:
    """Whether a key of a two-layer decoder that read the text from ``first`` on knows a token."""
    if token < first or token > key:
        return False
    return token == key if layer == 0 else window is None or key - token < window


def test_the_cells_are_what_the_definitions_say() -> None:
    assert len(all_states("window")) == 9 * 9 * 2
    for values, state in all_states("window"):
        tokens, window = values["tokens"], WINDOW_SIZES[values["window"]]
        refed = min(KEPT + values["extra"], tokens)
        for name, first in (("kept", 0), ("refed", tokens - refed)):
            expected = []
            for layer in (0, 1):
                for key in range(tokens - KEPT, tokens):
                    for token in range(tokens):
                        wanted = sees(layer, key, token, 0, window)
                        seen = sees(layer, key, token, first, window)
                        lost = "wrongly-hidden" if wanted else "hidden-future"
                        expected.append("history" if seen else lost)
            cells = state[f"{name}.cells"]
            assert cells["state"] == expected
            assert cells["x"] == list(range(tokens)) * 2 * KEPT
            assert sorted(set(cells["y"])) == [0, 1, 2, 3, STRIDE, 6, 7, 8]
            labels = [f"{layer}: {n}" for layer in (1, 2) for n in range(tokens - KEPT, tokens)]
            assert list(state[f"{name}.keys"].values()) == labels
            assert list(dict.fromkeys(cells["key"])) == labels
        assert state["refed.fed"] == tokens - refed - 0.5
        assert "kept.fed" not in state, "nothing is fed again there"


@pytest.mark.parametrize("window", [0, 1])
@pytest.mark.parametrize(("tokens", "extra"), [(8, 0), (16, 3), (24, 8)])
def test_the_errors_are_the_cores(tokens: int, extra: int, window: int) -> None:
    state = move(Session(WindowLab), tokens=tokens, extra=extra, window=window)
    config = replace(REFERENCE, window=WINDOW_SIZES[window])
    result = trim_or_refeed(tokens, KEPT, KEPT + extra, config, dtype="float64")
    keys, values = result.key_errors, result.value_errors
    errors = [keys[0], values[0], keys[1], values[1], result.next_error]
    assert state["errors.rows"]["x"] == pytest.approx(np.maximum(errors, ZERO_LEVEL), rel=1e-3)
    assert [float(value(state, name)) for name in ERRORS] == errors


LOST = {"window.lost-none": 0, "window.lost-one": 1}


def test_picture_numbers_and_sentence_agree() -> None:
    outcomes = set()
    for _, state in all_states("window"):
        lost = state["refed.cells"]["state"].count("wrongly-hidden")
        _, (message, args), (verdict, _) = sentences(state, "summary")
        assert lost == LOST.get(message, int(args.get("lost", 0)))
        errors = state["errors.rows"]["x"]
        np.testing.assert_array_less(errors[:2], SAME)
        assert (lost > 0) == (max(errors[2:4]) > SAME)
        assert verdict == ("window.differs" if errors[4] > SAME else "window.same")
        outcomes.add((lost > 0, verdict))
    assert len(outcomes) == 3
    assert (False, "window.differs") not in outcomes


def test_behind_a_window_a_lost_key_may_be_one_that_nobody_reads() -> None:
    """Of four kept keys a window of four leaves the next token three, and itself."""
    said = [
        [message for message, _ in sentences(state, "summary")][1:]
        for state in (move(Session(WindowLab), extra=extra, window=1) for extra in (3, 2, 1))
    ]
    assert said == [
        ["window.lost-none", "window.same"],
        ["window.lost-one", "window.same"],
        ["window.lost-many", "window.differs"],
    ]


def test_a_cache_that_is_not_trimmed_but_fed_again_is_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def all_again(tokens: int, kept: int, refed: int, *rest: object, **more: object) -> object:
        return trim_or_refeed(tokens, kept, tokens, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("kvlab.window_lab.trim_or_refeed", all_again)
    state = move(Session(WindowLab), tokens=12)
    assert "wrongly-hidden" not in state["refed.cells"]["state"]
