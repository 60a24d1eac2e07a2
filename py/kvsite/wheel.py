"""Build kvproof's wheel: what the site offers for download and pip installs elsewhere."""

import json
import sys
from pathlib import Path

from kvsite.fetch import LOCK
from kvsite.paths import BUILD, PY, ROOT, RUNTIME
from kvsite.stages import run, stage
from kvsite.stamps import digest, is_fresh, new_folder

WHEEL = BUILD / "wheel"
SOURCES = [PY / "kvproof", *(ROOT / name for name in ("pyproject.toml", "README.md", "LICENSE"))]


def build_wheel() -> Path:
    """The current wheel, built if need be; the same sources give the same bytes.

    Raises:
        Failure: the build backend reported an error.
    """
    made_from = digest(SOURCES)
    if not is_fresh(WHEEL, made_from):
        with stage("wheel") as current, new_folder(WHEEL, made_from) as folder:
            backend = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
            run(current, [*backend, "--directory", folder])
            current.note("kvproof")
    [wheel] = WHEEL.glob("*.whl")
    return wheel


def brought() -> list[str]:
    """Names and versions of what ``micropip`` can install in the page's cells."""
    locked = json.loads((RUNTIME / LOCK).read_text())["packages"]
    versions = {name: package["version"] for name, package in locked.items()}
    versions["kvproof"] = build_wheel().name.split("-")[1]
    return [f"{name} {versions[name]}" for name in sorted(versions)]
