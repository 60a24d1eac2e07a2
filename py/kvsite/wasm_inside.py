"""Runs inside Pyodide under Node while the site is built (see wasm.mjs); never in the browser.

It uses the browser's own Python, so that byte code fits, and floating-point results in the
prebuilt state table equal the live ones to the last bit.
"""

import importlib.util
import io
import itertools
import json
import re
import sys
import tarfile
import zipfile
from importlib._bootstrap_external import _code_to_hash_pyc  # type: ignore[attr-defined]
from pathlib import Path
from typing import Any

Entries = dict[str, bytes]
"""Name in an archive -> content."""
OURS = ("kvproof", "kvlab")
FIXED_DATE = (2026, 1, 1, 0, 0, 0)  # equal inputs give equal archives
STDLIB = f"/lib/python{sys.version_info.major}{sys.version_info.minor}.zip"


def import_labs() -> None:
    """Use each lab once, so that ``sys.modules`` holds all that they need."""
    from kvlab.unused import leave_out

    leave_out()
    from kvlab.labs import LABS, new_session

    for name in LABS:
        session = new_session(name)
        session.description()
        session.answer(json.dumps(session.lab.initial))


def write_libraries(folders: list[str], target: str) -> None:
    """Byte code of each imported module below ``folders``, compiled parts, and data files.

    ``optimize=2`` leaves out docstrings, about an eighth of the compressed download, and ``assert``
    statements; sources are left out as well.
    """
    entries: Entries = {}
    imported = _imported_files()
    for folder in map(Path, folders):
        for path in (path for path in imported if path.is_relative_to(folder)):
            name = path.relative_to(folder)
            if path.suffix == ".py":
                entries[f"{name.with_suffix('.pyc')}"] = _byte_code(path, name, optimize=2)
            else:
                entries[f"{name}"] = path.read_bytes()
    write_tar(target, entries | _data_files(Path(folders[0])))


def _imported_files() -> list[Path]:
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return sorted(Path(file) for file in files if file)


def _data_files(folder: Path) -> Entries:
    paths = sorted(
        path for path in folder.rglob("[!.]*") if path.is_file() and path.suffix != ".py"
    )
    return {f"{path.relative_to(folder)}": path.read_bytes() for path in paths}


def write_stdlib(at_start: list[str], target: str) -> None:
    """The part of the standard library that was imported since Python's start, as a zip.

    Args:
        at_start: the modules that Python imports by itself; the snapshot holds them.
        target: the file to write.
    """
    prefix = f"{STDLIB}/"
    names = {
        file.removeprefix(prefix)
        for name, module in list(sys.modules.items())
        if name not in at_start
        and (file := getattr(module, "__file__", None))
        and file.startswith(prefix)
    }
    with zipfile.ZipFile(STDLIB) as whole, zipfile.ZipFile(target, "w") as part:
        for name in sorted(names):
            part.writestr(zipfile.ZipInfo(name, FIXED_DATE), whole.read(name))


def write_lab(name: str, project: str, folder: str) -> None:
    """A lab's document, its table of states, and what its template needs, as JSON; and its modules.

    Our modules are imported anew, so that the list has those that this lab needs and no others, and
    the weights that lie beside them.
    """
    for module in [m for m in sys.modules if m.split(".")[0] in OURS]:
        del sys.modules[module]
    from kvlab.unused import leave_out

    leave_out()
    _number_models(name)
    from kvlab.labs import new_session
    from kvlab.session import state_table

    session = new_session(name)
    data: dict[str, Any] = {
        "description": session.description(),
        "initial": session.lab.initial,
        "marks": session.lab.marks,
        "page": session.lab.page,
    }
    data["table"] = state_table(session)
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    Path(folder, f"{name}_lab.json").write_text(text)
    imported = [path for path in _imported_files() if path.is_relative_to(project)]
    weights = [path for folder in {p.parent for p in imported} for path in folder.glob("*.npz")]
    modules = [str(path.relative_to(project)) for path in [*imported, *sorted(weights)]]
    Path(folder, f"{name}.modules").write_text(json.dumps(modules))


def _number_models(lab: str) -> None:
    """Bokeh's IDs of a lab: unlike another lab's on the page, whatever was made before."""
    from bokeh.model import model

    numbers = itertools.count()
    model.make_id = lambda: f"{lab}-{next(numbers)}"  # type: ignore[attr-defined]


def write_packages(project: str, stored: str, folder: str) -> None:
    """``labs.tar``: what the labs have imported of ours, and its weights; ``kvproof.tar``: all.

    The second has the sources as well: readers see our lines in their tracebacks.  A package with a
    version gets the metadata by which ``micropip`` knows that it is installed.
    """
    root = Path(project)
    lists = [json.loads(path.read_text()) for path in Path(folder).glob("*.modules")]
    labs: Entries = {}
    for name in map(Path, sorted({module for modules in lists for module in modules})):
        if name.suffix == ".py":
            labs[f"{name.with_suffix('.pyc')}"] = _byte_code(root / name, name, optimize=2)
        else:
            labs[f"{name}"] = (root / name).read_bytes()
    write_tar(f"{folder}/labs.tar", labs | _data_files(Path(stored)))

    cells: Entries = {}
    files = [path for package in OURS for path in sorted((root / package).rglob("*"))]
    for path in (path for path in files if path.suffix in (".py", ".toml", ".npz")):
        name = path.relative_to(root)
        cells[f"{name}"] = path.read_bytes()
        if path.suffix == ".py":
            cells[importlib.util.cache_from_source(str(name))] = _byte_code(path, name, optimize=0)
        if found := re.search(rb'^__version__ = "(.+)"', path.read_bytes(), re.MULTILINE):
            package, number = name.parts[0], found[1].decode()
            metadata = f"Metadata-Version: 2.4\nName: {package}\nVersion: {number}\n"
            cells[f"{package}-{number}.dist-info/METADATA"] = metadata.encode()
    write_tar(f"{folder}/kvproof.tar", cells)


def write_tar(target: str, entries: Entries) -> None:
    """A plain ustar file, uncompressed: hosts compress better, and JavaScript unpacks it fast."""
    with tarfile.open(target, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in entries.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def _byte_code(path: Path, shown: Path, optimize: int) -> bytes:
    """A .pyc that is used without looking at the source's date or content."""
    code = compile(path.read_bytes(), str(shown), "exec", dont_inherit=True, optimize=optimize)
    return bytes(_code_to_hash_pyc(code, b"\0" * 8, checked=False))
