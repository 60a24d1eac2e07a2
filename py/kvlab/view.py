"""What a lab shows beside its controls: blocks in the order of the page.

One template renders them for every lab, with and without scripts (site/templates/lab.html.j2).
What can be read is named by messages of the catalogues, a read-out by its key (``kvlab.words``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Name:
    """A message with arguments, or one that is another while a candidate is drawn."""

    message: str
    args: Mapping[str, str] = field(default_factory=dict)
    mask: str = ""
    """The message while a mask of the visitor's is drawn; it may have the place ``cell``."""
    decoder: str = ""
    """While it is a decoder; "": the same."""


Words = str | Name
"""A message without arguments, or more than that."""


@dataclass(frozen=True)
class Entry:
    """Of a legend: a mark in its ``colour``, a concept, or a ``swatch`` of these CSS classes."""

    message: Words
    mark: str = ""
    colour: str = ""
    swatch: str = ""
    reading: str = ""
    """Key of a read-out that stands behind the words."""
    candidate_only: bool = False
    """Shown only while a candidate is drawn."""


@dataclass(frozen=True)
class Table:
    """The rows of a data source."""

    of: str
    """The output that holds it."""
    columns: Mapping[str, str]
    """Column of the source -> its heading."""
    words: Sequence[str] = ()
    """Columns whose values are messages; "" is none."""


@dataclass(frozen=True)
class Matrix:
    """A data source with a value for each pair of row and column, row by row."""

    of: str
    corner: str
    """What the headings of rows and columns are."""
    row: str
    column: str
    value: str
    """Columns of the source; a value that is a state shows its mark."""
    names: Mapping[float, str] = field(default_factory=dict)
    """Value of ``row`` and ``column`` -> the message that stands for it, if it isn't the value."""


@dataclass(frozen=True)
class Legend:
    """What the marks of the figures below mean."""

    entries: Sequence[Entry]


@dataclass(frozen=True)
class Figure:
    """A figure, as a picture with a name and a sentence, and the same as a table."""

    root: str
    """Name of its part."""
    title: Words
    table: Table | Matrix | None = None
    """Stands in the figure's place where no script runs."""
    fold: str = ""
    """Opens the table below the figure; "": it isn't there."""
    legend: Sequence[Entry] = ()
    rule: Words = ""
    """A formula beside the title."""
    summary: str = ""
    """Key of a sentence below it; "": the lab's ``summary`` describes it."""
    is_spoken: bool = True
    """A change of that sentence is read out; where all were, they'd be too many."""
    least: str = ""
    """CSS width that it needs: where there is less, it scrolls."""
    has_heading: bool = True
    heading: str = ""
    """Key of a read-out that is its heading in place of the title."""
    headline: str = ""
    """Key of a read-out: the word that it comes to, large, with the sentence beside it above it."""


@dataclass(frozen=True)
class Passage:
    """A text in words, each marked by its state, and the word that comes next."""

    of: str
    """The output with a column ``state``, one a word."""
    words: Sequence[str]
    """Messages."""
    next_word: str
    """Key of a read-out."""


@dataclass(frozen=True)
class Player:
    """The buttons Play, Back and Next, which move a slider (site/js/lab-steps.js)."""

    control: str


@dataclass(frozen=True)
class Grid:
    """Steps downwards, words across: a picture that is a table (site/js/lab-grids.js)."""

    title: str
    of: str
    """The output with a ``state`` for each cell, row by row, and whether its step is ``now``."""
    words_of: str
    """The output with a ``word``, a message, and a ``state`` for each column."""


@dataclass(frozen=True)
class Grids:
    """Such pictures side by side where there is room."""

    grids: Sequence[Grid]
    corner: str
    """What the headings of the rows are."""


@dataclass(frozen=True)
class Column:
    """Of a ``Chart``: its heading, and what its values are."""

    heading: str
    kind: str
    """"word": a message; "state": shows its mark; "bar": a text and the share of 100 that is drawn;
    "curve": an SVG path in a box of 160 x 200, its middle line at 0, which is never ""; "text"."""


@dataclass(frozen=True)
class Chart:
    """A table with pictures in its cells (site/js/lab-grids.js); a cell without a value is ""."""

    title: str
    of: str
    columns: Mapping[str, Column]
    """Column of the source -> what it is; the first, of kind "word", heads the rows."""
    about: str = ""
    """Key of a read-out that the title ends with."""
    note: str = ""
    """Key of a sentence below the title."""


@dataclass(frozen=True)
class Charts:
    """Such tables side by side where there is room."""

    charts: Sequence[Chart]


@dataclass(frozen=True)
class Side:
    """Figures side by side where there is room."""

    figures: Sequence[Figure]


@dataclass(frozen=True)
class Summary:
    """The lab's sentences, read out when they change."""

    key: str = "summary"


@dataclass(frozen=True)
class Readouts:
    """A table of numbers that change with the controls."""

    rows: Mapping[str, Sequence[str]]
    """Heading of a row -> keys of its read-outs."""
    head: Sequence[Words] = ()
    """Headings of the columns; "": none."""
    caption: str = ""
    caption_reading: str = ""


@dataclass(frozen=True)
class Fold:
    """A table that opens; ``title`` is what it holds."""

    fold: str
    title: str
    table: Table | Matrix


@dataclass(frozen=True)
class Note:
    """A last line: a message, or a read-out."""

    message: str = ""
    reading: str = ""


@dataclass(frozen=True)
class CandidateBar:
    """Where it is said that a candidate is drawn, with a button back (site/js/candidate-bar.js)."""

    back: str


Block = (
    Legend
    | Figure
    | Passage
    | Player
    | Grids
    | Charts
    | Side
    | Summary
    | Readouts
    | Fold
    | Note
    | CandidateBar
)


def key(mark: str, colour: str, message: Words, reading: str = "") -> Entry:
    """An entry of a legend: a mark in the colour of its concept."""
    return Entry(message, mark, colour, reading=reading)


def swatch(state: str, message: Words, candidate_only: bool = False) -> Entry:
    """The cell of a state, with its mark."""
    return Entry(message, swatch=state, candidate_only=candidate_only)


def declared(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    """The blocks for JSON; ``kind`` is which."""
    return [{"kind": type(block).__name__.lower(), **asdict(block)} for block in blocks]
