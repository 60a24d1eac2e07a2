import copy
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import nbformat
import pytest

from kvsite.notebook import NOTEBOOK, NOTEBOOKS, SOURCE, execute, read_source
from kvsite.paths import PY, ROOT
from kvsite.timing import Results, load_results


@pytest.fixture
def results() -> Results:
    """The committed results; a test may change its copy."""
    return copy.deepcopy(load_results())


@pytest.fixture(scope="session")
def local_path() -> re.Pattern[str]:
    """Matches what names a place on this machine, or in anyone's home."""
    here = {str(ROOT), str(Path.home()), tempfile.gettempdir()} - {"/"}
    places = [rf"{re.escape(folder)}\b" for folder in sorted(here)]
    return re.compile("|".join([*places, "/home/", "/Users/", r"[A-Z]:\\"]))


@pytest.fixture(scope="session")
def committed() -> Any:
    """The committed notebook with its outputs."""
    return nbformat.read(NOTEBOOK, as_version=4)


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the notebook needs; returns the folder to execute it in."""
    root = tmp_path_factory.mktemp("checkout")
    shutil.copytree(PY / "kvproof", root / "py" / "kvproof")
    shutil.copytree(NOTEBOOKS / "results", root / "notebooks" / "results")
    return root / "notebooks"


@pytest.fixture(scope="session")
def executed(workspace: Path) -> Any:
    """The notebook executed here and now, all but the timing cells."""
    notebook = read_source(SOURCE)
    execute(notebook, workspace, timing=False)
    return notebook
