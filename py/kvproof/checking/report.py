"""What the checker found, for people and for programs."""

import json
import math
from dataclasses import dataclass, field
from typing import Any

from kvproof.checking.cases import TAKES_TOKENS, Case, Observation
from kvproof.checking.kinds import KINDS, UNKNOWN

NO_KIND = "the decoder does not do what the contract says"
"""The meaning of a finding that has no kind."""


@dataclass(frozen=True)
class Alternative:
    """A kind that would explain what was seen, and how well."""

    kind: str
    confidence: float
    """0 to 1, comparable within one finding."""
    why: str

    def __str__(self) -> str:
        why = self.why if len(self.why) <= 90 else f"{self.why[:87]}..."
        return f"{self.kind} ({self.confidence:.2f}{', ' if why else ''}{why})"


@dataclass(frozen=True)
class Influence:
    """Which tokens move which rows of a chunk: with the cache, and in ``full``.

    A token also acts through later ones that have read it, so a row may be moved by a token that it
    does not see itself.
    """

    n_past: int
    n_new: int
    seen: tuple[tuple[bool, ...], ...]
    """(C, P + C): with the cache."""
    expected: tuple[tuple[bool, ...], ...]
    """(C, P + C): in ``full``."""

    def __str__(self) -> str:
        signs = {(True, True): "1", (False, False): ".", (False, True): "x", (True, False): "!"}
        rows = [
            "    " + " ".join(signs[pair] for pair in zip(seen, expected, strict=True))
            for seen, expected in zip(self.seen, self.expected, strict=True)
        ]
        head = (
            f"  which of {self.n_past} + {self.n_new} tokens move which new row "
            "(1 yes, . no, x should and doesn't, ! does and shouldn't):"
        )
        return "\n".join([head, *rows])


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, in its smallest form."""

    kind: str
    """A name of ``KINDS``, or UNKNOWN."""
    check: str
    """LOG, KVL, MSK, BOOK, ROW, OPS, REP, GOLD, OLD, CAU, PFX or TOL."""
    case: Case | None
    """The smallest input that fails."""
    max_abs_error: float
    """Of the logits in that case; inf where they aren't finite."""
    tolerance: float
    """What the error was held against: above all noise that a right cache makes."""
    first_bad: dict[str, int] = field(default_factory=dict)
    """Where it starts: operation, row, position, and layer where that is known."""
    alternatives: tuple[Alternative, ...] = ()
    evidence: tuple[str, ...] = ()
    snippet: str = ""
    confidence: float = 0.0
    influence: Influence | None = None
    """Drawn for one sequence in chunks, where it shows something."""
    doubtful: bool = False
    """It may be rounding; the last piece of evidence says how to tell."""

    def __str__(self) -> str:
        meaning = KINDS.get(self.kind, NO_KIND)
        lines = [f"{self.kind}: {meaning}"]
        if self.case is not None:
            lines.append(f"  smallest case ({self.check}): {self.case}")
        if self.max_abs_error > 0:
            lines.append(f"  error {self.max_abs_error:.3g}, noise allowed {self.tolerance:.1e}")
        if self.first_bad:
            lines.append("  first bad: " + ", ".join(f"{k} {v}" for k, v in self.first_bad.items()))
        lines += [f"  - {sentence}" for sentence in self.evidence]
        if self.influence is not None:
            lines.append(str(self.influence))
        if self.alternatives:
            others = "; ".join(map(str, self.alternatives))
            lines.append(f"  could also be: {others}")
        if self.snippet:
            lines += [
                "  to see it yourself:",
                *(f"    {line}" for line in self.snippet.splitlines()),
            ]
        return "\n".join(lines)


MIME_TYPE = "application/vnd.kvproof.report+json"
"""Of a report as data, for a notebook that can draw one."""


