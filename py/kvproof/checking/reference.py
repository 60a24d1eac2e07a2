"""First the judge: is ``full`` deterministic, causal, prefix-stable, and blind to other rows?

A cache is held against ``full``, so a wrong ``full`` would condemn a right cache.  The same calls
measure the noise: how far two ways to compute the same logits are apart in the decoder's own dtype.
That is the coarsest of its member ``dtype``, of the logits that it returns, and of what their bits
show, as many models compute in bfloat16 and return float32; without the member also of what the
noise shows.  What noise and errors are held against is the rule in ``rounding``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kvproof.checking.arrays import Logits, distance
from kvproof.checking.battery import SHORTEST, texts
from kvproof.checking.cases import Case, feeds, run
from kvproof.checking.messages import Message
from kvproof.checking.names import Check
from kvproof.checking.report import Finding
from kvproof.checking.rounding import EPS, Rounding
from kvproof.checking.snippets import PREAMBLE
from kvproof.checking.subject import (
    NotSupported,
    Row,
    Subject,
    Trouble,
    odd_logits,
)
from kvproof.kinds import Kind

CLEAR = 30
"""So many times the tolerance is an effect that can't be missed."""
LOSSY_FACTOR, LOSSY_SHARE = 20, 0.15
"""A cache that rounds on purpose may be off by 20 times its own median error.  No cache may be off
by more than this share of the largest logit: a wrong scale raises the median as well."""
ROUNDING_SHARE = 0.02
"""Of the largest logit: more is no rounding that nobody declared."""
HUGE_GAP, LIMIT = 100, 8
"""Logits so many times as large as all smaller ones say nothing, such as a mask of -1e9 over IDs
that are never given.  What is beyond ``LIMIT`` times the largest of the others is compressed."""


@dataclass(frozen=True)
class Reference:
    """What is known of ``full``."""

    finding: Finding | None = None
    noise: float = 0.0
    """Largest difference between two right ways to compute the same logits."""
    tolerance: float = 0.0
    """What a cache may be off by."""
    noise_floor: float = 0.0
    """What logits that don't depend on a token may move by when it changes."""
    notes: tuple[Message, ...] = ()
    error_limit: float = 0.0
    """What no tolerance may exceed: a share of the largest logit."""
    scale: float = 0.0
    """The largest logit."""
    rows: bool = True
    """Batches were looked at."""
    shows_nothing: bool = False
    """The logits depend on nothing, so no cache can be told from another."""


def judge(subject: Subject, rng: np.random.Generator) -> Reference:
    """Check ``full`` and measure its noise.

    Raises:
        Trouble: the declared noise would hide whatever a cache can do.
    """
    n = min(SHORTEST, subject.longest)
    rows = texts(subject, rng, 3, n)
    whole, *others = (subject.full(np.array([row]))[0] for row in rows)
    if odd := odd_logits(whole):
        sentence = Message(f"trouble.{odd}", tokens=str(list(rows[0])))
        return Reference(_fault(Check.LOG, sentence, rows[:1]))
    notes = [*_use_coarser(subject, _stored_precision(np.array([whole, *others])))]
    scale, signal, more = _set_aside_huge_logits(subject, whole)
    notes += more
    if n > 1 and subject.vocab_size > 1 and signal <= Rounding(subject.dtype, scale).allowed:
        return Reference(notes=(*notes, Message("note.constant")), shows_nothing=True)
    error_limit = LOSSY_SHARE * min(scale, signal or scale)
    answers = [*_questions(subject, rows, subject.recompute(rows[0]))]
    has_rows = any(answer.check is Check.ROW for answer in answers)
    if not has_rows:
        notes.append(Message("note.one-row"))
    notes += _precision(subject, answers, scale)
    finding, noise, tolerance = _noise(answers, Rounding(subject.dtype, scale), error_limit)
    known = Reference(finding, noise, tolerance, tolerance, (), error_limit, scale, has_rows)
    if finding is None or finding.doubtful:
        blind, hints = _blind_spot(subject, rows, tolerance)
        known = replace(known, finding=blind or finding)
        notes += hints
    if known.finding is None or known.finding.doubtful:
        budget, more = _budget(subject, rows[0], known)
        known = replace(known, tolerance=max(tolerance, budget))
        notes += more
        notes += _limits(subject, rows[0], known)
    return replace(known, notes=tuple(notes))


