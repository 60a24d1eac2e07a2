"""The starting cells in the page's language: their comments, and the sentences that they print.

The code is English Python and the same in all languages.  ``site/texts/cells_zh.toml`` has each
comment and each printed text with its translation, by cell.
"""

import ast
import io
import re
import tokenize
import tomllib
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from kvlab.cells import Cell, load_cells
from kvsite.assets import SITE
from kvsite.languages import ENGLISH, Language
from kvsite.words import TEXTS

LITERAL = re.compile(r"(f?\")(.*)(\")", re.DOTALL)
COMMENT = re.compile(r"(# )(.*)()")


class Saying(NamedTuple):
    """A piece of a cell that somebody reads: ``source[start:end]`` is before + text + after."""

    start: int
    end: int
    before: str
    text: str
    """Of a literal as it stands in the code, places and escapes included."""
    after: str
    is_read: bool
    """A comment, or printed: it needs a translation.  Other literals may have one."""


def page_cells(language: Language) -> list[Cell]:
    """The starting cells as the pages of a language show them."""
    return [in_language(cell, language) for cell in load_cells(SITE / "cells")]


def in_language(cell: Cell, language: Language) -> Cell:
    """A cell with its comments and printed texts in a language.

    Raises:
        ValueError: one of them has no translation, or a translation nothing to stand for.
    """
    if language == ENGLISH:
        return cell
    texts = _texts(language.source)[cell_id(cell)]
    written = {text: language.from_source(translation) for text, translation in texts.items()}
    return replace(cell, source=translated(cell.source, written))


def cell_id(cell: Cell) -> str:
    """What messages and links call it: the file's name without its number."""
    return cell.name.split("_", 1)[1].replace("_", "-")


def translated(source: str, texts: dict[str, str]) -> str:
    """A source with other comments and printed texts.

    Raises:
        ValueError: as ``in_language``.
    """
    found = sayings(source)
    if missing := [saying.text for saying in found if saying.is_read and saying.text not in texts]:
        raise ValueError(f"no translation of {missing[0]!r}")
    if spare := texts.keys() - {saying.text for saying in found}:
        raise ValueError(f"no cell says {sorted(spare)[0]!r}")
    for saying in reversed(found):
        if saying.text in texts:
            text = saying.before + texts[saying.text] + saying.after
            source = source[: saying.start] + text + source[saying.end :]
    return source


def sayings(source: str) -> list[Saying]:
    """The comments and the strings of a source, in order."""
    lines = source.splitlines(keepends=True)
    line_starts = [0]
    for line in lines:
        line_starts.append(line_starts[-1] + len(line))

    def place(line: int | None, n_bytes: int | None) -> int:
        """Of what ``ast`` names by the number of its line and the bytes before it."""
        assert line is not None
        before = lines[line - 1].encode()[:n_bytes].decode()
        return line_starts[line - 1] + len(before)

    def saying(pattern: re.Pattern[str], start: int, end: int, is_read: bool) -> Saying:
        parts = pattern.fullmatch(source[start:end])
        if parts is None:
            raise ValueError(f"can't translate {source[start:end]!r}: write it as '# x' or \"x\"")
        return Saying(start, end, parts[1], parts[2], parts[3], is_read)

    found = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            start = line_starts[token.start[0] - 1] + token.start[1]
            found.append(saying(COMMENT, start, start + len(token.string), is_read=True))
    for node, is_printed in _literals(ast.parse(source), is_printed=False):
        start = place(node.lineno, node.col_offset)
        end = place(node.end_lineno, node.end_col_offset)
        found.append(saying(LITERAL, start, end, is_printed))
    return sorted(found)


def _literals(node: ast.AST, is_printed: bool) -> list[tuple[ast.expr, bool]]:
    """The string literals below a node, and whether ``print`` gets them."""
    if isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    ):
        return [(node, is_printed)]
    prints = isinstance(node, ast.Call) and ast.unparse(node.func) == "print"
    children = ast.iter_child_nodes(node)
    return [one for child in children for one in _literals(child, is_printed or prints)]


@cache
def _texts(source: str) -> dict[str, dict[str, str]]:
    return tomllib.loads((TEXTS / f"cells_{source}.toml").read_text("utf-8"))
