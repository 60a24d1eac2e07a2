"""What others have made and the site ships: versions, licences, and the licences' full texts.

Nothing is listed by hand that can be looked up: wheels, installed packages and bundles say what is
in them.  ``site/licences`` has the texts for what is compiled into Pyodide or bundled into BokehJS.
"""

import json
import re
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from functools import cache
from importlib.metadata import distribution
from pathlib import Path, PurePosixPath

import bokeh

from kvsite.bundle import bundled_packages
from kvsite.fetch import LOCK, pinned_version
from kvsite.paths import NODE_MODULES, ROOT, RUNTIME
from kvsite.stages import Failure
from kvsite.wasm import DISTRIBUTIONS

LICENCES = ROOT / "site" / "licences"
TEXT_NAME = re.compile(r"(licen[cs]e|copying|notice)", re.IGNORECASE)
# BokehJS's readable scripts, beside the minified ones, name the module that each function is from.
BOKEH_MODULE = re.compile(r"/\* ((?:@[\w.-]+/)?[\w.-]+)/\S+ \*/ function _\(")
BOKEH_SCRIPTS = ("bokeh.js", "bokeh-widgets.js")
BOKEH_OWN = {"client", "core", "document", "embed", "models", "protocol", "styles"}


@dataclass(frozen=True)
class Component:
    """One thing that is shipped; ``version`` may be that of what it is a part of."""

    name: str
    version: str
    licence: str
    texts: tuple[str, ...]


@cache
def shipped() -> tuple[Component, ...]:
    """All that the site ships and that others have made.

    Raises:
        Failure: one of them has no licence text.
    """
    found = [*pyodide_parts(), *wheels(), *archived(), *bokehjs_parts(), *bundled()]
    if without := [part.name for part in found if not part.licence or not part.texts]:
        raise Failure(f"No licence for {', '.join(without)}: put its text into {LICENCES}.")
    return tuple(sorted(found, key=lambda component: component.name.lower()))


def pyodide_parts() -> Iterator[Component]:
    """Python for WebAssembly, and the libraries that are compiled into it."""
    python = json.loads((RUNTIME / LOCK).read_text())["info"]["python"]
    pyodide = f"Pyodide {pinned_version(NODE_MODULES / 'pyodide')}"
    versions = {"cpython": python, "pyodide": pyodide.removeprefix("Pyodide ")}
    for name, licence in _index("pyodide").items():
        yield Component(name, versions.get(name, pyodide), licence, _texts("pyodide", name))


def wheels() -> Iterator[Component]:
    """The wheels beside Pyodide; NumPy's has the licences of the code inside it."""
    for wheel in sorted(RUNTIME.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if ".dist-info/" in name]
            [metadata] = [name for name in names if name.endswith(".dist-info/METADATA")]
            texts = tuple(archive.read(n).decode() for n in names if _is_text(n))
            yield _described(Parser().parsestr(archive.read(metadata).decode()), texts)


def archived() -> Iterator[Component]:
    """The packages whose byte code the labs load; Bokeh's covers BokehJS, too."""
    for name in DISTRIBUTIONS:
        found = distribution(name)
        files = [file for file in found.files or [] if ".dist-info" in file.as_posix()]
        texts = tuple(f.read_text(encoding="utf-8") for f in files if _is_text(f.as_posix()))
        yield _described(found.metadata, texts)  # type: ignore[arg-type]


def bokehjs_parts() -> Iterator[Component]:
    """What Bokeh's scripts contain of others."""
    index = _index("bokehjs")
    for name in sorted({*index, *bokehjs_packages()}):
        version = f"BokehJS {bokeh.__version__}"
        yield Component(name, version, index.get(name, ""), _texts("bokehjs", name))


def bokehjs_packages() -> set[str]:
    """Names of the packages that Bokeh's scripts are made of, Bokeh's own folders left out."""
    folder = Path(bokeh.__file__).parent / "server" / "static" / "js"
    scripts = [(folder / name).read_text(encoding="utf-8") for name in BOKEH_SCRIPTS]
    return {name for script in scripts for name in BOKEH_MODULE.findall(script)} - BOKEH_OWN


def bundled() -> Iterator[Component]:
    """The packages of npm in our scripts."""
    for name in bundled_packages(ROOT / "site" / "js"):
        folder = NODE_MODULES / name
        about = json.loads((folder / "package.json").read_text(encoding="utf-8"))
        files = sorted(path for path in folder.iterdir() if TEXT_NAME.search(path.name))
        texts = tuple(path.read_text(encoding="utf-8") for path in files)
        yield Component(name, about["version"], about["license"], texts)


def _described(metadata: Message, texts: tuple[str, ...]) -> Component:
    """Old packages give their licence's name in other fields, or only in their classifiers."""
    classifiers = [text.split(" :: ") for text in metadata.get_all("Classifier", [])]
    named = [parts[-1] for parts in classifiers if parts[0] == "License"]
    licence = metadata["License-Expression"] or metadata["License"] or ", ".join(named)
    first_line = licence.partition("\n")[0]  # some give the whole text
    return Component(metadata["Name"], metadata["Version"], first_line, texts)


def _is_text(path: str) -> bool:
    return TEXT_NAME.search(PurePosixPath(path).name) is not None


def _index(part: str) -> dict[str, str]:
    index: dict[str, dict[str, str]] = tomllib.loads((LICENCES / "index.toml").read_text())
    return index[part]


def _texts(part: str, name: str) -> tuple[str, ...]:
    file = LICENCES / part / f"{name.replace('/', '--')}.txt"
    return (file.read_text(encoding="utf-8"),) if file.exists() else ()