def _noise(
    answers: Sequence["_Answer"], rounding: Rounding, error_limit: float
) -> tuple[Finding | None, float, float]:
    """What ``full`` gets wrong, its noise, and what a cache may be off by."""
    limit = min(rounding.allowed, error_limit)
    noise = max((a.difference for a in answers if a.difference <= limit), default=0.0)
    tolerance = min(rounding.tolerance(noise), error_limit)
    wrong = [answer for answer in answers if not answer.difference <= limit]
    if not wrong:
        return None, noise, tolerance
    # What is beyond doubt says more than what comes first.
    worst = min(wrong, key=lambda answer: answer.doubt(rounding) is not None)
    return worst.fault(rounding), noise, tolerance


def _budget(subject: Subject, text: Row, known: Reference) -> tuple[float, list[Message]]:
    """What a cache that rounds on purpose may be off by, and notes.

    Raises:
        Trouble: the declared noise is too large to be believed.
    """
    if not subject.lossy:
        return 0.0, []
    measured = min(LOSSY_FACTOR * _median_error(subject, text), known.error_limit)
    declared = subject.noise
    if declared is None:
        return measured, []
    if declared > LOSSY_SHARE * known.scale:
        limits = {"percent": round(100 * LOSSY_SHARE), "largest": known.scale}
        raise Trouble(Message("trouble.noise", noise=declared, **limits))
    note = Message("note.noise", declared=declared, measured=measured)
    return min(declared, measured), [note]


def _limits(subject: Subject, text: Row, known: Reference) -> Iterator[Message]:
    """What can't be seen, or not well."""
    if len(text) < 4:
        yield Message("note.short", n=len(text))
    if EPS[subject.dtype] > EPS["float32"]:
        yield Message("note.coarse", dtype=subject.dtype, tolerance=known.noise_floor)
    yield from _contrast(subject, text, known.tolerance)


