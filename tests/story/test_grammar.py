"""Stories: grammatical by a rule of the test's own, and each answer is what the facts say."""

import re
from itertools import pairwise
from random import Random

import pytest

from kvproof.story import WORDS, Story, encode, is_grammatical, render, tell_story

THING = "(?:key|cup|hat|book|ring|bell|coin|pen)"
NAME = "(?:Ada|Leo|Mia|Ivy|Max|Zoe)"
PLACE = r"(?:box|bag|jar|pot|tent|shed|attic|drawer|cave|basket)\."
SENTENCE = "|".join(
    [
        *(rf"The {THING} (?:is|fell) in the {PLACE}", rf"{NAME} (?:is|hid) in the {PLACE}"),
        *(rf"Where's my {THING}\? In the {PLACE}", rf"Where's {NAME}\? In the {PLACE}"),
        *(r"It (?:rains|snows)\.", rf"{NAME} likes (?:tea|milk|cocoa|juice|soup|coffee)\."),
    ]
)
TEXT = re.compile(rf"(?:(?:{SENTENCE}) )*(?:{SENTENCE})")
STORIES = [tell_story(Random(seed), 80) for seed in range(200)]


def whole_sentences(story: Story) -> str:
    return render(story.tokens).rpartition(".")[0] + "."


def test_stories_are_sentences_of_six_kinds() -> None:
    texts = [whole_sentences(story) for story in STORIES]
    assert [text for text in texts if not TEXT.fullmatch(text)] == []
    assert [story for story in STORIES if not is_grammatical(story.tokens)] == []


def test_the_grammar_accepts_exactly_what_can_go_on_as_sentences() -> None:
    """Word pairs, by brute force: those of 240,000 words of stories and those of the rule."""
    random = Random(7)
    told = {
        pair
        for _ in range(3000)
        for tokens in [tell_story(random, 80).tokens]
        for pair in pairwise(tokens)
    }
    allowed = {
        (before, after)
        for before in range(len(WORDS))
        for after in range(len(WORDS))
        if is_grammatical([before, after])
    }
    assert told == allowed


@pytest.mark.parametrize(
    "text",
    [
        "jar. is is in the drawer.",
        "The Ada is in the box.",
        "Ada fell in the box.",
        "The key hid in the box.",
        "Where's key? In the box.",
        "Where's my Ada? In the box.",
        "Where's my key? in the box.",
        "It tea.",
        "It rains. It snows.",
        "in the the box.",
    ],
)
def test_what_no_story_says_is_not_grammatical(text: str) -> None:
    assert not is_grammatical(encode(text))


def test_each_question_is_answered_by_the_latest_fact() -> None:
    """Read again from the English text, with a memory of the test's own."""
    n_questions = n_moved = 0
    for story in STORIES:
        words = render(story.tokens).split()
        where: dict[str, int] = {}
        moved: set[str] = set()
        asked: set[str] = set()
        found = []
        for at in range(4, len(words)):
            who, verb = words[at - 4], words[at - 3]
            if verb in ("is", "fell", "hid") and words[at - 2] == "in":
                where[who] = at
                asked.discard(who)
                if verb != "is":
                    moved.add(who)
            if words[at - 2] == "In":
                who = words[at - 3].removesuffix("?")
                found.append((at, where[who], who not in asked))
                assert words[where[who]] == words[at]
                asked.add(who)
                n_moved += who in moved
        assert found == [(q.answer_at, q.fact_at, q.is_new) for q in story.questions]
        n_questions += len(found)
    assert n_questions > 4 * len(STORIES)
    assert n_moved > len(STORIES) / 2


def test_the_rest_of_a_story_keeps_the_questions_whose_facts_are_in_it() -> None:
    story = STORIES[0]
    start = story.questions[0].fact_at + 1
    rest = story.after(start)
    assert rest.tokens == story.tokens[start:]
    kept = [q for q in story.questions if q.fact_at >= start]
    assert len(kept) < len(story.questions)
    for question, before in zip(rest.questions, kept, strict=True):
        assert rest.tokens[question.answer_at] == story.tokens[before.answer_at]
        assert rest.tokens[question.fact_at] == rest.tokens[question.answer_at]


def test_a_seed_tells_one_story_of_any_length() -> None:
    assert tell_story(Random(3), 50) == tell_story(Random(3), 50)
    assert tell_story(Random(3), 50) != tell_story(Random(4), 50)
    assert tell_story(Random(3), 50).tokens == tell_story(Random(3), 80).tokens[:50]
    with pytest.raises(ValueError, match="n_words must be at least 1, got 0"):
        tell_story(Random(3), 0)
