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
from kvlab.words import Text
from kvproof import KeptBytes, plan_memory
from kvproof.experiments.model_shapes import MODEL_SHAPES

CONTEXTS = [str(1024 << power) for power in range(8)]
MEMORIES = {f"{size}\N{NO-BREAK SPACE}GB": size * 10**9 for size in (8, 16, 24, 48, 80, 141)}
"""As makers of accelerators count: 10 ** 9 bytes."""
DTYPES = ["float32", "bfloat16", "int8"]
HEADS = ["memory.kv-heads.published", "memory.kv-heads.one", "memory.kv-heads.each"]
WAYS = ("heads", "cached", "rolling", "latent")
"""Ways of keeping: a key for each query head; all tokens with the chosen heads; a ring where there
is a window; the compressed vector."""
ROOM = 1.8
"""Width of the figure in units of the longest bar: its label stands behind it."""


COLUMNS = ("model", "fit", "least", *WAYS)
BLOCKS: list[Block] = [
    Legend([key("▬", "cached", "memory.legend")]),
    Figure(
        "bars",
        "memory.bars",
        Table("bars.models", {column: f"memory.{column}" for column in COLUMNS}),
        "memory.show-table",
        summary="summary",
        has_heading=False,
    ),
    Note("memory.no-weights"),
]


class MemoryLab(Lab):
    """A bar for each model, as long as what one request takes (see ``Lab``)."""

    title, to_try, notice = "memory.title", "memory.try", "memory.notice"

    def __init__(self) -> None:
        self._bars = _Bars()
        controls = {
            "context": select("memory.context", CONTEXTS, "8192"),
            "room": select("memory.room", list(MEMORIES), list(MEMORIES)[2]),
            "dtype": radio("memory.dtype", DTYPES, "bfloat16"),
            "kv_heads": radio("memory.kv-heads.title", HEADS, HEADS[0], HEADS),
        }
        super().__init__(controls, {"bars": self._bars}, BLOCKS)

    def show(self, context: str, room: str, dtype: str, kv_heads: str) -> Iterator[Text]:
        """Draw all models; say how many requests fit, and name the extremes."""
        case = int(context), 1, dtype
        models = [plan_memory(name, *case, _n_heads(name, kv_heads)) for name in MODEL_SHAPES]
        fits = [MEMORIES[room] // one.least for one in models]
        self._bars.show(models, fits)
        shown = {"context": f"{int(context):,}", "room": room, "dtype": dtype}
        yield Text("summary", "memory.case", shown)
        for n, alone, together in (
            (max(fits), "memory.most.one", "memory.most.many"),
            (min(fits), "memory.fewest.one", "memory.fewest.many"),
        ):
            names = [one.model for one, fit in zip(models, fits, strict=True) if fit == n]
            yield _said_of(names, alone, together, requests=f"{n:,}")
        yield _most_saved(models)


def _n_heads(model: str, choice: str) -> int | None:
    """Key and value heads of a model by an entry of ``HEADS``; None: as published."""
    return {HEADS[0]: None, HEADS[1]: 1, HEADS[2]: MODEL_SHAPES[model].n_heads}[choice]


def _most_saved(models: list[KeptBytes]) -> Text:
    """Which models save most, each with all its equals."""
    saved = max(one.saved for one in models)
    if saved == 1:
        return Text("summary", "memory.saved.nothing")
    names = [one.model for one in models if one.saved == saved]
    return _said_of(names, "memory.saved.one", "memory.saved.many", times=multiple(saved))


def _said_of(names: list[str], alone: str, together: str, **args: str) -> Text:
    """A sentence about one model, or about several."""
    *others, last = names
    if not others:
        return Text("summary", alone, {"model": last, **args})
    return Text("summary", together, {"models": ", ".join(others), "last": last, **args})


class _Bars:
    """A row for each model: a bar on a linear axis, its bytes, and how many requests fit."""

    def __init__(self) -> None:
        names = list(MODEL_SHAPES)
        self.figure = lines_figure(len(names), aspect_ratio=2.2, min_height=330)
        self.figure.xaxis.visible = self.figure.xgrid.visible = False  # the values stand there
        self.figure.yaxis.major_label_overrides = dict(enumerate(names))
        self._models = ColumnDataSource({"row": [], "least_bytes": [], "label": []})
        bars = self.figure.hbar(
            "row", right="least_bytes", left=0, height=0.6, source=self._models, line_color=None
        )
        themed(bars.glyph, fill_color="cached")
        labels = self.figure.text(
            "least_bytes",
            "row",
            text="label",
            source=self._models,
            x_offset=6,
            text_baseline="middle",
            text_font_size="12px",
        )
        themed(labels.glyph, text_color="text")
        self.outputs: dict[str, tuple[Model, str]] = {
            "models": (self._models, "data"),
            "end": (self.figure.x_range, "end"),
        }

    def show(self, models: list[KeptBytes], fits: list[int]) -> None:
        """Draw what one request takes in each, and write how many fit."""
        self.figure.x_range.end = ROOM * max(one.least for one in models)
        self._models.data = {
            "row": list(range(len(models))),
            "model": [one.model for one in models],
            "least_bytes": [one.least for one in models],
            "least": [size(one.least) for one in models],
            "fit": [f"{n:,}" for n in fits],
            "label": [f"{size(one.least)} · {n:,}" for one, n in zip(models, fits, strict=True)],
            **{
                way: [size(n) if (n := getattr(one, way)) else "–" for one in models]
                for way in WAYS
            },
        }
