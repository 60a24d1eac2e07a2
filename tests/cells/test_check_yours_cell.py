"""The cell with a decoder to check, and the specimens that the page loads into it."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kvlab.cells import load_cells
from kvproof.checking.report import MIME_TYPE
from kvproof.zoo import KINDS, SPECIMENS
from kvsite import specimens
from kvsite.languages import ENGLISH, LANGUAGES
from kvsite.paths import PY
from kvsite.specimens import (
    specimen_kinds,
    specimen_labels,
    specimen_source,
    specimen_sources,
)
from kvsite.words import TEXTS, load_catalogue

if TYPE_CHECKING:
    from tests.cells.conftest import Notebook

FOLDER = Path(__file__).resolve().parents[2] / "site" / "cells"
TEMPLATE = load_cells(FOLDER)[-1].source
MISTAKE = "keys <= rows  # the mistake: row i stands at n_past + i"
MENDED = TEMPLATE.replace(MISTAKE, "keys <= n_past + rows")


def checked(notebook: Notebook, source: str) -> dict[str, Any]:
    """The data of the report that a cell ends with; its text comes along."""
    result = notebook.run(source)
    assert result.error is None, result.error
    assert result.report, f"the value is no report: {result.value}"
    report: dict[str, Any] = json.loads(result.report)
    verdict = report["verdict"]
    assert (result.value or "").startswith(f"{report['decoder']}: {verdict['text']}\n")
    assert report["ok"] == (verdict["id"] == "report.right")
    return report


def test_the_type_of_a_report_has_one_name() -> None:
    from kvlab import cell_runner  # which imports the standard library only

    assert cell_runner.REPORT == MIME_TYPE


def test_the_template_shows_its_mistake(notebook: Notebook) -> None:
    report = checked(notebook, TEMPLATE)
    first = report["findings"][0]
    assert first["kind"] == "MASK-TOPLEFT"
    assert report["meanings"]["MASK-TOPLEFT"].startswith("the causal mask is pinned to the top")
    assert first["case"]["tokens"] == [[0, 0]]
    assert first["case"]["ops"] == [{"action": "feed", "argument": 1, "text": "feed 1"}] * 2
    # One layer: what moves a row is what it sees, so these are the two masks, for P = 4 and C = 2.
    influence = first["influence"]
    assert (influence["n_past"], influence["n_new"]) == (4, 2)
    assert influence["expected"] == [[True] * 5 + [False], [True] * 6]
    # A row that attends elsewhere still has its own embedding.
    assert influence["seen"] == [
        [True, False, False, False, True, False],
        [True, True, False, False, False, True],
    ]


def test_the_template_is_right_once_the_marked_line_is_mended(notebook: Notebook) -> None:
    assert MENDED != TEMPLATE
    report = checked(notebook, MENDED)
    assert report["ok"]
    assert report["complete"]


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        ("MASK-SKIPPED", "seen = keys <= n_past + rows", "seen = keys <= LONGEST + rows"),
        ("POS-RESET", "place[n_past : n_past + n_new]", "place[:n_new]"),
        ("SELF-READ", "seen = keys <= n_past + rows", "seen = keys < n_past + rows"),
        ("KV-LAYOUT", "x @ unembedding.T, (k, v)", "x @ unembedding.T, (v, k)"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_another_line_that_is_broken_gets_its_own_name(
    notebook: Notebook, kind: str, right: str, wrong: str
) -> None:
    assert MENDED.count(right) == 1
    report = checked(notebook, MENDED.replace(right, wrong))
    assert report["findings"][0]["kind"] == kind


@pytest.mark.parametrize("name", SPECIMENS)
def test_a_specimen_runs_alone_and_is_detected(notebook: Notebook, name: str) -> None:
    specimen = SPECIMENS[name]
    before = dict(SPECIMENS)
    report = checked(notebook, specimen_source(specimen))
    assert not report["ok"]
    first = report["findings"][0]
    assert first["kind"] in KINDS, first
    assert before == SPECIMENS, "running it must not enter it in the zoo again"


@pytest.mark.parametrize("name", SPECIMENS)
def test_a_specimen_is_the_zoos_class_with_its_facts(name: str) -> None:
    specimen = SPECIMENS[name]
    source = specimen_source(specimen)
    classes = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
    home = PY / Path(*specimen.make.__module__.split(".")).with_suffix(".py")
    originals = {
        node.name: node
        for node in ast.parse(home.read_text()).body
        if isinstance(node, ast.ClassDef)
    }
    original = originals[specimen.make.__name__]
    original.decorator_list = []
    assert ast.dump(classes[original.name]) == ast.dump(original)
    comments = " ".join(
        line.removeprefix("# ") for line in source.splitlines() if line.startswith("#")
    )
    assert comments.startswith(f"{name}, from the zoo of broken decoders. {specimen.kind}: ")
    for fact in (*specimen.links, specimen.smallest):
        assert fact in comments
    assert "@broken" not in source
    imported = [line for line in source.splitlines() if "kvproof.zoo" in line]
    assert all(line.startswith("from kvproof.zoo.right import") for line in imported)


def test_the_list_of_kinds_is_that_of_the_zoo() -> None:
    listed = specimen_kinds(ENGLISH)
    assert tuple(kind for kind, _, _ in listed) == KINDS
    assert [name for _, _, names in listed for name in names] == list(SPECIMENS)


def test_in_chinese_each_specimen_has_a_name_of_its_own_and_no_other_has_one() -> None:
    for source in ("en", "zh"):
        assert load_catalogue(TEXTS / f"zoo_{source}.toml").keys() == SPECIMENS.keys()
    for language in LANGUAGES[1:]:
        labels = specimen_labels(language)
        assert [
            label for label in labels.values() if not re.search(r"[\u4e00-\u9fff]", label)
        ] == []
        for kind, _, named in specimen_kinds(language):
            assert len(set(named.values())) == len(named), kind


def test_the_page_loads_the_same_code_below_comments_in_its_language() -> None:
    sources = specimen_sources()
    assert sources.keys() == SPECIMENS.keys()
    for name, source in sources.items():
        whole = {code: f"{head}\n{source['code']}" for code, head in source["heads"].items()}
        assert whole["en"] == specimen_source(SPECIMENS[name])
        trees = [ast.dump(ast.parse(text)) for text in whole.values()]
        assert trees == trees[:1] * len(LANGUAGES)
        for language in LANGUAGES[1:]:
            head = source["heads"][language.code]
            assert SPECIMENS[name].links[0] in head
            assert re.match(r"# .*[\u4e00-\u9fff]", head)


def test_a_name_with_two_meanings_is_refused() -> None:
    parts = specimens._Parts()
    parts.add("kvproof.zoo.positions", "ROOMY")
    with pytest.raises(ValueError, match=r"ROOMY is defined in .*slots and in .*positions"):
        parts.add("kvproof.zoo.slots", "ROOMY")
