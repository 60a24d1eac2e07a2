"""The memory planner: bytes of keys and values in published models.

Computes nothing itself: every number comes from ``kvproof.plan_memory``.
"""

from collections.abc import Iterator

from bokeh.models import ColumnDataSource, Model

from kvlab.controls import radio, select
from kvlab.figures import lines_figure
from kvlab.formats import multiple, size
from kvlab.lab import Lab
from kvlab.palette import themed
from kvlab.view import Block, Figure, Legend, Note, Table, key
from kvlab.words import Text, worded
from kvproof import KeptBytes, plan_memory
from kvproof.experiments.model_shapes import MODEL_SHAPES

CONTEXTS = [str(1024 << power) for power in range(8)]
BATCHES = [str(1 << power) for power in range(7)]
DTYPES = ["float32", "bfloat16", "int8"]
HEADS = ["memory.kv-heads.published", "memory.kv-heads.one", "memory.kv-heads.each"]
WAYS = {"heads": "circle", "cached": "circle", "rolling": "diamond", "latent": "triangle"}
"""Way of keeping -> its mark: a key for each query head; all tokens with the chosen heads; a ring
where there is a window; the compressed vector."""
FIRST, LAST, STEP = 20, 50, 5
"""The axis goes from 2 ** 20 to 2 ** 50 bytes, with a tick at every fifth power."""


COLUMNS = ("model", "heads", "cached", "rolling", "latent")
BLOCKS: list[Block] = [
    Legend(
        [
            key("○", "muted", "memory.legend-heads"),
            key("●", "cached", "memory.legend-cached"),
            key("◆", "cached", "memory.legend-rolling"),
            key("▲", "cached", "memory.legend-latent"),
            key("▬", "cached", "memory.legend-least"),
        ]
    ),
    Figure(
        "bars",
        "memory.bars",
        Table("bars.models", {column: f"memory.{column}" for column in COLUMNS}),
        "memory.show-table",
        summary="summary",
        least="34rem",
        has_heading=False,
    ),
    Note("memory.no-weights"),
]


class MemoryLab(Lab):
    """A bar for each model, and marks for other ways to keep the same (see ``Lab``)."""

    title, to_try, notice = "memory.title", "memory.try", "memory.notice"

    def __init__(self) -> None:
        self._bars = _Bars()
        controls = {
            "context": select("memory.context", CONTEXTS, "8192"),
            "batch": select("memory.batch", BATCHES, "1"),
            "dtype": radio("memory.dtype", DTYPES, "bfloat16"),
            "kv_heads": radio("memory.kv-heads.title", HEADS, HEADS[0], HEADS),
        }
        super().__init__(controls, {"bars": self._bars}, BLOCKS)

    def show(self, context: str, batch: str, dtype: str, kv_heads: str) -> Iterator[Text]:
        """Draw all models; name the extremes."""
        case = int(context), int(batch), dtype
        models = [plan_memory(name, *case, _n_heads(name, kv_heads)) for name in MODEL_SHAPES]
        self._bars.show(models)
        shown = {"context": f"{int(context):,}", "dtype": dtype}
        if batch == "1":
            yield Text("summary", "memory.case-one", shown)
        else:
            yield Text("summary", "memory.case-many", {**shown, "batch": batch})
        yield from _extremes(models)


def _n_heads(model: str, choice: str) -> int | None:
    """Key and value heads of a model by an entry of ``HEADS``; None: as published."""
    return {HEADS[0]: None, HEADS[1]: 1, HEADS[2]: MODEL_SHAPES[model].n_heads}[choice]


def _extremes(models: list[KeptBytes]) -> Iterator[Text]:
    """Which models keep the least and the most, and which save most: each with all its equals."""
    least, most = (choose(one.least for one in models) for choose in (min, max))
    for n, alone, together in (
        (least, "memory.least.one", "memory.least.many"),
        (most, "memory.most.one", "memory.most.many"),
    ):
        names = [one.model for one in models if one.least == n]
        yield _said_of(names, alone, together, bytes=size(n))
    saved = max(one.saved for one in models)
    if saved == 1:
        yield Text("summary", "memory.saved.nothing")
        return
    names = [one.model for one in models if one.saved == saved]
    yield _said_of(names, "memory.saved.one", "memory.saved.many", times=multiple(saved))


def _said_of(names: list[str], alone: str, together: str, **args: str) -> Text:
    """A sentence about one model, or about several."""
    *others, last = names
    if not others:
        return Text("summary", alone, {"model": last, **args})
    return Text("summary", together, {"models": ", ".join(others), "last": last, **args})


class _Bars:
    """A row for each model: a bar up to what it has to keep, and a mark for each way."""

    def __init__(self) -> None:
        names = list(MODEL_SHAPES)
        self.figure = lines_figure(len(names), aspect_ratio=1.5, x_axis_type="log")
        self.figure.x_range.update(start=2.0**FIRST, end=2.0**LAST)
        worded(self.figure.xaxis[0], axis_label="memory.axis-bytes")
        powers = range(FIRST, LAST + 1, STEP)
        self.figure.xaxis.ticker.ticks = [2.0**power for power in powers]
        self.figure.xaxis.major_label_overrides = {2.0**p: size(2**p) for p in powers}
        self.figure.yaxis.major_label_overrides = dict(enumerate(names))
        self._models, self._marks = ColumnDataSource(), {way: ColumnDataSource() for way in WAYS}
        bars = self.figure.hbar(
            "row",
            right="least",
            left=2.0**FIRST,
            height=0.6,
            source=self._models,
            line_color=None,
            fill_alpha=0.35,
        )
        themed(bars.glyph, fill_color="cached")
        for way, mark in WAYS.items():
            self._draw_marks(way, mark)
        self.outputs: dict[str, tuple[Model, str]] = {
            "models": (self._models, "data"),
            **{way: (source, "data") for way, source in self._marks.items()},
        }

    def _draw_marks(self, way: str, mark: str) -> None:
        points = self.figure.scatter(
            "bytes", "row", source=self._marks[way], marker=mark, size=9, line_width=2
        )
        ours = way != "heads"
        concepts = {"line_color": "cached" if ours else "muted"}
        concepts["fill_color"] = "cached" if ours else "surface"
        themed(points.glyph, **concepts)

    def show(self, models: list[KeptBytes]) -> None:
        """Draw what they keep."""
        bytes_of = {way: [getattr(one, way) for one in models] for way in WAYS}
        self._models.data = {
            "row": list(range(len(models))),
            "model": [one.model for one in models],
            "least": [one.least for one in models],
            **{way: [size(n) if n else "–" for n in ns] for way, ns in bytes_of.items()},
        }
        for way, source in self._marks.items():
            drawn = [(row, n) for row, n in enumerate(bytes_of[way]) if n is not None]
            source.data = {"row": [row for row, _ in drawn], "bytes": [n for _, n in drawn]}
