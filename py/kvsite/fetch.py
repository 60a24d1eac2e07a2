"""Fetch the Pyodide runtime into `build/runtime`: files of the npm package and three wheels.

`npm ci` has verified the package. Of the wheels, bytes are accepted only when their SHA-256 is the
one in Pyodide's official lock, so no source need be trusted.
"""

import errno
import hashlib
import json
import os
import shutil
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from kvsite.environment import pip
from kvsite.paths import NODE_MODULES, ROOT, RUNTIME, cache_folder
from kvsite.stages import Failure, Stage, megabytes, stage
from kvsite.stamps import digest, is_fresh, new_folder, write_atomically

CORE_FILES = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
PACKAGES = ("numpy", "micropip", "packaging")
LOCK = "pyodide-lock.json"
# A published wheel that carries Pyodide's own wheels: reachable wherever pip is.
CARRIER, CARRIER_FOLDER = "open-webui==0.12.4", "open_webui/frontend/pyodide"
CONNECT_TIMEOUT_S = 5.0

Read = Callable[[str], bytes]


class SourceError(Exception):
    """A source can't give a file; its text says why."""


@dataclass(frozen=True)
class Wheel:
    """A file that must be had, and what it must hash to."""

    file_name: str
    sha256: str

    def check(self, data: bytes) -> None:
        """Raise SourceError unless `data` is this very file."""
        found = hashlib.sha256(data).hexdigest()
        if found != self.sha256:
            raise SourceError(f"expected SHA-256 {self.sha256}, got {found} ({len(data)} bytes)")


@dataclass(frozen=True)
class Source:
    """A place to get wheels from; `open` gives a function from file name to content."""

    name: str
    open: Callable[[], AbstractContextManager[Read]]


def fetch_runtime() -> Path:
    """Make `build/runtime` complete and verified; does nothing when it is already.

    Raises:
        Failure: a file can't be had with the right hash from any source.
    """
    package = NODE_MODULES / "pyodide"
    version = pinned_version(package)
    made_from = digest([ROOT / "package-lock.json", Path(__file__)])
    if is_fresh(RUNTIME, made_from):
        return RUNTIME
    with stage("runtime") as current:
        official = json.loads((package / LOCK).read_text())
        sources = [cdn(version, current), carrier(current)]
        kept = cache_folder() / f"pyodide-{version}"
        files = obtain(wheels(official), kept, sources, current)
        with new_folder(RUNTIME, made_from) as folder:
            for name in CORE_FILES:
                shutil.copyfile(package / name, folder / name)
            for name, data in files.items():
                (folder / name).write_bytes(data)
            (folder / LOCK).write_text(json.dumps(cut_down(official), indent=1) + "\n")
            n_bytes = sum(file.stat().st_size for file in folder.iterdir())
        current.note(f"Pyodide {version} verified, {megabytes(n_bytes)}")
    return RUNTIME


def pinned_version(package: Path) -> str:
    """The Pyodide version that package.json asks for, which must be the installed one."""
    wanted = json.loads((ROOT / "package.json").read_text())["dependencies"]["pyodide"]
    manifest = package / "package.json"
    found = json.loads(manifest.read_text())["version"] if manifest.exists() else "nothing"
    if found != wanted:
        raise Failure(
            f"{package} holds {found}, package.json wants Pyodide {wanted}.\n"
            "Delete the node_modules folder and run this command again."
        )
    return str(wanted)


def wheels(official: dict[str, Any]) -> list[Wheel]:
    """The wheels of PACKAGES as the official lock lists them."""
    entries = [official["packages"][name] for name in PACKAGES]
    return [Wheel(entry["file_name"], entry["sha256"]) for entry in entries]


def cut_down(official: dict[str, Any]) -> dict[str, Any]:
    """The official lock without the packages that the site doesn't carry."""
    return {**official, "packages": {name: official["packages"][name] for name in PACKAGES}}


