"""The difference on the page is that of the files, and every mark in it is where it says."""

import ast
import re
from html import unescape
from pathlib import Path
from textwrap import indent

import pytest

from kvsite.listings import Line, body_diff, constant, function_body, without_docstring
from kvsite.paths import PY

DECODER = PY / "kvproof" / "model" / "decoder.py"
CACHED = PY / "kvproof" / "model" / "cached_decoder.py"


def shown(lines: list[Line], signs: str) -> str:
    """The code of the lines with one of these signs."""
    html = [line.html for line in lines if line.sign in signs]
    return unescape(re.sub("<[^>]+>", "", "\n".join(html)))


def real_diff() -> list[Line]:
    return body_diff(function_body(DECODER, "forward"), function_body(CACHED, "decode"))


@pytest.mark.parametrize(
    ("file", "name", "signs"), [(DECODER, "forward", " -"), (CACHED, "decode", " +")]
)
def test_both_sides_are_the_files_own_code(file: Path, name: str, signs: str) -> None:
    code = shown(real_diff(), signs)
    [function] = [
        node
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    whole_body = ast.Module(function.body[1:], [])  # after the docstring
    assert ast.dump(ast.parse(code)) == ast.dump(whole_body)
    assert f"{indent(code, '    ')}\n" in file.read_text(), "comments and spaces as well"


def test_the_lines_that_make_the_cache_are_marked_as_new() -> None:
    diff = real_diff()
    assert "cache.append(" in shown(diff, "+")
    assert "cache" not in shown(diff, " -")
    assert len(shown(diff, " ").splitlines()) > 5, "the same decoder"


def test_a_change_of_a_file_changes_the_figure(tmp_path: Path) -> None:
    changed = tmp_path / "changed.py"
    changed.write_text(DECODER.read_text().replace(", None, ", ", 1, "))
    before = function_body(DECODER, "forward")
    assert {line.sign for line in body_diff(before, before)} == {" "}
    diff = body_diff(before, function_body(changed, "forward"))
    assert "1" in shown(diff, "+")
    assert shown(diff, " -") == "\n".join(before)


def test_words_that_changed_are_marked_whole_and_only_they() -> None:
    diff = body_diff(["x = f(n_total, '<')"], ["x = f(n_past, '<', k)"])
    assert [line.sign for line in diff] == ["-", "+"]
    marks = [re.findall("<mark>(.*?)</mark>", line.html) for line in diff]
    assert [re.sub("<[^>]+>", "", " ".join(texts)) for texts in marks] == [
        "n_total",
        "n_past ,   k",
    ]
    assert [shown(diff, "-"), shown(diff, "+")] == ["x = f(n_total, '<')", "x = f(n_past, '<', k)"]


SOURCE = '''
@decorated
def documented(x: int) -> int:
    """Its docstring.

    In two paragraphs.
    """
    return x


def plain() -> None:
    """Only a docstring."""


class Bare:
    field = 1
'''


def test_docstrings_are_left_out_and_nothing_else() -> None:
    nodes = {
        node.name: node
        for node in ast.parse(SOURCE).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    assert without_docstring(nodes["documented"], SOURCE) == [
        "@decorated",
        "def documented(x: int) -> int:",
        "    return x",
    ]
    assert without_docstring(nodes["plain"], SOURCE) == ["def plain() -> None:"]
    assert without_docstring(nodes["Bare"], SOURCE) == ["class Bare:", "    field = 1"]


def test_a_constant_is_read_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text('BOUND = {"float32": 2e-6}  # in both\nBOUNDS = [1]\n')
    assert constant(file, "BOUND") == {"float32": 2e-6}
    with pytest.raises(KeyError, match="WIDTH"):
        constant(file, "WIDTH")


def test_a_function_that_is_gone_stops_the_build() -> None:
    with pytest.raises(KeyError, match="gone"):
        function_body(DECODER, "gone")
