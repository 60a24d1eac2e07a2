"""Bundle the scripts with esbuild: modules, a classic one for file://, a service worker."""

import json
import re
import subprocess
import tempfile
from pathlib import Path

from kvsite.environment import node_tool
from kvsite.paths import NODE_MODULES
from kvsite.stages import Failure

MODULES = ("main.js", "header.js", "lab-worker.js", "cells-worker.js", "watch.js")
CLASSIC = ("boot.js",)


def bundle_scripts(sources: Path, target: Path) -> list[Path]:
    """Write ``name.HASH.js`` for each entry into ``target``; returns these files.

    Raises:
        Failure: esbuild reported an error, or Node is missing or too old.
    """
    into = ("--entry-names=[name].[hash]", f"--outdir={target}")
    _esbuild([sources / name for name in MODULES], "--format=esm", *into)
    _esbuild([sources / name for name in CLASSIC], "--format=iife", *into)
    return sorted(target.glob("*.js"))


def bundle_worker(source: Path) -> str:
    """A script whose address must not change, so its name has no hash.

    Raises:
        Failure: as above.
    """
    return _esbuild([source], "--format=iife")


def bundled_packages(sources: Path) -> list[str]:
    """Names of npm's packages in the modules, as esbuild tells them.

    Raises:
        Failure: as above.
    """
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "meta.json"
        entries = [sources / name for name in (*MODULES, *CLASSIC)]
        _esbuild(entries, "--format=esm", f"--outdir={folder}", f"--metafile={told}")
        inputs = json.loads(told.read_text(encoding="utf-8"))["inputs"]
    inside = (re.search(r"node_modules/((?:@[^/]+/)?[^/]+)/", path) for path in inputs)
    return sorted({match[1] for match in inside if match})


def _esbuild(entries: list[Path], *options: str) -> str:
    # The package's own binary; the file in .bin is a script of another kind on Windows.
    command = [
        node_tool("node"),
        NODE_MODULES / "esbuild" / "bin" / "esbuild",
        *entries,
        "--bundle",
        "--minify",
        "--target=es2022",
        "--log-level=warning",
        *options,
    ]
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, encoding="utf-8"
    )
    if done.returncode:
        raise Failure(f"The scripts can't be bundled:\n{done.stderr.strip()}")
    return done.stdout
