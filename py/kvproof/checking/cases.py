"""A case: tokens, and what is done with them.  It can be run, compared, printed and shrunk."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvproof.checking.arrays import Logits, distance
from kvproof.checking.messages import Message
from kvproof.checking.subject import Raised, Refused, Row, Subject, Trouble

Action = Literal["feed", "crop", "reorder", "fork", "branch", "switch", "restart"]


TAKES_TOKENS = ("feed", "fork", "branch")


class Op(NamedTuple):
    """One operation.

    ``feed`` n: the next n tokens in one call.  ``crop`` length.  ``reorder`` rows.  ``fork`` n: a
    second cache takes the next n tokens, if any, then the first goes on.  ``branch`` n: the same
    from the very cache, without a fork, where a decoder keeps old ones.  ``switch``: go on with the
    second cache.  ``restart`` lengths: a new request on the same object, without a reset;
    ``switch`` goes back to the first.
    """

    action: Action
    argument: Any = None

    @property
    def message(self) -> Message:
        """In words."""
        if self.argument is None:
            return Message(f"op.{self.action}")
        if self.action == "reorder":
            return Message("op.reorder", rows=str(self.argument))
        if self.action == "restart":
            return Message("op.restart-padded", lengths=str(self.argument))
        return Message(f"op.{self.action}", n=self.argument)

    def __str__(self) -> str:
        return str(self.message)


def feeds(sizes: Sequence[int]) -> tuple[Op, ...]:
    """One ``feed`` a chunk."""
    return tuple(Op("feed", size) for size in sizes)


@dataclass(frozen=True)
class Case:
    """Tokens (B, N) that feeds and forks take in turn, and the operations."""

    tokens: tuple[Row, ...]
    ops: tuple[Op, ...]
    lengths: tuple[int, ...] | None = None
    """Real tokens of each row of the first chunk, left-padded; None: all."""
    may_refuse: bool = False
    """The decoder may raise in the call that goes beyond its capacity."""
    rows: tuple[int, int] | None = None
    """Rows of the request before a restart, and of the one after it; None: all in both."""

    @property
    def batch_size(self) -> int:
        """Rows."""
        return len(self.tokens)

    @property
    def n_tokens(self) -> int:
        """Columns that the operations take."""
        return sum(op.argument for op in self.ops if op.action in TAKES_TOKENS)

    @property
    def size(self) -> tuple[int, int, int, int]:
        """What shrinking makes smaller, in this order."""
        padded = 0 if self.lengths is None else 1
        mixed = padded + (self.rows is not None)
        return len(self.ops), self.batch_size * self.n_tokens, mixed, sum(map(sum, self.tokens))

    @property
    def message(self) -> Message:
        """In words."""
        said: dict[str, Any] = {
            "rows": " | ".join(" ".join(map(str, row)) for row in self.tokens),
            "ops": [op.message for op in self.ops],
        }
        if self.lengths is not None:
            said["lengths"] = str(list(self.lengths))
        if self.rows is None:
            return Message("input.case" if self.lengths is None else "input.padded", **said)
        said["first"], said["second"] = self.rows
        padded = self.lengths is not None
        return Message("input.two-padded-batches" if padded else "input.two-batches", **said)

    def __str__(self) -> str:
        return str(self.message)


@dataclass(frozen=True, eq=False)
class Observation:
    """What one call gave, and what it should have given."""

    op: int
    """Index of the operation."""
    histories: tuple[Row, ...]
    """All real tokens of each row up to and including this call."""
    first_slot: int
    """Slot of the first new token, pads counted."""
    logits: Logits
    """(B, C, V); 0 where a slot is padding, here and in what is expected."""
    expected: Logits
    """(B, C, V)."""

    @property
    def errors(self) -> NDArray[np.float64]:
        """(B, C), largest absolute difference; inf where one of the two isn't finite."""
        return distance(self.logits, self.expected)

    @property
    def error(self) -> float:
        """The largest of them."""
        return float(self.errors.max())


@dataclass(frozen=True, eq=False)
class Result:
    """All calls of a case, up to the first trouble."""

    case: Case
    observations: tuple[Observation, ...]
    trouble: Message | None = None
    """What ended it early; None if nothing did, or what may."""
    ledger: Message | None = None
    """What was wrong with the counted length; None if nothing was."""
    refused: Message | None = None
    """What the decoder refused, which it may; None if nothing."""

    @property
    def error(self) -> float:
        """Largest error of all calls."""
        return max((seen.error for seen in self.observations), default=0.0)

    def first_bad(self, tolerance: float) -> Observation | None:
        """The first call that is off by more."""
        bad = (seen for seen in self.observations if not seen.error <= tolerance)
        return next(bad, None)

    def without_logits(self) -> "Result":
        """What is kept of a case that came out right: memory is dear."""
        return replace(self, observations=())

    def wrong(self, tolerance: float) -> bool:
        """Whether anything at all is wrong."""
        odd = self.trouble is not None or self.ledger is not None
        return odd or self.first_bad(tolerance) is not None


