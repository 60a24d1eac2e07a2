"""The notebook as an HTML fragment."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest

from kvsite.notebook import render_notebook
from kvsite.paths import PY
from kvsite.stages import Failure


class Page(HTMLParser):
    """Collects start tags as (name, attributes)."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def html() -> str:
    return render_notebook()


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


def test_it_is_a_fragment_with_one_title(page: Page) -> None:
    names = {name for name, _ in page.tags}
    assert not names & {"html", "head", "body", "script", "style", "link", "iframe"}
    assert len(page.attributes("h1")) == 1


def test_numbered_headings_can_be_linked_to(page: Page) -> None:
    sections = [attributes["id"] for attributes in page.attributes("h2")]
    assert sections == [f"section-{i}" for i in range(1, 11)]
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert {"section-6-4", "section-7-3", "section-8-2"} <= set(ids)
    assert len(ids) == len(set(ids))


def test_every_image_has_a_text(page: Page) -> None:
    images = page.attributes("img")
    assert len(images) == 5
    for image in images:
        assert len(image.get("alt") or "") > 60
        assert (image["src"] or "").startswith("data:image/svg+xml;base64,")


def test_all_cells_are_there(html: str, committed: Any) -> None:
    for kind, css_class in [("code", "notebook-code"), ("markdown", "notebook-prose")]:
        n_cells = sum(cell.cell_type == kind for cell in committed.cells)
        assert html.count(f'<div class="{css_class}"') >= n_cells


def test_output_is_shown_as_text(tmp_path: Path) -> None:
    """A cell that prints markup doesn't put markup into the page."""
    cell = nbformat.v4.new_code_cell("print()", execution_count=1)
    cell.outputs = [nbformat.v4.new_output("stream", text="<script>alert(1)</script>")]
    path = tmp_path / "markup.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
    html = render_notebook(path)
    assert "<script" not in html
    assert "&lt;script&gt;" in html


def test_a_missing_notebook_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"absent\.ipynb is missing.*build\.py notebook"):
        render_notebook(tmp_path / "absent.ipynb")


def test_rendering_needs_only_what_the_site_installs(html: str) -> None:
    code = (
        "import sys\n"
        "for name in ('torch', 'matplotlib', 'IPython', 'ipykernel'):\n"
        "    sys.modules[name] = None\n"
        "from kvsite.notebook import render_notebook\n"
        "sys.stdout.write(render_notebook())\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(PY)}, capture_output=True, check=True
    )
    assert re.sub(r"\s+", " ", shown.stdout.decode()) == re.sub(r"\s+", " ", html)
