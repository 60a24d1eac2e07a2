"""The article's numbers are computed again only when something changed of which they are made."""

import itertools
import json
from pathlib import Path

import pytest

from kvsite import pages


def test_numbers_are_kept_while_their_sources_stay_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = itertools.count()
    monkeypatch.setattr(pages, "numbers", lambda: {"times": next(times)})
    monkeypatch.setattr(pages, "NUMBERS", tmp_path / "numbers")
    ask = pages.kept_numbers.__wrapped__
    assert ask() == ask() == {"times": 0}
    sources = tmp_path / "numbers" / "sources.json"
    names = json.loads(sources.read_text())
    assert {"py/kvproof/model/masks.py", "py/kvsite/numbers.py", "notebooks"} <= set(names)
    sources.write_text(json.dumps([*names, "pyproject.toml"]))  # one of them is another file
    assert ask() == ask() == {"times": 1}