@dataclass
class _Live:
    """A cache with what it should hold."""

    cache: Any = None
    rows: list[list[int]] = field(default_factory=list)
    padding: list[int] = field(default_factory=list)
    slots: int = 0
    lengths: tuple[int, ...] | None = None

    def copy(self, cache: Any) -> "_Live":
        return replace(
            self, cache=cache, rows=[list(row) for row in self.rows], padding=list(self.padding)
        )


def run(subject: Subject, case: Case, keep: list[Any] | None = None) -> Result:
    """Do what the case says on a reset decoder, and compare every call with ``full``.

    Args:
        subject: the decoder.
        case: what to do.
        keep: gets the last live cache, for a look inside.

    Raises:
        NotSupported: an operation isn't.
        Refused: the first call is refused, which is as it may be.
        OutOfTime: the budget is used up.
    """
    subject.reset()
    runner = _Runner(subject, case)
    try:
        for index, op in enumerate(case.ops):
            runner.do(index, op)
    except Trouble as trouble:
        by_step = isinstance(trouble, Raised) and trouble.name == "step" and trouble.is_refusal
        may_refuse = by_step and runner.may_refuse(op)
        if may_refuse and not runner.observations:
            raise Refused(trouble.message) from None
        said, refused = (None, trouble.message) if may_refuse else (trouble.message, None)
        return Result(case, tuple(runner.observations), said, runner.ledger, refused)
    if keep is not None:
        keep.append(runner.live.cache)
    return Result(case, tuple(runner.observations), None, runner.ledger)


class _Runner:
    def __init__(self, subject: Subject, case: Case) -> None:
        self.subject = subject
        self.case = case
        self.next_column = 0
        self.observations: list[Observation] = []
        self.ledger: Message | None = None
        self.live = self._fresh(case.lengths, request=0)
        self.other = self.live

    def _fresh(self, lengths: tuple[int, ...] | None, request: int) -> _Live:
        n_rows = self.case.batch_size if self.case.rows is None else self.case.rows[request]
        return _Live(None, [[] for _ in range(n_rows)], [0] * n_rows, 0, lengths)

    def do(self, index: int, op: Op) -> None:
        if op.action == "feed":
            self._feed(index, op.argument, self.live)
        elif op.action in ("fork", "branch"):
            cache = self.live.cache
            self.other = self.live.copy(self.subject.fork(cache) if op.action == "fork" else cache)
            if op.argument:
                self._feed(index, op.argument, self.other)
        elif op.action == "switch":
            self.live, self.other = self.other, self.live
        elif op.action == "restart":
            self.live, self.other = self._fresh(op.argument, request=1), self.live
        elif op.action == "crop":
            self._crop(op.argument)
        else:
            self._reorder(op.argument)
        self._check_length(op)

    def may_refuse(self, op: Op) -> bool:
        """Whether a feed needs more slots than there are, in the cache or at all."""
        capacity = self.subject.capacity
        if capacity is None or op.action not in TAKES_TOKENS:
            return False
        return op.argument > capacity or (
            self.case.may_refuse and self.live.slots + op.argument > capacity
        )

    def _feed(self, index: int, size: int, live: _Live) -> None:
        lengths = live.lengths if live.slots == 0 else None
        columns = slice(self.next_column, self.next_column + size)
        rows = self.case.tokens[: len(live.rows)]
        chunk = np.array([row[columns] for row in rows], np.int64)
        self.next_column += size
        logits, live.cache = self.subject.step(chunk, live.cache, lengths)
        logits = logits.copy()
        for row, new in enumerate(chunk.tolist()):
            pads = 0 if lengths is None else size - lengths[row]
            live.padding[row] += pads
            live.rows[row] += new[pads:]
        expected = logits.copy()
        for row, history in enumerate(live.rows):
            real = min(size, len(history))
            logits[row, : size - real] = expected[row, : size - real] = 0  # padding may hold NaN
            if real:
                expected[row, size - real :] = self.subject.recompute(tuple(history))[-real:]
        histories = tuple(tuple(row) for row in live.rows)
        seen = Observation(index, histories, live.slots, logits, expected)
        self.observations.append(seen)
        live.slots += size

    def _crop(self, length: int) -> None:
        live = self.live
        window = self.subject.window
        let_go = window is not None and live.slots >= window
        try:
            live.cache = self.subject.crop(live.cache, length, may_refuse=let_go or length == 0)
        except Raised as raised:
            if length <= live.slots:
                raise
            raise Refused(raised.message) from None
        live.slots = min(length, live.slots)  # "at most", as transformers has it
        for row, pads in enumerate(live.padding):
            live.padding[row] = min(pads, length)
            del live.rows[row][max(length - pads, 0) :]

    def _reorder(self, rows: Sequence[int]) -> None:
        live = self.live
        same_number = len(rows) == len(live.rows)
        live.cache = self.subject.reorder(live.cache, rows, may_refuse=not same_number)
        live.rows = [list(live.rows[row]) for row in rows]
        live.padding = [live.padding[row] for row in rows]

    def _check_length(self, op: Op) -> None:
        live = self.live
        if live.cache is None or self.ledger is not None or not self.subject.has("length"):
            return
        counted = self.subject.length(live.cache)
        if counted != live.slots:
            self.ledger = Message("fails.length", op=op.message, counted=counted, kept=live.slots)


