"""The stepper: call by call, what a cache keeps and what is computed again; a query up close.

Computes nothing itself: all entries, scores, weights and words come from ``kvproof.trace_calls``,
the trained decoder's own.
"""

from functools import cache

import numpy as np

from kvlab.controls import radio, slider
from kvlab.formats import fixed
from kvlab.lab import Lab, Rows
from kvlab.view import (
    Block,
    Chart,
    Charts,
    Column,
    Grid,
    Grids,
    Legend,
    Note,
    Player,
    Readouts,
    Summary,
    swatch,
)
from kvlab.words import Text, plain
from kvproof import Feed, Step, TakeBack, trace_calls
from kvproof.experiments.call_trace import CloseUp, Trace
from kvproof.model.params import FloatArray
from kvproof.story import encode, example_story, load_story_decoder

N_STEPS = 6
"""All plans have as many, so that one slider fits all."""
MOST_WORDS = 21
"""Columns of the pictures: no plan reads more."""
LAYER, HEAD = 1, 1
"""Those that are looked at up close: this head looks up what is asked for."""
MOST_LIKELY = 3
"""So many next words are shown."""
STATES = ["chunk", "recompute", "history", "hidden-future"]

FACTS = "Ivy is in the tent. The key fell in the cave."
PROMPT = encode(f"{FACTS} It rains.")
WRITE = Feed(writes=True)
CHUNK = 3


def _feed(text: str, writes: bool = False, query: int = -1) -> Feed:
    return Feed(tuple(encode(text)), writes, query)


def _chunks() -> list[Feed]:
    """Up close is a chunk's first query, from which the mask hides the others; at last the last."""
    words = example_story(N_STEPS * CHUNK)
    chunks = [tuple(words[i : i + CHUNK]) for i in range(0, len(words), CHUNK)]
    return [*(Feed(chunk, query=0) for chunk in chunks[:-1]), Feed(chunks[-1])]


PLANS: dict[str, list[Feed | TakeBack]] = {
    "stepper.plan.write": [Feed(tuple(PROMPT)), *[WRITE] * 5],
    "stepper.plan.turn": [
        *(_feed(f"{FACTS} Where's Ivy?"), WRITE, WRITE),
        *(_feed("Where's my key?", writes=True), WRITE, WRITE),
    ],
    "stepper.plan.chunks": [*_chunks()],
    "stepper.plan.draft": [
        *(_feed(f"{FACTS} Where's my"), WRITE),
        *(_feed("In the tent. The", query=1), TakeBack(2), WRITE, WRITE),
    ],
}
"""Choice, a message -> its steps.  The draft is right in its first two words: its third isn't what
the decoder says after these, which is the query that is looked at."""
CALLS = {
    "stepper.plan.turn": "stepper.call.turn",
    "stepper.plan.chunks": "stepper.call.chunks",
    "stepper.plan.draft": "stepper.call.draft",
}
"""Choice -> what a later call is that reads given words; all others read the written one."""

BLOCKS: list[Block] = [
    Player("step"),
    Grids(
        [
            Grid("stepper.without", "without.rows", "words.rows"),
            Grid("stepper.with", "with.rows", "words.rows"),
        ],
        "stepper.step",
    ),
    Summary(),
    Legend(
        [
            swatch("chunk", "stepper.legend.chunk"),
            swatch("recompute", "stepper.legend.recompute"),
            swatch("history", "stepper.legend.history"),
            swatch("hidden-future", "stepper.legend.taken-back"),
        ]
    ),
    Readouts(
        {
            f"stepper.{count}": [f"without-{count}", f"with-{count}"]
            for count in ("computed", "again", "scores")
        },
        head=["", "stepper.without", "stepper.with"],
        caption="stepper.so-far",
    ),
    Charts(
        [
            Chart(
                "stepper.up-close",
                "query.rows",
                {
                    "word": Column("stepper.key", "word"),
                    "score": Column("stepper.score", "text"),
                    "mask": Column("stepper.mask", "state"),
                    "weight": Column("stepper.weight", "bar"),
                    "value": Column("stepper.value", "curve"),
                },
                about="query-word",
                note="query-note",
            ),
            Chart(
                "stepper.next-words",
                "next.rows",
                {"word": Column("stepper.word", "word"), "logit": Column("stepper.logit", "bar")},
            ),
        ]
    ),
    Note(reading="decoder"),
]


