"""The Chinese notebook: the English one with other prose, and nothing else."""

import copy
import re
from typing import Any

import nbformat
import pytest

from kvsite.languages import ENGLISH, LANGUAGES, Language
from kvsite.notebook import (
    TEXTS,
    TRANSLATIONS,
    colab_url,
    main,
    notebook_file,
    read_texts,
    translate,
)
from kvsite.pages import environment
from kvsite.stages import Failure

CHINESE = re.compile(r"[\u4e00-\u9fff]")


@pytest.fixture(params=TRANSLATIONS)
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def translated(language: str) -> Any:
    return nbformat.read(notebook_file(language), as_version=4)


@pytest.fixture
def texts(language: str) -> dict[str, str]:
    return read_texts(TEXTS / f"{language}.md")


def prose(notebook: Any) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


def test_all_prose_is_chinese(translated: Any) -> None:
    for source in prose(translated):
        letters, words = len(CHINESE.findall(source)), re.findall(r"[A-Za-z]{2,}", source)
        assert letters > len(words), source


def test_headings_code_and_formulas_are_the_same(translated: Any, committed: Any) -> None:
    for here, there in zip(prose(translated), prose(committed), strict=True):
        heading = re.compile(r"^#+ [\d.]*", re.MULTILINE)
        assert heading.findall(here) == heading.findall(there)
        code = re.compile(r"`[^`]+`")
        assert sorted(code.findall(here)) == sorted(code.findall(there))


def test_it_is_in_step_with_the_executed_one(
    translated: Any, committed: Any, texts: dict[str, str]
) -> None:
    expected = copy.deepcopy(committed)
    translate(expected, texts)
    assert translated == expected


def test_a_changed_text_asks_for_a_translation(committed: Any, texts: dict[str, str]) -> None:
    notebook = copy.deepcopy(committed)
    notebook.cells[0].id = "00000000"
    with pytest.raises(Failure, match="Cells without a text: 00000000 .'# A KV cache"):
        translate(notebook, texts)


def test_a_text_without_a_cell_is_refused(committed: Any, texts: dict[str, str]) -> None:
    with pytest.raises(Failure, match="without a cell: 11111111"):
        translate(copy.deepcopy(committed), texts | {"11111111": "多余"})


def test_translating_alone_writes_the_same_file(
    language: str,
    tmp_path: Any,
    committed: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = tmp_path / "kv_cache_cpu.ipynb"
    nbformat.write(committed, target)
    monkeypatch.setattr("kvsite.notebook.NOTEBOOK", target)
    stored = notebook_file(language)
    assert not stored.exists()
    assert main(["--translate"]) == 0
    monkeypatch.undo()
    assert stored.read_bytes() == notebook_file(language).read_bytes()


@pytest.mark.parametrize(
    "address", ["https://github.com/who/what", "https://github.com/who/what.git/"]
)
def test_colab_opens_the_notebook_of_the_language(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVPROOF_REPOSITORY", address)
    start = "https://colab.research.google.com/github/who/what/blob/main/notebooks/"
    assert colab_url("en") == f"{start}kv_cache_cpu.ipynb"
    assert colab_url("zh") == f"{start}kv_cache_cpu.zh.ipynb"


def test_the_address_may_stand_in_the_project_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KVPROOF_REPOSITORY", raising=False)
    urls = {"Repository": "https://github.com/who/what"}
    monkeypatch.setattr("kvsite.notebook._project_urls", lambda: urls)
    assert "github/who/what/" in (colab_url("en") or "")


@pytest.mark.parametrize(
    "address", ["", "https://example.org/who/what", "github.com/who/what", "x"]
)
def test_without_a_repository_on_github_there_is_no_link(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVPROOF_REPOSITORY", address)
    monkeypatch.setattr("kvsite.notebook._project_urls", dict)
    assert colab_url("en") is None


def test_the_traditional_page_says_that_colab_shows_simplified() -> None:
    _, simplified, traditional = LANGUAGES
    template = {language: environment(language) for language in LANGUAGES}

    def link(language: Language) -> str:
        context = {"root": "", "body": "", "download": "", "colab": "https://colab"}
        return template[language].get_template("notebook.html.j2").render(context)

    assert "（簡體中文）</a>" in link(traditional)
    assert "在 Colab 中打开</a>" in link(simplified)
    assert "Open in Colab</a>" in link(ENGLISH)
