"""Stories of facts and questions, and the rule that says whether a text is grammatical.

A fact says where a thing or somebody is; a later one moves it.  A question asks for one of them and
is answered at once.  Each word alone fixes what kind of word may follow.  The place stands four
words after the thing in a fact, its answer three words after the question's last word.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from kvproof.model.masks import check_integer
from kvproof.story.words import (
    ANSWER_IN,
    ASKED,
    DRINKS,
    FELL,
    HID,
    IN,
    IS,
    IT,
    LIKES,
    MY,
    NAMES,
    PLACES,
    THAT,
    THE,
    THINGS,
    TOKENS,
    WEATHER,
    WHERE,
    WORDS,
    Word,
)

MOST_PLACED = 6
"""Things and people of one story whose places are told."""
FIRST_FACTS = 2, 4
"""So many facts, at least and at most, open a story."""
QUESTION, ASIDE = 0.5, 0.06
"""How often the next sentence is a question, or one that tells nothing of places; else a fact."""
NEW, AGAIN = 0.7, 0.15
"""How often a fact is about something new, and how often a question was asked before."""


@dataclass(frozen=True)
class Question:
    """A question of a story, by the positions of two words that are the same place."""

    answer_at: int
    """Where the answer stands: the logits before it should name it."""
    fact_at: int
    """Where the place stands in the latest fact about what is asked for."""
    is_new: bool
    """Nothing between the fact and the question has asked for it."""


@dataclass(frozen=True)
class Story:
    """Tokens, and the questions among them."""

    tokens: tuple[int, ...]
    questions: tuple[Question, ...]

    def after(self, start: int) -> "Story":
        """The story from its word ``start`` on, with those questions whose facts are in it."""
        return Story(
            self.tokens[start:],
            tuple(
                Question(q.answer_at - start, q.fact_at - start, q.is_new)
                for q in self.questions
                if q.fact_at >= start
            ),
        )


def tell_story(random: Random, n_words: int) -> Story:
    """A new story of ``n_words``; the last sentence may be cut off.

    Raises:
        ValueError: ``n_words`` is less than 1.
    """
    check_integer("n_words", n_words, least=1)
    teller = _Teller(random)
    n_first = random.randint(*FIRST_FACTS)
    while len(teller.words) < n_words:
        if len(teller.fact_at) < n_first:
            teller.tell_new()
        else:
            teller.go_on()
    questions = tuple(q for q in teller.questions if q.answer_at < n_words)
    return Story(tuple(TOKENS[word] for word in teller.words[:n_words]), questions)


@dataclass
class _Teller:
    """What has been told so far."""

    random: Random
    words: list[Word] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    fact_at: dict[Word, int] = field(default_factory=dict)
    """Thing or name -> position of the place in the latest fact about it."""
    moved: set[Word] = field(default_factory=set)
    unasked: list[Word] = field(default_factory=list)
    """Of what nobody has asked since its latest fact."""
    last_was_aside: bool = False

    def go_on(self) -> None:
        """One more sentence, or none if the dice ask for one that can't be."""
        dice = self.random.random()
        if dice < QUESTION:
            self.ask()
        elif dice < QUESTION + ASIDE and not self.last_was_aside:
            self.digress()
        elif self.random.random() < NEW:
            self.tell_new()
        else:
            self.tell_move()

    def tell_new(self) -> None:
        untold = [word for word in (*THINGS, *NAMES) if word not in self.fact_at]
        if len(self.fact_at) < MOST_PLACED:
            self._fact(self.random.choice(untold), IS, self.random.choice(PLACES))

    def tell_move(self) -> None:
        movable = [word for word in self.fact_at if word not in self.moved]
        if movable:
            who = self.random.choice(movable)
            self.moved.add(who)
            others = [place for place in PLACES if place != self._place(who)]
            self._fact(who, HID if who in NAMES else FELL, self.random.choice(others))

    def ask(self) -> None:
        is_new = self.random.random() >= AGAIN
        who_else = [word for word in self.fact_at if word not in self.unasked]
        candidates = self.unasked if is_new else who_else
        if not candidates:
            return
        who = self.random.choice(candidates)
        whose = [] if who in NAMES else [MY]
        self._say(WHERE, *whose, ASKED[who], ANSWER_IN, THAT, self._place(who))
        self.questions.append(Question(len(self.words) - 1, self.fact_at[who], is_new))
        if is_new:
            self.unasked.remove(who)

    def digress(self) -> None:
        if self.random.random() < 0.5:
            self._say(IT, self.random.choice(WEATHER))
        else:
            self._say(self.random.choice(NAMES), LIKES, self.random.choice(DRINKS))
        self.last_was_aside = True

    def _fact(self, who: Word, verb: Word, place: Word) -> None:
        self._say(*([] if who in NAMES else [THE]), who, verb, IN, THAT, place)
        self.fact_at[who] = len(self.words) - 1
        if who not in self.unasked:
            self.unasked.append(who)

    def _place(self, who: Word) -> Word:
        return self.words[self.fact_at[who]]

    def _say(self, *sentence: Word) -> None:
        self.words += sentence
        self.last_was_aside = False


def _followers() -> dict[Word, tuple[Word, ...]]:
    """Word -> the words that may come after it."""
    asked_things, asked_names = (tuple(ASKED[who] for who in kind) for kind in (THINGS, NAMES))
    after_aside = (THE, WHERE, *NAMES)
    return {
        THE: THINGS,
        **dict.fromkeys(THINGS, (IS, FELL)),
        **dict.fromkeys(NAMES, (IS, HID, LIKES)),
        **dict.fromkeys((IS, FELL, HID), (IN,)),
        **dict.fromkeys((IN, ANSWER_IN), (THAT,)),
        THAT: PLACES,
        WHERE: (MY, *asked_names),
        MY: asked_things,
        **dict.fromkeys(ASKED.values(), (ANSWER_IN,)),
        IT: WEATHER,
        LIKES: DRINKS,
        **dict.fromkeys(PLACES, (*after_aside, IT)),
        **dict.fromkeys((*WEATHER, *DRINKS), after_aside),
    }


_FOLLOWERS = {
    TOKENS[word]: frozenset(TOKENS[other] for other in others)
    for word, others in _followers().items()
}
assert _FOLLOWERS.keys() == set(range(len(WORDS)))


def is_grammatical(tokens: Iterable[int]) -> bool:
    """Whether each word may follow the one before it; a text may begin and end anywhere.

    Example:
        >>> [kvproof.story.is_grammatical(kvproof.story.encode(text))
        ...  for text in ("in the box. It rains.", "in the rains.")]
        [True, False]
    """
    return all(after in _FOLLOWERS[before] for before, after in pairwise(tokens))
