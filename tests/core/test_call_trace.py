"""What each step computes, reads and takes back: closed forms beside what was noted; a close-up."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from kvproof import (
    MODERN,
    REFERENCE,
    DecoderConfig,
    Feed,
    Step,
    TakeBack,
    count_costs,
    example_tokens,
    forward,
    init_params,
    trace_calls,
)
from kvproof.experiments.call_trace import CloseUp, Trace
from kvproof.model import layers as model_layers
from kvproof.model.config import Positions
from kvproof.story import encode, load_story_decoder

DEEP = replace(REFERENCE, n_layers=3, n_heads=2, n_kv_heads=1)
WRITE = Feed(writes=True)
EPS = 1e-12
"""Far above float64's rounding here, far below any mistake."""


def feeds(sizes: Sequence[int], config: DecoderConfig = REFERENCE) -> list[Feed | TakeBack]:
    """Calls of these sizes, of random tokens."""
    tokens = example_tokens(sum(sizes), config=config)[0].tolist()
    ends = np.cumsum(sizes).tolist()
    return [Feed(tuple(tokens[start:end])) for start, end in pairwise([0, *ends])]


def traced(
    plan: list[Feed | TakeBack], cached: bool = True, config: DecoderConfig = REFERENCE
) -> Trace:
    return trace_calls(init_params(config, dtype="float64"), config, plan, cached)


def said_by(text: Sequence[int], config: DecoderConfig = REFERENCE) -> int:
    """The most likely next token, as the plain decoder says."""
    logits = forward(init_params(config, dtype="float64"), [list(text)], config)
    return int(logits[0, -1].argmax())


@pytest.mark.parametrize("config", [REFERENCE, MODERN, DEEP])
@pytest.mark.parametrize("sizes", [(12,), (4, 2), (1, 1, 1, 1), (3, 1, 5)])
def test_a_call_computes_its_own_entries_and_without_a_cache_all_before_them(
    config: DecoderConfig, sizes: tuple[int, ...]
) -> None:
    for cached in (True, False):
        end = 0
        for size, step in zip(sizes, traced(feeds(sizes), cached, config).steps, strict=True):
            before, end = list(range(end)), end + size
            new = list(range(end - size, end))
            assert step.n_new == size
            assert step.text.tolist() == before + new
            assert step.computed.tolist() == (new if cached else before + new)
            assert step.read.tolist() == (before if cached else [])
            assert step.again.tolist() == ([] if cached else before)
            assert step.scores == (size if cached else end) * end


@pytest.mark.parametrize("config", [REFERENCE, MODERN, DEEP])
def test_token_by_token_the_sums_are_those_of_the_formulas(config: DecoderConfig) -> None:
    costs = count_costs(config, prefix=0, steps=16)
    for work, cached in ((costs.recomputed, False), (costs.cached, True)):
        steps = traced(feeds([1] * 16), cached, config).steps
        assert sum(len(step.computed) for step in steps) == work.positions
        n_heads = config.n_layers * config.n_heads
        assert sum(step.scores for step in steps) * n_heads == work.scores


@pytest.mark.parametrize("cached", [True, False])
def test_what_is_written_is_what_the_plain_decoder_says(cached: bool) -> None:
    more = tuple(example_tokens(3)[0].tolist())
    trace = traced([*feeds([5]), WRITE, WRITE, Feed(more, writes=True), WRITE], cached)
    text = example_tokens(5)[0].tolist()
    for new in ((), (), more, ()):
        text += [said_by(text), *new]
    assert trace.tokens.tolist() == text
    for step in trace.steps:
        assert step.next_token == said_by(trace.tokens[step.text].tolist())


@pytest.mark.parametrize("cached", [True, False])
def test_what_is_taken_back_leaves_and_the_rest_goes_on_as_if_it_had_not_been(
    cached: bool,
) -> None:
    trace = traced([*feeds([6, 4]), TakeBack(3), WRITE, WRITE], cached)
    _, draft, back, *others = trace.steps
    assert back.taken_back.tolist() == [7, 8, 9]
    assert back.text.tolist() == draft.text.tolist()[:7]
    assert (back.n_new, back.scores, back.close_up) == (0, 0, None)
    assert back.computed.size == back.read.size == back.again.size == 0
    for step, column in zip(others, (10, 11), strict=True):
        assert step.text.tolist() == [*range(7), *range(10, column + 1)]
        assert set(step.again) == (set() if cached else {*step.text} - {column})
    never = traced([*feeds([6]), Feed(tuple(trace.tokens[6:7].tolist())), WRITE, WRITE], cached)
    assert trace.tokens[others[-1].text].tolist() == never.tokens.tolist()
    for mine, theirs in zip([back, *others], never.steps[1:], strict=True):
        assert mine.next_token == theirs.next_token


# ------------------------------------------------------------------ up close


def close_ups(plan: list[Feed | TakeBack], cached: bool, config: DecoderConfig) -> list[CloseUp]:
    steps: tuple[Step, ...] = traced(plan, cached, config).steps
    return [step.close_up for step in steps if step.close_up]


