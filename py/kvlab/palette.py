"""The colours of the explainer: one colour a concept, in a light and a dark set.

The page's style sheet gets them as CSS variables, and the lab, its controls and the figure of CPU
times read those variables.  The other places that name colours: ``cells.css`` (syntax, stale cells,
fallbacks for other pages), the notebook's figures, which are stored as they were drawn, on white,
and the favicon.

What the concepts of the figures mean, in every lab:

- ``history``: a token, or its key and value, that lies before the call and may be read; ``chunk``:
  one of the call itself; ``hidden-future``: one that mustn't be seen;
- ``wrongly-hidden``: one that should be seen and isn't; ``wrongly-seen``: the other way round;
- ``shared``: memory that more than one sequence points to;
- ``recompute``, ``cached``: what a path without or with a cache computes, keeps, takes or misses;
- ``difference``: how far two results are apart that need not be equal; ``error``: that should be.

Blue, green and vermilion for the mask are told apart with any colour vision (Okabe and Ito 2008),
as are ochre and purple for the times.  No meaning rests on colour alone: each has a mark as well.
"""

from typing import Any

LIGHT = {
    "bg": "#fbfbf9",
    "surface": "#ffffff",
    "text": "#1d232b",
    "muted": "#57616e",
    "line": "#d7dce2",
    "accent": "#0b5cad",
    "error": "#a8321a",
    "history": "#2f73b7",
    "chunk": "#0f8a68",
    "hidden-future": "#e6e9ed",
    "wrongly-hidden": "#c8501e",
    "wrongly-seen": "#a0246e",
    "recompute": "#8a6a00",
    "cached": "#8c4a9e",
    "shared": "#5d7410",
    "difference": "#5652b3",
    "mark": "#ffffff",
    "mark-future": "#78828e",
}

DARK = {
    "bg": "#14171b",
    "surface": "#1b1f25",
    "text": "#e6e9ed",
    "muted": "#a3adb9",
    "line": "#363d47",
    "accent": "#7db8f2",
    "error": "#ff9d80",
    "history": "#5a9bdc",
    "chunk": "#35b891",
    "hidden-future": "#2b3038",
    "wrongly-hidden": "#ef7f4a",
    "wrongly-seen": "#f08cc4",
    "recompute": "#d9b440",
    "cached": "#cf93dd",
    "shared": "#a9c552",
    "difference": "#a3a0f2",
    "mark": "#10141a",
    "mark-future": "#78828f",
}


def themed(model: Any, **concepts: str | list[str]) -> None:
    """Colour a Bokeh model by concept, and leave a note for the page to do it in other themes.

    Args:
        model: a Bokeh model.
        concepts: property name -> a name of ``LIGHT``, or a list of names for a palette.
    """
    for name, concept in concepts.items():
        colour = LIGHT[concept] if isinstance(concept, str) else [LIGHT[c] for c in concept]
        setattr(model, name, colour)
    note(model, themed=concepts)


def note(model: Any, **notes: Any) -> None:
    """Add to what the page reads in a model's ``tags``: by kind, property name -> what to set."""
    model.tags = [*model.tags, notes]
