"""The storages: where the same tokens lie in each, the bytes that it takes, and its error.

Computes nothing itself: all of it comes from ``kvproof.compare_storages``.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, Label, Model, Range1d
from bokeh.plotting import figure

from kvlab.cell_figure import CellFigure
from kvlab.controls import radio, slider
from kvlab.figures import lines_figure
from kvlab.formats import number, size
from kvlab.lab import Lab, Part
from kvlab.log_axis import error_axis, place
from kvlab.marks import MARKS
from kvlab.palette import themed
from kvlab.view import Block, Entry, Figure, Fold, Matrix, Note, Side, Table, key
from kvlab.words import Text, worded
from kvproof import StorageReport, compare_storages
from kvproof.experiments.compare_storages import BLOCK_SIZE, CAPACITY, N_CONTINUED, WINDOWED
from kvproof.model.cache import STORAGES

NAMES = list(STORAGES)
KINDS = {f"storages.kind.{name}": name for name in NAMES}
"""The message with what a storage is called -> the storage."""
BRANCHES = ["1", "2"]
MAX_PREFIX = 24
ACROSS = 2 * BLOCK_SIZE
"""Places of a branch beside each other; more of them go into the next line."""
STRIDE = ACROSS + 1
"""The branches stand side by side with a gap of one place between them."""
TOGETHER = 2 * ACROSS
"""Places that both point to beside each other, above the branches."""
FORK = 1.1
"""Height of the lines from there to the branches, in places, and of what these are called."""
NAME = 0.6
"""That of the latter alone."""
SHARED_MARK = MARKS["shared"].text
LIGHT, HEAVY = 1, 3
"""Width of a block's outline, and of one that both branches point to."""
LARGEST = 70_000
"""Bytes at the end of the axis: two static caches are the most."""


PLACES = Matrix("places.cells", "storages.corner", "branch", "index", "twin")
TABLE = Table(
    "bytes.rows",
    {
        "storage": "storages.name",
        "text": "storages.bytes-column",
        "error": "storages.error-column",
    },
    words=["storage"],
)
BLOCKS: list[Block] = [
    Figure(
        "places",
        "storages.places-title",
        PLACES,
        "storages.show-places",
        legend=[
            Entry("storages.legend-shared", mark=SHARED_MARK, swatch="shared"),
            key("■", "history", "storages.legend-copied"),
            key("■", "chunk", "storages.legend-own"),
            key("–", "muted", "storages.legend-empty"),
            Entry("storages.legend-block", swatch="block"),
        ],
        summary="summary",
    ),
    Side(
        [
            Figure("bytes", "storages.bytes-title", TABLE, least="20rem"),
            Figure(
                "errors",
                "storages.errors-title",
                legend=[
                    key("◆", "cached", "storages.errors-title"),
                    key("|", "text", "storages.legend-floor"),
                ],
                least="20rem",
            ),
        ]
    ),
    Fold("storages.show-table", "storages.bytes-title", TABLE),
    Note(reading="decoder"),
]


class StoragesLab(Lab):
    """The places of one storage, and bytes and errors of all (see ``kvlab.lab.Lab``)."""

    title, to_try, notice = "storages.title", "storages.try", "storages.notice"

    def __init__(self) -> None:
        self._places, self._bytes, self._errors = _Places(), _Bytes(), _Errors()
        controls = {
            "storage": radio("storages.storage", [*KINDS], "storages.kind.paged", [*KINDS]),
            "prefix": slider(
                "storages.prefix", "storages.spoken-prefix", range(1, MAX_PREFIX + 1), 9
            ),
            "branches": radio("storages.branches", BRANCHES, "2"),
        }
        parts: dict[str, Part] = {
            "places": self._places,
            "bytes": self._bytes,
            "errors": self._errors,
        }
        super().__init__(controls, parts, BLOCKS)

    def show(self, storage: str, prefix: int, branches: str) -> Iterator[Text]:
        """Draw where the tokens lie, and what that costs."""
        reports, name = compare_storages(prefix, int(branches)), KINDS[storage]
        chosen = reports[name]
        self._places.show(chosen, prefix)
        self._bytes.show(list(reports.values()), NAMES.index(name))
        self._errors.show(list(reports.values()))
        yield Text("summary", "storages.places", _held(chosen))
        if name == "paged":
            yield Text("summary", "storages.blocks", _blocks(chosen))
        if name == "paged" and branches != "1":
            yield from _forked(chosen, prefix)
        yield Text("summary", "storages.bytes", {"bytes": size(chosen.nbytes)})
        yield _error(chosen)
        sizes = {"window": str(WINDOWED.window), "own": str(N_CONTINUED)}
        yield Text("decoder", "storages.decoder", sizes)


