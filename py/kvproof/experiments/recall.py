"""What a trained decoder still knows of a story that was read rightly, or with a mistake.

The mistakes are those of the mask lab, and a cache that lost a token.  Whatever is read with one,
the answer, the grammar and the logits of what the decoder then writes are held against the story
and against a full recompute of the very same words.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any, Literal

import numpy as np

from kvproof.model.cache import new_cache
from kvproof.model.cached_decoder import decode
from kvproof.model.config import DecoderConfig
from kvproof.model.decoder import forward
from kvproof.model.masks import (
    BoolArray,
    IntArray,
    check_integer,
    open_mask,
    restarted_positions,
    top_left_mask,
)
from kvproof.model.params import FloatArray, Params
from kvproof.story import Question, is_grammatical, tell_story
from kvproof.story.words import PLACES, TOKENS

Mistake = Literal["none", "top-left", "open", "restarted", "lost-token"]
MISTAKES: dict[Mistake, dict[str, Any]] = {
    "none": {},
    "top-left": {"mask": top_left_mask},
    "open": {"mask": open_mask},
    "restarted": {"positions": restarted_positions},
    "lost-token": {},
}
"""A mistake -> the arguments of ``decode`` that make it; the lost token is cropped off the cache
after the first call."""

CALLS: dict[str, Callable[[int], list[int]]] = {
    "one-call": lambda n: [n],
    "word-by-word": lambda n: [1] * n,
    "last-3": lambda n: [n - 3, 3],
    "last-8": lambda n: [n - 8, 8],
    "last-24": lambda n: [n - 24, 24],
    "after-8": lambda n: [8, n - 8],
    "of-8": lambda n: _equal(8, n),
    "of-16": lambda n: _equal(16, n),
}
"""Ways to cut a prompt of n words into calls -> the sizes of the calls."""

LENGTHS = 46, 50, 54
"""Words of a prompt before the answer."""
ANSWER_SLOT = 2
"""Words between a question and its answer: "In the"."""
N_WRITTEN = 14
"""Words that the decoder writes after a prompt."""
N_STORIES, SEED = 1020, 2026
"""Fresh stories that the stored figures are counted over, and their seed."""
PLACE_TOKENS = [TOKENS[place] for place in PLACES]


def _equal(size: int, n: int) -> list[int]:
    rest = n % size
    return [size] * (n // size) + [rest] * bool(rest)


@dataclass(frozen=True, eq=False)
class Prompts:
    """Stories of one length, each up to the slot where an answer has to stand."""

    tokens: IntArray
    """(B, T): each ends with a question and "In the"."""
    answers: IntArray
    """(B,): the token of the right place."""
    fact_at: IntArray
    """(B,): where it was read."""


@dataclass(frozen=True)
class Share:
    """How many of how many."""

    hits: int
    of: int

    @property
    def value(self) -> float:
        """0 to 1; NaN of none."""
        return self.hits / self.of if self.of else math.nan

    @property
    def standard_error(self) -> float:
        """Of ``value``, as of independent tries."""
        return math.sqrt(self.value * (1 - self.value) / self.of) if self.of else math.nan


SHARES = "answers", "before", "inside", "through", "grammatical", "unchanged"


@dataclass(frozen=True)
class Recall:
    """What came of reading prompts in some way and then writing ``N_WRITTEN`` words.

    ``before``, ``inside`` and ``through`` share out ``answers``: by where the fact was read if a
    step without the mistake gives the answer, else "through".  Without a mistake nothing is inside.
    """

    answers: Share
    """Answers that name the right place."""
    before: Share
    """... where the fact was read before the first call with the mistake; a lost token may be in
    it."""
    inside: Share
    """... where it was read in a call with the mistake."""
    through: Share
    """... where the call that answers has the mistake itself."""
    grammatical: Share
    """Prompts after which every word written is grammatical."""
    unchanged: Share
    """Positions after the first call, written ones included, whose most likely word is that of a
    full recompute."""
    max_logit_error: float
    """Largest over these positions."""


def fresh_prompts(n_stories: int, seed: int, lengths: Sequence[int] = LENGTHS) -> list[Prompts]:
    """Prompts of new stories: ``n_stories`` shared out evenly over the lengths.

    Each is of another story and asks for something that nobody has asked for since its latest fact,
    so that the answer can be read in one place only.

    Raises:
        ValueError: fewer stories than lengths.
    """
    check_integer("n_stories", n_stories, least=len(lengths))
    random = Random(seed)
    found: dict[int, list[tuple[tuple[int, ...], Question]]] = {length: [] for length in lengths}
    wanted = {length: n_stories // len(lengths) for length in lengths}
    for length in lengths[: n_stories % len(lengths)]:
        wanted[length] += 1
    while any(len(found[length]) < wanted[length] for length in lengths):
        story = tell_story(random, max(lengths) + 1)
        fitting = [
            question
            for question in story.questions
            if question.is_new
            and len(found.get(question.answer_at, ())) < wanted.get(question.answer_at, 0)
        ]
        if fitting:
            question = random.choice(fitting)
            found[question.answer_at].append((story.tokens, question))
    return [
        Prompts(
            np.array([tokens[:length] for tokens, _ in rows]),
            np.array([tokens[length] for tokens, _ in rows]),
            np.array([question.fact_at for _, question in rows]),
        )
        for length, rows in found.items()
    ]


def recall(
    params: Params,
    config: DecoderConfig,
    prompts: Iterable[Prompts],
    calls: str = "one-call",
    mistake: Mistake = "none",
    every_call: bool = False,
    up_to_answer: bool = False,
) -> Recall:
    """Read prompts in calls, all but the first with a mistake; let the decoder write on.

    Args:
        params: of a decoder that knows the story's words.
        config: its configuration.
        prompts: from ``fresh_prompts``.
        calls: one of ``CALLS``.
        mistake: one of ``MISTAKES``.
        every_call: the words are written with the mistake as well, one a call.
        up_to_answer: the prompt ends with "In the", so that its last call gives the answer; else
            it ends with the question.

    Raises:
        ValueError: another way or mistake.
    """
    if calls not in CALLS or mistake not in MISTAKES:
        raise ValueError(
            f"calls must be one of {', '.join(CALLS)} and mistake one of {', '.join(MISTAKES)}, "
            f"got {calls!r} and {mistake!r}"
        )
    wrong_step = MISTAKES[mistake] if every_call else {}
    parts = []
    for some in prompts:
        tokens = some.tokens if up_to_answer else some.tokens[:, :-ANSWER_SLOT]
        sizes = CALLS[calls](tokens.shape[1])
        logits, written = _read_and_write(params, config, tokens, sizes, mistake, wrong_step)
        text = np.concatenate([tokens, written[:, :-1]], axis=1)
        expected = forward(params, text, config)[:, text.shape[1] - logits.shape[1] :]
        answered = written[:, 0 if up_to_answer else ANSWER_SLOT] == some.answers
        through = np.full(len(text), mistake != "none" and (every_call or up_to_answer))
        inside = (some.fact_at >= sizes[0]) & (mistake != "none")
        ends = np.concatenate([tokens[:, -1:], written], axis=1).tolist()
        parts.append(
            Recall(
                answers=_share(answered),
                before=_share(answered[~through & ~inside]),
                inside=_share(answered[~through & inside]),
                through=_share(answered[through]),
                grammatical=_share(np.array([is_grammatical(end) for end in ends])),
                unchanged=_share(logits.argmax(-1) == expected.argmax(-1)),
                max_logit_error=float(np.abs(logits - expected).max()),
            )
        )
    return _together(parts)


def _read_and_write(
    params: Params,
    config: DecoderConfig,
    tokens: IntArray,
    sizes: list[int],
    mistake: Mistake,
    wrong_step: dict[str, Any],
) -> tuple[FloatArray, IntArray]:
    """Logits (B, T - P + N - 1, V) after the first call of P words, and N words written (B, N)."""
    cache = new_cache(config, len(tokens), params.dtype)
    first, *others = np.split(tokens, np.cumsum(sizes)[:-1], axis=1)
    last, cache = decode(params, first, cache, config)
    found: list[FloatArray] = []
    if mistake == "lost-token":
        cache = cache.crop(cache.length - 1)
    for chunk in others:
        last, cache = decode(params, chunk, cache, config, **MISTAKES[mistake])
        found.append(last)
    written = [last[:, -1].argmax(-1)]
    while len(written) < N_WRITTEN:
        last, cache = decode(params, written[-1][:, None], cache, config, **wrong_step)
        found.append(last)
        written.append(last[:, -1].argmax(-1))
    return np.concatenate(found, axis=1), np.stack(written, axis=1)


def _share(hits: BoolArray) -> Share:
    return Share(int(hits.sum()), hits.size)


def _together(parts: list[Recall]) -> Recall:
    shares = {
        name: Share(
            sum(getattr(part, name).hits for part in parts),
            sum(getattr(part, name).of for part in parts),
        )
        for name in SHARES
    }
    return Recall(**shares, max_logit_error=max(part.max_logit_error for part in parts))


# ------------------------------------------------------------------ all that is measured


def chance(prompts: Iterable[Prompts]) -> dict[str, float]:
    """Shares of answers that are right without reading: by ways to guess, 0 to 1."""
    named, last = [], []
    for some in prompts:
        for tokens, answer in zip(some.tokens, some.answers, strict=True):
            places = tokens[np.isin(tokens, PLACE_TOKENS)]
            named.append(1 / len(np.unique(places)))
            last.append(places[-1] == answer)
    return {
        "any-place": 1 / len(PLACES),
        "any-place-named": float(np.mean(named)),
        "last-place-named": float(np.mean(last)),
    }


def cases() -> Iterator[dict[str, Any]]:
    """The arguments of ``recall`` for each way and mistake, the right ones first."""
    for calls in CALLS:
        yield {"calls": calls}
    for calls in ("last-3", "last-8", "last-24", "after-8", "of-8", "of-16"):
        yield {"calls": calls, "mistake": "top-left"}
        yield {"calls": calls, "mistake": "top-left", "up_to_answer": True}
        yield {"calls": calls, "mistake": "top-left", "every_call": True}
    for mistake in ("open", "restarted", "lost-token"):
        for calls in ("last-8", "last-24", "of-8"):
            yield {"calls": calls, "mistake": mistake}
            if mistake == "restarted":  # one token without a mask is right; a token is lost once
                yield {"calls": calls, "mistake": mistake, "every_call": True}
        yield {"calls": "last-8", "mistake": mistake, "up_to_answer": True}


Case = tuple[str, dict[str, Any]]
"""A precision, and the arguments of ``recall``."""


def all_cases() -> list[Case]:
    """Of every stored row: all in float64, the right ones in the other precisions as well."""
    right = [case for case in cases() if "mistake" not in case]
    others = [(dtype, case) for dtype in ("float32", "float16", "bfloat16") for case in right]
    return [("float64", case) for case in cases()] + others


CONTRAST: list[Case] = [
    ("float64", case)
    for case in (
        {"calls": "of-8"},
        {"calls": "of-8", "mistake": "top-left"},
        {"calls": "of-8", "mistake": "top-left", "every_call": True},
    )
]
"""What a decoder that was trained without key dropout is measured by."""


def to_row(case: dict[str, Any], result: Recall) -> dict[str, Any]:
    """A case and its result as JSON has them: counts, of which a reader makes shares."""
    usual = {"mistake": "none", "every_call": False, "up_to_answer": False}
    return {**usual, **case, **asdict(result)}


def find(
    rows: Iterable[dict[str, Any]],
    calls: str,
    mistake: Mistake = "none",
    every_call: bool = False,
    up_to_answer: bool = False,
    dtype: str = "float64",
) -> Recall:
    """The result of one case in stored rows.

    Args:
        rows: of ``notebooks/results/story.json``.
        calls: as for ``recall``, like all that follow.
        mistake: one of ``MISTAKES``.
        every_call: steps as well.
        up_to_answer: the last call gives the answer.
        dtype: of the decoder.

    Raises:
        ValueError: there is no such row, or more than one.
    """
    wanted = {
        "dtype": dtype,
        "calls": calls,
        "mistake": mistake,
        "every_call": every_call,
        "up_to_answer": up_to_answer,
    }
    found = [row for row in rows if wanted.items() <= row.items()]
    if len(found) != 1:
        raise ValueError(f"{len(found)} stored rows have {wanted}")
    shares = {name: Share(**found[0][name]) for name in SHARES}
    return Recall(**shares, max_logit_error=found[0]["max_logit_error"])
