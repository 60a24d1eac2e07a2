"""The service worker of the built site, with the list of what it may keep.

It must lie in the site's root: a worker sees the requests of pages beside and below it.
"""

import hashlib
import json
import os
from pathlib import Path

from kvsite.bundle import bundle_worker
from kvsite.paths import ROOT

NAME = "service-worker.js"
SOURCES = ROOT / "site" / "js"
PYTHON_FILES = ("snapshot", "stdlib", "libraries", "labs", "kvproof")
PYTHON = (*(f"assets/{name}." for name in PYTHON_FILES), "runtime/")


def is_wanted() -> bool:
    """False with ``KVPROOF_OFFLINE=0``: then browsers drop what an earlier build made them keep."""
    return os.environ.get("KVPROOF_OFFLINE", "1") != "0"


def write_service_worker(folder: Path, build: str) -> None:
    """Complete the site in ``folder``, where all else lies already.

    Raises:
        Failure: the script can't be bundled.
    """
    if is_wanted():
        site = json.dumps({"build": build, **contents(folder)})
        script = f"self.SITE = {site};\n{bundle_worker(SOURCES / NAME)}"
    else:
        script = bundle_worker(SOURCES / "service-worker-off.js")
    (folder / NAME).write_text(script, encoding="utf-8")


def contents(folder: Path) -> dict[str, dict[str, int | str]]:
    """Paths in the site: ``files`` and ``python`` with their bytes, ``pages`` with their hashes.

    Hosts answer with ``404.html`` where there is nothing, and downloads are for keeping elsewhere.
    """
    found: dict[str, dict[str, int | str]] = {"files": {}, "python": {}, "pages": {}}
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        path = file.relative_to(folder).as_posix()
        if path.startswith(PYTHON):
            found["python"][path] = file.stat().st_size
        elif path.startswith("assets/"):
            found["files"][path] = file.stat().st_size
        elif file.suffix == ".html" and path != "404.html":
            found["pages"][path] = hashlib.sha256(file.read_bytes()).hexdigest()[:12]
    return found
