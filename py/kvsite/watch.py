"""``serve --watch``: the site is built again whenever a source changes, and open pages reload.

A child process builds.  While files below ``site`` change, it lives on and renders with all that it
has computed before; of other sources it is made itself, so another one takes its place.
"""

import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import suppress
from pathlib import Path

from kvsite.fetch import fetch_runtime
from kvsite.paths import BUILD, ROOT
from kvsite.site import SITE_SOURCES, build_site
from kvsite.stages import Failure
from kvsite.stamps import STAMP, digest
from kvsite.wasm import build_wasm
from kvsite.words import TEXTS

WATCHED_SITE = BUILD / "watched"
"""Apart from ``dist``: its pages reload themselves, and no service worker keeps them."""
INTERVAL_S = 0.2


def keep_current(announce: Callable[[], object]) -> None:
    """Build the site in ``WATCHED_SITE`` now and after each change, until an interruption.

    Args:
        announce: called once, as soon as there is a site.
    """
    builder = Builder([sys.executable, "-m", "kvsite.watch"])
    announced = False
    try:
        for changed in changes(SITE_SOURCES):
            if changed:
                print("changed:", ", ".join(sorted(path.name for path in changed)), flush=True)
                builder.update(changed)
            if not announced and (WATCHED_SITE / STAMP).exists():
                announced = True
                announce()
    finally:
        builder.stop()


def changes(sources: Iterable[Path]) -> Iterator[Set[Path]]:
    """Now and then the files that were written, made or removed since the last time."""
    seen = dict(_states(sources))
    while True:
        time.sleep(INTERVAL_S)
        now = dict(_states(sources))
        yield {path for path, _ in now.items() ^ seen.items()}
        seen = now


def _states(sources: Iterable[Path]) -> Iterator[tuple[Path, int]]:
    """Each file, and when it was written."""
    for source in sources:
        for path in source.rglob("[!.]*.*") if source.is_dir() else [source]:
            if "__pycache__" not in path.parts:
                with suppress(FileNotFoundError):  # an editor is putting another in its place
                    yield path, path.stat().st_mtime_ns


class Builder:
    """A child that builds, and again after each line that it is sent."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._child = self._start()

    def update(self, changed: Set[Path]) -> None:
        """Have the site built again."""
        only_site = all(path.is_relative_to(ROOT / "site") for path in changed)
        if not (only_site and self._has_heard()):  # else its own code has changed, or it has ended
            self.stop()
            self._child = self._start()

    def _has_heard(self) -> bool:
        assert self._child.stdin
        try:
            self._child.stdin.write(b"again\n")
            self._child.stdin.flush()
        except OSError:  # nobody reads that any more
            return False
        return self._child.poll() is None

    def stop(self) -> None:
        """End the child, whatever it is doing."""
        self._child.terminate()
        self._child.communicate()

    def _start(self) -> subprocess.Popen[bytes]:
        # The first is new each time: a child renders once, and from then on has what this needs.
        settings = {"KVPROOF_WATCH": str(time.time_ns()), "KVPROOF_OFFLINE": "0"}
        environment = {**os.environ, **settings}
        return subprocess.Popen(self._command, stdin=subprocess.PIPE, env=environment)


def main() -> None:
    """Build, and again after each line of the standard input."""
    texts = digest([TEXTS])
    while True:
        try:
            fetch_runtime()
            build_wasm()
            build_site(WATCHED_SITE)
        except Exception as error:  # of any kind: the next change may mend it
            print(f"\n{_explained(error)}", file=sys.stderr, flush=True)
        if not sys.stdin.readline():
            return
        if texts != (texts := digest([TEXTS])):
            _forget_texts()


def _explained(error: Exception) -> str:
    """What happened and where; a failure says that by itself."""
    if isinstance(error, Failure):
        return str(error)
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error}\n  in {where.filename}, line {where.lineno}"


def _forget_texts() -> None:
    from kvsite.languages import words_of
    from kvsite.pages import environment

    words_of.cache_clear()
    environment.cache_clear()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        main()
