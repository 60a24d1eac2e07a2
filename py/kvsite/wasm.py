"""Build what the browser's Python needs, by running that Python under Node (see wasm.mjs).

``build/libraries``: ``libraries.tar`` (byte code of just those modules of NumPy, Bokeh and Panel
that the labs import), ``stdlib.zip`` (of the standard library, the same) and ``snapshot.bin`` (the
interpreter's memory after its start).  ``build/labs``: ``NAME_lab.json`` (document and state table
of each lab), ``labs.tar`` (byte code of our modules that the labs import) and ``kvproof.tar`` (all
our modules, for the cells).

A lab's states are computed again when one of the modules changed that it has imported.
"""

import ast
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from importlib.metadata import files, version
from pathlib import Path

from kvsite.environment import node_tool
from kvsite.fetch import CORE_FILES, LOCK
from kvsite.paths import BUILD, PY, REQUIREMENTS, ROOT, RUNTIME
from kvsite.stages import Command, Failure, folder_bytes, megabytes, run, stage
from kvsite.stamps import STAMP, digest, is_fresh, new_folder

LIBRARIES = BUILD / "libraries"
STORED = BUILD / "stored"
LAB_FILES = BUILD / "labs"
HERE = Path(__file__).parent
TOOLS = (
    *(HERE / name for name in ("wasm.py", "wasm.mjs", "wasm_inside.py")),
    ROOT / "site" / "js" / "tar.js",
)
OURS = ("kvproof", "kvlab")

# What the labs import. Panel installs more (pandas, tornado, ...) that it never uses here.
DISTRIBUTIONS = (
    "bokeh",
    "panel",
    "param",
    "pyviz_comms",
    "Jinja2",
    "MarkupSafe",
    "PyYAML",
    "packaging",
    "typing_extensions",
)
# Files beside the modules that are read while these are imported.
DATA_FILES = (
    "METADATA",
    "package.json",
    "notebook.js",
    "flexbox.html",
    f"_sri/{version('bokeh')}.json",
)
CPU_TIMING = ROOT / "notebooks" / "results" / "cpu_timing.json"
# Templates and styles of whole pages: must exist while these are imported, are never used: emptied.
EMPTIED_FOLDERS = ("_templates", "css")
MOST_PROCESSES = 4


def build_wasm() -> None:
    """Make ``build/libraries`` and ``build/labs`` complete and current.

    Raises:
        Failure: Pyodide under Node reported an error, or Node is missing or too old.
    """
    build_stored()
    build_libraries()
    try:
        build_labs()
    except Failure as failure:
        if "No module named" not in str(failure):
            raise
        shutil.rmtree(LIBRARIES)  # a lab uses more of a library than before
        build_libraries()
        build_labs()


# --- What others have made ----------------------------------------------------------------------


def build_libraries() -> None:
    """Make ``build/libraries`` complete and current."""
    runtime = (RUNTIME / name for name in (*CORE_FILES, LOCK))
    made_from = digest([REQUIREMENTS / "site.txt", *runtime, *TOOLS], *sorted(set(imports())))
    if is_fresh(LIBRARIES, made_from):
        return
    with stage("libraries") as current, tempfile.TemporaryDirectory() as scratch:
        copy_sources(Path(scratch))
        with new_folder(LIBRARIES, made_from) as folder:
            run(current, _node("libraries", folder, scratch), watch=folder)
            n_bytes = folder_bytes(folder)
        current.note(f"byte code and snapshot, {megabytes(n_bytes)}")


def imports() -> Iterator[str]:
    """The statements by which our modules import others' or the standard library's."""
    for file in (file for package in OURS for file in (PY / package).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                statement = ast.unparse(node)
                if statement.split()[1].split(".")[0] not in OURS:
                    yield statement


def copy_sources(target: Path) -> None:
    """Copy the Python sources of ``DISTRIBUTIONS`` out of the running environment.

    Compiled parts stay behind: MarkupSafe and PyYAML work without theirs.
    """
    for name in DISTRIBUTIONS:
        for file in files(name) or []:
            place = target / file
            if file.suffix == ".py" or file.as_posix().endswith(DATA_FILES):
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file.locate(), place)
            elif file.parent.name in EMPTIED_FOLDERS and "dist" not in file.parts:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.touch()


# --- What is ours -------------------------------------------------------------------------------


def build_stored() -> None:
    """What ``kvlab.stored`` finds in the archive: measured times, and errors of all the zoo.

    The zoo takes seconds in a browser; there a lab recomputes the one decoder that it is about.
    """
    made_from = digest([PY / "kvproof", CPU_TIMING, *TOOLS])
    if is_fresh(STORED, made_from):
        return
    from kvproof.experiments.error_ladder import to_json

    with new_folder(STORED, made_from) as folder:
        place = folder / "kvlab" / "stored"
        place.mkdir(parents=True)
        shutil.copyfile(CPU_TIMING, place / CPU_TIMING.name)
        (place / "ladder.json").write_text(to_json())


def build_labs() -> None:
    """Make ``build/labs`` complete and current, from what is in the other two folders."""
    sources = [PY / package for package in OURS]
    made_from = digest([*sources, STORED, LIBRARIES / STAMP, *TOOLS])
    if is_fresh(LAB_FILES, made_from):
        return
    from kvlab.labs import LABS

    with stage("labs") as current, new_folder(LAB_FILES, made_from) as folder:
        changed = [name for name in LABS if not _take_over(name, folder)]
        n_processes = min(len(changed), os.cpu_count() or 1, MOST_PROCESSES)
        groups = [changed[i::n_processes] for i in range(n_processes)]
        run(current, *(_node("labs", folder, *group) for group in groups), watch=folder)
        for name in changed:
            (folder / f"{name}.digest").write_text(_lab_digest(name, folder))
        run(current, _node("packages", folder), watch=folder)
        current.note(f"states of {', '.join(changed) or 'no lab'}, archives of our modules")


def _take_over(name: str, folder: Path) -> bool:
    """Copy a lab's files from the last build, if they would come out the same now."""
    kept = LAB_FILES / f"{name}.digest"
    if not kept.exists() or kept.read_text() != _lab_digest(name, LAB_FILES):
        return False
    for file in (f"{name}.digest", f"{name}.modules", f"{name}_lab.json"):
        shutil.copyfile(LAB_FILES / file, folder / file)
    return True


def _lab_digest(name: str, folder: Path) -> str:
    """Of all that a lab's states were made from; ``folder`` has the list of its modules."""
    modules = json.loads((folder / f"{name}.modules").read_text())
    stored = [STORED / "kvlab"] if "kvlab/stored.py" in modules else []
    return digest([*(PY / module for module in modules), *stored, LIBRARIES / STAMP, *TOOLS])


def _node(task: str, target: Path, *more: str) -> Command:
    places = [RUNTIME, LIBRARIES, STORED, PY, HERE / "wasm_inside.py", target]
    return [node_tool("node"), HERE / "wasm.mjs", task, *places, *more]
