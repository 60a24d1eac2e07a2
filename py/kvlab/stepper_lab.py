"""The stepper: which rows of keys and values each call computes, reads, and computes again.

Computes nothing itself: every row and number comes from ``kvproof.trace_calls``.
"""

from collections.abc import Iterator
from itertools import product

from bokeh.models import ColumnDataSource, FixedTicker, LinearAxis

from kvlab.cell_figure import CellFigure
from kvlab.controls import radio, slider
from kvlab.formats import multiple
from kvlab.lab import Lab, Part, Rows
from kvlab.palette import themed
from kvlab.view import (
    Block,
    Entry,
    Figure,
    Fold,
    Legend,
    Matrix,
    Note,
    Readouts,
    Side,
    Summary,
    Table,
    swatch,
)
from kvlab.words import Text, plain, worded
from kvproof import REFERENCE, Call, trace_calls

MAX_TOKENS = 12
FIRST = ["1", "2", "4", "8"]
CHUNKS = ["1", "2", "3", "5"]
STATES = ["chunk", "recompute", "history"]
N_LAYERS = REFERENCE.n_layers
STRIDE = MAX_TOKENS + 1
"""The layers stand side by side with a gap of one row between them."""
MIDDLES = [STRIDE * layer + (MAX_TOKENS - 1) / 2 for layer in range(N_LAYERS)]
LAYERS = ["axis.layer-1", "axis.layer-2"]


def _path(root: str) -> Figure:
    cells = Matrix(f"{root}_grid.rows", "stepper.corner", "call", "row", "state")
    return Figure(root, f"stepper.{root}", cells, "stepper.show-cells", least="26rem")


CALLS = {
    "call": "stepper.call",
    "tokens": "stepper.new-tokens",
    "recomputed": "stepper.column-recomputed",
    "again": "stepper.column-again",
    "computed": "stepper.column-computed",
    "read": "stepper.column-read",
}
BLOCKS: list[Block] = [
    Legend(
        [
            *(swatch(state, f"stepper.legend-{state}") for state in STATES),
            Entry("stepper.legend-now", swatch="now"),
        ]
    ),
    Side([_path("recomputed"), _path("cached")]),
    Summary(),
    Readouts(
        {
            f"stepper.{count}": [f"recomputed-{count}", f"cached-{count}"]
            for count in ("rows", "again", "scores")
        },
        head=["", "stepper.recomputed", "stepper.cached"],
        caption="stepper.caption",
    ),
    Fold("stepper.show-calls", "stepper.caption", Table("calls.rows", CALLS)),
    Note(reading="decoder"),
]


class StepperLab(Lab):
    """Both ways to read the same text, call by call (see ``kvlab.lab.Lab``)."""

    title, notice = "stepper.title", "stepper.notice"

    def __init__(self) -> None:
        self._recomputed, self._cached, self._table = _Calls(), _Calls(), Rows()
        controls = {
            "tokens": slider(
                "stepper.tokens", "stepper.spoken-tokens", range(1, MAX_TOKENS + 1), 6
            ),
            "first": radio("stepper.first", FIRST, "4"),
            "chunk": radio("stepper.chunk", CHUNKS, "2"),
        }
        parts: dict[str, Part] = {
            "recomputed": self._recomputed,
            "cached": self._cached,
            "calls": self._table,
            "recomputed_grid": self._recomputed.grid,
            "cached_grid": self._cached.grid,
        }
        super().__init__(controls, parts, BLOCKS, STATES)

    def show(self, tokens: int, first: str, chunk: str) -> Iterator[Text]:
        """Draw all calls up to the last token read; sum up."""
        recomputed, cached = (
            trace_calls(tokens, int(chunk), has_cache, REFERENCE, int(first))
            for has_cache in (False, True)
        )
        self._recomputed.show(recomputed)
        self._cached.show(cached)
        self._table.show(
            call=list(range(1, len(cached) + 1)),
            tokens=[call.n_new for call in cached],
            recomputed=[rows([call]) for call in recomputed],
            again=[again([call]) for call in recomputed],
            computed=[rows([call]) for call in cached],
            read=[int(call.read.sum()) for call in cached],
        )
        yield from _call_texts(recomputed[-1], cached[-1])
        for name, calls in (("recomputed", recomputed), ("cached", cached)):
            for key, count in (("rows", rows(calls)), ("again", again(calls))):
                yield plain(f"{name}-{key}", f"{count:,}", str(count))
            scores = sum(call.scores for call in calls)
            yield plain(f"{name}-scores", f"{scores:,}", str(scores))
        n_rows, n_cached = rows(recomputed), rows(cached)
        total = {"rows": f"{n_rows:,}", "cached": f"{n_cached:,}"}
        yield Text("summary", "stepper.total", total | {"times": multiple(n_rows / n_cached)})
        sizes = {"layers": str(N_LAYERS), "heads": str(REFERENCE.n_heads)}
        yield Text("decoder", "stepper.decoder", sizes)


