"""The stepper: its cells are the entries that a step touches, known from the plan's sizes alone."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.lab.lab_states import State, all_states, move, sentences, value

from kvlab.labs import new_session
from kvlab.stepper_lab import HEAD, LAYER, MOST_WORDS, N_STEPS, PLANS, curve
from kvproof import forward, trace_calls
from kvproof.experiments.call_trace import Trace
from kvproof.model import layers as model_layers
from kvproof.story import encode, load_story_decoder, render

NAMES = [plan.removeprefix("stepper.plan.") for plan in PLANS]
SIZES = {
    "write": [13, 1, 1, 1, 1, 1],
    "turn": [13, 1, 1, 4, 1, 1],
    "chunks": [3, 3, 3, 3, 3, 3],
    "draft": [13, 1, 4, -2, 1, 1],
}
"""Words that each step reads, or takes back."""
READ = {
    "write": "Ivy is in the tent. The key fell in the cave. It rains. Where's my key? In the",
    "turn": "Ivy is in the tent. The key fell in the cave. Where's Ivy? In the tent. "
    "Where's my key? In the",
    "chunks": "Ivy is in the tent. The key fell in the cave. It rains. Where's my key? In the",
    "draft": "Ivy is in the tent. The key fell in the cave. Where's my key? In the tent. The "
    "cave. Where's",
}


def each() -> list[tuple[str, int, State]]:
    return [(NAMES[v["plan"]], v["step"], state) for v, state in all_states("stepper")]


def columns(plan: str, step: int) -> tuple[list[int], list[int], list[int]]:
    """Of a step: columns of the text before it, of what it reads, and of what it takes back."""
    text: list[int] = []
    n_read = 0
    for size in SIZES[plan][: step - 1]:
        text = [*text[:size]] if size < 0 else [*text, *range(n_read, n_read + size)]
        n_read += max(size, 0)
    size = SIZES[plan][step - 1]
    if size < 0:
        return text[:size], [], text[size:]
    return text, list(range(n_read, n_read + size)), []


def row_of(plan: str, step: int, earlier: str) -> list[str]:
    """The cells of one step; ``earlier`` is what it does with the entries before its own."""
    before, new, back = columns(plan, step)
    states = [""] * MOST_WORDS
    for column in before if new else []:
        states[column] = earlier
    for column in new:
        states[column] = "chunk"
    for column in back:
        states[column] = "hidden-future"
    return states


def test_there_are_all_steps_of_all_plans() -> None:
    assert [(plan, step) for plan, step, _ in each()] == [
        (plan, step) for plan in SIZES for step in range(1, 7)
    ]
    assert all(len(plan) == N_STEPS for plan in PLANS.values())


def test_the_cells_are_what_the_plan_says() -> None:
    for plan, step, state in each():
        for way, earlier in (("without", "recompute"), ("with", "history")):
            cells = state[f"{way}.rows"]
            rows = [row_of(plan, one, earlier) for one in range(1, step + 1)]
            blank = [[""] * MOST_WORDS] * (N_STEPS - step)
            assert cells["state"] == [cell for row in [*rows, *blank] for cell in row]
            assert cells["now"] == [
                one == step for one in range(1, N_STEPS + 1) for _ in range(MOST_WORDS)
            ]


def test_the_words_are_those_that_are_read_and_each_says_where_it_is() -> None:
    for plan, step, state in each():
        words = [f"word.{token}" for token in encode(READ[plan])]
        assert state["words.rows"]["word"] == words + [""] * (MOST_WORDS - len(words))
        before, new, _ = columns(plan, step)
        taken = [c for one in range(1, step + 1) for c in columns(plan, one)[2]]
        wanted = ["unread"] * MOST_WORDS
        for where, name in ((before, "history"), (new, "chunk"), (taken, "taken-back")):
            for column in where:
                wanted[column] = name
        assert state["words.rows"]["state"] == wanted


def said(state: State, key: str) -> str:
    [(message, _)] = sentences(state, key)
    return message


def test_the_next_word_is_what_the_decoder_without_a_cache_says() -> None:
    params, config = load_story_decoder("float64")
    for plan, step, state in each():
        before, new, _ = columns(plan, step)
        text = [encode(READ[plan])[column] for column in [*before, *new]]
        said_next = forward(params, [text], config)[0].argmax(axis=-1).tolist()
        is_asked = (plan, step) != ("draft", 3) and (plan != "chunks" or step == N_STEPS)
        word = f"word.{said_next[-1]}" if is_asked else "stepper.not-asked"
        assert said(state, "next-word") == word
        last = sentences(state, "summary")[-1]
        if is_asked:
            assert last == (word, {})
        elif plan == "draft":  # in place of its third word, after its second
            assert last == (f"word.{said_next[-3]}", {})
            assert said_next[-3] != text[-2]
        else:
            assert last[0] in ("stepper.first-call", "stepper.costs")


def test_each_story_comes_to_its_point() -> None:
    """Every written word is the decoder's; the last step of three plans finds the key."""
    [cave, tent] = (encode(word)[0] for word in ("cave.", "tent."))
    for plan in ("write", "turn", "chunks"):
        [state] = [state for name, step, state in each() if (name, step) == (plan, N_STEPS)]
        assert said(state, "next-word") == f"word.{cave}"
    [turn] = [state for name, step, state in each() if (name, step) == ("turn", 3)]
    assert said(turn, "next-word") == f"word.{tent}"
    [back] = [state for name, step, state in each() if (name, step) == ("draft", 4)]
    assert said(back, "next-word") == f"word.{cave}"
    assert sentences(back, "summary")[0] == ("stepper.takes-back", {"count": "2"})


