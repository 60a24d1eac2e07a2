"""Runs inside Pyodide under Node while the site is built (see wasm.mjs); never in the browser.

It uses the browser's own Python, so that byte code fits, and floating-point results in the
prebuilt state table equal the live ones to the last bit.
"""

import importlib.util
import json
import sys
import zipfile
from collections.abc import Iterable
from importlib._bootstrap_external import _code_to_hash_pyc  # type: ignore[attr-defined]
from pathlib import Path
from types import ModuleType

Entries = Iterable[tuple[str, bytes]]
FIXED_DATE = (2026, 1, 1, 0, 0, 0)  # equal inputs give equal archives


def import_lab() -> None:
    """Use the lab once, so that ``sys.modules`` holds all that it needs."""
    from kvlab.mask_lab import MaskLab
    from kvlab.session import Session

    session = Session(MaskLab)
    session.description()
    session.answer(json.dumps(next(session.lab.states())))


def write_packages_archive(sources: str, target: str) -> int:
    """Byte code of each imported module below ``sources``, without its source.

    Data files come along; Bokeh, for one, asks the metadata for its version.

    Returns:
        The number of modules.
    """
    root = Path(sources)
    paths = {path for module in list(sys.modules.values()) if (path := _source_path(module))}
    names = [path.relative_to(root) for path in paths if path.is_relative_to(root)]
    modules = [(f"{name.with_suffix('.pyc')}", _byte_code(root / name, name)) for name in names]
    data_files = [
        (f"{path.relative_to(root)}", path.read_bytes())
        for path in root.rglob("*")
        if path.is_file() and path.suffix != ".py"
    ]
    _write_zip(Path(target), sorted(modules + data_files))
    return len(modules)


def write_project_archive(project: str, names: list[str], target: str) -> None:
    """Source and byte code of our own packages: readers see our lines in their tracebacks."""
    root = Path(project)
    entries = []
    for path in sorted(path for name in names for path in (root / name).rglob("*.py")):
        relative = path.relative_to(root)
        cached = importlib.util.cache_from_source(str(relative))
        entries += [(str(relative), path.read_bytes()), (cached, _byte_code(path, relative))]
    _write_zip(Path(target), entries)


def write_lab_data(target: str) -> int:
    """The lab's document and its table of states, as JSON.

    Returns:
        The number of states.
    """
    from kvlab.mask_lab import MaskLab
    from kvlab.session import Session, state_table

    session = Session(MaskLab)
    data = {"description": session.description(), "initial": session.lab.initial}
    data["table"] = table = state_table(session)
    Path(target).write_text(json.dumps(data, separators=(",", ":"), allow_nan=False))
    return len(table["states"])


def _source_path(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file) if file and file.endswith(".py") else None


def _byte_code(path: Path, shown: Path) -> bytes:
    """A .pyc that is used without looking at the source's date or content."""
    code = compile(path.read_bytes(), str(shown), "exec", dont_inherit=True)
    return bytes(_code_to_hash_pyc(code, b"\0" * 8, checked=False))


def _write_zip(target: Path, entries: Entries) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in entries:
            archive.writestr(zipfile.ZipInfo(name, FIXED_DATE), data, zipfile.ZIP_DEFLATED)