def _call_texts(recomputed: Call, cached: Call) -> Iterator[Text]:
    """What the last call does, with a cache and without."""
    first, last = recomputed.n_past, recomputed.n_past + recomputed.n_new - 1
    if recomputed.n_new == 1:
        yield Text("summary", "stepper.call-one", {"token": str(first)})
    else:
        yield Text("summary", "stepper.call-many", {"first": str(first), "last": str(last)})
    if recomputed.n_past == 0:
        yield Text("summary", "stepper.first-call")
        return
    counts = {
        "again": str(int(recomputed.again[0].sum())),
        "read": str(int(cached.read[0].sum())),
        "written": str(int(cached.computed[0].sum())),
    }
    yield Text("summary", "stepper.later-call", counts)


def rows(calls: list[Call]) -> int:
    """Rows of keys and values that are computed, in all layers."""
    return int(sum(call.computed.sum() for call in calls))


def again(calls: list[Call]) -> int:
    """Of these, what an earlier call had computed as well."""
    return int(sum(call.again.sum() for call in calls))


class _Calls(CellFigure):
    """A line for each call, a cell for each row that it touches, the layers side by side."""

    def __init__(self) -> None:
        super().__init__(STATES, aspect_ratio=1.6, mark_size=6)
        self.grid = Rows()
        worded(self.figure.xaxis[0], axis_label="stepper.axis-rows")
        worded(self.figure.yaxis[0], axis_label="stepper.axis-calls")
        self.figure.x_range.update(start=-0.7, end=N_LAYERS * STRIDE - 1.3)
        self.figure.y_range.update(start=MAX_TOKENS + 0.6, end=0.4)
        ticks = {
            layer * STRIDE + slot: slot
            for layer in range(N_LAYERS)
            for slot in (0, MAX_TOKENS // 2, MAX_TOKENS - 1)
        }
        self.figure.xaxis.ticker.ticks = list(ticks)
        self.figure.xaxis.major_label_overrides = {x: str(slot) for x, slot in ticks.items()}
        self.figure.yaxis.ticker.ticks = list(range(1, MAX_TOKENS + 1))
        self._name_layers()  # now, since `xaxis` above means every axis
        self._now = ColumnDataSource({"x": [], "y": []})
        frame = self.figure.rect(
            "x",
            "y",
            MAX_TOKENS + 0.2,
            1.05,
            source=self._now,
            fill_color=None,
            line_width=1.5,
            line_dash="dashed",
        )
        themed(frame.glyph, line_color="text")
        self.outputs |= {"now": (self._now, "data")}

    def show(self, calls: list[Call]) -> None:
        """Draw them; the last one has a frame."""
        cells = [
            (number, layer, slot, state(call, layer, slot))
            for number, call in enumerate(calls, start=1)
            for layer in range(N_LAYERS)
            for slot in range(call.n_past + call.n_new)
        ]
        number, layer, slot, states = (list(column) for column in zip(*cells, strict=True))
        self.cells.data = {
            "x": [STRIDE * one + s for one, s in zip(layer, slot, strict=True)],
            "y": number,
            "layer": [one + 1 for one in layer],
            "slot": slot,
            "state": states,
        }
        self._now.data = {"x": MIDDLES, "y": [len(calls)] * N_LAYERS}
        self._show_grid(calls)

    def _show_grid(self, calls: list[Call]) -> None:
        """The same cells for a table, which also has those that a call doesn't touch."""
        n_total = calls[-1].n_past + calls[-1].n_new
        cells = list(product(enumerate(calls, start=1), range(N_LAYERS), range(n_total)))
        self.grid.show(
            call=[number for (number, _), _, _ in cells],
            row=[f"{layer + 1}: {slot}" for _, layer, slot in cells],
            state=[
                state(call, layer, slot) if slot < call.n_past + call.n_new else ""
                for (_, call), layer, slot in cells
            ],
        )

    def _name_layers(self) -> None:
        names = LinearAxis(
            ticker=FixedTicker(ticks=MIDDLES),
            axis_line_color=None,
            major_tick_line_color=None,
            minor_tick_line_color=None,
            major_label_text_font_size="13px",
        )
        worded(names, major_label_overrides=dict(zip(MIDDLES, LAYERS, strict=True)))
        themed(names, major_label_text_color="text")
        self.figure.add_layout(names, "above")


def state(call: Call, layer: int, slot: int) -> str:
    """What a call does with a row: computes it first or again, or reads it."""
    if call.again[layer, slot]:
        return "recompute"
    return "chunk" if call.computed[layer, slot] else "history"
