"""Read the starting cells of the page: real Python files with a title and a sentence on top."""

import ast
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cell:
    """One cell as the page shows it.

    ``name`` is the file's stem, ``title`` the first line of its docstring, ``intro`` the rest of
    the docstring as one paragraph, ``source`` the code below it, unchanged.
    """

    name: str
    title: str
    intro: str
    source: str


def load_cells(folder: Path) -> list[Cell]:
    """The cells in ``folder`` in the order of their file names.

    Raises:
        ValueError: there are none, or one lacks a title, an intro or code.
    """
    cells = [_load_cell(path) for path in sorted(folder.glob("*.py"))]
    if not cells:
        raise ValueError(f"no cells (*.py) in {folder}")
    return cells


def _load_cell(path: Path) -> Cell:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text, str(path))
    title, _, intro = (ast.get_docstring(tree) or "").partition("\n\n")
    if not title or not intro or len(tree.body) < 2:
        raise ValueError(
            f"{path}: a cell starts with a docstring (a title, an empty line, an intro), "
            "then comes its code"
        )
    lines = text.splitlines(keepends=True)
    source = "".join(lines[tree.body[0].end_lineno :]).strip("\n") + "\n"
    return Cell(path.stem, title, " ".join(intro.split()), source)
