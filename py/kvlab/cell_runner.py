"""Run the editable cells of the page, one after another, in one namespace.

Little beyond the standard library: the page runs this file in Pyodide, the tests in CPython.
"""

import ast
import contextlib
import inspect
import io
import json
import linecache
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

from kvlab.formats import number

MAX_CHARACTERS = 100_000
MAX_LINES = 2_000
HOLD_CHARACTERS = 4_096
HOLD_SECONDS = 0.05
REPORT = "application/vnd.kvproof.report+json"
"""The type of a checker's report as data: the page can draw it."""
AMOUNTS = ("max_abs_error", "noise", "tolerance")
"""Numbers of a report and of its findings."""
CANDIDATE = "application/vnd.kvproof.candidate+json"
"""Of a mask or a decoder that labs shall redraw from (kvlab.candidate)."""

Write = Callable[[str, str], None]


@dataclass(frozen=True)
class CellResult:
    """How a run ended.

    ``value`` is the last expression as text, None if there is none or it is None.
    ``report`` is the same as JSON, if it is a checker's report.
    ``candidate`` is "mask" or "decoder" if labs shall redraw from it.
    ``error`` is the formatted traceback, None if the cell ran to its end.
    """

    value: str | None = None
    report: str | None = None
    candidate: str | None = None
    error: str | None = None


class CellRunner:
    """Runs cells that share their variables, as a notebook does.

    Args:
        write: called during a run as ``write(kind, text)`` with the kinds ``stdout``, ``stderr``
            and ``notice`` (said once, where output is cut at ``MAX_CHARACTERS`` or ``MAX_LINES``).
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self._namespace: dict[str, object] = {"__name__": "__main__"}
        self._candidate: Any = None

    async def run(self, source: str, number: int) -> CellResult:
        """Run ``source`` as the file ``cell <number>``; whatever it raises is in the result."""
        output = _Output(self._write)
        stdout, stderr = _Stream("stdout", output), _Stream("stderr", output)
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            try:
                value = await self._evaluate(source, f"cell {number}")
                result = _shown(value)
                self._candidate = value if result.candidate else self._candidate
            except BaseException as error:  # SystemExit and KeyboardInterrupt end the cell only.
                result = CellResult(error=_shortened(_explain(error)))
            finally:
                if self._candidate is not None:
                    self._candidate.forget()  # what it reads may be another now
        output.send()
        return result

    def answer_candidate(self, lab: str, values_json: str) -> str:
        """What the last candidate does in a state of a lab, as JSON (see ``kvlab.candidate``)."""
        return json.dumps(self._candidate.answer(lab, json.loads(values_json)), allow_nan=False)

    async def _evaluate(self, source: str, filename: str) -> object:
        """The value of the last expression, None where the cell ends with a statement."""
        # Tracebacks, warnings and inspect look up source lines here; no mtime: never evicted.
        lines = [f"{line}\n" for line in source.split("\n")]
        linecache.cache[filename] = (len(source), None, lines, filename)
        value = None
        for code in _compile(source, filename):
            value = eval(code, self._namespace)
            if code.co_flags & inspect.CO_COROUTINE:
                value = await value
        return value


def _compile(source: str, filename: str) -> list[CodeType]:
    """The statements and, where the cell ends with one, the last expression by itself."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        tree = compile(source, filename, "exec", flags | ast.PyCF_ONLY_AST)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        codes = [compile(tree, filename, "exec", flags)]
        if last is not None:
            expression = ast.Expression(last.value)
            codes.append(compile(expression, filename, "eval", flags))
    except SyntaxError as error:
        # The compiler's later passes ('return' outside function) look for the line in a file.
        if error.text is None and error.lineno is not None:
            error.text = source.split("\n")[error.lineno - 1]
        raise
    return codes


def _shown(value: object) -> CellResult:
    """A value as text; one that describes itself to notebooks may add a report's data."""
    if value is None:
        return CellResult()
    describe = getattr(type(value), "_repr_mimebundle_", None)
    described = None if describe is None else describe(value)
    bundle = described if isinstance(described, dict) else {}
    text = bundle.get("text/plain")
    report = json.dumps(written(bundle[REPORT]), allow_nan=False) if REPORT in bundle else None
    return CellResult(
        _shortened(repr(value) if text is None else text),
        report if report is None or len(report) <= MAX_CHARACTERS else None,
        bundle.get(CANDIDATE, {}).get("kind"),
    )


def written(report: object) -> object:
    """A report with each amount as it is written beside it: the page writes no numbers."""
    if not isinstance(report, dict):
        return report
    for part in (report, *report.get("findings", [])):
        amounts = {name: number(float(part[name])) for name in AMOUNTS if name in part}
        if amounts:
            part["written"] = amounts
    return report


def _explain(error: BaseException) -> str:
    """The traceback as Python prints it, without the frames of this file."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals is globals():
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip("\n")


def _shortened(text: str) -> str:
    """At most ``MAX_CHARACTERS``: the head and the tail, where a traceback has its message."""
    if len(text) <= MAX_CHARACTERS:
        return text
    half = MAX_CHARACTERS // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out …\n{text[-half:]}"


class _Output:
    """What one run prints: sent line by line, as to a terminal, and cut where it gets too long.

    The cut also bounds the number of messages, so a cell that prints for ever floods nobody.
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self._kind = "stdout"
        self._held = ""
        self._sent_at = time.monotonic()
        self._characters_left = MAX_CHARACTERS
        self._lines_left = MAX_LINES
        self._cut = False

    def add(self, kind: str, text: str) -> None:
        """Take what is printed; the part of a line is held for a moment."""
        if self._cut or not text:
            return
        if kind != self._kind:
            self.send()
            self._kind = kind
        kept = self._within_limits(text)
        self._held += kept
        waited = time.monotonic() - self._sent_at
        if "\n" in kept or len(self._held) >= HOLD_CHARACTERS or waited >= HOLD_SECONDS:
            self.send()
        if len(kept) < len(text):
            self._cut = True
            self.send()
            lines, characters = f"{MAX_LINES:,} lines", f"{MAX_CHARACTERS:,} characters"
            limit = lines if self._lines_left == 0 else characters
            self._write("notice", f"output cut after {limit}")

    def send(self) -> None:
        """Hand over what is held."""
        held, self._held = self._held, ""
        if held:
            self._write(self._kind, held)
        self._sent_at = time.monotonic()

    def _within_limits(self, text: str) -> str:
        kept = text[: self._characters_left]
        lines = kept.split("\n", self._lines_left)
        if len(lines) > self._lines_left:  # The last piece lies after the last line allowed.
            kept = kept[: len(kept) - len(lines[-1])]
        self._characters_left -= len(kept)
        self._lines_left -= len(lines) - 1
        return kept


class _Stream(io.TextIOBase):
    """``sys.stdout`` or ``sys.stderr`` of a run."""

    encoding = "utf-8"

    def __init__(self, kind: str, output: _Output) -> None:
        self._kind = kind
        self._output = output

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._output.add(self._kind, text)
        return len(text)

    def flush(self) -> None:
        self._output.send()
