"""What all pages share: scripts, styles, data, Python.

Assets get names with a hash of their content, so that a host may tell browsers to keep them.
"""

import gzip
import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bokeh

from kvlab.labs import LABS
from kvlab.palette import DARK, LIGHT
from kvsite.bundle import bundle_scripts
from kvsite.fetch import CORE_FILES, LOCK
from kvsite.labs import lab_file
from kvsite.offline import NAME, is_wanted
from kvsite.paths import ROOT, RUNTIME
from kvsite.specimens import specimen_sources
from kvsite.stamps import STAMP, digest
from kvsite.wasm import LAB_FILES, LIBRARIES
from kvsite.wheel import build_wheel

SITE = ROOT / "site"
LIBRARY_FILES = ("libraries.tar", "stdlib.zip", "snapshot.bin")
BOKEH_SCRIPTS = ("bokeh.min.js", "bokeh-widgets.min.js")


GZIP = ".gzip"
PACKED = (*LIBRARY_FILES, "labs.tar", "kvproof.tar")
"""What hosts that compress only text would send as it lies: stored compressed, as ``NAME.gzip``."""
PACKED_RUNTIME = ("pyodide.asm.wasm",)
"""The same of the runtime's files.  Wheels and Python's whole library are compressed already."""


def is_packed() -> bool:
    """False with ``KVPROOF_PACKED=0``, for a host that compresses everything, and better."""
    return os.environ.get("KVPROOF_PACKED", "1") != "0"


class Assets:
    """The folders ``assets`` and ``runtime`` of the site in ``folder``.

    ``build``: what the service worker knows this build by.
    """

    def __init__(self, folder: Path, build: str) -> None:
        self._folder = folder
        self._build = build
        # Its files call one another by name, so the folder's name has the hash.
        content = digest(path for path in RUNTIME.iterdir() if path.name != STAMP)
        self._runtime = f"runtime/{content[:12]}/"
        shutil.copytree(RUNTIME, folder / self._runtime, ignore=shutil.ignore_patterns(STAMP))
        self._packed = is_packed()
        library = "python_stdlib.zip"
        checksum = hashlib.sha256((RUNTIME / library).read_bytes()).hexdigest()
        self._hashes = {self._runtime + library: checksum}
        for name in PACKED_RUNTIME if self._packed else ():
            _pack(folder / self._runtime / name)
        self.urls: dict[str, str] = {}
        """A file's own name -> its path in the site."""
        for file in bundle_scripts(SITE / "js", folder / "assets"):
            self.urls[f"{file.name.split('.')[0]}.js"] = f"assets/{file.name}"
        scripts = Path(bokeh.__file__).parent / "server" / "static" / "js"
        files = [
            *(scripts / name for name in BOKEH_SCRIPTS),
            *(LIBRARIES / name for name in LIBRARY_FILES),
            *(LAB_FILES / name for name in (*map(lab_file, LABS), "labs.tar", "kvproof.tar")),
            SITE / "favicon.svg",
        ]
        for path in files:
            self._add(path.name, path.read_bytes())
        self._add("style.css", style_sheet().encode())
        self._add("specimens.json", json.dumps(specimen_sources()).encode())

    def _add(self, name: str, content: bytes) -> None:
        stem, dot, suffix = name.rpartition(".")
        checksum = hashlib.sha256(content).hexdigest()
        hashed = f"assets/{stem}.{checksum[:12]}{dot}{suffix}"
        (self._folder / hashed).write_bytes(content)
        self._hashes[hashed] = checksum
        self.urls[name] = hashed
        if self._packed and name in PACKED:
            _pack(self._folder / hashed)

    def config(self, labs: Sequence[str], has_cells: bool) -> dict[str, Any]:
        """What site/js/main.js needs to know for a page; URLs are paths in the site.

        Args:
            labs: names of those on the page.
            has_cells: whether there are cells.
        """
        return {
            "labs": self._labs(labs) if labs else None,
            "cells": self._cells() if has_cells else None,
            "offline": {"build": self._build, "workerUrl": NAME} if is_wanted() else None,
        }

    def _labs(self, labs: Sequence[str]) -> dict[str, Any]:
        snapshot = {
            "memory": self._checked(self.urls["snapshot.bin"]),
            "stdlib": self._checked(self.urls["stdlib.zip"]),
        }
        return {
            "dataUrls": {name: self.urls[lab_file(name)] for name in labs},
            "workerUrl": self.urls["lab-worker.js"],
            "python": {**self._python(["libraries.tar", "labs.tar"], []), "snapshot": snapshot},
        }

    def _cells(self) -> dict[str, Any]:
        return {
            "workerUrl": self.urls["cells-worker.js"],
            "specimensUrl": self.urls["specimens.json"],
            "wheelUrl": f"downloads/{build_wheel().name}",
            "python": self._python(["kvproof.tar"], ["numpy"]),
        }

    def _python(self, archives: list[str], packages: list[str]) -> dict[str, Any]:
        """A PythonConfig of site/js/python.js, without a snapshot."""
        runtime = self._folder / self._runtime
        names = [*CORE_FILES[1:], LOCK, *(path.name for path in runtime.glob("*.whl"))]
        return {
            "runtimeUrl": self._runtime,
            "files": [self._file(self._runtime + name) for name in names],
            "library": self._checked(self._runtime + "python_stdlib.zip"),
            "archives": [self._checked(self.urls[name]) for name in archives],
            "packages": packages,
        }

    def _file(self, url: str) -> dict[str, Any]:
        """A File of site/js/python.js; ``bytes`` are those that the host sends."""
        packed = self._folder / f"{url}{GZIP}"
        is_packed = packed.exists()
        file = packed if is_packed else self._folder / url
        return {"url": url, "bytes": file.stat().st_size, "gzip": is_packed}

    def _checked(self, url: str) -> dict[str, Any]:
        """A file that the page holds against its hash: a damaged one would blame another."""
        return {**self._file(url), "hash": self._hashes[url]}


def _pack(path: Path) -> None:
    """Put ``NAME.gzip`` in a file's place: no ``.gz``, which some hosts take for an encoding."""
    content = gzip.compress(path.read_bytes(), compresslevel=6, mtime=0)  # 9: 1 % for 12 seconds
    path.with_name(path.name + GZIP).write_bytes(content)
    path.unlink()


def style_sheet() -> str:
    """The palette as CSS variables for light and dark, then all styles."""
    colours = [f"  --{name}: light-dark({LIGHT[name]}, {DARK[name]});" for name in LIGHT]
    palette = "\n".join([":root {", *colours, "}"])
    styles = [path.read_text() for path in sorted((SITE / "styles").glob("*.css"))]
    return "\n".join([palette, *styles])
