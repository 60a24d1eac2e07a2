"""Build what the browser's Python needs, by running that Python under Node (see wasm.mjs).

``build/wasm`` gets ``lab.tar`` (byte code of just those modules that the labs import: NumPy, Bokeh,
Panel, ours), ``stdlib.zip`` (of the standard library, the same), ``kvproof.tar`` (our packages for
the cells), ``NAME_lab.json`` (document and state table of each lab) and ``snapshot.bin`` (the
interpreter's memory after its start).
"""

import shutil
import tempfile
from importlib.metadata import files, version
from pathlib import Path

from kvsite.environment import node_tool
from kvsite.fetch import CORE_FILES, LOCK
from kvsite.paths import BUILD, PY, REQUIREMENTS, ROOT, RUNTIME
from kvsite.stages import Command, folder_bytes, megabytes, run, stage
from kvsite.stamps import digest, is_fresh, new_folder

WASM = BUILD / "wasm"
HERE = Path(__file__).parent

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


def build_wasm() -> Path:
    """Make ``build/wasm`` complete and current.

    Raises:
        Failure: Pyodide under Node reported an error, or Node is missing or too old.
    """
    made_from = digest(
        [
            PY / "kvproof",
            PY / "kvlab",
            REQUIREMENTS / "site.txt",
            *(RUNTIME / name for name in (*CORE_FILES, LOCK)),
            *(HERE / name for name in ("wasm.py", "wasm.mjs", "wasm_inside.py")),
            ROOT / "site" / "js" / "tar.js",
            CPU_TIMING,
        ]
    )
    if is_fresh(WASM, made_from):
        return WASM
    with stage("wasm") as current, tempfile.TemporaryDirectory() as scratch:
        sources = Path(scratch)
        copy_sources(sources)
        write_stored(sources / "kvlab" / "stored")
        with new_folder(WASM, made_from) as folder:
            script, inside = HERE / "wasm.mjs", HERE / "wasm_inside.py"
            node: Command = [node_tool("node"), script]
            run(current, [*node, RUNTIME, sources, PY, inside, folder], watch=folder)
            n_bytes = folder_bytes(folder)
        current.note(f"byte code, state tables and snapshot, {megabytes(n_bytes)}")
    return WASM


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


def write_stored(folder: Path) -> None:
    """What ``kvlab.stored`` finds in the archive: measured times, and errors of all the zoo.

    The zoo takes seconds in a browser; there a lab recomputes the one decoder that it is about.
    """
    from kvproof.experiments.error_ladder import to_json

    folder.mkdir(parents=True)
    shutil.copyfile(CPU_TIMING, folder / CPU_TIMING.name)
    (folder / "ladder.json").write_text(to_json())
