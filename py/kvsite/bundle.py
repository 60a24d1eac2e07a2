"""Bundle the page's scripts with esbuild: three modules, and a classic script for file://."""

import subprocess
from pathlib import Path

from kvsite.environment import node_tool
from kvsite.paths import NODE_MODULES
from kvsite.stages import Failure

MODULES = ("main.js", "lab-worker.js", "cells-worker.js")
CLASSIC = ("boot.js",)


def bundle_scripts(sources: Path, target: Path) -> list[Path]:
    """Write ``name.HASH.js`` for each entry into ``target``; returns these files.

    Raises:
        Failure: esbuild reported an error, or Node is missing or too old.
    """
    _esbuild([sources / name for name in MODULES], target, "--format=esm")
    _esbuild([sources / name for name in CLASSIC], target, "--format=iife")
    return sorted(target.glob("*.js"))


def _esbuild(entries: list[Path], target: Path, *options: str) -> None:
    # The package's own binary; the file in .bin is a script of another kind on Windows.
    command = [
        node_tool("node"),
        NODE_MODULES / "esbuild" / "bin" / "esbuild",
        *entries,
        "--bundle",
        "--minify",
        "--target=es2022",
        "--entry-names=[name].[hash]",
        "--log-level=warning",
        f"--outdir={target}",
        *options,
    ]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        raise Failure(f"The scripts can't be bundled:\n{done.stderr.strip()}")