class StepperLab(Lab):
    """The trained decoder reads and writes, with a cache and without (see ``kvlab.lab.Lab``)."""

    title, to_try, notice = "stepper.title", "stepper.try", "stepper.notice"

    def __init__(self) -> None:
        self._words, self._without, self._with = Rows(), Rows(), Rows()
        self._query, self._next = Rows(), Rows()
        plans = [*PLANS]
        controls = {
            "plan": radio("stepper.plan.title", plans, plans[0], plans),
            "step": slider("stepper.step", "stepper.step", range(1, N_STEPS + 1), N_STEPS),
        }
        parts = {
            "words": self._words,
            "without": self._without,
            "with": self._with,
            "query": self._query,
            "next": self._next,
        }
        super().__init__(controls, parts, BLOCKS, STATES)

    def show(self, plan: str, step: int) -> list[Text]:
        """Draw all steps of a plan up to one; say what that one does."""
        if not 1 <= step <= N_STEPS:
            raise ValueError(f"step must be 1..{N_STEPS}, got {step}")
        without, cached = (_trace(plan, has_cache) for has_cache in (False, True))
        words = [f"word.{token}" for token in cached.tokens]
        states = word_states(cached, step)
        n_blank = MOST_WORDS - len(words)
        self._words.show(
            word=[*words, *[""] * n_blank],
            state=[*states, *["unread"] * n_blank],
        )
        for rows, trace in ((self._without, without), (self._with, cached)):
            rows.show(
                state=[state for row in range(N_STEPS) for state in cell_states(trace, row, step)],
                now=[row == step - 1 for row in range(N_STEPS) for _ in range(MOST_WORDS)],
            )
        close_up = self._show_query(cached, step)
        return _texts(without, cached, plan, step, close_up)

    def _show_query(self, trace: Trace, step: int) -> CloseUp:
        """The present call's query; while words are taken back, that of the call before."""
        close_up = next(one.close_up for one in trace.steps[step - 1 :: -1] if one.close_up)
        new = trace.steps[step - 1].computed
        weights, parts = close_up.weights[LAYER, HEAD], close_up.weighted[LAYER, HEAD]
        attended = close_up.attended[LAYER, HEAD]
        largest = max(np.abs(parts).max(), np.abs(attended).max())
        self._query.show(
            word=[*(f"word.{trace.tokens[key]}" for key in close_up.keys), "stepper.sum"],
            score=[*(fixed(score, 1) for score in close_up.scores[LAYER, HEAD]), ""],
            mask=[
                *(
                    ("chunk" if key in new else "history") if is_open else "hidden-future"
                    for key, is_open in zip(close_up.keys, close_up.visible, strict=True)
                ),
                "",
            ],
            weight=[*([fixed(one, 2), _share(one)] for one in weights), ""],
            value=[curve(part / largest) for part in (*parts, attended)],
        )
        likely = close_up.most_likely(MOST_LIKELY)
        logits = close_up.logits[likely]
        self._next.show(
            word=[f"word.{token}" for token in likely],
            logit=[[fixed(one, 1), _share(max(one, 0) / max(logits[0], 1e-9))] for one in logits],
        )
        return close_up


@cache
def _trace(plan: str, cached: bool) -> Trace:
    params, config = load_story_decoder("float64")
    return trace_calls(params, config, PLANS[plan], cached)


def _share(part: float) -> float:
    """Of 100, as fine as a bar can be seen."""
    return round(100 * float(part), 1)


def curve(values: FloatArray) -> str:
    """Numbers from -1 to 1 as a row of bars from a middle line, an SVG path: each is 10 wide."""
    bars = "".join(
        f"V{round(-100 * float(value))}H{10 * (i + 1)}" for i, value in enumerate(values)
    )
    return f"M0 0{bars}V0Z"


