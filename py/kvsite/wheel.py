"""Build kvproof's wheel: what the site offers for download and pip installs elsewhere."""

import sys
from pathlib import Path

from kvproof import __version__
from kvsite.paths import BUILD, PY, ROOT
from kvsite.stages import run, stage
from kvsite.stamps import digest, is_fresh, new_folder

WHEEL = BUILD / "wheel" / f"kvproof-{__version__}-py3-none-any.whl"
SOURCES = [PY / "kvproof", *(ROOT / name for name in ("pyproject.toml", "README.md", "LICENSE"))]


def build_wheel() -> Path:
    """Make ``build/wheel`` current; the same sources give the same bytes.

    Raises:
        Failure: the build backend reported an error.
    """
    made_from = digest(SOURCES)
    if not is_fresh(WHEEL.parent, made_from):
        with stage("wheel") as current, new_folder(WHEEL.parent, made_from) as folder:
            backend = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
            run(current, [*backend, "--directory", folder])
            current.note(WHEEL.name)
    return WHEEL
