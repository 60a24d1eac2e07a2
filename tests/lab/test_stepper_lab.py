"""The stepper: the cells are the rows that a call touches, known from the chunks alone."""

from typing import Any

import pytest
from tests.lab.lab_states import all_states, move, sentences, value

from kvlab.session import Session
from kvlab.stepper_lab import CHUNKS, FIRST, LAYERS, MAX_TOKENS, MIDDLES, STRIDE, StepperLab
from kvproof import REFERENCE, Call, trace_calls
from kvsite.numbers import N_NEW, N_PAST

Cell = tuple[int, int, int]
"""Call, layer, slot."""


def calls(tokens: int, first: int, chunk: int) -> list[tuple[int, int]]:
    """(start, end) of each call."""
    starts = [0, *range(first, tokens, chunk)]
    return list(zip(starts, [*starts[1:], tokens], strict=True))


def calls_of(values: dict[str, int]) -> list[tuple[int, int]]:
    """The same for a state's controls."""
    return calls(values["tokens"], int(FIRST[values["first"]]), int(CHUNKS[values["chunk"]]))


def expected(cuts: list[tuple[int, int]], earlier: str) -> dict[Cell, str]:
    return {
        (number, layer, slot): "chunk" if slot >= start else earlier
        for number, (start, end) in enumerate(cuts, start=1)
        for layer in (1, 2)
        for slot in range(end)
    }


def drawn(state: dict[str, list[int]]) -> dict[Cell, str]:
    cells = zip(state["y"], state["layer"], state["slot"], strict=True)
    return dict(zip(cells, map(str, state["state"]), strict=True))


def test_the_cells_are_what_the_chunks_say() -> None:
    assert len(all_states("stepper")) == MAX_TOKENS * len(FIRST) * len(CHUNKS)
    for values, state in all_states("stepper"):
        cuts = calls_of(values)
        assert drawn(state["recomputed.cells"]) == expected(cuts, "recompute")
        assert drawn(state["cached.cells"]) == expected(cuts, "history")
        for path in ("recomputed", "cached"):
            cells = state[f"{path}.cells"]
            places = zip(cells["layer"], cells["slot"], strict=True)
            assert cells["x"] == [(layer - 1) * STRIDE + slot for layer, slot in places]
            assert set(state[f"{path}.now"]["y"]) == {len(cuts)}


def test_it_starts_with_the_worked_example_of_the_article() -> None:
    """Four tokens in one call, then two, in the article's decoder."""
    state = move(Session(StepperLab))
    assert state["calls.rows"]["tokens"] == [N_PAST, N_NEW] == [4, 2]
    sizes = {"layers": str(REFERENCE.n_layers), "heads": str(REFERENCE.n_heads)}
    assert sentences(state, "decoder") == [("stepper.decoder", sizes)]


def test_each_layer_has_its_name_above_its_rows() -> None:
    lab = StepperLab()
    for name in ("recomputed", "cached"):
        [axis] = lab.roots[name].above
        assert axis.ticker.ticks == MIDDLES
        assert axis.tags[0]["worded"]["major_label_overrides"] == dict(
            zip(MIDDLES, LAYERS, strict=True)
        )
        cells = move(Session(StepperLab), tokens=MAX_TOKENS)[f"{name}.cells"]
        for layer, middle in enumerate(MIDDLES, start=1):
            x = [x for x, of in zip(cells["x"], cells["layer"], strict=True) if of == layer]
            assert (min(x) + max(x)) / 2 == middle


def test_the_cells_twin_has_each_cell_that_is_drawn_and_blanks_for_the_others() -> None:
    for values, state in all_states("stepper"):
        for path in ("recomputed", "cached"):
            twin = state[f"{path}_grid.rows"]
            places = [
                (call, *map(int, row.split(": ")))
                for call, row in zip(twin["call"], twin["row"], strict=True)
            ]
            shown = dict(zip(places, twin["state"], strict=True))
            assert {place: one for place, one in shown.items() if one} == drawn(
                state[f"{path}.cells"]
            )
            n_calls = len(calls_of(values))
            assert len(places) == len(shown) == n_calls * 2 * values["tokens"]
            assert places == sorted(places), "row by row, as the page fills the table"


def test_the_read_outs_are_sums_of_what_is_drawn() -> None:
    for values, state in all_states("stepper"):
        cuts, heads = calls_of(values), REFERENCE.n_heads
        again = 2 * sum(first for first, _ in cuts)
        computed = 2 * sum(end for _, end in cuts)
        assert value(state, "recomputed-rows") == str(computed)
        assert value(state, "recomputed-again") == str(again)
        scores = 2 * heads * sum(end**2 for _, end in cuts)
        assert value(state, "recomputed-scores") == str(scores)
        assert value(state, "cached-rows") == str(2 * values["tokens"])
        assert value(state, "cached-again") == "0"
        scores = 2 * heads * sum((end - first) * end for first, end in cuts)
        assert value(state, "cached-scores") == str(scores)
        table = state["calls.rows"]
        assert sum(table["recomputed"]) == computed
        assert sum(table["again"]) == sum(table["read"]) == again
        assert table["tokens"] == [end - first for first, end in cuts]
        assert table["computed"] == [2 * new for new in table["tokens"]]


def test_the_first_call_is_the_same_both_ways() -> None:
    state = move(Session(StepperLab), tokens=5, first=FIRST.index("8"))
    assert drawn(state["recomputed.cells"]) == drawn(state["cached.cells"])
    said = dict(sentences(state, "summary"))
    assert said["stepper.call-many"] == {"first": "0", "last": "4"}
    assert "stepper.first-call" in said
    assert said["stepper.total"] == {"rows": "10", "cached": "10", "times": "1.0"}


def test_the_sentence_counts_one_layer() -> None:
    one_by_one = move(Session(StepperLab), tokens=8, first=0, chunk=0)
    said = dict(sentences(one_by_one, "summary"))
    assert said["stepper.call-one"] == {"token": "7"}
    assert said["stepper.later-call"] == {"again": "7", "read": "7", "written": "1"}


def test_a_cache_that_forgets_to_be_one_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: without a cache on both sides, both sides show the triangle."""

    def never_cached(tokens: int, chunk: int, _: bool, *rest: Any) -> list[Call]:
        return trace_calls(tokens, chunk, False, *rest)

    monkeypatch.setattr("kvlab.stepper_lab.trace_calls", never_cached)
    state = move(Session(StepperLab), tokens=8, first=0, chunk=0)
    assert state["cached.cells"]["state"].count("recompute") == 2 * sum(range(8))
