"""README, CONTRIBUTING and docs say what is so: commands run, examples print what they show."""

import ast
import re
import shlex
from pathlib import Path

import pytest

from kvproof.checking.subject import UNLOCKS
from kvproof.cli import main
from kvproof.zoo import RightDecoder
from kvsite.cli import VERBS
from kvsite.paths import PY, ROOT

README = (ROOT / "README.md").read_text()
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
ARCHITECTURE = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_verbs_links_and_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text()
    assert set(re.findall(r"python build\.py (\w+)", text)) <= set(VERBS)
    links = [link for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) if "://" not in link]
    named = re.findall(r"`((?:py|site|tests|docs|notebooks)/[\w./-]+)`", text)
    places = [page.parent / link for link in links] + [ROOT / name for name in named]
    assert [at for at in places if "NAME" not in at.name and not at.exists()] == []


def test_each_file_of_the_tree_exists() -> None:
    tree = ARCHITECTURE.partition("## Where things are")[2].split("```")[1]
    folders: list[str] = []
    for line in tree.strip().splitlines():
        depth = (len(line) - len(line.lstrip())) // len("  ")
        folders[depth:] = [line.split()[0]]
        assert (ROOT / "".join(folders)).exists(), line


def test_imports_follow_the_arrows() -> None:
    """The picture of the rooms, both ways: no import without an arrow, no arrow without one."""
    arrows = set(re.findall(r"^ +(\w+) --> (\w+)$", ARCHITECTURE, re.MULTILINE))
    rooms = {room for arrow in arrows for room in arrow}
    found = {
        (here, there)
        for file in PY.rglob("*.py")
        for here in [_room(".".join(file.relative_to(PY).with_suffix("").parts))]
        for name in _imported(file)
        for there in [_room(name, seen_from=here)]
        if {here, there} <= rooms and here != there
    }
    assert found == arrows
    assert ("checking", "zoo") not in found


def _room(module: str, seen_from: str = "") -> str:
    """A package, or the part of kvproof; kvproof as a whole for those outside."""
    package, _, inside = module.partition(".")
    is_outside = seen_from in ("kvlab", "kvsite")
    return package if package != "kvproof" or is_outside else inside.split(".")[0]


def _imported(file: Path) -> list[str]:
    nodes = [*ast.walk(ast.parse(file.read_text("utf-8")))]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return names + [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]


def test_the_commands_of_the_readme_run(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = re.findall(r"^kvproof (.*?)  ", README, re.MULTILINE)
    assert {command.split()[0] for command in commands} == {
        *("prove", "run", "audit", "costs", "check", "zoo")
    }
    monkeypatch.chdir(tmp_path)
    for command in commands:
        if command.startswith(("check", "zoo")):  # the example below; tests/check
            continue
        assert main(shlex.split(command)) == 0, command
        assert capsys.readouterr().out


def test_the_first_lines_of_the_readme_check_a_decoder(capsys: Captured) -> None:
    lines = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0]
    exec(lines, {"mine": RightDecoder()})
    assert "right" in capsys.readouterr().out


def test_the_example_of_the_readme_prints_what_it_shows(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, shown = README.partition("classic mistake:")[2].split("```")[1:4]
    (tmp_path / "my_model.py").write_text(code.removeprefix("python\n"))
    monkeypatch.syspath_prepend(str(tmp_path))
    command, *lines = shown.strip().splitlines()
    assert main(shlex.split(command.removeprefix("$ kvproof"))) == 1
    printed = capsys.readouterr().out
    assert [line for line in lines if line.removesuffix("...") not in printed] == []


def test_the_readme_names_all_that_lets_the_checker_see_more() -> None:
    contract = README.partition("class YourDecoder:")[2].partition("```")[0]
    assert [name for name in UNLOCKS if name not in contract] == []
