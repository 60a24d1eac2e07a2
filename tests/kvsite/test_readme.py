"""The README says what is so: its commands exist, its example gives the numbers in its comments."""

import re

import pytest

from kvproof.zoo import SPECIMENS
from kvsite import bench
from kvsite.cli import VERBS
from kvsite.paths import PY, ROOT

README = (ROOT / "README.md").read_text()


def test_every_command_exists_and_every_verb_is_named() -> None:
    named = set(re.findall(r"python build\.py (\w+)", README))
    assert named == set(VERBS)


@pytest.fixture
def tree() -> dict[str, str]:
    """The file tree: path -> its clause."""
    [block] = re.findall(r"## Where things are\n\n```\n(.*?)```", README, re.DOTALL)
    clauses: dict[str, str] = {}
    folders: list[str] = []
    for line in block.splitlines():
        name, _, clause = line.strip().partition(" ")
        depth = (len(line) - len(line.lstrip())) // len("  ")
        folders[depth:] = [name]
        clauses["".join(folders)] = clause.strip()
    return clauses


def test_every_file_that_it_shows_exists_and_has_a_clause(tree: dict[str, str]) -> None:
    for path, clause in tree.items():
        assert (ROOT / path).exists(), path
        assert clause, path


def test_every_module_and_top_level_file_is_shown(tree: dict[str, str]) -> None:
    modules = {path for path in PY.rglob("*.py") if not path.name.startswith("__")}
    top_level = {path for path in ROOT.iterdir() if path.is_file() and path.name[0] != "."}
    wanted = {path.relative_to(ROOT).as_posix() for path in modules | top_level} - {"README.md"}
    assert len(wanted) > 40
    assert wanted - tree.keys() == set()


def test_the_zoo_has_as_many_specimens_as_it_says() -> None:
    assert set(re.findall(r"(\d+) broken decoders", README)) == {str(len(SPECIMENS))}


def test_the_measured_figures_are_there() -> None:
    start, end = bench.MARKERS
    lines = README.split(start)[1].split(end)[0].splitlines()
    table = [line for line in lines if line.startswith("| ")]
    assert len(table) >= 1 + 10  # the header and ten figures


def test_the_example_gives_the_numbers_in_its_comments() -> None:
    [example, *_] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, object] = {}
    exec(example, names)
    said = dict(re.findall(r"^(\S+) +# ([\d.]+)", example, re.MULTILINE))
    assert said.keys() == {"result.top_left.max_abs_error", "result.wrongly_hidden_keys"}
    for expression, number in said.items():
        assert eval(expression, names) == pytest.approx(float(number), abs=5e-4)
    assert eval("result.offset.max_abs_error <= 10 * result.rounding_floor", names)