def _set_aside_huge_logits(subject: Subject, whole: Logits) -> tuple[float, float, list[Message]]:
    """Set ``subject.limit``; (largest ordinary logit, how far one moves over the text, notes).

    The first gap in the sorted magnitudes, above the lowest few, is where ordinary ones end.
    """
    sizes = np.sort(np.abs(whole[np.isfinite(whole) & (whole != 0)]))
    first = max(2, sizes.size // 50)
    gaps = np.flatnonzero(sizes[first + 1 :] > HUGE_GAP * sizes[first:-1])
    scale = float(sizes[first + gaps[0]] if gaps.size else sizes.max(initial=1e-30))
    subject.set_limit(LIMIT * scale)
    ordinary = np.abs(whole) <= scale
    ends = [np.where(ordinary, whole, end) for end in (-np.inf, np.inf)]
    signal = float(np.maximum(ends[0].max(axis=0) - ends[1].min(axis=0), 0.0).max())
    n_huge = int(np.sum(np.isfinite(whole) & ~ordinary))
    if not n_huge:
        return scale, signal, []
    one = float(whole[np.isfinite(whole) & ~ordinary][0])
    sizes_said = {"n": n_huge, "all": whole.size, "one": one, "limit": LIMIT * scale}
    return scale, signal, [Message("note.huge", **sizes_said)]


def _median_error(subject: Subject, text: Row) -> float:
    """Of a cache that is fed one by one; 0 where it can't be."""
    try:
        result = run(subject, Case((text,), feeds([1] * len(text))))
    except NotSupported:
        return 0.0
    return float(np.median([seen.error for seen in result.observations] or [np.inf]))


@dataclass(frozen=True)
class _Answer:
    """How far ``full`` is from itself, where it should be the same."""

    check: Check
    kind: Kind
    moved: NDArray[np.float64]
    """(T,), the largest difference at each position."""
    text: tuple[Row, ...]
    fault_id: str
    """Of what there is to say if it isn't."""
    args: Mapping[str, int] = field(default_factory=dict)

    @property
    def difference(self) -> float:
        return float(self.moved.max(initial=0.0))

    def doubt(self, rounding: Rounding) -> Message | None:
        """Whether it may be rounding, which never depends on a token that comes later."""
        return None if self.check is Check.CAU else rounding.doubt(self.difference)

    def fault(self, rounding: Rounding) -> Finding:
        sentence = Message(self.fault_id, difference=self.difference, **self.args)
        return _fault(self.check, sentence, self.text, self.kind, self.doubt(rounding))


def _questions(subject: Subject, rows: tuple[Row, ...], whole: Logits) -> Iterator[_Answer]:
    """What each property comes to."""
    one = rows[:1]
    n = len(rows[0])
    again = subject.full(np.array(one))[0]
    yield _Answer(Check.REP, Kind.UNKNOWN, distance(again, whole), one, "full.again")
    for position in {n - 1, n // 2}:
        changed = np.array([subject.changed(rows[0], position)])
        moved = distance(subject.full(changed)[0, :position], whole[:position])
        args = {"position": position}
        yield _Answer(Check.CAU, Kind.MASK_SKIPPED, moved, one, "full.causal", args)
    for end in range(1, n):
        prefix = subject.full(np.array([rows[0][:end]]))[0]
        moved = distance(prefix, whole[:end])
        yield _Answer(Check.PFX, Kind.ROPE_LEN, moved, one, "full.prefix", {"end": end})
    yield from _long_prefixes(subject)
    try:
        batch = subject.full(np.array(rows))
    except NotSupported:
        return
    for row, text in enumerate(rows):
        alone = whole if row == 0 else subject.full(np.array([text]))[0]
        moved = distance(batch[row], alone)
        yield _Answer(Check.ROW, Kind.UNKNOWN, moved, rows, "full.row", {"row": row})


def _precision(subject: Subject, answers: Sequence[_Answer], scale: float) -> Iterator[Message]:
    """Set ``subject.dtype`` to what the noise shows, where the decoder doesn't say it; a note."""
    declared = subject.declared_dtype
    if declared in EPS:
        return
    if declared is not None:
        yield Message("note.dtype", dtype=declared, known=list(EPS))
    yield from _use_coarser(subject, _noise_precision(answers, subject.dtype, scale))


def _use_coarser(subject: Subject, found: str | None) -> Iterator[Message]:
    """Set ``subject.dtype`` to what was found, if that is coarser; a note."""
    if found is not None and EPS[found] > EPS[subject.dtype]:
        yield Message("note.precision", found=found, returned=subject.dtype)
        subject.dtype = found


def _stored_precision(whole: Logits) -> str | None:
    """The coarsest precision that holds all the logits exactly, and whose last bits they use.

    Thirteen bits or more that are 0 in each of them are no accident, so few logits are enough.
    Whole numbers, and others on one grid, are none of a precision: they end at the same bit, where
    floating point goes the further down the smaller the number is.
    """
    logits = whole[np.isfinite(whole) & (whole != 0)]
    if logits.size < 4:
        return None
    parts, exponents = np.frexp(logits)
    for name, eps in reversed(EPS.items()):
        n_bits = round(np.log2(2 / eps))
        digits = np.ldexp(parts, n_bits)  # whole numbers, if the precision holds them
        if name == "float64" or (digits != np.rint(digits)).any():
            continue
        lowest = np.log2(digits.astype(np.int64) & -digits.astype(np.int64))
        end = (exponents - n_bits + lowest).min()
        on_a_grid = exponents.max() - end <= n_bits + 1
        return None if on_a_grid or np.mean(digits % 2) < 1 / 8 else name
    return None


def _noise_precision(answers: Sequence[_Answer], returned: str, scale: float) -> str | None:
    """The precision whose rounding explains how far ``full`` is from itself; None: no other.

    Rounding changes with the shape of a text, never with the tokens after a position; it is
    already there at the first position, which no rotation can move, and it starts at no length.
    """
    limit = Rounding(returned, scale).allowed
    worst = max(answer.difference for answer in answers)
    same_shape = [answer.difference for answer in answers if answer.check in (Check.REP, Check.CAU)]
    if worst <= limit or max(same_shape) > limit:
        return None
    if worst <= Rounding("float32", scale).allowed:
        return "float32"
    prefixes = [answer for answer in answers if answer.check is Check.PFX]
    at_first = any(answer.moved[0] > limit for answer in prefixes[: SHORTEST - 1])
    by_length = sorted(prefixes, key=lambda answer: len(answer.moved))
    off = [answer.difference > limit for answer in by_length]
    from_a_length = off == sorted(off, reverse=True) and not all(off)
    if worst > ROUNDING_SHARE * scale or not at_first or from_a_length:
        return None
    return "float16" if worst <= 4 * EPS["float16"] * scale else "bfloat16"


def _blind_spot(
    subject: Subject, texts: tuple[Row, ...], tolerance: float
) -> tuple[Finding | None, tuple[Message, ...]]:
    """Tokens that don't move a later position at all, where others do as far back.

    What a mask hides moves nothing, to the last bit and in any text; what is only weak, or not
    chosen by an attention that is sparse, moves something in some text.  Attention in chunks or
    blocks hides a token from those that come in another block; two neighbours that nobody sees are
    a mistake.
    """
    if subject.window is not None:
        return None, ()
    text = texts[0]
    n = len(text)
    hidden = np.ones((n, n), bool)  # (token, row)
    for one in texts:
        hidden &= _hidden(subject, one, tolerance)
        if not hidden.any():
            return None, ()
    # The last ones have few later positions, which may well not care.
    unseen = [hidden[token, token + 1 :].all() for token in range(n - 3)]
    for token, pair in enumerate(pairwise(unseen)):
        if all(pair):
            sentence = Message("full.blind", token=token, next=token + 1)
            return _fault(Check.MSK, sentence, (text,), Kind.MASK_TOPLEFT), ()
    token, row = np.argwhere(hidden)[0]
    return None, (Message("note.blind", row=int(row), token=int(token)),)


def _hidden(subject: Subject, text: Row, tolerance: float) -> NDArray[np.bool_]:
    """(T, T): a token, changed, doesn't move a later row at all, and others as far back do."""
    n = len(text)
    whole = subject.recompute(text)
    changed = [subject.recompute(subject.changed(text, token)) for token in range(n)]
    moved = np.array([distance(other, whole) for other in changed])
    hidden = np.zeros((n, n), bool)
    for token, row in np.argwhere(np.triu(moved == 0, k=1)):
        others = np.median(np.diagonal(moved, row - token))
        hidden[token, row] = others > CLEAR * tolerance and moved[token, token] > 0
    return hidden


def _long_prefixes(subject: Subject) -> Iterator[_Answer]:
    """Prefix stability further out, where a rotation may switch its base."""
    longest = min(subject.longest, 96)
    if longest <= SHORTEST:
        return
    text = texts(subject, np.random.default_rng(longest), 1, longest)
    whole = subject.full(np.array(text))[0]
    for end in (longest // 4, longest // 2, longest - 1):
        prefix = subject.full(np.array(text)[:, :end])[0]
        moved, args = distance(prefix, whole[:end]), {"end": end, "longest": longest}
        yield _Answer(Check.PFX, Kind.ROPE_LEN, moved, text, "full.long-prefix", args)


SEE = {
    Check.LOG: ("print(whole)",),
    Check.REP: ("print(apart(decoder.full(tokens), whole))  # should be 0",),
    Check.ROW: (
        "for row, text in enumerate(tokens):  # all of these should be rounding",
        "    print(row, apart(array(decoder.full(text[None]))[0], whole[row]))",
    ),
    Check.MSK: (
        "for token in range(tokens.shape[1]):  # each should move all positions from its own on",
        "    changed = tokens.copy()",
        "    changed[0, token] = (changed[0, token] + 1) % decoder.vocab_size",
        "    other = array(decoder.full(changed))[0]",
        "    print(token, [row for row in range(len(other)) if apart(other[row], whole[0, row])])",
    ),
}
"""Check -> lines that show what is wrong with ``whole``, the logits of ``tokens``."""
PREFIXES = (
    "for end in range(1, tokens.shape[1]):  # all of these should be rounding",
    "    print(end, apart(decoder.full(tokens[:, :end]), whole[:, :end]))",
)


def _fault(
    check: Check,
    sentence: Message,
    text: tuple[Row, ...],
    kind: Kind = Kind.UNKNOWN,
    doubt: Message | None = None,
) -> Finding:
    lines = (
        PREAMBLE,
        f"tokens = np.array({[list(row) for row in text]})",
        "whole = array(decoder.full(tokens))",
        *SEE.get(check, PREFIXES),
    )
    said = sentence, doubt or Message("full.not-checked")
    return Finding(
        kind=kind,
        check=check,
        case=Case(text, feeds([len(text[0])])),
        max_abs_error=0.0,
        tolerance=0.0,
        evidence=said,
        snippet="\n".join(lines),
        confidence=0.9 if doubt is None else 0.5,
        doubtful=doubt is not None,
    )


def _contrast(subject: Subject, text: Row, tolerance: float) -> Iterator[Message]:
    """Whether a mistake in order or position would be seen at all."""
    if len(text) < 4:
        return
    whole = subject.recompute(text)[-1]
    *before, one, other, last = text  # these two are seen through a window of three as well
    swapped = subject.recompute((*before, other, one, last))[-1]
    effect = float(distance(swapped, whole))
    if effect < CLEAR * tolerance:
        note = "note.contrast-lossy" if subject.lossy else "note.contrast"
        yield Message(note, effect=effect, tolerance=tolerance)
