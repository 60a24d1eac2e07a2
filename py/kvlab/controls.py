"""The look of the controls.

Panel's own style sheets come from its CDN, and the page must ask no other host; these few rules
take their place.  They read the page's CSS variables, which reach into shadow roots.
"""

from typing import Any

from kvlab.palette import themed

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
  font: inherit; color: inherit; background: var(--surface); border: 1px solid var(--muted);
  border-radius: 0.375rem; appearance: auto; }
select.bk-input:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
input[type="radio"] { width: 1.125rem; height: 1.125rem; margin: 0; accent-color: var(--accent); }
"""


def style(model: Any) -> Any:
    """Give a Panel control's Bokeh model the page's look; returns the model."""
    model.stylesheets = [STYLE]
    model.margin = 0
    if "bar_color" in model.properties():
        themed(model, bar_color="accent")
    return model