def obtain(
    wanted: Sequence[Wheel], kept: Path, sources: Sequence[Source], current: Stage
) -> dict[str, bytes]:
    """Verified content by file name: from the cache folder `kept`, else from the first able source.

    Raises:
        Failure: names the missing files and why each source failed.
    """
    found = {
        wheel.file_name: data for wheel in wanted if (data := _from_cache(wheel, kept, current))
    }
    problems: list[str] = []
    for source in sources:
        missing = [wheel for wheel in wanted if wheel.file_name not in found]
        if not missing:
            break
        try:
            for wheel, data in _from_source(source, missing):
                write_atomically(kept / wheel.file_name, data)
                found[wheel.file_name] = data
        except SourceError as error:
            problems.append(f"  - {source.name}: {error}")
    if missing := [wheel for wheel in wanted if wheel.file_name not in found]:
        raise Failure(_explain(missing, problems, kept))
    return found


def _from_cache(wheel: Wheel, kept: Path, current: Stage) -> bytes | None:
    path = kept / wheel.file_name
    if not path.is_file():
        return None
    data = path.read_bytes()
    try:
        wheel.check(data)
    except SourceError as error:
        current.note(f"{path} is corrupt ({error}): deleted, fetching it again")
        path.unlink()
        return None
    return data


def _from_source(source: Source, missing: Sequence[Wheel]) -> Iterator[tuple[Wheel, bytes]]:
    with source.open() as read:
        for wheel in missing:
            try:
                data = read(wheel.file_name)
                wheel.check(data)
            except SourceError as error:
                raise SourceError(f"{wheel.file_name}: {error}") from error
            yield wheel, data


def _explain(missing: Sequence[Wheel], problems: Sequence[str], kept: Path) -> str:
    files = "\n".join(f"  - {wheel.file_name}, SHA-256 {wheel.sha256}" for wheel in missing)
    tried = "\n".join(problems)
    advice = (
        f"Make room on the disk of {kept} and of temporary files"
        if os.strerror(errno.ENOSPC) in tried
        else "Check the network connection (behind a proxy or a mirror, pip must be set up for it)"
    )
    return (
        f"Files of the browser's Python can't be had:\n{files}\nTried:\n{tried}\n"
        f"{advice} and run this command again,\nor put the files into {kept} by hand: "
        "they are taken if the hash is right."
    )


def cdn(version: str, current: Stage, base: str = "https://cdn.jsdelivr.net/pyodide") -> Source:
    """Pyodide's official place for wheels."""
    folder = f"{base}/v{version}/full"

    @contextmanager
    def opened() -> Iterator[Read]:
        yield lambda name: _download(f"{folder}/{name}", current)

    return Source(folder, opened)


def _download(url: str, current: Stage) -> bytes:
    data = bytearray()
    try:
        with urllib.request.urlopen(url, timeout=CONNECT_TIMEOUT_S) as response:
            expected = int(response.headers.get("Content-Length") or 0)
            while chunk := response.read(1 << 16):
                data += chunk
                current.show(f"{Path(url).name} {megabytes(len(data))} of {megabytes(expected)}")
    except (OSError, HTTPException) as error:
        raise SourceError(str(error)) from error
    if expected and len(data) != expected:
        raise SourceError(f"cut off: expected {expected} bytes, got {len(data)}")
    return bytes(data)


def carrier(current: Stage) -> Source:
    """The published wheel that carries Pyodide's; pip downloads it, deleted after use."""

    @contextmanager
    def opened() -> Iterator[Read]:
        cache_folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".carrier-", dir=cache_folder()) as folder:
            archive = _pip_download(Path(folder), current)
            yield lambda file_name: _member(archive, f"{CARRIER_FOLDER}/{file_name}")

    return Source(f"pip download {CARRIER}", opened)


def _pip_download(folder: Path, current: Stage) -> Path:
    current.note(f"fetching {CARRIER} (106 MB, deleted after use)")
    options = ["--no-deps", "--only-binary=:all:", "--python-version=3.12"]
    try:
        pip(current, "download", CARRIER, *options, "--dest", folder)
    except Failure as error:
        raise SourceError(str(error)) from error
    return next(folder.glob("*.whl"))


def _member(archive: Path, name: str) -> bytes:
    try:
        with zipfile.ZipFile(archive) as members:
            return members.read(name)
    except (KeyError, zipfile.BadZipFile) as error:
        raise SourceError(str(error)) from error