def test_the_read_outs_are_sums_of_what_is_drawn() -> None:
    for plan, step, state in each():
        sizes = [columns(plan, one)[:2] for one in range(1, step + 1)]
        calls = [(len(before), len(new)) for before, new in sizes if new]
        assert value(state, "without-computed") == str(sum(p + c for p, c in calls))
        assert value(state, "without-again") == str(sum(p for p, _ in calls))
        assert value(state, "without-scores") == str(sum((p + c) ** 2 for p, c in calls))
        assert value(state, "with-computed") == str(sum(c for _, c in calls))
        assert value(state, "with-again") == "0"
        assert value(state, "with-scores") == str(sum(c * (p + c) for p, c in calls))
        for way in ("without", "with"):
            drawn = state[f"{way}.rows"]["state"]
            computed = drawn.count("chunk") + drawn.count("recompute")
            assert value(state, f"{way}-computed") == str(computed)
            assert value(state, f"{way}-again") == str(drawn.count("recompute"))


def test_the_sentence_counts_what_the_present_step_does() -> None:
    for plan, step, state in each():
        first, *others = sentences(state, "summary")
        before, new, _ = columns(plan, step)
        if not new:
            continue
        assert first[1] == {"P": str(len(before)), "C": str(len(new))}
        if step == 1:
            assert first[0] == "stepper.first-call"
            continue
        kinds = {("turn", 4): "turn", ("draft", 3): "draft"}
        kind = "chunks" if plan == "chunks" else kinds.get((plan, step), "write")
        assert first[0] == f"stepper.call.{kind}"
        p, c = len(before), len(new)
        assert others[0] == (
            "stepper.costs",
            {"computed": str(p + c), "again": str(p), "new": str(c), "kept": str(p)},
        )


# ------------------------------------------------------------------ up close


def attention(text: list[int], query: int) -> Any:
    """Scores and weights of the head that is shown, from the plain decoder's own q and k."""
    params, config = load_story_decoder("float64")
    kept: list[Any] = []

    def spy(q: Any, k: Any, v: Any, visible: Any, bias: Any = None) -> Any:
        kept.append((q[0, HEAD, query], k[0, HEAD], v[0, HEAD]))
        return model_layers.scaled_dot_product_attention(q, k, v, visible, bias)

    layers = SimpleNamespace(**vars(model_layers) | {"scaled_dot_product_attention": spy})
    logits = forward(params, [text], config, layers=layers)
    q, k, v = kept[LAYER]
    scores = k @ q / 4  # the head dim is 16
    weights = np.exp(scores[: query + 1] - scores[: query + 1].max())
    weights = np.concatenate([weights / weights.sum(), np.zeros(len(text) - query - 1)])
    return scores, weights, weights[:, None] * v, logits[0, query]


