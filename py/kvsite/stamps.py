"""Is a folder up to date? A stamp inside it holds the digest of what it was made from."""

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kvsite.paths import ROOT

STAMP = ".kvproof-stamp"
LEFT_BEHIND_S = 3600


def digest(paths: Iterable[Path], *extra: str) -> str:
    """SHA-256 over the names and contents of files and folders, and of the `extra` strings.

    Names count relative to the checkout, so that two clones agree; a missing path counts as such.
    """
    total = hashlib.sha256(repr(extra).encode())
    for path in sorted(set(paths)):
        for file in _files(path):
            name = file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else str(file)
            content = hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else "missing"
            total.update(f"{name}\n{content}\n".encode())
    return total.hexdigest()


def _files(path: Path) -> Iterable[Path]:
    if not path.is_dir():
        return [path]
    return sorted(
        file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts
    )


def is_fresh(folder: Path, made_from: str, stamp: str = STAMP) -> bool:
    """True if `folder` was completed from inputs with the digest `made_from`, and is still whole.

    Files that `new_folder` put there must be there with their sizes.
    """
    file = folder / stamp
    lines = file.read_text("utf-8", "replace").splitlines() if file.is_file() else []
    return lines[:1] == [made_from] and all(_is_there(folder, line) for line in lines[1:])


def _inventory(folder: Path) -> list[str]:
    return [
        f"{file.stat().st_size} {file.relative_to(folder).as_posix()}" for file in _files(folder)
    ]


def _is_there(folder: Path, line: str) -> bool:
    size, name = line.split(" ", 1)
    file = folder / name
    return file.is_file() and str(file.stat().st_size) == size


@contextmanager
def new_folder(target: Path, made_from: str) -> Iterator[Path]:
    """Fill a temporary folder that takes the place of `target`, stamped, if all goes well.

    After an exception `target` is as it was and the temporary folder is gone.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    sweep(target.parent, f".{target.name}-*")
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        work.chmod(0o755)  # mkdtemp gives 0o700, which a web server run by another user can't read
        yield work
        (work / STAMP).write_text("\n".join([made_from, *_inventory(work)]), "utf-8")
        _swap(work, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def sweep(folder: Path, pattern: str) -> None:
    """Remove what killed commands left in ``folder``: what has stayed unchanged for an hour."""
    for path in folder.glob(pattern):
        if time.time() - path.stat().st_mtime > LEFT_BEHIND_S:
            shutil.rmtree(path, ignore_errors=True)


def _swap(work: Path, target: Path) -> None:
    if target.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
        target.replace(old / target.name)
        work.replace(target)
        shutil.rmtree(old)
    else:
        work.replace(target)


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path`, so that `path` is never seen half-written, not even after a crash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", suffix=".part", dir=path.parent)
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
