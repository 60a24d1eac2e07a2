"""What most labs have in common: Panel controls that move figures and texts.

A lab of this kind says which controls it has, and what one state looks like; the rest is here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from typing import Any, ClassVar, Protocol

import panel as pn
from bokeh.models import ColumnDataSource, Model, Select

from kvlab.controls import style
from kvlab.words import Text, columns, worded

Output = tuple[Model, str]


class Part(Protocol):
    """Something that a lab shows, mostly a figure."""

    outputs: dict[str, Output]
    """Name -> a model and a property that depends on the controls."""

    @property
    def figure(self) -> Model:
        """The root on the page."""
        ...


class Table:
    """Rows for a table alone, where no figure has them in this form."""

    def __init__(self) -> None:
        self.figure = ColumnDataSource()
        self.outputs: dict[str, Output] = {"rows": (self.figure, "data")}

    def show(self, **columns: list[Any]) -> None:
        """Take the place of the rows."""
        self.figure.data = dict(columns)


class Control:
    """A control: its model, which property holds its value, and which values there are.

    Args:
        widget: of Panel, or a Bokeh model where Panel's would need Panel's own scripts.
        values: all values of the property, in order.
        options: what the values are the numbers of; None: they are what they are.
    """

    def __init__(
        self, widget: Any, values: Iterable[Any], options: list[str] | None = None
    ) -> None:
        self._widget = widget
        self.values = list(values)
        is_panel = isinstance(widget, pn.widgets.Widget)
        if is_panel:
            widget.sizing_mode = "stretch_width"
        self.model: Any = style(widget.get_root() if is_panel else widget)
        self.attr = "value" if options is None else "active"

    @property
    def value(self) -> Any:
        """What the lab is to show."""
        return self._widget.value

    def on_change(self, act: Callable[[], None]) -> None:
        """Call ``act`` whenever the value is another."""
        if isinstance(self._widget, pn.widgets.Widget):
            self._widget.param.watch(lambda _: act(), "value")
        else:
            self._widget.on_change("value", lambda _attr, _old, _new: act())


def slider(title: str, values: range, value: int) -> Control:
    """A slider over ``values``; ``title`` is a message."""
    widget = pn.widgets.IntSlider(start=values[0], end=values[-1], step=values.step, value=value)
    control = Control(widget, values)
    worded(control.model, title=title)
    return control


def radio(options: list[str], value: str, messages: list[str] | None = None) -> Control:
    """Buttons; ``messages`` are their labels where they aren't the same in every language."""
    widget = pn.widgets.RadioBoxGroup(options=options, value=value, inline=True)
    control = Control(widget, range(len(options)), options)
    if messages is not None:
        worded(control.model, labels=messages)
    return control


def select(
    title: str, options: list[str], value: str, messages: list[str] | None = None
) -> Control:
    """A list to choose from; ``messages`` are what it shows where that isn't the options."""
    widget = Select(options=options, value=value, sizing_mode="stretch_width")
    worded(widget, title=title)
    if messages is not None:
        worded(widget, options=list(zip(options, messages, strict=True)))
    return Control(widget, options)


class ControlledLab:
    """A lab (see ``kvlab.session.Lab``) whose subclass implements ``show``.

    What it shows is a function of its controls and, if it ``draws_candidates``, of what a mask or a
    decoder of the visitor's does there.
    """

    draws_candidates: ClassVar[bool] = False
    """``show`` takes ``candidate``: None, or what ``kvlab.candidate.Candidate.answer`` says."""

    def __init__(
        self, controls: dict[str, Control], parts: Mapping[str, Part], marks: dict[str, str]
    ) -> None:
        self._controls = controls
        self._candidate: dict[str, Any] | None = None
        self._waits = self._is_stale = False
        self.marks = marks
        self._texts = ColumnDataSource(name="texts")
        for control in controls.values():
            control.on_change(self._update)
        self.roots: dict[str, Model] = {
            **{name: control.model for name, control in controls.items()},
            **{name: part.figure for name, part in parts.items()},
            "texts": self._texts,
        }
        self.widgets: dict[str, Output] = {
            name: (control.model, control.attr) for name, control in controls.items()
        }
        self.outputs: dict[str, Output] = {
            **{
                f"{name}.{o}": out
                for name, part in parts.items()
                for o, out in part.outputs.items()
            },
            "texts": (self._texts, "data"),
        }
        self.initial = {name: getattr(model, attr) for name, (model, attr) in self.widgets.items()}
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
