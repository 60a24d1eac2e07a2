"""The error ladder: every right and every broken decoder of the zoo on one log axis.

Computes nothing itself: all errors come from ``kvproof.experiments.error_ladder``.  All rungs take
seconds, so the archive brings them along; those of the chosen specimen are computed anew.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from bokeh.models import ColumnDataSource, Model

from kvlab.controls import select
from kvlab.figures import dashed_line, lines_figure
from kvlab.formats import number
from kvlab.lab import Lab, Part, Rows
from kvlab.log_axis import error_axis, place
from kvlab.palette import themed
from kvlab.stored import load_stored
from kvlab.view import Block, Figure, Fold, Legend, Readouts, Table, key
from kvlab.words import Text, plain, worded
from kvproof import zoo
from kvproof.experiments import error_ladder
from kvproof.experiments.error_ladder import GROUPS, Rung
from kvproof.model.cache import STORAGES

LOOKS = {
    "float64": ("circle", "●", "accent"),
    "float32": ("square", "■", "accent"),
    "int8": ("diamond", "◆", "accent"),
    "broken": ("x", "×", "error"),
}
"""Group -> its mark, the same as text, and its concept."""
KEYS = {
    "one shot": "one-shot",
    "ones": "ones",
    "prefill, then ones": "prefill",
    "ragged": "ragged",
    "trigger": "trigger",
}
"""Way to feed a specimen -> its read-out."""
STORAGE_NAMES = {name: f"storages.kind.{name}" for name in STORAGES}
"""Storage -> the message with what it is called."""
LINES: dict[float, str] = dict(enumerate(f"ladder.{group}" for group in LOOKS))
"""Line of the figure -> its message."""


def all_rungs() -> list[Rung]:
    """Those of the archive, or computed where there is none."""
    return error_ladder.from_json(load_stored("ladder.json") or error_ladder.to_json())


BLOCKS: list[Block] = [
    Legend(
        [
            *(key(text, ink, f"ladder.legend-{group}") for group, (_, text, ink) in LOOKS.items()),
            key("◯", "text", "ladder.legend-chosen"),
            key("┊", "text", "ladder.legend-floors"),
        ]
    ),
    Figure("rungs", "ladder.rungs", summary="summary", least="20rem", has_heading=False),
    Readouts(
        {f"ladder.{name}": [name] for name in KEYS.values()}, head=["ladder.way", "ladder.error"]
    ),
    Fold(
        "ladder.show-all",
        "ladder.rungs",
        Table(
            "all.rows",
            {
                "name": "ladder.name",
                "storage": "ladder.storage",
                "group": "ladder.group",
                "error": "ladder.error",
            },
            words=["name", "storage", "group"],
        ),
    ),
]


class LadderLab(Lab):
    """All rungs, and those of one specimen by the way it is fed (see ``kvlab.lab.Lab``)."""

    title, to_try, notice = "ladder.title", "ladder.try", "ladder.notice"

    def __init__(self) -> None:
        rungs = all_rungs()
        self._ladder, self._table = _Ladder(rungs), Rows()
        self._worst = {
            group: max(rung.error for rung in rungs if rung.group == group) for group in GROUPS[:3]
        }
        specimens = list(zoo.SPECIMENS)
        words = [f"zoo.{name}" for name in specimens]
        controls = {"specimen": select("ladder.specimen", specimens, "mask-topleft", words)}
        parts: dict[str, Part] = {"rungs": self._ladder, "all": self._table}
        super().__init__(controls, parts, BLOCKS)
        names, storages = zip(*map(called, rungs), strict=True)
        self._table.show(
            name=list(names),
            storage=list(storages),
            group=[f"ladder.{rung.group}" for rung in rungs],
            error=[number(rung.error) for rung in rungs],
        )

    def show(self, specimen: str) -> Iterator[Text]:
        """Draw one specimen's errors; say what shows it and what doesn't."""
        errors = _errors(specimen)
        self._ladder.show(errors["trigger"])
        for way in KEYS:
            yield plain(KEYS[way], number(errors[way]), repr(errors[way]))
        yield _trigger_text(errors["trigger"], self._worst["float64"], self._worst["int8"])
        blind = sum(error <= zoo.blind.SEEN for way, error in errors.items() if way != "trigger")
        yield _blind_text(blind, len(KEYS) - 1)


def called(rung: Rung) -> tuple[str, str]:
    """Messages with what a decoder and its storage are called; "": the name says it already."""
    if rung.group == "broken":
        return f"zoo.{rung.name}", ""
    config, _, storage = rung.name.rpartition("-")
    if config and rung.name in zoo.RIGHT:
        return f"ladder.right.{config}", STORAGE_NAMES[storage]
    return f"ladder.right.{rung.name}", ""


@lru_cache(maxsize=128)
def _errors(specimen: str) -> dict[str, float]:
    """A choice is often gone back to."""
    return error_ladder.specimen_errors(specimen)


def _trigger_text(error: float, float64: float, int8: float) -> Text:
    if np.isinf(error):
        return Text("summary", "ladder.trigger-infinite")
    args = {"error": number(error), "times": number(error / float64, 2)}
    if error > int8:
        return Text("summary", "ladder.trigger-clear", args)
    return Text("summary", "ladder.trigger-hidden", args)


def _blind_text(blind: int, ways: int) -> Text:
    """In how many of the plain ways nothing shows."""
    all_of = {"ways": str(ways)}
    match blind:
        case 0:
            return Text("summary", "ladder.blind.none", all_of)
        case 1:
            return Text("summary", "ladder.blind.one", all_of)
        case _ if blind == ways:
            return Text("summary", "ladder.blind.all", all_of)
    return Text("summary", "ladder.blind.many", {**all_of, "blind": str(blind)})


class _Ladder:
    """Lines of marks on a log axis of errors, with the rounding floors."""

    def __init__(self, rungs: list[Rung]) -> None:
        self.figure = lines_figure(len(LINES), aspect_ratio=3, x_axis_type="log")
        error_axis(self.figure, infinite=True)
        worded(self.figure.xaxis[0], axis_label="axis.largest-error")
        worded(self.figure.yaxis[0], major_label_overrides=LINES)
        for floor in error_ladder.rounding_floors().values():
            dashed_line(self.figure, floor)
        for line, group in enumerate(GROUPS):
            self._draw_group(line, group, [rung.error for rung in rungs if rung.group == group])
        self._chosen = ColumnDataSource()
        points = self.figure.scatter("x", "row", source=self._chosen, size=18)
        points.glyph.update(line_width=2.5, fill_color=None)
        themed(points.glyph, line_color="text")
        self.outputs: dict[str, tuple[Model, str]] = {"chosen": (self._chosen, "data")}

    def _draw_group(self, line: int, group: str, errors: list[float]) -> None:
        """All of a group, spread a little so that equal errors stay visible."""
        spread = [line + 0.3 * ((7 * i) % 11 - 5) / 5 for i in range(len(errors))]
        marker, _, concept = LOOKS[group]
        points = self.figure.scatter(
            [place(error) for error in errors], spread, marker=marker, size=6, fill_alpha=0.3
        )
        points.name = group
        themed(points.glyph, line_color=concept, fill_color=concept)

    def show(self, error: float) -> None:
        """Draw the chosen specimen's error among those of all."""
        self._chosen.data = {"row": [GROUPS.index("broken")], "x": [place(error)]}