def smaller(case: Case) -> Iterator[Case]:
    """Cases that are a little smaller, the boldest first."""
    for index in range(len(case.ops)):
        yield _trimmed(replace(case, ops=case.ops[:index] + case.ops[index + 1 :]))
    for index, (op, after) in enumerate(pairwise(case.ops)):
        if op.action == after.action == "feed":
            merged = Op("feed", op.argument + after.argument)
            yield _trimmed(replace(case, ops=(*case.ops[:index], merged, *case.ops[index + 2 :])))
    if case.batch_size > 1 and not any(op.action == "reorder" for op in case.ops):
        yield from (_without_row(case, row) for row in range(case.batch_size))
    if case.lengths is not None:
        yield replace(case, lengths=None)
    if case.rows is not None:
        yield replace(case, rows=None)
    for index, op in enumerate(case.ops):
        if op.action not in (*TAKES_TOKENS, "crop"):
            continue
        for less in {op.argument // 2, op.argument - 1}:
            if less >= (0 if op.action == "crop" else 1):
                ops = (*case.ops[:index], Op(op.action, less), *case.ops[index + 1 :])
                yield _trimmed(replace(case, ops=ops))
    for row, tokens in enumerate(case.tokens):
        for column, token in enumerate(tokens):
            for simpler in {0, 1, column % 7} if token > 1 else {0} & {token - 1}:
                if simpler < token:
                    changed = (*tokens[:column], simpler, *tokens[column + 1 :])
                    yield replace(
                        case, tokens=(*case.tokens[:row], changed, *case.tokens[row + 1 :])
                    )


def _without_row(case: Case, row: int) -> Case:
    """The case with one row less; of two requests, in both."""

    def rest(items: tuple[Any, ...] | None) -> Any:
        return items and items[:row] + items[row + 1 :]

    ops = tuple(
        Op(op.action, rest(op.argument)) if op.action == "restart" else op for op in case.ops
    )
    rows = case.rows and (
        case.rows[0] - (row < case.rows[0]),
        case.rows[1] - (row < case.rows[1]),
    )
    return replace(case, tokens=rest(case.tokens), ops=ops, lengths=rest(case.lengths), rows=rows)


def _trimmed(case: Case) -> Case:
    """Without tokens that nothing takes, and with padding that fits the first chunks."""
    tokens = tuple(row[: case.n_tokens] for row in case.tokens)
    ops = list(case.ops)
    for index, op in enumerate(ops):
        if op.action == "restart" and op.argument is not None:
            ops[index] = Op("restart", _fitting(op.argument, ops[index + 1 :]))
    lengths = case.lengths and _fitting(case.lengths, ops)
    return replace(case, tokens=tokens, ops=tuple(ops), lengths=lengths)


def _fitting(lengths: tuple[int, ...], ops: Sequence[Op]) -> tuple[int, ...]:
    first = next((op.argument for op in ops if op.action == "feed"), 0)
    return tuple(min(length, first) for length in lengths)


Slots = tuple[int, int | None]
"""Of the cache that is fed, and of the second one if there is one."""


def walk(case: Case) -> Iterator[tuple[Op, Slots, Slots]]:
    """Each operation, with the slots in use before it and after it."""
    after: Slots = (0, None)
    for op in case.ops:
        before = slots, other = after
        if op.action == "feed":
            after = slots + op.argument, other
        elif op.action in ("fork", "branch"):
            after = slots, slots + op.argument
        elif op.action == "crop":
            after = op.argument, other
        elif op.action == "restart":
            after = 0, slots
        elif op.action == "switch":
            after = other or 0, slots
        yield op, before, after


def is_legal(case: Case) -> bool:
    """Whether the contract allows it: something is fed, crops and forks find what they need."""
    for op, (slots, other), _ in walk(case):
        if op.action not in ("feed", "restart") and slots == 0:
            return False
        if op.action == "crop" and op.argument > slots:
            return False
        if op.action == "switch" and other is None:
            return False
        if op.action == "reorder" and max(op.argument) >= case.batch_size:
            return False
    lengths_fit = case.lengths is None or min(case.lengths) >= 1
    rows_fit = case.rows is None or min(case.rows) >= 1
    fed = case.n_tokens > 0 and case.batch_size > 0 and case.ops[0].action == "feed"
    return fed and lengths_fit and rows_fit
