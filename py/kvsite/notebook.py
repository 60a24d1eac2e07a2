"""The PyTorch notebook: generated from its percent script, executed, and rendered for the site.

It exists in English and in Chinese.  The script is English; ``notebooks/texts/zh.md`` has the same
prose in Chinese, each piece under the id of the cell that it translates.  The Chinese notebook is
the executed English one with that prose, so code, outputs and numbers are the same.
"""

import argparse
import hashlib
import os
import re
import tomllib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter

from kvsite.paths import ROOT
from kvsite.stages import Failure, stage

NOTEBOOKS = ROOT / "notebooks"
SOURCE = NOTEBOOKS / "kv_cache_cpu.py"
NOTEBOOK = NOTEBOOKS / "kv_cache_cpu.ipynb"
TEXTS = NOTEBOOKS / "texts"
TRANSLATIONS = ("zh",)
TEMPLATE = Path(__file__).with_name("notebook.html.j2")

TIMING_TAG = "timing"
CELL_TIMEOUT_S = 600
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"file_extension": ".py", "name": "python", "pygments_lexer": "python"},
}

Notebook = Any  # nbformat's NotebookNode: a dictionary, untyped


def main(argv: Sequence[str]) -> int:
    """Execute the notebook; write it in all languages, and ``results/cpu_timing.json``.

    With ``--no-timing`` nothing is written: it only shows that the notebook still runs.  With
    ``--translate`` nothing is executed: the executed notebook is written in the other languages.

    Raises:
        Failure: a cell failed, or lacks a translation.
    """
    parser = argparse.ArgumentParser(prog="build.py notebook --")
    parser.add_argument(
        "--no-timing", action="store_true", help="skip the timing cells and write nothing"
    )
    parser.add_argument(
        "--translate", action="store_true", help="only write the other languages anew"
    )
    arguments = parser.parse_args(argv)
    if arguments.translate:
        write_translations()
        return 0
    with stage("notebook") as current:
        notebook = read_source(SOURCE)
        n_cells = len(notebook.cells)
        execute(
            notebook,
            NOTEBOOKS,
            timing=not arguments.no_timing,
            progress=lambda index: current.show(f"cell {index + 1} of {n_cells}"),
        )
        if arguments.no_timing:
            current.note(f"{n_cells} cells run without the timing, nothing written")
        else:
            nbformat.write(notebook, NOTEBOOK)
            write_translations()
            current.note(f"{n_cells} cells run, {NOTEBOOK.relative_to(ROOT)} written")
    return 0


def read_source(source: Path) -> Notebook:
    """The notebook of a percent script, without outputs.

    The same script gives the same bytes: a cell's id is a digest of its text, and metadata name
    neither versions nor paths.
    """
    notebook = jupytext.read(source)
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        cell.id = hashlib.sha256(cell.source.encode()).hexdigest()[:8]
    nbformat.validate(notebook)
    return notebook


def execute(
    notebook: Notebook,
    folder: Path,
    *,
    timing: bool,
    progress: Callable[[int], None] = lambda _: None,
) -> None:
    """Run all cells in ``folder`` and put their outputs into ``notebook``.

    Args:
        notebook: from ``read_source``; changed in place.
        folder: working directory of the cells, which import kvproof from ``../py``.
        timing: False skips the cells tagged "timing"; those after them read the stored results.
        progress: called with the index of each cell before it runs.

    Raises:
        Failure: a cell failed; holds its traceback.
    """
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=CELL_TIMEOUT_S,
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        skip_cells_with_tag="" if timing else TIMING_TAG,
        on_cell_start=lambda cell_index, **_: progress(cell_index),
        extra_arguments=["--log-level=ERROR"],
    )
    try:
        client.execute()
    except CellExecutionError as error:
        raise Failure(f"A cell of the notebook failed.\n{error}") from error
    notebook.metadata = nbformat.from_dict(METADATA)  # the kernel has added its version


def notebook_file(language: str) -> Path:
    """The executed notebook in a language, "en" or one of ``TRANSLATIONS``."""
    return NOTEBOOK if language == "en" else NOTEBOOK.with_suffix(f".{language}.ipynb")


def converted(path: Path, convert: Callable[[str], str]) -> str:
    """The text of a notebook's file, its prose converted; code and outputs stay as they are."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = convert(cell.source)
    return f"{nbformat.writes(notebook)}\n"


def write_translations() -> None:
    """Write the executed notebook in the other languages.

    Raises:
        Failure: a cell's prose has no translation, or a translation no cell.
    """
    for language in TRANSLATIONS:
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        translate(notebook, read_texts(TEXTS / f"{language}.md"))
        nbformat.write(notebook, notebook_file(language))


def read_texts(path: Path) -> dict[str, str]:
    """Id of a cell -> its prose in another language; each piece follows ``<!-- id -->``."""
    _, *pieces = re.split(r"^<!-- (\w+) -->\n", path.read_text("utf-8"), flags=re.MULTILINE)
    return {cell_id: text.strip() for cell_id, text in zip(pieces[::2], pieces[1::2], strict=True)}


def translate(notebook: Notebook, texts: dict[str, str]) -> None:
    """Put other prose into a notebook; code and outputs stay as they are.

    A cell's id is a digest of the English text, so a text that has changed since asks for a new
    translation.

    Raises:
        Failure: a cell's prose has no translation, or a translation no cell.
    """
    prose = {cell.id: cell for cell in notebook.cells if cell.cell_type == "markdown"}
    if texts.keys() != prose.keys():
        missing = [f"{name} ({prose[name].source[:40]!r})" for name in prose if name not in texts]
        spare = [f"{name} ({texts[name][:40]!r})" for name in texts if name not in prose]
        raise Failure(
            f"The notebook's translation is out of step.\nCells without a text: "
            f"{', '.join(missing) or 'none'}.\nTexts without a cell: {', '.join(spare) or 'none'}."
        )
    for name, text in texts.items():
        prose[name].source = text


def colab_url(language: str) -> str | None:
    """Where Colab opens the notebook, if the repository's address is known and GitHub's.

    It is taken from ``KVPROOF_REPOSITORY``, else from ``Repository`` below ``[project.urls]`` in
    pyproject.toml.
    """
    address = os.environ.get("KVPROOF_REPOSITORY") or _project_urls().get("Repository", "")
    match = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?", address)
    if match is None:
        return None
    path = notebook_file(language).relative_to(ROOT).as_posix()
    return f"https://colab.research.google.com/github/{match[1]}/blob/main/{path}"


def _project_urls() -> dict[str, str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    urls: dict[str, str] = project.get("urls", {})
    return urls


@cache
def render_notebook(path: Path = NOTEBOOK) -> str:
    """The executed notebook as an HTML fragment for a page of the site.

    It holds one ``h1``; numbered headings get the ids ``section-1``, ``section-8-2`` and so on, the
    same in any language.  Classes: ``notebook-prose``, ``notebook-code`` (Pygments inside),
    ``notebook-output`` with ``notebook-figure`` or ``notebook-table`` where it isn't plain text.

    Raises:
        Failure: there is no such file.
    """
    if not path.exists():
        raise Failure(f"{path} is missing. `python build.py notebook` makes it.")
    exporter = HTMLExporter(raw_template=TEMPLATE.read_text(), exclude_anchor_links=True)
    body, _ = exporter.from_notebook_node(nbformat.read(path, as_version=4))
    return re.sub(r"<(h[23])>([\d.]+) ", _heading_with_id, body)


def _heading_with_id(heading: re.Match[str]) -> str:
    tag, number = heading.groups()
    return f'<{tag} id="section-{number.replace(".", "-")}">{number} '
