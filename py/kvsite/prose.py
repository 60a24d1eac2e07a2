"""A page's Markdown as HTML: front matter, tables, and formulas as MathML."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.front_matter import front_matter_plugin

UPRIGHT = re.compile(r"\\mathrm\{(\w{2,})\}")


def to_html(markdown: str) -> tuple[dict[str, str], str]:
    """The ``key: value`` lines of the front matter, and the rest as HTML."""
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    parser.use(front_matter_plugin).use(dollarmath_plugin, renderer=_formula)
    parser.add_render_rule("math_block", _math_block)
    parser.add_render_rule("table_open", _table_open)
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    [matter] = [t for t in parser.parse(markdown) if t.type == "front_matter"]
    front = dict(line.split(": ", 1) for line in matter.content.splitlines())
    html = parser.render(markdown).replace("<pre>", '<pre tabindex="0">')  # it may scroll
    return front, html


@dataclass(frozen=True)
class Entry:
    """A line of the table of contents."""

    anchor: str
    title: Markup
    is_lab: bool


def table_of_contents(html: str) -> list[Entry]:
    """Sections and labs of a page, in order; a lab's title has the ID ``LAB-title``."""
    headings = re.findall(r'<h[23]\b[^>]* id="([\w-]+)"[^>]*>(.*?)</h[23]>', html)
    sections = re.findall(r'<h2\b[^>]* id="([\w-]+)"', html)
    return [
        Entry(re.sub(r"-title$", "-lab", anchor), Markup(title), anchor not in sections)
        for anchor, title in headings
        if anchor in sections or anchor.endswith("-title")
    ]


def inline(text: str) -> Markup:
    """A message whose code and links are written as in Markdown."""
    return Markup(MarkdownIt("commonmark").renderInline(text))


def _math_block(_renderer: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:
    """On a narrow screen a formula scrolls in a box of its own, with the keyboard, too."""
    formula = _formula(tokens[index].content, {"display_mode": True})
    return f'<div class="math block" tabindex="0" role="group">{formula}</div>\n'


def _formula(latex: str, options: dict[str, Any]) -> str:
    """MathML of a formula; the letters of an upright word stay together, to be read as one."""
    display = "block" if options["display_mode"] else "inline"
    return str(convert(UPRIGHT.sub(r"\\text{\1}", latex), display=display))


def _table_open(*_: Any) -> str:
    """As a formula, a table scrolls in a box of its own."""
    return '<div class="scroll prose-table" tabindex="0" role="group"><table>\n'
