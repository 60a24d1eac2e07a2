"""The stepper: the cells are the rows that a call touches, known from the chunks alone."""

import pytest
from tests.lab.lab_states import all_states, move, sentences, value

from kvlab.session import Session
from kvlab.stepper_lab import CHUNKS, MAX_TOKENS, STRIDE, StepperLab
from kvproof import Call, trace_calls

Cell = tuple[int, int, int]
"""Call, layer, slot."""


def calls(tokens: int, chunk: int) -> list[tuple[int, int]]:
    """(first, end) of each call."""
    return [(start, min(start + chunk, tokens)) for start in range(0, tokens, chunk)]


def expected(tokens: int, chunk: int, earlier: str) -> dict[Cell, str]:
    return {
        (number, layer, slot): "chunk" if slot >= first else earlier
        for number, (first, end) in enumerate(calls(tokens, chunk), start=1)
        for layer in (1, 2)
        for slot in range(end)
    }


def drawn(state: dict[str, list[int]]) -> dict[Cell, str]:
    cells = zip(state["y"], state["layer"], state["slot"], strict=True)
    return dict(zip(cells, map(str, state["state"]), strict=True))


def test_the_cells_are_what_the_chunks_say() -> None:
    assert len(all_states("stepper")) == MAX_TOKENS * len(CHUNKS)
    for values, state in all_states("stepper"):
        tokens, chunk = values["tokens"], int(CHUNKS[values["chunk"]])
        assert drawn(state["recomputed.cells"]) == expected(tokens, chunk, "recompute")
        assert drawn(state["cached.cells"]) == expected(tokens, chunk, "cached")
        for path in ("recomputed", "cached"):
            cells = state[f"{path}.cells"]
            places = zip(cells["layer"], cells["slot"], strict=True)
            assert cells["x"] == [(layer - 1) * STRIDE + slot for layer, slot in places]
            assert set(state[f"{path}.now"]["y"]) == {len(calls(tokens, chunk))}


def test_the_read_outs_are_sums_of_what_is_drawn() -> None:
    for values, state in all_states("stepper"):
        cuts = calls(values["tokens"], int(CHUNKS[values["chunk"]]))
        again = 2 * sum(first for first, _ in cuts)
        computed = 2 * sum(end for _, end in cuts)
        assert value(state, "recomputed-rows") == str(computed)
        assert value(state, "recomputed-again") == str(again)
        assert value(state, "recomputed-scores") == str(2 * sum(end**2 for _, end in cuts))
        assert value(state, "cached-rows") == str(2 * values["tokens"])
        assert value(state, "cached-again") == "0"
        scores = 2 * sum((end - first) * end for first, end in cuts)
        assert value(state, "cached-scores") == str(scores)
        table = state["calls.rows"]
        assert sum(table["recomputed"]) == computed
        assert sum(table["again"]) == sum(table["read"]) == again
        assert table["tokens"] == [end - first for first, end in cuts]
        assert table["computed"] == [2 * new for new in table["tokens"]]


def test_the_first_call_is_the_same_both_ways() -> None:
    state = move(Session(StepperLab), tokens=5, chunk=CHUNKS.index("5"))
    assert drawn(state["recomputed.cells"]) == drawn(state["cached.cells"])
    said = dict(sentences(state, "summary"))
    assert said["stepper.call-many"] == {"first": "0", "last": "4"}
    assert "stepper.first-call" in said
    assert said["stepper.total"] == {"rows": "10", "cached": "10", "times": "1.0"}


def test_the_sentence_counts_one_layer() -> None:
    said = dict(sentences(move(Session(StepperLab), tokens=8, chunk=0), "summary"))
    assert said["stepper.call-one"] == {"token": "7"}
    assert said["stepper.later-call"] == {"again": "7", "read": "7", "written": "1"}


def test_a_cache_that_forgets_to_be_one_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: without a cache on both sides, both sides show the triangle."""

    def never_cached(tokens: int, chunk: int, _: bool) -> list[Call]:
        return trace_calls(tokens, chunk, cached=False)

    monkeypatch.setattr("kvlab.stepper_lab.trace_calls", never_cached)
    state = move(Session(StepperLab), tokens=8)
    assert state["cached.cells"]["state"].count("recompute") == 2 * sum(range(8))


@pytest.mark.parametrize(
    ("values", "error"), [({"tokens": 0}, ValueError), ({"chunk": 4}, IndexError)]
)
def test_what_no_control_can_send_is_an_error(
    values: dict[str, int], error: type[Exception]
) -> None:
    with pytest.raises(error):
        move(Session(StepperLab), **values)
