"""The static server, asked through raw sockets, so that no client tidies up the paths."""

import errno
import http.client
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import pytest

from kvsite.paths import PY
from kvsite.serve import HOST, Server, open_server, start_server
from kvsite.stages import Failure

INDEX = b"<!doctype html><title>site</title>"
DIGITS = b"0123456789"


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    folder = tmp_path / "dist"
    (folder / "en").mkdir(parents=True)
    (folder / "assets").mkdir()
    (folder / "index.html").write_bytes(INDEX)
    (folder / "en" / "index.html").write_bytes(INDEX)
    (folder / "digits.txt").write_bytes(DIGITS)
    (folder / "empty").mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "dist-secret").mkdir()
    (tmp_path / "dist-secret" / "secret.txt").write_text("secret")
    return folder


@pytest.fixture
def server(dist: Path) -> Iterator[Server]:
    with start_server(dist) as running:
        yield running


class Answer:
    """Status, headers (lower-case names) and body of an HTTP answer."""

    def __init__(self, server: Server, target: str, method: str = "GET", **headers: str) -> None:
        lines = [f"{method} {target} HTTP/1.1", "Host: x", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        with socket.create_connection((HOST, server.server_port), timeout=10) as connection:
            connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
            answer = connection.makefile("rb").read()
        head, _, self.body = answer.partition(b"\r\n\r\n")
        status, *fields = head.decode("latin-1").split("\r\n")
        self.status = int(status.split()[1])
        self.headers = {k.lower(): v for k, v in (field.split(": ", 1) for field in fields)}


@pytest.mark.parametrize(
    ("name", "mime"),
    [
        ("a.html", "text/html; charset=utf-8"),
        ("a.js", "text/javascript; charset=utf-8"),
        ("a.mjs", "text/javascript; charset=utf-8"),
        ("a.css", "text/css; charset=utf-8"),
        ("a.json", "application/json"),
        ("a.wasm", "application/wasm"),
        ("a.ipynb", "application/x-ipynb+json"),
        ("a.whl", "application/octet-stream"),
        ("a.unknown", "application/octet-stream"),
    ],
)
def test_mime_types(server: Server, dist: Path, name: str, mime: str) -> None:
    (dist / name).write_bytes(b"x")
    assert Answer(server, f"/{name}").headers["content-type"] == mime


def test_pages_of_other_hosts_may_install_the_wheel_and_read_nothing_else(
    server: Server, dist: Path
) -> None:
    (dist / "a.whl").write_bytes(b"x")
    assert Answer(server, "/a.whl").headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-origin" not in Answer(server, "/digits.txt").headers


@pytest.mark.parametrize("target", ["/", "/nothing", "/en"])
def test_protecting_headers_are_on_every_answer(server: Server, target: str) -> None:
    headers = Answer(server, target).headers
    policy = headers["content-security-policy"].split("; ")
    assert {"default-src 'none'", "connect-src 'self'", "worker-src 'self'"} <= set(policy)
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-embedder-policy"] == "require-corp"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("assets/lab.0123abcd.js", True),
        ("assets/lab-4GQX2B7Z.js", True),
        ("assets/lab.js", False),
        ("assets/cells-template.js", False),
        ("lab.0123abcd.js", False),
    ],
)
def test_only_hashed_assets_are_kept_by_browsers(
    server: Server, dist: Path, name: str, kept: bool
) -> None:
    (dist / name).write_bytes(b"x")
    caching = Answer(server, f"/{name}").headers["cache-control"]
    assert caching == ("public, max-age=31536000, immutable" if kept else "no-cache")


def test_unchanged_file_is_not_sent_again(server: Server, dist: Path) -> None:
    etag = Answer(server, "/digits.txt").headers["etag"]
    again = Answer(server, "/digits.txt", If_None_Match=etag)
    assert (again.status, again.body) == (304, b"")
    (dist / "digits.txt").write_bytes(DIGITS * 2)
    assert Answer(server, "/digits.txt", If_None_Match=etag).body == DIGITS * 2


def test_head_sends_no_body(server: Server) -> None:
    answer = Answer(server, "/digits.txt", "HEAD")
    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "10")
    missing = Answer(server, "/nothing", "HEAD")
    assert (missing.status, missing.body) == (404, b"")


@pytest.mark.parametrize(
    "target",
    [
        "/../secret.txt",
        "/en/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/%2E%2E%2Fsecret.txt",
        "/..%5csecret.txt",
        "/en/..\\..\\secret.txt",
        "/../dist-secret/secret.txt",
        "//secret.txt",
        "/%2fetc/passwd",
        "/%2f%2fetc/passwd",
        "/etc/passwd",
        "/link.txt",
        "/linked/secret.txt",
        "/loop",
        "/digits.txt%00.html",
        "/C:/secret.txt",
        "/" + "a" * 5000,
    ],
)
def test_nothing_outside_is_served(server: Server, dist: Path, target: str) -> None:
    (dist / "link.txt").symlink_to(dist.parent / "secret.txt")
    (dist / "linked").symlink_to(dist.parent)
    (dist / "loop").symlink_to(dist / "loop")
    answer = Answer(server, target)
    assert answer.status == 404
    assert b"secret" not in answer.body
    assert b"root" not in answer.body


