"""The memory planner: what is drawn is what the formula says."""

from typing import Any

import pytest
from tests.lab.lab_states import all_states, move, sentences

from kvlab.memory_lab import BATCHES, CONTEXTS, DTYPES, FIRST, HEADS, LAST, WAYS, MemoryLab
from kvlab.session import Session
from kvproof import KeptBytes, plan_memory
from kvproof.experiments.model_shapes import MODEL_SHAPES


def test_bars_and_marks_are_those_of_the_core() -> None:
    assert len(all_states("memory")) == len(CONTEXTS) * len(BATCHES) * len(DTYPES) * len(HEADS)
    for values, state in all_states("memory"):
        case = int(values["context"]), int(values["batch"]), DTYPES[values["dtype"]]
        models = [
            plan_memory(model, *case, kv_heads=(None, 1, shape.n_heads)[values["kv_heads"]])
            for model, shape in MODEL_SHAPES.items()
        ]
        drawn = state["bars.models"]
        assert drawn["model"] == list(MODEL_SHAPES)
        assert drawn["least"] == [model.least for model in models]
        for way in WAYS:
            marks = state[f"bars.{way}"]
            expected = [getattr(model, way) for model in models]
            found = dict(zip(marks["row"], marks["bytes"], strict=True))
            assert [found.get(row) for row in range(len(models))] == expected
            assert [text == "–" for text in drawn[way]] == [n is None for n in expected]


def test_all_that_is_drawn_lies_inside_the_axis() -> None:
    for _, state in all_states("memory"):
        for way in WAYS:
            assert all(2**FIRST < n < 2**LAST for n in state[f"bars.{way}"]["bytes"])


def test_the_sentences_name_the_extremes() -> None:
    state = move(Session(MemoryLab), context="8192", batch="4", dtype=DTYPES.index("float32"))
    said = dict(sentences(state, "summary"))
    # falcon-7b: 2 numbers of 64 features, 1 head, 32 layers, 4 bytes, 8192 tokens, 4 rows
    assert 2 * 64 * 32 * 4 * 8192 * 4 == 512 * 2**20
    assert said["memory.least.one"] == {"model": "falcon-7b", "bytes": "512\u00a0MiB"}
    assert said["memory.case-many"] == {"context": "8,192", "dtype": "float32", "batch": "4"}


def named(args: dict[str, str]) -> set[str]:
    """The models that a sentence names."""
    if "model" in args:
        return {args["model"]}
    return {*args["models"].split(", "), args["last"]}


def test_each_extreme_is_said_with_all_its_equals() -> None:
    ties = 0
    for _, state in all_states("memory"):
        models = state["bars.models"]
        bytes_of = dict(zip(models["model"], models["least"], strict=True))
        for extreme, choose in (("least", min), ("most", max)):
            [(message, args)] = said_of(state, extreme)
            equals = {name for name, n in bytes_of.items() if n == choose(bytes_of.values())}
            assert named(args) == equals
            assert message.endswith(".many") == (len(equals) > 1)
            ties += len(equals) > 1
    assert ties > 100


def said_of(state: dict[str, Any], topic: str) -> list[tuple[str, dict[str, str]]]:
    said = sentences(state, "summary")
    return [(message, args) for message, args in said if message.split(".")[1] == topic]


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
        return KeptBytes(model, 2 * kept.cached, kept.heads, kept.rolling, kept.latent)

    before = move(Session(MemoryLab))["bars.cached"]["bytes"]
    monkeypatch.setattr("kvlab.memory_lab.plan_memory", twice)
    assert move(Session(MemoryLab))["bars.cached"]["bytes"] == [2 * n for n in before]