@dataclass(frozen=True)
class Report:
    """The verdict on a decoder."""

    decoder: str
    ok: bool
    """Nothing is wrong with what was checked, and at least ``full`` itself and one sequence in
    every chunking were; ``complete`` says whether that was all that can be checked here."""
    findings: tuple[Finding, ...]
    """The most certain first."""
    checked: tuple[str, ...]
    not_checked: tuple[str, ...]
    """What was left out, and what would unlock it."""
    notes: tuple[str, ...]
    """What limits the verdict."""
    noise: float
    tolerance: float
    dtype: str
    n_calls: int
    seconds: float
    complete: bool = True
    """The budget was enough for all that is checked."""

    def __str__(self) -> str:
        so_far = "as far as it was checked" if self.complete else "so far, and not all was checked"
        unknown = "not known: neither right nor wrong before the feeding of one sequence is checked"
        verdict = "wrong" if self.findings else f"right, {so_far}" if self.ok else unknown
        lines = [
            f"{self.decoder}: {verdict}",
            f"{self.n_calls} calls in {self.seconds:.1f} s, {self.dtype}, noise {self.noise:.1e}, "
            f"allowed {self.tolerance:.1e}",
        ]
        for finding in self.findings:
            lines += ["", str(finding)]
        for title, sentences in (
            ("checked", self.checked),
            ("not checked", self.not_checked),
            ("notes", self.notes),
        ):
            if sentences:
                lines += ["", title, *(f"  - {sentence}" for sentence in sentences)]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON has it; numbers that aren't finite become strings."""
        content: dict[str, Any] = plain(self)
        return content

    def to_json(self) -> str:
        """Strict JSON, indented."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """What a notebook shows: the text, or what it draws itself from the data."""
        kinds = [one.kind for one in self.findings]
        kinds += [other.kind for one in self.findings for other in one.alternatives]
        meanings = {kind: KINDS.get(kind, NO_KIND) for kind in kinds}
        return {"text/plain": str(self), MIME_TYPE: {**self.to_dict(), "meanings": meanings}}


def plain(value: Any) -> Any:
    """As JSON has it: dataclasses become objects, numbers that aren't finite strings."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (str, int, bool)) or value is None:
        return value
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return [plain(item) for item in value]
    if hasattr(value, "_fields"):  # an Op
        return str(value)
    return {name: plain(item) for name, item in vars(value).items()}


PREAMBLE = """import numpy as np
def array(logits):  # tensors, too
    return np.asarray(logits.detach().double().cpu() if hasattr(logits, "detach") else logits)
def apart(one, other):  # equal infinities are no difference
    one, other = array(one), array(other)
    return np.abs(np.where(one == other, 0, one - other)).max()"""
"""What snippets begin with."""


def snippet(case: Case, seen: Observation | None, tolerance: float, with_full: bool = False) -> str:
    """Lines to paste after ``decoder = ...``: they run a case up to the call that is wrong.

    Args:
        case: what to do.
        seen: the call; None: there is none to compare, all of the case is run.
        tolerance: what a right cache stays below.
        with_full: call ``full`` between the calls.
    """
    ops = case.ops if seen is None else case.ops[: seen.op + 1]
    lines = [PREAMBLE, f"tokens = np.array({[list(row) for row in case.tokens]})"]
    lines.append("cache = None")
    start = 0
    first, second = case.rows or (case.batch_size, case.batch_size)
    n_rows, n_others = first, first  # of the cache that is fed, and of the second one
    lengths = case.lengths
    for op in ops:
        if op.action in TAKES_TOKENS:
            rows = ":" if n_rows == case.batch_size else f":{n_rows}"
            chunk = f"tokens[{rows}, {start}:{start + op.argument}]"
            n_others = n_rows if op.action != "feed" else n_others
            start += op.argument
            extra = "" if lengths is None else f", lengths=np.array({list(lengths)})"
            lengths = None
            lines += _call(op.action, op.argument, chunk, extra)
            if with_full:
                lines.append(f"decoder.full(tokens[:, :{start}])  # without it, all is right")
        elif op.action == "restart":
            lengths = op.argument
            n_rows, n_others = second, n_rows
            lines.append("branch, cache = cache, None  # a second request on the same object")
        elif op.action == "switch":
            n_rows, n_others = n_others, n_rows
            lines.append("cache, branch = branch, cache")
        elif op.action == "crop":
            lines.append(f"cache = decoder.crop(cache, {op.argument})")
        else:
            n_rows = len(op.argument)
            lines.append(f"cache = decoder.reorder(cache, np.array({list(op.argument)}))")
    return "\n".join(lines if seen is None else [*lines, *_comparison(seen, tolerance)])


def _call(action: str, n_new: int, chunk: str, extra: str) -> list[str]:
    if action == "feed":
        return [f"logits, cache = decoder.step({chunk}, cache{extra})"]
    if action == "branch" and not n_new:
        return ["branch = cache  # kept"]
    if action == "branch":
        return [f"logits, branch = decoder.step({chunk}, cache)"]
    if not n_new:
        return ["branch = decoder.fork(cache)"]
    return ["branch = decoder.fork(cache)", f"logits, branch = decoder.step({chunk}, branch)"]


def _comparison(seen: Observation, tolerance: float) -> list[str]:
    n_new = seen.logits.shape[1]
    return [
        f"for row, history in enumerate({[list(history) for history in seen.histories]}):",
        f"    n = min({n_new}, len(history))",
        "    expected = array(decoder.full(np.array([history])))[0]",
        "    print(row, apart(array(logits)[row, -n:], expected[-n:]))",
        f"# the largest is {seen.error:.3g}; a right cache stays below {tolerance:.1e}",
    ]


def unknown(check: str, sentence: str) -> Finding:
    """A finding that says what the decoder did instead of naming a bug."""
    return Finding(
        kind=UNKNOWN,
        check=check,
        case=None,
        max_abs_error=0.0,
        tolerance=0.0,
        evidence=(sentence,),
        confidence=0.5,
    )
