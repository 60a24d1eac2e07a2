"""What the decoder recalls: counted again on fresh stories, with the stored weights, in NumPy."""

import hashlib
import math
from typing import Any

import numpy as np
import pytest

from kvproof import Params, params_from_arrays, params_to_arrays
from kvproof.checking.rounding import Rounding
from kvproof.experiments.recall import (
    CALLS,
    CONTRAST,
    MISTAKES,
    N_STORIES,
    SEED,
    SHARES,
    Mistake,
    Prompts,
    Recall,
    Share,
    all_cases,
    cases,
    chance,
    find,
    fresh_prompts,
    recall,
)
from kvproof.story import STORY, labels, load_story_decoder, render
from kvproof.story.decoder import WEIGHTS
from kvsite.story import load_story_results

N_FRESH, FRESH_SEED = 120, 77
STANDARD_ERRORS = 5
"""Two counts of one share differ by more in fewer than one of a million."""
LARGEST_LOGIT = 40.0


@pytest.fixture(scope="module")
def prompts() -> list[Prompts]:
    return fresh_prompts(N_FRESH, FRESH_SEED)


@pytest.fixture(scope="module")
def params() -> Params:
    return load_story_decoder("float64")[0]


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    return load_story_results()


def agree(one: Share, other: Share) -> bool:
    """Whether two counts can be of one share, by their standard errors; two more of each kind keep
    a share of none or all from having none."""
    if not one.of or not other.of:
        return one.of == other.of
    share = (one.hits + other.hits + 2) / (one.of + other.of + 4)
    error = math.sqrt(share * (1 - share) * (1 / one.of + 1 / other.of))
    return abs(one.value - other.value) <= STANDARD_ERRORS * error


# ------------------------------------------------------------------ the prompts


def test_each_prompt_ends_with_a_question_and_its_answer_is_the_latest_fact(
    prompts: list[Prompts],
) -> None:
    texts = []
    for some in prompts:
        for row, answer, fact_at in zip(some.tokens, some.answers, some.fact_at, strict=True):
            words = render(row.tolist()).split()
            assert words[-2:] == ["In", "the"]
            who = words[-3].removesuffix("?")
            [*_, last] = [
                at + 4
                for at in range(len(words) - 4)
                if words[at] == who and words[at + 1] in ("is", "fell", "hid")
            ]
            assert (last, words[last]) == (fact_at, labels([int(answer)])[0])
            assert f"{who}?" not in words[last:-3]
            texts.append(" ".join(words))
    assert len(set(texts)) == N_FRESH
    assert [some.tokens.shape for some in prompts] == [(40, 46), (40, 50), (40, 54)]


def test_ways_to_cut_a_prompt_cut_all_of_it() -> None:
    for n_words in (44, 46, 54):
        for name, cut in CALLS.items():
            sizes = cut(n_words)
            assert sum(sizes) == n_words, name
            assert min(sizes) > 0


# ------------------------------------------------------------------ figures, counted again


@pytest.mark.parametrize("calls", ["one-call", "last-8", "of-16"])
def test_a_right_cache_answers_as_the_plain_decoder_does(
    calls: str, params: Params, prompts: list[Prompts]
) -> None:
    found = recall(params, STORY, prompts, calls)
    assert found.answers == found.grammatical == Share(N_FRESH, N_FRESH)
    assert found.unchanged.hits == found.unchanged.of
    assert found.max_logit_error <= Rounding("float64", LARGEST_LOGIT).allowed


FORGETFUL: list[dict[str, Any]] = [
    {"calls": "of-8", "mistake": "top-left"},
    {"calls": "last-24", "mistake": "top-left"},
    {"calls": "last-8", "mistake": "top-left", "up_to_answer": True},
    {"calls": "of-8", "mistake": "top-left", "every_call": True},
]
HARDLY_NOTICED: list[dict[str, Any]] = [
    {"calls": "last-8", "mistake": "open", "up_to_answer": True},
    {"calls": "of-8", "mistake": "lost-token"},
]


@pytest.mark.parametrize("case", FORGETFUL, ids=str)
def test_a_wrong_mask_leaves_it_fluent_and_forgetful(
    case: dict[str, Any], params: Params, prompts: list[Prompts], results: dict[str, Any]
) -> None:
    found, stored = recall(params, STORY, prompts, **case), find(results["rows"], **case)
    assert found.answers.value < 0.6
    assert found.grammatical.value > 0.95
    check_against(found, stored)


@pytest.mark.parametrize("case", HARDLY_NOTICED, ids=str)
def test_other_mistakes_move_logits_and_hardly_an_answer(
    case: dict[str, Any], params: Params, prompts: list[Prompts], results: dict[str, Any]
) -> None:
    found, stored = recall(params, STORY, prompts, **case), find(results["rows"], **case)
    assert found.answers.value > 0.9
    assert found.max_logit_error > 5
    check_against(found, stored)


def check_against(found: Recall, stored: Recall) -> None:
    """The counts of other stories; positions of one text aren't independent tries, and aren't
    counted again so closely."""
    for name in ("answers", "before", "inside", "through", "grammatical"):
        assert agree(getattr(found, name), getattr(stored, name)), name
    assert abs(found.unchanged.value - stored.unchanged.value) < 0.05
    assert found.max_logit_error == pytest.approx(stored.max_logit_error, rel=0.5)


def test_a_fact_that_was_read_before_the_mistake_is_kept_more_often(
    params: Params, prompts: list[Prompts]
) -> None:
    found = recall(params, STORY, prompts, "last-24", "top-left")
    assert found.before.of + found.inside.of == N_FRESH
    assert found.before.value > found.inside.value + 0.2


