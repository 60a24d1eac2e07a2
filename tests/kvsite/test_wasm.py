"""What is taken out of the installed packages for the browser's Python, and what is made again."""

import json
import tarfile
from importlib.metadata import files
from pathlib import Path

import pytest

from kvlab.labs import LABS
from kvsite import wasm
from kvsite.paths import PY
from kvsite.stamps import STAMP


@pytest.mark.parametrize("name", wasm.DATA_FILES)
def test_data_files_are_in_the_installed_packages(name: str) -> None:
    installed = (str(file) for package in wasm.DISTRIBUTIONS for file in files(package) or [])
    assert any(file.endswith(name) for file in installed)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lab `x` of two modules, and what a build has left of it."""
    for name, folder in {"PY": "py", "STORED": "stored", "LIBRARIES": "libraries"}.items():
        monkeypatch.setattr(wasm, name, tmp_path / folder)
    monkeypatch.setattr(wasm, "LAB_FILES", tmp_path / "labs")
    for name in (
        "py/kvlab/x_lab.py",
        "py/kvproof/used.py",
        "py/kvproof/other.py",
        "stored/kvlab/data",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("import numpy\n")
    (tmp_path / "labs").mkdir()
    list_modules(tmp_path, "kvlab/x_lab.py", "kvproof/used.py")
    (tmp_path / "labs" / "x_lab.json").write_text("states")
    return tmp_path


def list_modules(project: Path, *modules: str) -> None:
    (project / "labs" / "x.modules").write_text(json.dumps(modules))
    digest = wasm._lab_digest("x", project / "labs")
    (project / "labs" / "x.digest").write_text(digest)


def is_taken_over(project: Path) -> bool:
    folder = project / "new"
    folder.mkdir(exist_ok=True)
    return wasm._take_over("x", folder)


def test_states_are_kept_while_their_modules_stay_the_same(project: Path) -> None:
    (project / "py" / "kvproof" / "other.py").write_text("changed")
    (project / "stored" / "kvlab" / "data").write_text("changed")
    assert is_taken_over(project)
    assert (project / "new" / "x_lab.json").read_text() == "states"


@pytest.mark.parametrize("file", ["py/kvlab/x_lab.py", "py/kvproof/used.py"])
def test_a_changed_module_makes_them_anew(project: Path, file: str) -> None:
    (project / file).write_text("changed")
    assert not is_taken_over(project)
    (project / file).unlink()
    assert not is_taken_over(project)


def test_stored_results_count_for_labs_that_read_them(project: Path) -> None:
    (project / "py" / "kvlab" / "stored.py").touch()
    list_modules(project, "kvlab/stored.py")
    assert is_taken_over(project)
    (project / "stored" / STAMP).write_text("other code, the same results")
    assert is_taken_over(project)
    (project / "stored" / "kvlab" / "data").write_text("changed")
    assert not is_taken_over(project)


def test_a_lab_without_a_record_is_made(project: Path) -> None:
    (project / "labs" / "x.digest").unlink()
    assert not is_taken_over(project)


def test_libraries_are_made_anew_for_another_import_only(project: Path) -> None:
    before = set(wasm.imports())
    used = project / "py" / "kvproof" / "used.py"
    used.write_text("import numpy\nfrom kvproof import other\nSIZE = 3\n")
    assert set(wasm.imports()) == before == {"import numpy"}
    used.write_text("def late():\n    from bokeh.models import Range1d\n")
    assert set(wasm.imports()) - before == {"from bokeh.models import Range1d"}


def test_each_labs_record_has_what_it_is_made_of(built_site: Path) -> None:
    records = {name: json.loads((wasm.LAB_FILES / f"{name}.modules").read_text()) for name in LABS}
    for name, modules in records.items():
        assert [m for m in modules if m.endswith("_lab.py")] == [f"kvlab/{name}_lab.py"]
        assert "kvproof/model/masks.py" in modules
    assert "kvproof/experiments/blind_spots.py" in records["blind"]
    assert "kvproof/experiments/blind_spots.py" not in records["memory"]


def test_the_archive_for_the_cells_has_every_file_of_the_package(built_site: Path) -> None:
    """Texts and weights as well as code."""
    with tarfile.open(wasm.LAB_FILES / "kvproof.tar") as archive:
        inside = {name for name in archive.getnames() if name.startswith("kvproof/")}
    files = (path for path in (PY / "kvproof").rglob("*") if path.is_file())
    wanted = {path.relative_to(PY).as_posix() for path in files if "__pycache__" not in path.parts}
    assert wanted - inside == {"kvproof/py.typed"}
    assert any(name.endswith(".npz") for name in inside)
