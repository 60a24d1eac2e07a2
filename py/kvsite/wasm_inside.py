"""Runs inside Pyodide under Node while the site is built (see wasm.mjs); never in the browser.

It uses the browser's own Python, so that byte code fits, and floating-point results in the
prebuilt state table equal the live ones to the last bit.
"""

import importlib.util
import io
import json
import sys
import tarfile
import zipfile
from importlib._bootstrap_external import _code_to_hash_pyc  # type: ignore[attr-defined]
from pathlib import Path
from typing import Any

Entries = dict[str, bytes]
"""Name in an archive -> content."""
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


def write_lab_archive(folders: list[str], target: str) -> int:
    """Byte code of each imported module below ``folders``, compiled parts, and data files.

    ``optimize=2`` leaves out docstrings, about an eighth of the compressed download, and ``assert``
    statements; sources are left out as well.

    Returns:
        The number of modules that were compiled to byte code.
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
    return sum(name.endswith(".pyc") for name in entries)


def _imported_files() -> list[Path]:
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return sorted(Path(file) for file in files if file)


def _data_files(folder: Path) -> Entries:
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".py")
    return {f"{path.relative_to(folder)}": path.read_bytes() for path in paths}


def write_project_archive(project: str, packages: list[str], target: str) -> None:
    """Source and byte code of our own packages: readers see our lines in their tracebacks.

    A package with a version gets the metadata by which ``micropip`` knows that it is installed.
    """
    root = Path(project)
    entries: Entries = {}
    for package in packages:
        if number := getattr(sys.modules[package], "__version__", None):
            metadata = f"Metadata-Version: 2.4\nName: {package}\nVersion: {number}\n"
            entries[f"{package}-{number}.dist-info/METADATA"] = metadata.encode()
    files = [path for folder in packages for path in (root / folder).rglob("*")]
    for path in sorted(path for path in files if path.suffix in (".py", ".toml")):
        name = path.relative_to(root)
        entries[f"{name}"] = path.read_bytes()
        if path.suffix == ".py":
            entries[importlib.util.cache_from_source(str(name))] = _byte_code(
                path, name, optimize=0
            )
    write_tar(target, entries)


def write_stdlib(at_start: list[str], target: str) -> int:
    """The part of the standard library that was imported since Python's start, as a zip.

    Args:
        at_start: the modules that Python imports by itself; the snapshot holds them.
        target: the file to write.

    Returns:
        The number of modules.
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
    return len(names)


def write_lab_data(folder: str) -> str:
    """Each lab's document, its table of states, and its marks as text, as JSON.

    Returns:
        The labs and their numbers of states.
    """
    from kvlab.unused import leave_out

    leave_out()
    from kvlab.labs import LABS, new_session
    from kvlab.session import state_table

    done = []
    for name in LABS:
        session = new_session(name)
        data: dict[str, Any] = {
            "description": session.description(),
            "initial": session.lab.initial,
            "marks": session.lab.marks,
        }
        data["table"] = table = state_table(session)
        text = json.dumps(data, separators=(",", ":"), allow_nan=False)
        Path(folder, f"{name}_lab.json").write_text(text)
        done.append(f"{name} {len(table['states'])}")
    return ", ".join(done)


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