def _held(report: StorageReport) -> dict[str, str]:
    """How many places hold a token and how many don't, where what is shared counts once."""
    again = int(report.shared[1:].sum())
    held, empty = int((report.slots >= 0).sum()) - again, int((report.slots < 0).sum())
    return {"held": str(held), "empty": str(empty)}


def _blocks(report: StorageReport) -> dict[str, str]:
    """How many there are in memory, where what is shared counts once."""
    n_branches, n_places = report.shared.shape
    shared = int(report.shared[0].sum())
    places = n_branches * (n_places - shared) + shared
    return {"blocks": str(places // BLOCK_SIZE), "size": str(BLOCK_SIZE)}


def _forked(report: StorageReport, prefix: int) -> Iterator[Text]:
    """Which tokens of the prefix both branches point to, and which were copied on write."""
    n_shared = int(report.shared[0].sum())
    if n_shared:
        yield Text("summary", "storages.shared", {"shared": str(n_shared)})
    n_copied = prefix - n_shared
    if n_copied == 0:
        yield Text("summary", "storages.copied-none")
    elif n_copied == 1:
        yield Text("summary", "storages.copied-one")
    else:
        yield Text("summary", "storages.copied-many", {"copied": str(n_copied)})


def _error(report: StorageReport) -> Text:
    if report.max_abs_error == 0:
        return Text("summary", "storages.exact")
    floors = report.max_abs_error / report.rounding_floor
    args = {"error": number(report.max_abs_error), "floors": f"{floors:,.1f}"}
    return Text("summary", "storages.off", args)


class _Places(CellFigure):
    """A cell for each place of memory, with the number of the token that it holds.

    What both branches point to stands once, above, and a fork leads from there to what is each
    branch's own.
    """

    def __init__(self) -> None:
        states = ["shared", "history", "chunk", "hidden-future"]
        super().__init__(states, aspect_ratio=3.2, mark_size=None)
        for axis in self.figure.axis:
            axis.visible = False
        self.figure.x_range.update(start=-0.7, end=len(BRANCHES) * STRIDE - 1.3)
        self.figure.y_range.update(start=CAPACITY // ACROSS - 0.4 + NAME, end=-0.6)
        self._blocks = ColumnDataSource({"x": [], "y": [], "branch": [], "width": []})
        outlines = self.figure.rect(
            "x", "y", BLOCK_SIZE - 0.02, 0.98, source=self._blocks, fill_color=None
        )
        outlines.glyph.line_width = "width"
        themed(outlines.glyph, line_color="text")
        self._fork = ColumnDataSource({"x": [], "y": [], "to_x": [], "to_y": []})
        lines = self.figure.segment("x", "y", "to_x", "to_y", source=self._fork, line_width=2)
        themed(lines.glyph, line_color="text")
        self.outputs |= {"blocks": (self._blocks, "data"), "fork": (self._fork, "data")}
        self._names = [self._name(branch) for branch in range(len(BRANCHES))]
        for branch, name in enumerate(self._names, 1):
            self.outputs |= {f"y-{branch}": (name, "y"), f"visible-{branch}": (name, "visible")}

    def _name(self, branch: int) -> Label:
        """What a branch is called, above its places."""
        label = Label(x=_tip(branch) + 0.25, text_font_size="13px", text_baseline="middle")
        worded(label, text=f"storages.branch-{branch + 1}")
        themed(label, text_color="text")
        self.figure.add_layout(label)
        return label

    def show(self, report: StorageReport, prefix: int) -> None:
        """Draw the places of all branches, and where they are in blocks, the blocks."""
        branch, index = np.indices(report.slots.shape)
        n_shared = int(report.shared[0].sum())
        top = (n_shared - 1) // TOGETHER + 1 + FORK if n_shared else NAME
        own = index - n_shared
        held = np.where(report.slots >= prefix, "chunk", "history")
        held = np.where(report.shared, "shared", held)
        labels = [str(slot) if slot >= 0 else "–" for slot in report.slots.ravel().tolist()]
        shared = report.shared.ravel().tolist()
        x = np.where(report.shared, index % TOGETHER, branch * STRIDE + own % ACROSS)
        y = np.where(report.shared, index // TOGETHER, own // ACROSS + top)
        self.cells.data = {
            "x": x.ravel().tolist(),
            "y": y.ravel().tolist(),
            "branch": (branch + 1).ravel().tolist(),
            "index": index.ravel().tolist(),
            "state": np.where(report.slots >= 0, held, "hidden-future").ravel().tolist(),
            "label": labels,
            "twin": [f"{n} {SHARED_MARK}" if s else n for n, s in zip(labels, shared, strict=True)],
        }
        starts = slice(0, None if report.storage == "paged" else 0, BLOCK_SIZE)
        self._blocks.data = {
            "x": [x + (BLOCK_SIZE - 1) / 2 for x in self.cells.data["x"][starts]],
            "y": self.cells.data["y"][starts],
            "branch": self.cells.data["branch"][starts],
            "width": [HEAVY if one else LIGHT for one in shared[starts]],
        }
        self._show_fork(len(report.slots), n_shared, top)

    def _show_fork(self, n_branches: int, n_shared: int, top: float) -> None:
        """Lines from the last block that is shared to the branches, and the names of these."""
        for branch, name in enumerate(self._names):
            name.update(y=top - 0.75, visible=branch < n_branches)
        stem = (n_shared - BLOCK_SIZE) % TOGETHER + (BLOCK_SIZE - 1) / 2
        bar, tips = top - 1.15, [_tip(branch) for branch in range(n_branches)]
        lines = [
            (stem, top - FORK - 0.5, stem, bar),
            (min(stem, *tips), bar, max(stem, *tips), bar),
            *((tip, bar, tip, top - 0.5) for tip in tips),
        ]
        columns = zip(*lines, strict=True) if n_shared else [()] * 4
        self._fork.data = {
            name: list(column)
            for name, column in zip(("x", "y", "to_x", "to_y"), columns, strict=True)
        }


def _tip(branch: int) -> float:
    """Where the fork reaches a branch: in the middle of its first block."""
    return branch * STRIDE + (BLOCK_SIZE - 1) / 2


class _Bytes:
    """A bar for each storage."""

    def __init__(self) -> None:
        self.figure = _storage_figure(x_range=Range1d(0, LARGEST))
        worded(self.figure.xaxis[0], axis_label="storages.axis-bytes")
        ticks = [n << 10 for n in range(0, 65, 16)]
        self.figure.xaxis.ticker.ticks = ticks
        self.figure.xaxis.major_label_overrides = {n: size(n) for n in ticks}
        self._rows = ColumnDataSource()
        bars = self.figure.hbar(
            "row", right="bytes", height=0.6, source=self._rows, fill_alpha="strength"
        )
        themed(bars.glyph, fill_color="cached", line_color="cached")
        self.outputs: dict[str, tuple[Model, str]] = {"rows": (self._rows, "data")}

    def show(self, reports: list[StorageReport], chosen: int) -> None:
        """Draw all; the chosen one stronger."""
        rows = range(len(reports))
        self._rows.data = {
            "row": list(rows),
            "storage": list(KINDS),
            "bytes": [report.nbytes for report in reports],
            "text": [size(report.nbytes) for report in reports],
            "error": [number(report.max_abs_error) for report in reports],
            "strength": [0.9 if row == chosen else 0.35 for row in rows],
        }


class _Errors:
    """A mark for each storage on a log axis, and the rounding floor."""

    def __init__(self) -> None:
        self.figure = _storage_figure(x_axis_type="log")
        error_axis(self.figure)
        worded(self.figure.xaxis[0], axis_label="axis.largest-error")
        self._rows = ColumnDataSource()
        points = self.figure.scatter("x", "row", source=self._rows, marker="diamond", size=12)
        themed(points.glyph, fill_color="cached", line_color="cached")
        floors = self.figure.scatter("floor", "row", source=self._rows, marker="dash", angle=1.5708)
        floors.glyph.update(size=18, line_width=2)
        themed(floors.glyph, line_color="text")
        self.outputs: dict[str, tuple[Model, str]] = {"rows": (self._rows, "data")}

    def show(self, reports: list[StorageReport]) -> None:
        """Draw all."""
        errors = [report.max_abs_error for report in reports]
        self._rows.data = {
            "row": list(range(len(reports))),
            "x": [place(error) for error in errors],
            "floor": [report.rounding_floor for report in reports],
        }


def _storage_figure(**options: Any) -> figure:
    fig = lines_figure(len(STORAGES), aspect_ratio=2.4, **options)
    worded(fig.yaxis[0], major_label_overrides=dict(enumerate(KINDS)))
    return fig
