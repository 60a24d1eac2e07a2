"""The story lab, the page's first picture: a text in words, two masks, and what two calls say next.

Computes nothing itself: every number comes from ``kvproof.experiments.compare_calls``.  The text
always ends with the same question, and P + C cut its beginning, so that a word has one place in all
states: places are counted from the end, -1 is the last word.
"""

from functools import cache

import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, Range1d

from kvlab.cell_figure import CellFigure
from kvlab.controls import select, slider
from kvlab.figures import dashed_line
from kvlab.formats import number
from kvlab.lab import Lab, Part, Rows
from kvlab.marks import MASK_STATES, by_state, mask_states
from kvlab.mask_texts import state_text
from kvlab.palette import note
from kvlab.view import (
    Block,
    Entry,
    Figure,
    Fold,
    Legend,
    Matrix,
    Note,
    Passage,
    Side,
    Summary,
    swatch,
)
from kvlab.words import Text, plain, worded
from kvproof.experiments.compare_calls import CallReport, CallResult, compare_calls
from kvproof.experiments.recall import MISTAKES, Mistake
from kvproof.model.config import DecoderConfig
from kvproof.model.params import Params
from kvproof.story import example_story, load_story_decoder

MAX_PAST, MAX_NEW = 17, 6
STORY = example_story(MAX_PAST + MAX_NEW)
KEY_AT = -12
"""Place of the key that fell: a text that begins after it doesn't say where it is."""

LAB_MISTAKES: list[Mistake] = ["top-left", "open", "restarted", "none"]
DTYPES = ["float64", "float32", "bfloat16", "float16"]
ALLOWED_FLOORS = {"bfloat16": 8, "float16": 16}
"""``UNITS`` of kvproof.checking.rounding, without the checker: the labs don't load it."""
WORDS: dict[float, str] = {place: f"word.{STORY[place]}" for place in range(-len(STORY), 0)}
"""Place of a word -> the message with its form (``kvsite.words``)."""
UPRIGHT: dict[float, str] = {place: f"upright.{STORY[place]}" for place in range(-len(STORY), 0)}
"""... and for below a column, where Chinese stands upright."""


def _table(name: str) -> Matrix:
    return Matrix(f"{name}-mask.cells", "story.corner", "y", "x", "state", names=WORDS)


def _mask(name: str, title: str, heading: str = "") -> Figure:
    return Figure(
        f"{name}-mask",
        title,
        _table(name),
        summary=f"{name}-summary",
        least="20rem",
        heading=heading,
        headline=f"{name}-word",
    )


BLOCKS: list[Block] = [
    Passage("story.rows", list(WORDS.values()), "next-word"),
    Side([_mask("right", "story.right"), _mask("wrong", "story.wrong", "wrong-name")]),
    Summary(),
    Legend(
        [
            Entry("story.axes"),
            swatch("history", "story.legend.history"),
            swatch("chunk", "story.legend.chunk"),
            swatch("hidden-future", "story.legend.hidden-future"),
            swatch("wrongly-hidden", "story.legend.wrongly-hidden"),
            swatch("wrongly-seen", "story.legend.wrongly-seen"),
        ]
    ),
    Fold("story.show-right", "story.right", _table("right")),
    Fold("story.show-wrong", "story.wrong", _table("wrong")),
    Note(reading="state"),
]


class StoryLab(Lab):
    """The end of a story, read in two calls; the second also with a mistake."""

    title = "story.title"
    is_first = True

    def __init__(self) -> None:
        self._story, self._right, self._wrong = Rows(), _MaskFigure(), _MaskFigure()
        past, new = range(MAX_PAST + 1), range(1, MAX_NEW + 1)
        mistakes = [f"story.mistake.{name}" for name in LAB_MISTAKES]
        controls = {
            "n_past": slider("story.n-past", "story.unit.past", past, 13, "history"),
            "n_new": slider("story.n-new", "story.unit.new", new, 5, "chunk"),
            "mistake": select("story.mistake.title", [*LAB_MISTAKES], "top-left", mistakes),
            "dtype": select("mask.dtype", DTYPES, "float64"),
        }
        parts: dict[str, Part] = {
            "story": self._story,
            "right-mask": self._right,
            "wrong-mask": self._wrong,
        }
        super().__init__(controls, parts, BLOCKS, MASK_STATES)

    def show(self, n_past: int, n_new: int, mistake: Mistake, dtype: str) -> list[Text]:
        """Mark the words, draw both masks, and say what each call says."""
        params, config = _decoder(dtype)
        text = STORY[-(n_past + n_new) :]
        report = compare_calls(params, config, text, n_past, **MISTAKES[mistake])
        states = [_word_state(place, n_past, n_new) for place in WORDS]
        self._story.show(state=states)
        self._right.show(report, report.right)
        self._wrong.show(report, report.wrong)
        return _texts(report, mistake)


@cache
def _decoder(dtype: str) -> tuple[Params, DecoderConfig]:
    return load_story_decoder(dtype)


def _word_state(place: float, n_past: int, n_new: int) -> str:
    if place >= -n_new:
        return "chunk"
    return "history" if place >= -n_new - n_past else "unread"


