"""The API page's content: every public name of kvproof, read from the sources.

A docstring is a description and sections in Google's style.  Its examples are doctests for which
``kvproof`` and ``np`` are imported.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc
from itertools import pairwise
from pathlib import Path
from textwrap import dedent

from markdown_it import MarkdownIt
from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonConsoleLexer

import kvproof
from kvsite.listings import first_line, highlight_python, without_docstring
from kvsite.paths import PY, ROOT

FIRST = ("config", "params", "decoder", "cached_decoder", "cache", "masks", "layers", "feeding")
"""Modules in the order in which a reader meets them; any others follow by the alphabet."""

SECTION = re.compile(r"^(Args|Returns|Raises|Example):\n", re.MULTILINE)
ITEM = re.compile(r"^([^\s:][^:\n]*): ", re.MULTILINE)
WORD = re.compile(r"(<code>|<span class=\"\w+\">)(\w+)(</code>|</span>)")
MARKDOWN = MarkdownIt("commonmark", {"html": False})

Node = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign
Section = Markup | list[tuple[Markup, Markup]]
"""Text, or terms and their texts."""


@dataclass(frozen=True)
class Entry:
    """A public name, or a member of a public class."""

    name: str
    """Its id on the page; a member's is ``Class.member``."""
    signature: Markup
    sections: dict[str, Section]
    """Title -> content; the description's title is empty."""
    place: str
    """File and lines in the repository."""
    code: Markup
    """A function without its docstring; empty for anything else."""
    members: tuple["Entry", ...]


@dataclass(frozen=True)
class Module:
    """A module, and the public names that it defines."""

    name: str
    sections: dict[str, Section]
    entries: tuple[Entry, ...]


@cache
def public_modules() -> list[Module]:
    """All public names by the modules that define them, in the order of their definitions."""
    definitions = [(name, *find_definition(name)) for name in kvproof.__all__]
    entries: dict[str, list[Entry]] = {}
    for name, module, node, docstring in sorted(definitions, key=lambda found: found[2].lineno):
        entries.setdefault(module, []).append(_entry(name, node, docstring, _file(module)))
    return [
        Module(name, _sections(ast.get_docstring(_parse(name)) or ""), tuple(entries[name]))
        for name in sorted(entries, key=_order)
    ]


def _order(module: str) -> tuple[int, str]:
    topic = module.removeprefix("kvproof.").removeprefix("model.").split(".")[0]
    return FIRST.index(topic) if topic in FIRST else len(FIRST), module


# --- Where a name is defined --------------------------------------------------------------------


def find_definition(name: str, module: str = "kvproof") -> tuple[str, Node, str]:
    """The module that defines a name, the definition, and its docstring; imports are followed.

    Raises:
        KeyError: there is no such name.
    """
    tree = _parse(module)
    for found, node, docstring in _definitions(tree.body):
        if found == name:
            return module, node, docstring
    for statement in ast.walk(tree):  # some stand below `if TYPE_CHECKING:`
        if isinstance(statement, ast.ImportFrom) and name in (a.name for a in statement.names):
            return find_definition(name, str(statement.module))
    raise KeyError(f"{module} doesn't define {name}")


def _definitions(body: list[ast.stmt]) -> Iterator[tuple[str, Node, str]]:
    """Name, definition and docstring; that of a variable or field is the string after it."""
    for node, following in pairwise([*body, ast.Pass()]):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node, ast.get_docstring(node) or ""
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            name = ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0])
            match following:
                case ast.Expr(ast.Constant(str(text))):
                    yield name, node, cleandoc(text)
                case _:
                    yield name, node, ""


def _file(module: str) -> Path:
    path = PY.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _parse(module: str) -> ast.Module:
    return ast.parse(_file(module).read_text("utf-8"))


# --- What the page shows of it ------------------------------------------------------------------


def _entry(name: str, node: Node, docstring: str, file: Path) -> Entry:
    source = file.read_text("utf-8")
    code, members = Markup(), []
    if isinstance(node, ast.FunctionDef):
        code = Markup(highlight_python("\n".join(without_docstring(node, source))))
    if isinstance(node, ast.ClassDef):
        members = [
            _entry(f"{name}.{member}", inner, text, file)
            for member, inner, text in _definitions(node.body)
            if member[0] != "_" and (text or isinstance(inner, ast.AnnAssign))
        ]
    place = f"{file.relative_to(ROOT).as_posix()}, lines {first_line(node)}–{node.end_lineno}"
    signature = _linked(highlight_python(_signature(node, source)), name)
    return Entry(name, signature, _sections(docstring, name), place, code, tuple(members))


def _signature(node: Node, source: str) -> str:
    """As in the file: all of a variable, otherwise what stands above the docstring."""
    last = node.end_lineno
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        last = max(node.lineno, node.body[0].lineno - 1)
    return dedent("\n".join(source.splitlines()[first_line(node) - 1 : last])).removesuffix(":")


def split_docstring(docstring: str) -> dict[str, str]:
    """Title -> text of each section; the description's title is empty."""
    description, *others = SECTION.split(docstring)
    return {"": description.strip()} | {title: dedent(t).strip() for title, t in _pairs(others)}


def split_items(text: str) -> dict[str, str]:
    """Term -> text of a section with a ``term: text`` for each argument or error."""
    return {term: dedent(f"    {rest}").strip() for term, rest in _pairs(ITEM.split(text)[1:])}


def _pairs(parts: list[str]) -> Iterator[tuple[str, str]]:
    return zip(parts[::2], parts[1::2], strict=True)


def _sections(docstring: str, name: str = "") -> dict[str, Section]:
    sections: dict[str, Section] = {}
    for title, text in split_docstring(docstring).items():
        if title in ("Args", "Raises"):
            sections[title] = [
                (_linked(f"<code>{escape(term)}</code>", name), _text(meaning, name))
                for term, meaning in split_items(text).items()
            ]
        elif title == "Example":
            sections[title] = _console(text)
        else:
            sections[title] = _text(text, name)
    return sections


def _text(text: str, name: str) -> Markup:
    """A docstring's text as HTML; like Markdown but for the "::" before code."""
    markdown = re.sub("::$", ":", text, flags=re.MULTILINE)
    html = MARKDOWN.render(markdown).replace("<pre>", '<pre tabindex="0">')  # it may scroll
    return _linked(html, name)


def _console(text: str) -> Markup:
    return Markup(highlight(text, PythonConsoleLexer(), HtmlFormatter(nowrap=True)))


def _linked(html: str, name: str) -> Markup:
    """``html`` with the public names in its code as links, but for ``name`` itself."""

    def link(match: re.Match[str]) -> str:
        start, word, end = match.groups()
        known = word in kvproof.__all__ and word != name.split(".")[0]
        return f'{start}<a href="#{word}">{word}</a>{end}' if known else match[0]

    return Markup(WORD.sub(link, html))