POSITIONS: list[Positions] = ["learned", "rope", "alibi"]


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("query", [0, 1, -1])
def test_the_weighted_values_sum_up_to_what_the_decoder_made_of_them(
    query: int, positions: Positions, cached: bool
) -> None:
    """Its own attention's output, in every layer and head, also where heads share keys."""
    config = replace(MODERN, positions=positions)
    plan = [replace(feed, query=query) for feed in feeds([4, 3]) if isinstance(feed, Feed)]
    for close_up in close_ups([*plan], cached, config):
        assert np.abs(close_up.weighted.sum(axis=-2) - close_up.attended).max() < EPS
        assert np.abs(close_up.weights.sum(axis=-1) - 1).max() < EPS
        assert (close_up.weights[..., ~close_up.visible] == 0).all()
        assert (close_up.weights[..., close_up.visible] > 0).all()
        shown = np.exp(close_up.scores - close_up.scores[..., close_up.visible].max())
        shown[..., ~close_up.visible] = 0
        shown /= shown.sum(axis=-1, keepdims=True)
        assert np.abs(shown - close_up.weights).max() < EPS


@pytest.mark.parametrize(("query", "column"), [(0, 4), (1, 5), (-1, 6)])
def test_a_query_sees_all_before_it_and_itself(query: int, column: int) -> None:
    prompt, chunk = feeds([4, 3])
    assert isinstance(chunk, Feed)
    for cached in (True, False):
        close_up = close_ups([prompt, replace(chunk, query=query)], cached, REFERENCE)[-1]
        assert close_up.column == column
        assert close_up.keys.tolist() == list(range(7))
        assert close_up.visible.tolist() == [key <= column for key in range(7)]


def test_both_ways_look_at_the_same_query_and_its_logits_are_the_decoder_s() -> None:
    plan = [*feeds([6, 4]), TakeBack(2), WRITE, WRITE]
    tokens = traced(plan).tokens
    for mine, theirs in zip(*(close_ups(plan, c, REFERENCE) for c in (True, False)), strict=True):
        for name in ("scores", "weights", "values", "attended", "logits"):
            one, other = getattr(mine, name), getattr(theirs, name)
            assert one.shape == other.shape
            assert np.abs(one - other).max() < EPS, name
        text = tokens[mine.keys][None]
        whole = forward(init_params(REFERENCE, dtype="float64"), text, REFERENCE)
        assert np.abs(mine.logits - whole[0, mine.keys.tolist().index(mine.column)]).max() < EPS
    assert close_ups(plan, True, REFERENCE)[-1].values.shape == (2, 4, 10, 16)


def test_another_attention_is_seen_to_be_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: what the decoder made of the values is its own, not computed here."""
    right = model_layers.scaled_dot_product_attention
    monkeypatch.setattr(
        model_layers, "scaled_dot_product_attention", lambda *given: 0.5 * right(*given)
    )
    [close_up] = close_ups(feeds([5]), True, REFERENCE)
    gap = close_up.weighted.sum(axis=-2) - close_up.attended
    assert np.abs(gap).max() > 1000 * EPS


def test_in_the_story_a_head_of_the_second_layer_looks_up_the_fact() -> None:
    params, config = load_story_decoder("float64")
    prompt = encode("Ivy is in the tent. The key fell in the cave. Where's my key? In the")
    [step] = trace_calls(params, config, [Feed(tuple(prompt))]).steps
    [cave] = encode("cave.")
    assert step.next_token == cave
    assert step.close_up is not None
    assert (
        step.close_up.most_likely(2).tolist() == np.argsort(step.close_up.logits)[:-3:-1].tolist()
    )
    looked_up = step.close_up.weights[1].max(axis=0).argmax()
    assert prompt[looked_up] == cave


# ------------------------------------------------------------------ refused

PROMPT = Feed((1, 2, 3))
REFUSED: list[tuple[list[Any], str]] = [
    ([Feed()], r"at least one token: give tokens, or writes=True"),
    ([WRITE], "first call has nothing to write on"),
    ([TakeBack(1)], "1 of 0 tokens can't be taken back"),
    ([PROMPT, TakeBack(3)], "3 of 3 tokens can't be taken back: one must stay"),
    ([PROMPT, TakeBack(0)], "n_tokens must be at least 1, got 0"),
    ([Feed((1, 2), query=2)], "query must be one of the call's 2 tokens, got 2"),
    ([Feed((1, 2), query=-3)], "query must be one of the call's 2 tokens, got -3"),
    ([Feed((97,))], "token ID 97 is outside the vocabulary"),
    ([Feed(tuple([1] * 513))], "the decoder has 512"),
]


@pytest.mark.parametrize(("plan", "says"), REFUSED)
@pytest.mark.parametrize("cached", [True, False])
def test_what_cannot_be_a_plan_is_refused(plan: list[Any], says: str, cached: bool) -> None:
    with pytest.raises(ValueError, match=says):
        traced(plan, cached)


def test_a_decoder_without_a_vocabulary_is_refused() -> None:
    config = replace(REFERENCE, vocab_size=None)
    with pytest.raises(ValueError, match="vectors"):
        trace_calls(init_params(config), config, [PROMPT])
