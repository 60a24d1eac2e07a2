"""The memory planner: what is drawn is what the formula says, and how often it fits."""

from typing import Any

import pytest
from tests.lab.lab_states import all_states, move, sentences

from kvlab.formats import size
from kvlab.labs import new_session
from kvlab.memory_lab import CONTEXTS, DTYPES, HEADS, MEMORIES, WAYS, MemoryLab
from kvlab.session import Session
from kvproof import KeptBytes, plan_memory
from kvproof.experiments.model_shapes import MODEL_SHAPES


def plans(values: dict[str, Any]) -> list[KeptBytes]:
    case = int(values["context"]), 1, DTYPES[values["dtype"]]
    return [
        plan_memory(model, *case, kv_heads=(None, 1, shape.n_heads)[values["kv_heads"]])
        for model, shape in MODEL_SHAPES.items()
    ]


def test_bars_labels_and_table_are_those_of_the_core() -> None:
    assert len(all_states("memory")) == len(CONTEXTS) * len(MEMORIES) * len(DTYPES) * len(HEADS)
    for values, state in all_states("memory"):
        models, drawn = plans(values), state["bars.models"]
        assert drawn["model"] == list(MODEL_SHAPES)
        assert drawn["least_bytes"] == [model.least for model in models]
        for way in WAYS:
            kept = [getattr(model, way) for model in models]
            assert drawn[way] == ["–" if n is None else size(n) for n in kept]
        for label, n, fit in zip(drawn["label"], drawn["least_bytes"], drawn["fit"], strict=True):
            assert label == f"{size(n)} · {fit}"


def test_so_many_requests_fit_and_not_one_more() -> None:
    for values, state in all_states("memory"):
        room = int(values["room"].split("\u00a0")[0]) * 1000**3
        drawn = state["bars.models"]
        for n, text in zip(drawn["least_bytes"], drawn["fit"], strict=True):
            fit = int(text.replace(",", ""))
            assert fit * n <= room < (fit + 1) * n


def test_a_case_by_hand() -> None:
    """Llama 3 8B: 2 vectors, 32 layers, 8 heads, 128 features, 2 bytes, 8192 tokens are a GiB."""
    drawn = move(new_session("memory"), room="24\u00a0GB")["bars.models"]
    row = drawn["model"].index("llama-3-8b")
    assert 2 * 32 * 8 * 128 * 2 * 8192 == 2**30
    assert drawn["label"][row] == "1\u00a0GiB · 22"
    assert 22 * 2**30 <= 24e9 < 23 * 2**30


def test_bars_are_linear_and_leave_room_for_their_labels() -> None:
    for _, state in all_states("memory"):
        longest = max(state["bars.models"]["least_bytes"])
        assert state["bars.end"] == pytest.approx(1.8 * longest)


def named(args: dict[str, str]) -> set[str]:
    """The models that a sentence names."""
    if "model" in args:
        return {args["model"]}
    return {*args["models"].split(", "), args["last"]}


def test_the_extremes_are_said_with_all_their_equals() -> None:
    ties = 0
    for _, state in all_states("memory"):
        drawn = state["bars.models"]
        fits = [int(text.replace(",", "")) for text in drawn["fit"]]
        for extreme, n in (("most", max(fits)), ("fewest", min(fits))):
            [(message, args)] = said_of(state, extreme)
            equals = {m for m, fit in zip(drawn["model"], fits, strict=True) if fit == n}
            assert named(args) == equals
            assert args["requests"] == f"{n:,}"
            assert message.endswith(".many") == (len(equals) > 1)
            ties += len(equals) > 1
    assert ties > 10


def said_of(state: dict[str, Any], topic: str) -> list[tuple[str, dict[str, str]]]:
    said = sentences(state, "summary")
    return [(message, args) for message, args in said if message.startswith(f"memory.{topic}")]


def test_two_of_one_shape_save_the_same() -> None:
    [(message, args)] = said_of(move(Session(MemoryLab)), "saved")
    assert message == "memory.saved.many"
    assert named(args) == {"deepseek-v2", "deepseek-v3"}
    assert args["times"] == f"{128 * (192 + 128) / 576:.0f}" == "71"


def test_a_head_for_each_query_head_saves_nothing_unless_there_is_a_window() -> None:
    each = HEADS.index("memory.kv-heads.each")
    short = move(Session(MemoryLab), context="1024", kv_heads=each)
    assert said_of(short, "saved") == [("memory.saved.nothing", {})]
    longer = move(Session(MemoryLab), context="8192", kv_heads=each)
    assert said_of(longer, "saved") == [
        ("memory.saved.one", {"model": "mistral-7b", "times": "2.0"})
    ]


def test_another_formula_would_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(model: str, *case: Any) -> KeptBytes:
        kept = plan_memory(model, *case)
        return KeptBytes(model, 2 * kept.cached, kept.heads, None, None)

    before = move(Session(MemoryLab))["bars.models"]
    monkeypatch.setattr("kvlab.memory_lab.plan_memory", twice)
    after = move(Session(MemoryLab))["bars.models"]
    row = before["model"].index("llama-3-8b")
    assert after["least_bytes"][row] == 2 * before["least_bytes"][row]
    assert after["fit"][row] != before["fit"][row]
