"""What the poster draws and counts: one page to print, everything on it computed here."""

from typing import Any, NamedTuple

from kvlab.marks import MARKS
from kvproof import blind_spots
from kvproof.experiments.call_trace import Feed, Step, trace_calls
from kvproof.experiments.costs import count_costs
from kvproof.experiments.memory_plan import plan_memory
from kvproof.experiments.model_shapes import MODEL_SHAPES
from kvproof.model.config import REFERENCE
from kvproof.story import encode, load_story_decoder
from kvsite.story_picture import story_picture

PLAN = [
    Feed(tuple(encode("The key fell in the cave."))),
    Feed(tuple(encode("Where's my key? In the"))),
    *[Feed(writes=True)] * 3,
]
"""A prompt, a second turn, and three words that are written."""
TESTS = {"poster.test.one-shot": (0, 6), "poster.test.ones": (4, 1), "poster.test.both": (1, 2)}
"""A way to test -> the P and C of a call that it makes."""
MISTAKES = {
    "story.mistake.top-left": "mask-topleft",
    "story.mistake.open": "mask-skipped-cache",
    "story.mistake.restarted": "pos-reset-learned",
}
"""A mistake -> the specimen of the zoo that makes it."""
PREFIX, STEPS = 1_000, 100
MODEL, CONTEXT = "llama-3-8b", 8_192


class Line(NamedTuple):
    """A call, as a line of the picture of all calls."""

    n_past: int
    n_new: int
    without: list[str]
    """State of each column without a cache, "" where nothing is computed or read."""
    cached: list[str]
    """... and with one."""


def poster() -> dict[str, Any]:
    """Everything that the poster's template asks for."""
    costs = count_costs(REFERENCE, PREFIX, STEPS)
    shape = MODEL_SHAPES[MODEL]
    return {
        "lines": lines(),
        "masks": story_picture("top-left"),
        "restarted": story_picture("restarted"),
        "tests": TESTS,
        "seen": {message: seen(specimen) for message, specimen in MISTAKES.items()},
        "prefix": PREFIX,
        "steps": STEPS,
        "recomputed": costs.recomputed.positions,
        "times": costs.recomputed.positions / costs.cached.positions,
        "shape": shape,
        "token_bytes": plan_memory(MODEL, 1).cached,
        "context": CONTEXT,
        "context_bytes": plan_memory(MODEL, CONTEXT).cached,
        "marks": MARKS,
    }


def seen(specimen: str) -> list[float | None]:
    """The largest logit error in each of ``TESTS``; None: no more than rounding."""
    errors = []
    for n_past, n_new in TESTS.values():
        spots = blind_spots(specimen, [n_past], [n_new])
        errors.append(None if spots.unseen[0, 0] else float(spots.errors[0, 0]))
    return errors


def lines() -> list[Line]:
    """Which keys and values each call of ``PLAN`` computes, computes again, and reads."""
    params, config = load_story_decoder("float64")
    without, cached = (trace_calls(params, config, PLAN, has) for has in (False, True))
    n_columns = len(cached.tokens)
    return [
        Line(
            len(step.text) - step.n_new,
            step.n_new,
            _states(other, n_columns),
            _states(step, n_columns),
        )
        for other, step in zip(without.steps, cached.steps, strict=True)
    ]


def _states(step: Step, n_columns: int) -> list[str]:
    states = [""] * n_columns
    for columns, state in (
        (step.read, "history"),
        (step.computed, "chunk"),
        (step.again, "recompute"),
    ):
        for column in columns:
            states[column] = state
    return states