class _MaskFigure(CellFigure):
    """One mask: a row for each new word, a column for each word, both by place; all stay there."""

    def __init__(self) -> None:
        super().__init__(
            MASK_STATES,
            aspect_ratio=2.65,
            mark_size=5,
            min_height=0,
            min_border_left=2,
            min_border_right=54,
            min_border_top=2,
            min_border_bottom=50,
            y_axis_location="right",
            x_range=Range1d(-len(STORY) - 0.5, 1.1),
            y_range=Range1d(-0.5, -MAX_NEW - 0.5),
        )
        for axis, names in (self.figure.xaxis[0], UPRIGHT), (self.figure.yaxis[0], WORDS):
            worded(axis, major_label_overrides=names)
            axis.major_label_text_font_size = "11px"
            axis.major_label_standoff = 2
            axis.major_tick_line_alpha = axis.axis_line_alpha = 0
            axis.major_label_text_line_height = 0.8
        note(self.figure.xaxis[0], worded={"major_label_orientation": "story.orientation"})
        self._border = dashed_line(self.figure)
        self._positions = ColumnDataSource({"y": [], "label": [], "state": []})
        self.figure.text(
            0.3,
            "y",
            text="label",
            source=self._positions,
            text_color=by_state({"right": "muted", "wrong": "wrongly-hidden"}),
            text_align="center",
            text_baseline="middle",
            text_font_size="10px",
        )
        self._x, self._y = FixedTicker(), FixedTicker()
        self.figure.xaxis.ticker, self.figure.yaxis.ticker = self._x, self._y
        self.outputs |= {
            "positions": (self._positions, "data"),
            "history_end": (self._border, "location"),
            "x.ticks": (self._x, "ticks"),
            "y.ticks": (self._y, "ticks"),
        }

    def show(self, report: CallReport, drawn: CallResult) -> None:
        """Draw one of the report's two calls."""
        n_past, n_new, mask = report.n_past, report.n_new, drawn.mask
        n_total = n_past + n_new
        query, key = np.indices(mask.shape)
        state = mask_states(mask, drawn.right_mask, n_past)
        self.cells.data = {
            "x": (key - n_total).ravel().tolist(),
            "y": (query - n_new).ravel().tolist(),
            "state": state.ravel().tolist(),
        }
        self._border.location = -n_new - 0.5
        self._x.ticks, self._y.ticks = list(range(-n_total, 0)), list(range(-n_new, 0))
        is_right = drawn.positions == report.right.positions
        self._positions.data = {
            "y": list(range(-n_new, 0)),
            "label": [str(position) for position in drawn.positions],
            "state": ["right" if right else "wrong" for right in is_right],
        }


# ------------------------------------------------------------------ in words

CONSEQUENCES = {
    "top-left": ("story.changed.top-left", "story.kept.top-left"),
    "open": ("story.changed.open", "story.kept.open"),
    "restarted": ("story.changed.restarted", "story.kept.restarted"),
}
"""Of a mistake, where it changes the next word and where it doesn't."""


def _texts(report: CallReport, mistake: Mistake) -> list[Text]:
    right, wrong = report.right, report.wrong
    return [
        state_text(report.n_past, report.n_new, report.dtype),
        _where(report),
        Text("next-word", f"word.{report.next_token}", value=str(report.next_token)),
        _said("right-word", right, report),
        _said("wrong-word", wrong, report),
        Text("wrong-name", f"story.mistake.{mistake}"),
        _error("right-error", right),
        _error("wrong-error", wrong),
        _right_summary(report),
        _wrong_summary(report, mistake),
    ]


def _said(name: str, result: CallResult, report: CallReport) -> Text:
    """The next word; its value: 1 if it's that of the decoder without a cache, 0 if not."""
    is_same = result.next_token == report.next_token
    return Text(name, f"word.{result.next_token}", value=str(int(is_same)))


def _error(name: str, result: CallResult) -> Text:
    return plain(name, number(result.max_abs_error), repr(result.max_abs_error))


def _where(report: CallReport) -> Text:
    """Where the call finds what is asked for: the fact lies before the longest chunk."""
    is_told = report.n_past + report.n_new >= -KEY_AT
    return Text("summary", "story.where.cached" if is_told else "story.where.nowhere")


def _right_summary(report: CallReport) -> Text:
    key, result = "right-summary", report.right
    error = {"error": number(result.max_abs_error)}
    if result.next_token != report.next_token:
        return Text(key, "story.broken", error)
    return Text(key, "story.rounded", error) if result.max_abs_error else Text(key, "story.exact")


def _wrong_summary(report: CallReport, mistake: Mistake) -> Text:
    key, result = "wrong-summary", report.wrong
    if mistake == "none":
        return Text(key, "story.same.none")
    if result.is_made_like(report.right):
        return Text(key, "story.same.single" if mistake == "open" else "story.same.empty")
    changed, kept = CONSEQUENCES[mistake]
    error = number(result.max_abs_error)
    if result.next_token != report.next_token:
        return Text(key, changed, {"error": error})
    if is_drowned(report):
        return Text(key, "story.drowned", {"error": error, "dtype": report.dtype})
    return Text(key, kept, {"error": error})


def is_drowned(report: CallReport) -> bool:
    """Whether a mistake is no larger than what the checker allows for rounding in 16 bits."""
    return report.wrong.max_abs_error <= ALLOWED_FLOORS.get(report.dtype, 0) * report.rounding_floor
