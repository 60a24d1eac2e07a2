"""The story of the first screen as a still picture: its words, and the masks of two calls below.

For what no script draws: the pictures that links show, and the poster.
"""

from typing import NamedTuple

from kvlab.marks import mask_states
from kvproof.experiments.compare_calls import CallReport, CallResult, compare_calls
from kvproof.experiments.recall import MISTAKES, Mistake
from kvproof.story import example_story, load_story_decoder

N_PAST, N_NEW = 13, 5
"""A history that begins with a sentence and holds the answer, and a chunk with the question."""


class Call(NamedTuple):
    """One way to make the call."""

    states: list[list[str]]
    """(C, P + C): the state of each cell of its mask (``kvlab.marks``)."""
    positions: list[int]
    """(C,): where it takes its words to stand."""
    next_word: str
    """ID of the message with what it says next."""
    error: float
    """Largest absolute logit error."""


class StoryPicture(NamedTuple):
    """A text read in two calls; the second rightly and with a mistake."""

    n_past: int
    n_new: int
    words: list[str]
    """IDs of messages."""
    right: Call
    wrong: Call


def story_picture(mistake: Mistake) -> StoryPicture:
    """The end of the story with a mistake in its last call.

    Raises:
        ValueError: the right call says another word than a decoder without a cache, so that no
            picture could call it right.
    """
    params, config = load_story_decoder("float64")
    text = example_story(N_PAST + N_NEW)
    report = compare_calls(params, config, text, N_PAST, **MISTAKES[mistake])
    if report.right.next_token != report.next_token:
        raise ValueError(f"the right call says {report.right.next_token}, not {report.next_token}")
    words = [f"word.{token}" for token in text]
    calls = [_call(report, result) for result in (report.right, report.wrong)]
    return StoryPicture(N_PAST, N_NEW, words, *calls)


def _call(report: CallReport, result: CallResult) -> Call:
    states = mask_states(result.mask, result.right_mask, report.n_past)
    word = f"word.{result.next_token}"
    return Call(states.tolist(), result.positions.tolist(), word, result.max_abs_error)
