"""The story lab: in every state it draws and says what two calls of the decoder come to."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.lab.lab_states import State, all_states, move, sentences, value

from kvlab.labs import new_session
from kvlab.story_lab import ALLOWED_FLOORS, DTYPES, LAB_MISTAKES, MAX_NEW, MAX_PAST, STORY
from kvproof import decode, forward, new_cache, open_mask, restarted_positions, top_left_mask
from kvproof.checking.rounding import UNITS, Rounding
from kvproof.story import encode, load_story_decoder, render

[CAVE] = encode("cave.")
WRONG: dict[str, dict[str, Any]] = {
    "top-left": {"mask": top_left_mask},
    "open": {"mask": open_mask},
    "restarted": {"positions": restarted_positions},
    "none": {},
}


def each() -> Iterator[tuple[int, int, str, str, State]]:
    for values, state in all_states("story"):
        yield values["n_past"], values["n_new"], values["mistake"], values["dtype"], state


def is_told(n_past: int, n_new: int) -> bool:
    """The text has the whole of "key fell in the cave"."""
    return n_past + n_new >= 12


def is_same_call(n_past: int, n_new: int, mistake: str) -> bool:
    """From the definitions: what a mistake needs to be one."""
    return mistake == "none" or (n_new == 1 if mistake == "open" else n_past == 0)


@cache
def said(n_past: int, n_new: int, mistake: str, dtype: str) -> tuple[int, int, int, float]:
    """Next words without a cache, with a right one and with a mistake; its largest logit error."""
    params, config = load_story_decoder(dtype)
    text = np.array([STORY[len(STORY) - n_past - n_new :]])
    expected = forward(params, text, config)[0]
    cache = new_cache(config, dtype=params.dtype)
    if n_past:
        _, cache = decode(params, text[:, :n_past], cache, config)
    right, wrong = (
        decode(params, text[:, n_past:], cache, config, **how)[0][0] for how in ({}, WRONG[mistake])
    )
    error = float(np.abs(wrong.astype(float) - expected[n_past:]).max())
    without, with_right, with_wrong = (int(one[-1].argmax()) for one in (expected, right, wrong))
    return without, with_right, with_wrong, error


def words_of(state: State) -> list[str]:
    """Messages of the next word, of the right call's and of the mistaken one's."""
    texts = state["texts"]
    names = ("next-word", "right-word", "wrong-word")
    return [texts["message"][texts["key"].index(name)] for name in names]


def test_the_text_is_a_whole_story_of_whole_sentences() -> None:
    assert render(STORY) == (
        "Where's Zoe? In the attic. Ivy is in the tent. The key fell in the cave. It rains. "
        "Where's my key? In the"
    )


def test_the_controls_reach_every_word_and_start_between_two_sentences() -> None:
    lab = new_session("story").lab
    limits = {name: (lab.roots[name].start, lab.roots[name].end) for name in ("n_past", "n_new")}
    assert limits == {"n_past": (0, MAX_PAST), "n_new": (1, MAX_NEW)}
    assert len(STORY) == MAX_PAST + MAX_NEW
    assert lab.initial == {"n_past": 13, "n_new": 5, "mistake": "top-left", "dtype": "float64"}
    assert render(STORY[-18:-5]) == "Ivy is in the tent. The key fell in the cave. It rains."


def test_all_1632_states_are_there() -> None:
    assert {(p, c, m, d) for p, c, m, d, _ in each()} == {
        (p, c, m, d) for p in range(18) for c in range(1, 7) for m in LAB_MISTAKES for d in DTYPES
    }


def test_the_words_and_the_error_are_what_the_decoder_says() -> None:
    for n_past, n_new, mistake, dtype, state in each():
        *words, error = said(n_past, n_new, mistake, dtype)
        assert words_of(state) == [f"word.{word}" for word in words]
        assert float(value(state, "wrong-error")) == error


def test_the_right_cache_is_right_wherever_the_text_says_where_the_key_is() -> None:
    """Else the lab would have nothing to show; with a mistake the cave is missed or not."""
    told = [(p, c, m, d) for p, c, m, d, _ in each() if is_told(p, c)]
    assert len(told) > 0.5 * len(all_states("story"))
    assert {said(*state)[1] for state in told} == {CAVE}
    for mistake, least, most in (("top-left", 0.9, 1), ("restarted", 0.1, 0.9), ("open", 0, 0)):
        answers = [said(*state)[2] for state in told if state[2] == mistake and state[0]]
        assert least <= np.mean([word != CAVE for word in answers]) <= most
        errors = [said(*s)[3] for s in told if s[2] == mistake and not is_same_call(*s[:3])]
        assert min(errors) > 0.01, "every one of them moves logits"


def test_the_start_is_striking() -> None:
    state = move(new_session("story"))
    assert words_of(state) == [f"word.{encode(word)[0]}" for word in ("cave.", "cave.", "tent.")]
    assert float(value(state, "wrong-error")) > 5
    assert float(value(state, "right-error")) < 1e-10


def test_the_verdicts_say_what_came_of_the_calls() -> None:
    for n_past, n_new, mistake, dtype, state in each():
        [(right, args)] = sentences(state, "right-summary")
        is_exact = float(value(state, "right-error")) == 0
        assert right == ("story.exact" if is_exact else "story.rounded")
        assert (args == {}) == is_exact
        [(wrong, _)] = sentences(state, "wrong-summary")
        same = value(state, "wrong-word") == "1"
        assert same == (words_of(state)[2] == words_of(state)[0])
        if is_same_call(n_past, n_new, mistake):
            reasons = {"none": "none", "open": "single"}
            assert wrong == f"story.same.{reasons.get(mistake, 'empty')}"
        elif same and drowns(n_past, n_new, mistake, dtype):
            assert wrong == "story.drowned"
        else:
            assert wrong == f"story.{'kept' if same else 'changed'}.{mistake}"


def drowns(n_past: int, n_new: int, mistake: str, dtype: str) -> bool:
    """What the checker would let pass as rounding, from its own rule."""
    params, config = load_story_decoder(dtype)
    logits = forward(params, np.array([STORY[len(STORY) - n_past - n_new :]]), config)[0, n_past:]
    largest = float(np.abs(logits).max())
    allowed = Rounding(dtype, largest).allowed
    return dtype in ("bfloat16", "float16") and said(n_past, n_new, mistake, dtype)[3] <= allowed


def test_real_mistakes_drown_in_16_bits_and_only_there() -> None:
    """A call without a mask; forgetting the past never does."""
    drowned = {
        (mistake, dtype)
        for *_, mistake, dtype, state in each()
        if sentences(state, "wrong-summary")[0][0] == "story.drowned"
    }
    assert ("open", "bfloat16") in drowned
    assert {dtype for _, dtype in drowned} <= {"bfloat16", "float16"}
    assert "top-left" not in {mistake for mistake, _ in drowned}
    for dtype, floors in ALLOWED_FLOORS.items():
        assert floors == UNITS[dtype], "the lab and the checker draw the same line"


def test_it_is_said_how_16_bits_are_computed_with() -> None:
    for *_, dtype, state in each():
        [(message, args)] = sentences(state, "state")
        assert (message == "mask.state-rounded") == (dtype in ("bfloat16", "float16"))
        assert args["dtype"] == dtype


def test_where_the_key_is_told() -> None:
    for n_past, n_new, _, _, state in each():
        where = "cached" if is_told(n_past, n_new) else "nowhere"
        assert sentences(state, "summary") == [(f"story.where.{where}", {})]


def cell_state(mask: str, n_past: int, i: int, j: int) -> str:
    """What a cell must show, from the definitions alone."""
    future = j > n_past + i
    seen = {"top-left": j <= i, "open": True}.get(mask, not future)
    if seen and future:
        return "wrongly-seen"
    if seen:
        return "history" if j < n_past else "chunk"
    return "hidden-future" if future else "wrongly-hidden"


@pytest.mark.parametrize("name", ["right", "wrong"])
def test_the_cells_drawn_are_the_mask(name: str) -> None:
    """At places counted from the end: the words keep theirs in all states."""
    for n_past, n_new, mistake, _, state in each():
        drawn, n_total = state[f"{name}-mask.cells"], n_past + n_new
        mask = mistake if name == "wrong" else "right"
        assert list(zip(drawn["y"], drawn["x"], drawn["state"], strict=True)) == [
            (i - n_new, j - n_total, cell_state(mask, n_past, i, j))
            for i in range(n_new)
            for j in range(n_total)
        ]
        assert state[f"{name}-mask.x.ticks"] == list(range(-n_total, 0))
        assert state[f"{name}-mask.y.ticks"] == list(range(-n_new, 0))
        assert state[f"{name}-mask.history_end"] == -n_new - 0.5


def test_the_positions_drawn_are_those_of_the_call() -> None:
    for n_past, n_new, mistake, _, state in each():
        first = {"right": n_past, "wrong": 0 if mistake == "restarted" else n_past}
        for name, start in first.items():
            drawn = state[f"{name}-mask.positions"]
            assert drawn["label"] == [str(start + i) for i in range(n_new)]
            looks = "right" if start == n_past else "wrong"
            assert drawn["state"] == [looks] * n_new


def test_each_word_shows_where_it_is() -> None:
    for n_past, n_new, _, _, state in each():
        unread = len(STORY) - n_past - n_new
        shown = state["story.rows"]
        assert shown["state"] == ["unread"] * unread + ["history"] * n_past + ["chunk"] * n_new


def test_the_axes_have_the_words_of_the_story() -> None:
    figure = new_session("story").lab.roots["right-mask"]
    places = range(-len(STORY), 0)
    for axis, form in (figure.xaxis[0], "upright"), (figure.yaxis[0], "word"):
        names = [axis.major_label_overrides[place] for place in places]
        assert names == [f"{form}.{token}" for token in STORY]
    x, y = figure.x_range, figure.y_range
    assert x.start <= -len(STORY) - 0.5
    assert x.end > 0.5, "there is room for the positions"
    assert (y.start, y.end) == (-0.5, -MAX_NEW - 0.5), "the last word is the lowest row"


def test_a_broken_cache_is_not_called_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: with the wrong mask in both calls."""
    monkeypatch.setattr("kvproof.experiments.compare_calls.offset_mask", top_left_mask)
    state = move(new_session("story"))
    [(message, args)] = sentences(state, "right-summary")
    assert message == "story.broken"
    assert float(args["error"]) > 5
    assert value(state, "right-word") == "0"
    assert "wrongly-hidden" in state["right-mask.cells"]["state"]
