"""The controls of a lab: Panel's, with the page's look.

Panel's own style sheets come from its CDN, and the page must ask no other host; these few rules
take their place.  They read the page's CSS variables, which reach into shadow roots.
"""

from collections.abc import Callable, Iterable
from typing import Any

import panel as pn
from bokeh.models import Select

from kvlab.palette import themed
from kvlab.words import worded

STYLE = """
:host { font: 0.9375rem / 1.5 var(--font); color: var(--text); }
.bk-slider-title { font-size: 0.9375rem; font-weight: 600; white-space: normal; }
.bk-slider-value { font-weight: 700; font-variant-numeric: tabular-nums; }
.noUi-target { height: 0.5rem; margin: 0.75rem 0.75rem 0.5rem; border: 0; box-shadow: none;
  border-radius: 0.25rem; background: var(--line); }
.noUi-connects { border-radius: 0.25rem; }
.noUi-horizontal .noUi-handle { width: 1.5rem; height: 1.5rem; top: -0.5rem; right: -0.75rem;
  border: 2px solid var(--accent); border-radius: 50%; background: var(--surface);
  box-shadow: none; cursor: grab; }
.noUi-handle::before, .noUi-handle::after { display: none; }
.noUi-handle:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.noUi-touch-area { margin: -10px; width: 44px; height: 44px; }
.bk-input-group { display: flex; flex-flow: row wrap; gap: 0 1.25rem; }
.bk-input-group > * { margin-inline-start: 0 !important; max-width: 100%; }
label { display: inline-flex; align-items: center; gap: 0.375rem; min-height: 2.25rem;
  cursor: pointer; }
.bk-input-group:has(select) { flex-direction: column; }
.bk-input-group:has(select) label { min-height: 0; font-weight: 600; }
select.bk-input { min-width: min(100%, 10rem); min-height: 2.75rem; padding: 0 0.5rem;
  font: inherit; color: inherit; background-color: var(--surface); border: 1px solid var(--muted);
  border-radius: 0.375rem; }
select.bk-input:not([multiple]) { padding-right: 1.75rem; text-overflow: ellipsis;
  background-position: right 0.9rem center, right 0.55rem center;
  background-image: linear-gradient(45deg, transparent 50%, var(--text) 50%),
    linear-gradient(-45deg, transparent 50%, var(--text) 50%);
  background-size: 0.36rem 0.36rem; }
select.bk-input:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
input[type="radio"] { width: 1.125rem; height: 1.125rem; margin: 0; accent-color: var(--accent); }
"""


def style(model: Any) -> Any:
    """Give a Panel control's Bokeh model the page's look; returns the model."""
    model.stylesheets = [STYLE]
    model.margin = 0
    return model


class Control:
    """A control: its model, which property holds its value, and which values there are.

    Args:
        kind: "slider", "radio" or "select".
        widget: of Panel, or a Bokeh model where Panel's would need Panel's own scripts.
        values: all values of the property, in order.
        title: a message, as is the next.
        unit: what is spoken before a slider's value.
    """

    def __init__(
        self, kind: str, widget: Any, values: Iterable[Any], title: str, unit: str = ""
    ) -> None:
        self._widget = widget
        self.values = list(values)
        self._is_panels = isinstance(widget, pn.widgets.Widget)
        widget.sizing_mode = "stretch_width"
        self.model: Any = style(widget.get_root() if self._is_panels else widget)
        self.attr = "active" if kind == "radio" else "value"
        self.page = {"kind": kind, "title": title, "unit": unit}
        """What the template needs."""

    @property
    def value(self) -> Any:
        """What the lab is to show."""
        return self._widget.value

    def on_change(self, act: Callable[[], None]) -> None:
        """Call ``act`` whenever the value is another."""
        if self._is_panels:
            self._widget.param.watch(lambda _: act(), "value")
        else:
            self._widget.on_change("value", lambda _attr, _old, _new: act())


def slider(title: str, unit: str, values: range, value: int, colour: str = "accent") -> Control:
    """A slider over ``values``; ``colour``: the concept of its bar."""
    widget = pn.widgets.IntSlider(start=values[0], end=values[-1], step=values.step, value=value)
    control = Control("slider", widget, values, title, unit)
    themed(control.model, bar_color=colour)
    worded(control.model, title=title)
    return control


def radio(title: str, options: list[str], value: str, messages: list[str] | None = None) -> Control:
    """Buttons; ``messages`` are their labels where they aren't the same in every language."""
    widget = pn.widgets.RadioBoxGroup(options=options, value=value, inline=True)
    control = Control("radio", widget, range(len(options)), title)
    if messages is not None:
        worded(control.model, labels=messages)
    return control


def select(
    title: str, options: list[str], value: str, messages: list[str] | None = None
) -> Control:
    """A list to choose from; ``messages`` are what it shows where that isn't the options."""
    widget = Select(options=options, value=value)
    worded(widget, title=title)
    if messages is not None:
        worded(widget, options=list(zip(options, messages, strict=True)))
    return Control("select", widget, options, title)
