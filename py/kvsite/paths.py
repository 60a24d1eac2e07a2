"""Where things are: the checkout's folders and the user's cache."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PY = ROOT / "py"
REQUIREMENTS = ROOT / "requirements"
VENV = ROOT / ".venv"
NODE_MODULES = ROOT / "node_modules"
BUILD = ROOT / "build"
RUNTIME = BUILD / "runtime"
DIST = ROOT / "dist"


def venv_python() -> Path:
    """The Python inside `.venv`, whether or not it has been created yet."""
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def cache_folder() -> Path:
    """The user's cache for downloads: `KVPROOF_CACHE`, else the platform's usual place."""
    if chosen := os.environ.get("KVPROOF_CACHE"):
        return Path(chosen).expanduser().resolve()
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif os.name == "nt":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "kvproof"


CHECKED = ROOT / "docs" / "CHECKED.md"
"""What the checker says of decoders in libraries; ``tests/check/checked.py`` writes its table."""
