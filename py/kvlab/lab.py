"""A lab: Panel controls that move figures and texts, and what the page shows of them.

A lab says once which controls, figures, tables and texts it has, and what one state looks like; the
rest is here, in ``kvlab.session`` and in one template.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any, ClassVar, Protocol

from bokeh.models import ColumnDataSource, Model

from kvlab.controls import Control
from kvlab.marks import MARKS
from kvlab.view import Block, declared
from kvlab.words import Text, columns

Output = tuple[Model, str]
"""A model and a property that depends on the controls."""


class Part(Protocol):
    """Something that a lab shows, mostly a figure."""

    outputs: dict[str, Output]
    """By name."""

    @property
    def figure(self) -> Model:
        """The root on the page."""
        ...


class Rows:
    """Rows for a table alone, where no figure has them in this form."""

    def __init__(self) -> None:
        self.figure = ColumnDataSource()
        self.outputs: dict[str, Output] = {"rows": (self.figure, "data")}

    def show(self, **columns: list[Any]) -> None:
        """Take the place of the rows."""
        self.figure.data = dict(columns)


class Lab:
    """A subclass says what it is, hands its controls, parts and blocks over, and has ``show``.

    What it shows is a function of its controls and, if it ``draws_candidates``, of what a mask or a
    decoder of the visitor's does there.

    Args:
        controls: by name, in the order of the page.
        parts: by name what is drawn.
        blocks: what the page shows, in order.
        states: those of cells in figures and tables, of ``MARKS``.
    """

    title: ClassVar[str]
    """A message, as are the next two."""
    to_try: ClassVar[str] = ""
    """One thing to do with it, before the controls."""
    notice: ClassVar[str] = ""
    """What to see in it, after the figures: not before a reader has looked."""
    is_first: ClassVar[bool] = False
    """The page begins with it: its title is only heard, and below it stands where all numbers come
    from."""
    draws_candidates: ClassVar[bool] = False
    """``show`` takes ``candidate``: None, or what ``kvlab.candidate.Candidate.answer`` says."""

    def __init__(
        self,
        controls: dict[str, Control],
        parts: Mapping[str, Part],
        blocks: Sequence[Block],
        states: Iterable[str] = (),
    ) -> None:
        self._controls = controls
        self._candidate: dict[str, Any] | None = None
        self._waits = self._is_stale = False
        self._texts = ColumnDataSource(name="texts")
        for control in controls.values():
            control.on_change(self._update)
        roots = {name: part.figure for name, part in parts.items()}
        # What isn't drawn comes last: BokehJS goes through roots and places side by side.
        self.roots: dict[str, Model] = {
            **{name: control.model for name, control in controls.items()},
            **dict(sorted(roots.items(), key=lambda root: isinstance(root[1], ColumnDataSource))),
            "texts": self._texts,
        }
        """Name of the place on the page -> what is drawn there."""
        self.widgets: dict[str, Output] = {
            name: (control.model, control.attr) for name, control in controls.items()
        }
        """Name of a control -> its model and the property that holds its value."""
        self.outputs: dict[str, Output] = {
            **{
                f"{name}.{o}": out
                for name, part in parts.items()
                for o, out in part.outputs.items()
            },
            "texts": (self._texts, "data"),
        }
        self.initial = {name: getattr(model, attr) for name, (model, attr) in self.widgets.items()}
        """Name of a control -> its value at the start."""
        self.marks = {state: MARKS[state].text for state in states}
        """A cell's state -> its mark as text, for legends and tables."""
        self.page: dict[str, Any] = {
            "title": self.title,
            "to_try": self.to_try,
            "notice": self.notice,
            "is_first": self.is_first,
            "controls": {name: control.page for name, control in controls.items()},
            "blocks": declared(blocks),
            "ratios": {n: getattr(p.figure, "aspect_ratio", None) for n, p in parts.items()},
        }
        """All of this that the template needs, for JSON."""
        self._update()

    def show(self, *args: Any, **values: Any) -> Iterable[Text]:
        """Draw the state of these control values into the parts, and say it in words."""
        raise NotImplementedError

    def states(self) -> Iterator[dict[str, Any]]:
        """All combinations of control values."""
        for combination in product(*(control.values for control in self._controls.values())):
            yield dict(zip(self._controls, combination, strict=True))

    @contextmanager
    def drawn_once(self, candidate: dict[str, Any] | None = None) -> Iterator[None]:
        """Draw all that changes inside at its end, once.

        Args:
            candidate: what is drawn of the visitor's from now on, where the lab can; None: nothing.
        """
        self._is_stale |= candidate != self._candidate
        self._candidate = candidate
        self._waits = True
        try:
            yield
        finally:
            self._waits = False
        if self._is_stale:
            self._update()

    def _update(self) -> None:
        self._is_stale = True
        if self._waits:
            return
        values = {name: control.value for name, control in self._controls.items()}
        if self.draws_candidates:
            values["candidate"] = self._candidate
        self._texts.data = columns(self.show(**values))
        self._is_stale = False
