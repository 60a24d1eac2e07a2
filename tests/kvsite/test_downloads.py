"""What the site has for keeping: a notebook in each language, evidence that passes its audit."""

from pathlib import Path

import nbformat
import pytest

from kvproof.experiments.audit import audit
from kvsite.languages import LANGUAGES, Language
from kvsite.pages import download_name


def test_the_published_evidence_passes_its_audit(built_site: Path) -> None:
    found = audit(built_site / "downloads" / "evidence")
    assert found.problems == ()
    assert found.checked


@pytest.mark.parametrize("language", LANGUAGES, ids=[language.code for language in LANGUAGES])
def test_each_language_offers_its_own_notebook(language: Language, built_site: Path) -> None:
    name = download_name(language)
    for page in ("costs.html", "notebook.html"):
        assert f'downloads/{name}"' in (built_site / language.folder / page).read_text("utf-8")
    notebook = nbformat.read(built_site / "downloads" / name, as_version=4)
    nbformat.validate(notebook)
    prose = "".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert ("缓存" in prose, "快取" in prose) == (
        language.code == "zh-Hans",
        language.code == "zh-Hant",
    )
