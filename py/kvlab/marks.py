"""How a state is marked, the same in all figures, their tables, legends and the checker's report.

No meaning rests on colour alone, so that each state has a mark as well.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from bokeh.models import CategoricalColorMapper, CategoricalMarkerMapper, ColumnDataSource, Model
from bokeh.plotting import figure
from numpy.typing import ArrayLike, NDArray

from kvlab.palette import themed


class Mark(NamedTuple):
    """``marker`` is Bokeh's, ``text`` the same as text; ``ink``: its concept upon a cell."""

    marker: str
    text: str
    ink: str = "mark"


MARKS = {
    "history": Mark("circle", "●"),
    "chunk": Mark("circle", "●"),
    "recompute": Mark("x", "×"),
    "hidden-future": Mark("dash", "–", "mark-future"),
    "wrongly-hidden": Mark("x", "×"),
    "wrongly-seen": Mark("triangle", "▲"),
    "shared": Mark("square", "▣"),
    "difference": Mark("circle", "●"),
}
"""State, which is also the concept of its cell's colour -> its mark."""
MASK_STATES = ["history", "chunk", "hidden-future", "wrongly-hidden", "wrongly-seen"]
"""Those of a mask's cells."""


def mask_states(seen: ArrayLike, wanted: ArrayLike, n_past: int) -> NDArray[np.str_]:
    """The state of each cell of a mask, (C, P + C).

    Args:
        seen: bool (C, P + C): which keys each row reads.
        wanted: bool (C, P + C): which it should.
        n_past: tokens in the cache, P.
    """
    seen, wanted = np.asarray(seen), np.asarray(wanted)
    is_past = np.arange(seen.shape[1]) < n_past
    return np.select(
        [seen & ~wanted, seen & is_past, seen, wanted],
        ["wrongly-seen", "history", "chunk", "wrongly-hidden"],
        "hidden-future",
    )


def by_state(concepts: Mapping[str, str]) -> dict[str, Any]:
    """The colour of each row of a source by its column ``state``: state -> concept."""
    mapper = CategoricalColorMapper(factors=list(concepts), palette=["black"])
    themed(mapper, palette=list(concepts.values()))
    return {"field": "state", "transform": mapper}


def draw_marks(
    fig: figure, source: ColumnDataSource, inks: Mapping[str, str], **look: Any
) -> Model:
    """The mark of each row of a source by its ``state``, at its ``x`` and ``y``.

    Args:
        fig: where.
        source: with these three columns.
        inks: state -> the mark's concept.
        look: further properties of the marks.

    Returns:
        The glyph.
    """
    markers = [MARKS[state].marker for state in inks]
    shape = CategoricalMarkerMapper(factors=list(inks), markers=markers)
    ink = by_state(inks)
    return fig.scatter(
        "x",
        "y",
        source=source,
        marker={"field": "state", "transform": shape},
        line_color=ink,
        fill_color=ink,
        **look,
    ).glyph