def word_states(trace: Trace, step: int) -> list[str]:
    """Of each word: new in this step, read before, taken back, or not read yet."""
    states = ["unread"] * len(trace.tokens)
    for one in trace.steps[:step]:
        for column in one.taken_back:
            states[column] = "taken-back"
        for column in one.text:
            states[column] = "history"
    present = trace.steps[step - 1]
    for column in present.text[len(present.text) - present.n_new :]:
        states[column] = "chunk"
    return states


def cell_states(trace: Trace, row: int, step: int) -> list[str]:
    """Of each column in one row of the picture: what that step does with its entries, or ""."""
    states = [""] * MOST_WORDS
    if row < step:
        one = trace.steps[row]
        touched = {
            "history": one.read,
            "chunk": one.computed,
            "recompute": one.again,
            "hidden-future": one.taken_back,
        }
        for state, columns in touched.items():
            for column in columns:
                states[column] = state
    return states


# ------------------------------------------------------------------ in words


def _texts(without: Trace, cached: Trace, plan: str, step: int, close_up: CloseUp) -> list[Text]:
    _, config = load_story_decoder("float64")
    place = {"layer": str(LAYER + 1), "head": str(HEAD + 1), "dim": str(config.head_dim)}
    texts = [
        *_summary(without.steps[step - 1], cached.steps[step - 1], plan, step),
        _next_word(cached.steps[step - 1], plan, step),
        Text("query-word", f"word.{cached.tokens[close_up.column]}"),
        Text("query-note", "stepper.query-note", place),
    ]
    for name, trace in (("without", without), ("with", cached)):
        steps = trace.steps[:step]
        counts = {
            "computed": sum(len(one.computed) for one in steps),
            "again": sum(len(one.again) for one in steps),
            "scores": sum(one.scores for one in steps),
        }
        for key, count in counts.items():
            texts.append(plain(f"{name}-{key}", f"{count:,}", str(count)))
    sizes = {"layers": str(config.n_layers), "heads": str(config.n_heads)}
    return [*texts, Text("decoder", "stepper.decoder", sizes)]


def _is_asked(plan: str, step: int) -> bool:
    """Whether the word after the text matters: not within a prompt, nor after a draft."""
    move = PLANS[plan][step - 1]
    return isinstance(move, TakeBack) or move.query == -1


def _next_word(cached: Step, plan: str, step: int) -> Text:
    known = _is_asked(plan, step)
    return Text("next-word", f"word.{cached.next_token}" if known else "stepper.not-asked")


def _summary(without: Step, cached: Step, plan: str, step: int) -> list[Text]:
    """What this step is, what it costs both ways, and what it comes to."""
    move = PLANS[plan][step - 1]
    lengths = {"P": str(len(cached.text) - cached.n_new), "C": str(cached.n_new)}
    if isinstance(move, TakeBack):
        texts = [Text("summary", "stepper.takes-back", {"count": str(move.n_tokens)})]
    elif step == 1:
        texts = [Text("summary", "stepper.first-call", lengths)]
    else:
        costs = {"computed": str(len(without.computed)), "again": str(len(without.again))}
        kept = {"new": str(len(cached.computed)), "kept": str(len(cached.read))}
        texts = [
            Text("summary", CALLS[plan] if move.tokens else "stepper.call.write", lengths),
            Text("summary", "stepper.costs", costs | kept),
        ]
    if _is_asked(plan, step):
        return [*texts, Text("summary", "stepper.says"), _summed_up(cached.next_token)]
    if plan == "stepper.plan.draft" and cached.close_up:
        [overruling] = cached.close_up.most_likely(1)
        return [*texts, Text("summary", "stepper.overrules"), _summed_up(overruling)]
    return texts


def _summed_up(token: int) -> Text:
    """A word ends the sentence: none can stand within one, since each language has its own."""
    return Text("summary", f"word.{token}")