def test_own_404_page(server: Server, dist: Path) -> None:
    assert Answer(server, "/nothing").headers["content-type"].startswith("text/plain")
    (dist / "404.html").write_bytes(b"<p>lost?")
    answer = Answer(server, "/nothing")
    assert (answer.status, answer.body) == (404, b"<p>lost?")
    assert answer.headers["content-type"].startswith("text/html")


class Links(HTMLParser):
    """The page's base and the links of its `<a>` elements."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.base = ""
        self.targets: list[str] = []
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if href and tag == "base":
            self.base = href
        if href and tag == "a":
            self.targets.append(href)


@pytest.mark.parametrize("prefix", ["/", "/sub/path/"])
def test_links_of_the_404_page_lead_somewhere_from_any_depth(built_site: Path, prefix: str) -> None:
    with start_server(built_site, prefix=prefix) as server:
        lost = f"{prefix}nope/deeper/still"
        answer = Answer(server, lost)
        assert (answer.status, int(answer.headers["content-length"])) == (404, len(answer.body))
        links = Links(answer.body)
        assert {"en/notebook.html", "zh/notebook.html"} <= set(links.targets)
        for target in links.targets:
            address = urljoin(urljoin(lost, links.base), target)
            assert Answer(server, urldefrag(address).url).status == 200, address


@pytest.mark.parametrize("target", ["/empty/", "/digits.txt/"])
def test_no_listing_and_no_file_with_a_slash(server: Server, target: str) -> None:
    assert Answer(server, target).status == 404


@pytest.mark.parametrize("target", ["/en", "//en", "/%65n"])
def test_folder_without_slash_redirects(server: Server, target: str) -> None:
    answer = Answer(server, target)
    assert (answer.status, answer.headers["location"]) == (302, "/en/")
    assert Answer(server, "/en/").body == INDEX


def test_other_methods_are_refused(server: Server) -> None:
    assert Answer(server, "/", "POST").status == 501


@pytest.mark.parametrize(
    ("target", "status", "location"),
    [
        ("/", 302, "/sub/path/"),
        ("/sub/path", 302, "/sub/path/"),
        ("/sub/path/", 200, None),
        ("/sub/path/en", 302, "/sub/path/en/"),
        ("/index.html", 404, None),
        ("/sub/path/../../secret.txt", 404, None),
    ],
)
def test_prefix(dist: Path, target: str, status: int, location: str | None) -> None:
    with start_server(dist, prefix="/sub/path/") as server:
        assert server.url.endswith("/sub/path/")
        answer = Answer(server, target)
    assert (answer.status, answer.headers.get("location")) == (status, location)


def test_connection_is_kept_for_the_next_request(server: Server) -> None:
    connection = http.client.HTTPConnection(HOST, server.server_port, timeout=10)
    for method, target in (("GET", "/"), ("HEAD", "/"), ("GET", "/nothing"), ("GET", "/en")):
        connection.request(method, target)
        before = connection.sock
        connection.getresponse().read()
        assert connection.sock is before
    connection.close()


def test_taken_port_leads_to_the_next(dist: Path) -> None:
    with start_server(dist) as first, start_server(dist, first.server_port) as second:
        assert first.server_port < second.server_port <= first.server_port + 100


def test_no_free_port_is_explained(dist: Path) -> None:
    with start_server(dist) as first, pytest.MonkeyPatch.context() as patch:
        patch.setattr("kvsite.serve.PORTS_TRIED", 1)
        with pytest.raises(Failure, match="No free port from .* Choose another with --port"):
            open_server(dist, first.server_port)


def test_exhausted_file_descriptors_are_waited_for(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def exhausted(self: Server) -> None:
        tries.append(self)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    slept: list[float] = []
    with monkeypatch.context() as patch:
        patch.setattr("socketserver.TCPServer.get_request", exhausted)
        patch.setattr("kvsite.serve.time.sleep", slept.append)
        with pytest.raises(OSError, match="Too many open files"):
            server.get_request()
    assert len(slept) == len(tries) > 0


# Interrupts are ignored by what a shell starts in the background, so ask for them.
SERVE = """
import signal
import sys
from pathlib import Path
import kvsite.cli as cli
signal.signal(signal.SIGINT, signal.default_int_handler)
cli.DIST = Path(sys.argv[1])
cli.VERBS["serve"] = cli.Verb(cli.serve, "", group=None)
cli.build = lambda args: 0
sys.exit(cli.main(["serve", "--port", sys.argv[2]]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.skipif(os.name == "nt", reason="Windows has no signals to send to one process")
def test_stop_is_clean_and_frees_the_port(dist: Path, number: signal.Signals) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, "-c", SERVE, str(dist), str(port)],
            env={**os.environ, "PYTHONPATH": str(PY)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        moved = process.stdout.readline()
        address = process.stdout.readline()
        process.send_signal(number)
        output, errors = process.communicate(timeout=30)
    used = int(moved.split("using ")[1].rstrip(".\n"))
    assert moved == f"Port {port} is taken, using {used}.\n"
    assert f"http://127.0.0.1:{used}/" in address
    assert (process.returncode, output, errors) == (0, "\nStopped.\n", "")
    with open_server(dist, used) as again:
        assert again.server_port == used