def query_of(plan: str, step: int) -> int:
    """Its place in the text: a call's last, a chunk's first, or the one that overrules a draft."""
    before, new, _ = columns(plan, step)
    if plan == "chunks" and step < N_STEPS:
        return len(before)
    if plan == "draft" and step == 3:
        return len(before) + 1
    return len(before) + len(new) - 1


def test_the_close_up_is_the_decoders_own_attention() -> None:
    for plan, step, state in each():
        at = 3 if (plan, step) == ("draft", 4) else step  # taken back: still the call before
        before, new, _ = columns(plan, at)
        text = [encode(READ[plan])[column] for column in [*before, *new]]
        query = query_of(plan, at)
        scores, weights, parts, logits = attention(text, query)
        shown = state["query.rows"]
        assert shown["word"] == [*(f"word.{token}" for token in text), "stepper.sum"]
        assert said(state, "query-word") == f"word.{text[query]}"
        numbers = [float(score.replace("−", "-")) for score in shown["score"][:-1]]
        assert np.abs(numbers - scores).max() <= 0.0501
        assert np.abs([float(text) for text, _ in shown["weight"][:-1]] - weights).max() <= 0.00501
        assert np.abs([part for _, part in shown["weight"][:-1]] - 100 * weights).max() <= 0.0501
        assert [mask == "hidden-future" for mask in shown["mask"][:-1]] == [
            place > query for place in range(len(text))
        ]
        largest = max(np.abs(parts).max(), np.abs(parts.sum(axis=0)).max())
        for path, part in zip(shown["value"], [*parts, parts.sum(axis=0)], strict=True):
            assert np.abs(np.array(heights(path)) - 100 * part / largest).max() <= 0.51
        likely = np.argsort(-logits)[:3]
        assert state["next.rows"]["word"] == [f"word.{token}" for token in likely]
        assert [float(text) for text, _ in state["next.rows"]["logit"]] == pytest.approx(
            logits[likely], abs=0.051
        )


def heights(path: str) -> list[int]:
    """Of a curve's bars, up is positive."""
    assert path.startswith("M0 0V")
    assert path.endswith("V0Z")
    bars = path.removeprefix("M0 0V").removesuffix("V0Z").split("V")
    found = [bar.split("H") for bar in bars]
    assert [int(end) for _, end in found] == [10 * (i + 1) for i in range(16)]
    return [-int(height) for height, _ in found]


def test_a_curve_is_a_row_of_bars() -> None:
    assert curve(np.array([0.5, -1.0])) == "M0 0V-50H10V100H20V0Z"


def test_the_mask_hides_something_where_a_call_has_later_words() -> None:
    hiding = {
        (plan, step)
        for plan, step, state in each()
        if "hidden-future" in state["query.rows"]["mask"]
    }
    assert hiding == {*(("chunks", step) for step in range(1, 6)), ("draft", 3), ("draft", 4)}


def test_the_start_is_the_whole_picture_of_the_first_story() -> None:
    lab = new_session("stepper").lab
    assert lab.initial == {"plan": 0, "step": N_STEPS}
    state = move(new_session("stepper"))
    shown = [w for w, s in zip(*state["words.rows"].values(), strict=True) if s != "unread"]
    tokens = [int(word.removeprefix("word.")) for word in shown]
    assert render(tokens) == READ["write"]


def test_a_cache_that_forgets_to_be_one_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: without a cache on both sides, both sides show the triangle."""

    def never_cached(plan: str, _: bool) -> Trace:
        return trace_calls(*load_story_decoder("float64"), PLANS[plan], cached=False)

    monkeypatch.setattr("kvlab.stepper_lab._trace", never_cached)
    state = move(new_session("stepper"))
    assert state["with.rows"]["state"].count("recompute") == sum(range(13, 18))
    assert "history" not in state["with.rows"]["state"]
