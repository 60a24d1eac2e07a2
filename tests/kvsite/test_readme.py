"""The README says what is so: its commands exist, its example gives the numbers in its comments."""

import re

import pytest

from kvsite.cli import VERBS
from kvsite.paths import ROOT

README = (ROOT / "README.md").read_text()


def test_every_command_exists_and_every_verb_is_named() -> None:
    named = set(re.findall(r"python build\.py (\w+)", README))
    assert named == set(VERBS)


def test_the_files_that_it_shows_exist() -> None:
    [tree] = re.findall(r"## Where things are\n\n```\n(.*?)```", README, re.DOTALL)
    folder = ""
    for line in tree.splitlines():
        name = line.split()[0]
        folder = folder if line.startswith(" ") else ""
        assert (ROOT / folder / name).exists(), line
        folder = name if not line.startswith(" ") and name.endswith("/") else folder


def test_the_example_gives_the_numbers_in_its_comments() -> None:
    [example] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, object] = {}
    exec(example, names)
    said = dict(re.findall(r"^(\S+) +# ([\d.]+)", example, re.MULTILINE))
    assert said.keys() == {"result.top_left.max_abs_error", "result.wrongly_hidden_keys"}
    for expression, number in said.items():
        assert eval(expression, names) == pytest.approx(float(number), abs=5e-4)
    assert eval("result.offset.max_abs_error <= 10 * result.rounding_floor", names)
