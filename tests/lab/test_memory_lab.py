"""The memory planner: what is drawn is what the formula says."""

import pytest
from tests.lab.lab_states import all_states, move, sentences

from kvlab.memory_lab import BATCHES, CONTEXTS, DTYPES, FIRST, LAST, WAYS, MemoryLab
from kvlab.session import Session
from kvproof import KeptBytes, plan_memory
from kvproof.model_shapes import MODEL_SHAPES


def test_bars_and_marks_are_those_of_the_core() -> None:
    assert len(all_states("memory")) == len(CONTEXTS) * len(BATCHES) * len(DTYPES)
    for values, state in all_states("memory"):
        case = int(values["context"]), int(values["batch"]), DTYPES[values["dtype"]]
        models = [plan_memory(model, *case) for model in MODEL_SHAPES]
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
    least, most = said["memory.extremes"]["least"], said["memory.extremes"]["most"]
    bytes_of = dict(zip(state["bars.models"]["model"], state["bars.models"]["least"], strict=True))
    assert bytes_of[least] == min(bytes_of.values())
    assert bytes_of[most] == max(bytes_of.values())
    # falcon-7b: 2 numbers of 64 features, 1 head, 32 layers, 4 bytes, 8192 tokens, 4 rows
    assert (least, said["memory.extremes"]["least_bytes"]) == ("falcon-7b", "512 MiB")
    assert 2 * 64 * 32 * 4 * 8192 * 4 == 512 * 2**20
    assert said["memory.case-many"] == {"context": "8,192", "dtype": "float32", "batch": "4"}


def test_another_formula_would_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(model: str, *case: object) -> KeptBytes:
        kept = plan_memory(model, *case)  # type: ignore[arg-type]
        return KeptBytes(model, 2 * kept.cached, kept.heads, kept.rolling, kept.latent)

    before = move(Session(MemoryLab))["bars.cached"]["bytes"]
    monkeypatch.setattr("kvlab.memory_lab.plan_memory", twice)
    assert move(Session(MemoryLab))["bars.cached"]["bytes"] == [2 * n for n in before]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"context": "0"}, "context must be at least 1, got 0"),
        ({"batch": "0"}, "batch_size must be at least 1, got 0"),
        ({"context": "many"}, "invalid literal"),
    ],
)
def test_what_no_control_can_send_is_an_error(values: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        move(Session(MemoryLab), **values)