def test_shuffled_weights_know_nothing(params: Params, prompts: list[Prompts]) -> None:
    """The same numbers in another order: whatever the figures count, it isn't there by itself."""
    rng = np.random.default_rng(0)
    shuffled = params_from_arrays(
        {
            name: rng.permuted(array.ravel()).reshape(array.shape)
            for name, array in params_to_arrays(params).items()
        },
        STORY,
    )
    found = recall(shuffled, STORY, prompts)
    assert found.answers.value < 0.3
    assert found.grammatical.hits == 0
    assert not agree(found.answers, Share(N_STORIES, N_STORIES))


def test_chance_is_what_guessing_would_give(prompts: list[Prompts]) -> None:
    ways = chance(prompts)
    texts = [render(row.tolist()) for some in prompts for row in some.tokens]
    answers = [labels([int(a)])[0] for some in prompts for a in some.answers]
    told = [[word for word in text.split() if f"the {word}" in text] for text in texts]
    places = [[word for word in words if word[-1] == "."] for words in told]
    assert ways["any-place"] == 0.1
    named = np.mean([1 / len(set(words)) for words in places])
    assert ways["any-place-named"] == pytest.approx(named)
    last = np.mean([words[-1] == answer for words, answer in zip(places, answers, strict=True)])
    assert ways["last-place-named"] == pytest.approx(last)


# ------------------------------------------------------------------ what is stored


def test_the_stored_results_are_complete_and_of_these_weights(results: dict[str, Any]) -> None:
    weights = WEIGHTS.read_bytes()
    assert results["weights_bytes"] == len(weights)
    assert results["weights_sha256"] == hashlib.sha256(weights).hexdigest()
    assert (results["prompts"]["stories"], results["prompts"]["seed"]) == (N_STORIES, SEED)
    assert N_STORIES >= 1000
    assert SEED not in (FRESH_SEED, results["recipe"]["seed"])
    for rows, wanted in (
        (results["rows"], all_cases()),
        (results["without_key_dropout"]["rows"], CONTRAST),
    ):
        assert len(rows) == len(wanted)
        for dtype, case in wanted:
            found = find(rows, **case, dtype=dtype)
            assert found.answers.of == N_STORIES
            assert found.before.of + found.inside.of + found.through.of == N_STORIES
            assert all(0 <= getattr(found, n).hits <= getattr(found, n).of for n in SHARES)
    assert results["cpu_seconds"] <= 20 * 60


def test_the_stored_right_caches_answer_and_are_off_by_rounding_only(
    results: dict[str, Any],
) -> None:
    for dtype in ("float64", "float32", "float16", "bfloat16"):
        for calls in CALLS:
            found = find(results["rows"], calls, dtype=dtype)
            assert found.answers.value >= 0.995
            # In 16 bits words that are nearly as likely may change places.
            assert found.unchanged.value >= (1.0 if dtype in ("float64", "float32") else 0.995)
            assert found.max_logit_error <= Rounding(dtype, LARGEST_LOGIT).allowed


def test_without_key_dropout_a_wrong_mask_breaks_the_grammar(results: dict[str, Any]) -> None:
    """The claim of the page, and that the answers under the right mask don't come of it."""
    rows = results["without_key_dropout"]["rows"]
    assert find(rows, "of-8").answers.value >= 0.995
    wrong: dict[str, Any] = {"calls": "of-8", "mistake": "top-left"}
    assert find(rows, **wrong).grammatical.value < 0.5
    assert find(results["rows"], **wrong).grammatical.value == 1


def test_what_the_page_says_of_each_mistake_holds(results: dict[str, Any]) -> None:
    def of_8(mistake: Mistake) -> Recall:
        return find(results["rows"], "of-8", mistake)

    assert of_8("top-left").answers.value < results["prompts"]["chance"]["last-place-named"]
    assert of_8("lost-token").answers.value > 0.95
    assert min(of_8(mistake).max_logit_error for mistake in MISTAKES if mistake != "none") > 10
    last_call = find(results["rows"], "last-8", "top-left")
    assert last_call.before.value > 0.8 > 0.4 > last_call.inside.value


# ------------------------------------------------------------------ what is refused


def test_unknown_ways_and_mistakes_are_refused(params: Params, prompts: list[Prompts]) -> None:
    with pytest.raises(ValueError, match=r"calls must be one of one-call, .* got 'of-7'"):
        recall(params, STORY, prompts, "of-7")
    with pytest.raises(ValueError, match=r"mistake one of none, top-left, .* and 'all'"):
        recall(params, STORY, prompts, mistake="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="n_stories must be at least 3, got 2"):
        fresh_prompts(2, 0)
    with pytest.raises(ValueError, match="0 stored rows have"):
        find([], "of-8")
    row = {"dtype": "float64", "every_call": False, "up_to_answer": False}
    with pytest.raises(ValueError, match="2 stored rows have"):
        find([{**row, "calls": "of-8", "mistake": "none"}] * 2, "of-8")


def test_the_cases_cover_every_way_and_every_mistake() -> None:
    found = [*cases()]
    assert {case["calls"] for case in found if "mistake" not in case} == {*CALLS}
    assert {case.get("mistake") for case in found} == {
        *(None, "top-left", "open", "restarted", "lost-token")
    }
    assert math.isnan(Share(0, 0).value)
    assert Share(1, 4).standard_error == pytest.approx(math.sqrt(3) / 8)
