"""What every step of the builder shares: progress lines, child processes, expected failures."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import IO, TextIO

from kvsite.paths import ROOT

TERMINAL_INTERVAL_S = 0.1
PLAIN_INTERVAL_S = 5.0
POLL_INTERVAL_S = 1.0
LINES_SHOWN = 15

Command = list[str | Path]


class Failure(Exception):
    """An expected failure. Its text tells the user what happened and what to do; no traceback."""


class Stage:
    """One line of progress: name, what is going on, elapsed time.

    On a terminal the line is rewritten in place; elsewhere a plain line is printed now and then.
    """

    def __init__(self, name: str, out: TextIO | None = None) -> None:
        self.name = name
        self._out = out or sys.stderr
        self._live = self._out.isatty()
        self._started = self._printed = time.monotonic()

    def show(self, detail: str) -> None:
        """Report what is going on; calls that come too fast are left out."""
        now = time.monotonic()
        if now - self._printed >= (TERMINAL_INTERVAL_S if self._live else PLAIN_INTERVAL_S):
            self._printed = now
            self._print(detail, end="" if self._live else "\n")

    def note(self, message: str) -> None:
        """Print a line that stays."""
        self._print(message, end="\n")

    def _print(self, detail: str, end: str) -> None:
        elapsed = time.monotonic() - self._started
        line = f"{self.name:<9} {detail}  {elapsed:.1f} s"
        print(f"\r\x1b[K{line}" if self._live else line, end=end, file=self._out, flush=True)


@contextmanager
def stage(name: str) -> Iterator[Stage]:
    """Show progress under `name`; the caller says with `note` what was achieved."""
    current = Stage(name)
    try:
        yield current
    except BaseException:
        current.note("stopped")
        raise


def megabytes(n_bytes: int) -> str:
    """A size for people, in units of 10^6 bytes."""
    return f"{n_bytes / 1e6:.1f} MB"


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below `folder`; files that vanish meanwhile count as 0."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(parent, name).lstat().st_size
            except FileNotFoundError:
                continue
    return total


def run(
    current: Stage,
    *commands: Sequence[str | Path],
    watch: Path | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
    advice: str = "",
) -> None:
    """Run commands side by side, quietly, and show how `watch`, the folder they fill, grows.

    Without `watch` only the time is shown.

    Raises:
        Failure: a command ended with another code than 0; holds the end of its output, and
            `advice` on what to do. The others are stopped.
    """
    with ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.TemporaryFile()) for _ in commands]
        processes = [
            stack.enter_context(_child(command, output, env, cwd))
            for command, output in zip(commands, outputs, strict=True)
        ]
        while not any(process.returncode for process in processes):
            running = [process for process in processes if process.poll() is None]
            if not running:
                return
            current.show(f"{megabytes(folder_bytes(watch))} so far" if watch else "running")
            with suppress(subprocess.TimeoutExpired):
                running[0].wait(POLL_INTERVAL_S)
        for command, process, output in zip(commands, processes, outputs, strict=True):
            if process.returncode:
                output.seek(0)
                problem = f"`{_short(command)}` ended with code {process.returncode}:"
                reason = _reason(output.read().decode(errors="replace"))
                raise Failure("\n".join(filter(None, [problem, reason, advice])))


@contextmanager
def _child(
    command: Sequence[str | Path], output: IO[bytes], env: Mapping[str, str] | None, cwd: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A child process that doesn't outlive the `with` block."""
    process = subprocess.Popen(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={**os.environ, **(env or {})},
        cwd=cwd,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _reason(output: str) -> str:
    """The end of `output`, without pip's many warnings that precede its error."""
    lines = [line for line in output.strip().splitlines() if not line.startswith("WARNING")]
    return "\n".join(f"  | {line}" for line in lines[-LINES_SHOWN:])


def _short(command: Sequence[str | Path]) -> str:
    """`command` for a message: the program and its arguments up to the first option."""
    words = [str(part) for part in command[1:]]
    module = words[:2] if words[:1] == ["-m"] else []
    arguments = takewhile(lambda word: not word.startswith("-"), words[len(module) :])
    return " ".join([Path(command[0]).name, *module, *arguments])
