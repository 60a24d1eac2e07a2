"""A static server for the built site: loopback only, isolated, with the right types."""

import errno
import html
import io
import os
import re
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote, unquote

from kvsite.policy import HEADER_POLICY
from kvsite.stages import Failure

HOST = "127.0.0.1"
PORTS_TRIED = 100

# Written out, because the system's table differs from machine to machine, and browsers refuse
# module scripts and streamed WebAssembly of another type.
MIME_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".ipynb": "application/x-ipynb+json",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".py": "text/x-python; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".wasm": "application/wasm",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
    ".xml": "application/xml",
    ".zip": "application/zip",
}
FALLBACK_TYPE = "application/octet-stream"

# Cross-origin isolation gives the page precise timers and keeps other sites out.
HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": HEADER_POLICY,
    "X-Content-Type-Options": "nosniff",
}
# `lab.0123abcd.js`: the name changes with the content, so it may be kept for ever.
HASHED_NAME = re.compile(r"(?:^|/)assets/(?:.*/)?[^/]+[.-](?:[0-9a-f]{8,}|[0-9A-Z]{8})\.\w+$")
BREATH_S = 0.1


class Server(ThreadingHTTPServer):
    """Serves the files of `folder` below the URL path `prefix`."""

    daemon_threads = True
    request_queue_size = 64
    # On Windows the option means something else: two servers could share one port.
    allow_reuse_address = os.name != "nt"

    def __init__(self, folder: Path, port: int, prefix: str) -> None:
        self.folder = folder.resolve()
        self.prefix = prefix
        super().__init__((HOST, port), Handler)

    @property
    def url(self) -> str:
        """Where the site's start page is."""
        return f"http://{HOST}:{self.server_port}{self.prefix}"

    def get_request(self) -> tuple[socket.socket, Any]:
        """The next connection; where file descriptors are exhausted it waits, and doesn't spin."""
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                time.sleep(BREATH_S)
            raise  # the caller goes on with its loop

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report errors, except that a browser hung up, which is its good right."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "kvproof"

    def do_GET(self) -> None:
        """Send the file, 304, a redirect or 404."""
        path = self.path.partition("?")[0]
        prefix = self.server.prefix
        if not path.startswith(prefix):
            at_the_door = path in ("/", prefix.rstrip("/"))
            return self._redirect(prefix) if at_the_door else self._not_found()
        found = locate(self.server.folder, path[len(prefix) :])
        if found and found.is_dir():
            if not path.endswith("/"):
                inside = found.relative_to(self.server.folder).as_posix()
                return self._redirect(f"{prefix}{quote(inside)}/")
            found /= "index.html"
        elif path.endswith("/"):  # relative links in the file would point one level too deep
            found = None
        return self._send_file(found) if found and found.is_file() else self._not_found()

    def do_HEAD(self) -> None:
        """The same without the body, which `_send` leaves out."""
        self.do_GET()

    def _send_file(self, file: Path) -> None:
        with file.open("rb") as content:
            stat = os.fstat(content.fileno())
            etag = f'"{stat.st_mtime_ns:x}-{stat.st_size:x}"'
            headers = {
                "Content-Type": MIME_TYPES.get(file.suffix, FALLBACK_TYPE),
                "Cache-Control": self._caching(file),
                "ETag": etag,
            }
            if file.suffix == ".whl":  # pages of other hosts install them with micropip
                headers["Access-Control-Allow-Origin"] = "*"
            if etag in self.headers.get("If-None-Match", ""):
                return self._send(HTTPStatus.NOT_MODIFIED, headers)
            return self._send(HTTPStatus.OK, headers, content, stat.st_size)

    def _caching(self, file: Path) -> str:
        inside = file.relative_to(self.server.folder).as_posix()
        return "public, max-age=31536000, immutable" if HASHED_NAME.search(inside) else "no-cache"

    def _redirect(self, location: str) -> None:
        self._send(HTTPStatus.FOUND, {"Location": location})

    def _not_found(self) -> None:
        page = self.server.folder / "404.html"
        if page.is_file():
            # It is sent at any depth; its links are relative to the start page.
            base = f'<head><base href="{html.escape(self.server.prefix)}">'
            text = page.read_bytes().replace(b"<head>", base.encode(), 1)
            kind = MIME_TYPES[".html"]
        else:
            text = b"404: there is no such file here.\n"
            kind = MIME_TYPES[".txt"]
        headers = {"Content-Type": kind, "Cache-Control": "no-cache"}
        self._send(HTTPStatus.NOT_FOUND, headers, io.BytesIO(text), len(text))

    def _send(
        self,
        status: HTTPStatus,
        headers: Mapping[str, str],
        content: BinaryIO | None = None,
        n_bytes: int = 0,
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", str(n_bytes))
        self.end_headers()
        if content is None or self.command == "HEAD":
            return
        shutil.copyfileobj(content, self.wfile)

    def end_headers(self) -> None:
        """Put the headers that protect the site on every answer, errors included."""
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, *_: Any) -> None:
        """Print nothing: the browser's own tools show requests better."""


def locate(folder: Path, url_path: str) -> Path | None:
    """The file or folder that `url_path` names inside `folder`; None if there is none.

    Nothing outside of `folder` is ever returned, however the path is written or linked.
    """
    name = unquote(url_path)
    if re.search(r"[\\:\0]", name):  # separators and drives of Windows; the end of a C string
        return None
    try:
        path = (folder / name).resolve(strict=True)
    except (OSError, RuntimeError):  # missing, name too long; a loop of links (before 3.13)
        return None
    return path if path.is_relative_to(folder) else None


def open_server(folder: Path, port: int, prefix: str = "/") -> Server:
    """A listening server on `port`, or on the next free port; 0 takes any.

    Raises:
        Failure: none of the ports tried can be had.
    """
    for candidate in range(port, min(port + PORTS_TRIED, 65536)):
        try:
            return Server(folder, candidate, prefix)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise Failure(f"Can't listen on {HOST}:{candidate}: {error}") from error
    raise Failure(
        f"No free port from {port} on ({PORTS_TRIED} tried). Choose another with --port, "
        "1024 or above."
    )


@contextmanager
def start_server(folder: Path, port: int = 0, prefix: str = "/") -> Iterator[Server]:
    """Serve `folder` from a thread while the `with` block runs; `.url` says where."""
    with open_server(folder, port, prefix) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
