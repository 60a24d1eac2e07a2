"""Python code on the pages: highlighted, without docstrings, its constants, and what differs.

All of it is read from the files themselves, so that the pages can't show code that isn't there.
"""

import ast
import re
from dataclasses import dataclass
from difflib import ndiff
from html import unescape
from pathlib import Path
from textwrap import dedent
from typing import Any

from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

TAG_OR_WORD = re.compile(r"<[^>]+>|&[^;]+;|\w+|.")


@dataclass(frozen=True)
class Line:
    """A line of a difference."""

    sign: str
    """"-" only before, "+" only after, " " in both."""
    html: Markup
    """The code with Pygments' classes; the words that changed within the line are in ``<mark>``."""


def body_diff(before: list[str], after: list[str]) -> list[Line]:
    """What differs between two functions' bodies: all lines of both, as in the files.

    An old line stands directly above the new one that resembles it.
    """
    # Highlighted as a whole, since a line alone may be no Python.
    html = {side: iter(highlight_lines(lines)) for side, lines in (("-", before), ("+", after))}
    lines: list[Line] = []
    for line in ndiff(before, after):
        sign, text = line[0], line[2:]
        if sign == "?":  # signs below the characters that changed in the line before
            lines[-1] = Line(lines[-1].sign, _marked(lines[-1].html, text))
            continue
        sides = [next(html[side]) for side in "-+" if sign in (side, " ")]
        lines.append(Line(sign, Markup(sides[-1])))
    return lines


def function_body(file: Path, name: str) -> list[str]:
    """The lines of a top-level function without its signature and docstring.

    Raises:
        KeyError: the file has no such function.
    """
    source = file.read_text("utf-8")
    nodes = ast.parse(source).body
    function = {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}[name]
    first = function.body[1 if ast.get_docstring(function) else 0].lineno
    return dedent("\n".join(source.splitlines()[first - 1 : function.end_lineno])).split("\n")


def constant(file: Path, name: str) -> Any:
    """The value of a top-level ``name = literal``.

    Raises:
        KeyError: the file has no such constant.
    """
    nodes = ast.parse(file.read_text("utf-8")).body
    values = {ast.unparse(n.targets[0]): n.value for n in nodes if isinstance(n, ast.Assign)}
    return ast.literal_eval(values[name])


def without_docstring(node: ast.FunctionDef | ast.ClassDef, source: str) -> list[str]:
    """The lines of a function or class in ``source``, decorators included, docstring left out."""
    lines, first = source.splitlines(), first_line(node) - 1
    if ast.get_docstring(node) is None:
        return lines[first : node.end_lineno]
    docstring = node.body[0]
    return lines[first : docstring.lineno - 1] + lines[docstring.end_lineno : node.end_lineno]


def first_line(node: ast.stmt) -> int:
    """The number of a statement's first line, decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def highlight_python(source: str) -> str:
    """HTML of the code with Pygments' classes; its text is the code, unchanged."""
    return str(highlight(source, PythonLexer(stripnl=False), HtmlFormatter(nowrap=True)))


def highlight_lines(lines: list[str]) -> list[str]:
    """The same line by line; each can stand alone."""
    return highlight_python("\n".join(lines)).splitlines()


def _marked(html: str, guide: str) -> Markup:
    """``html`` with the words marked that have a sign anywhere below them in ``guide``."""
    marked, place = "", 0
    for piece in TAG_OR_WORD.findall(html):
        if piece[0] == "<":
            marked += piece
            continue
        end = place + len(unescape(piece))
        marked += f"<mark>{piece}</mark>" if guide[place:end].strip() else piece
        place = end
    return Markup(marked.replace("</mark><mark>", ""))
