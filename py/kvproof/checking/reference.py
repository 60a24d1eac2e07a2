"""First the judge: is ``full`` deterministic, causal, prefix-stable, and blind to other rows?

A cache is held against ``full``, so a wrong ``full`` would condemn a right cache.  The same calls
measure the noise: how far two ways to compute the same logits are apart in the decoder's own dtype.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kvproof.checking.battery import SHORTEST, texts
from kvproof.checking.cases import Case, feeds, run
from kvproof.checking.report import Finding
from kvproof.checking.subject import EPS, Logits, Row, Subject

FAULT_UNITS = 100
"""A difference of so many units of rounding is no noise any more."""
NOISE_FACTOR = 10
"""A right cache sums in other orders than ``full`` does with itself; so much more is allowed."""
LEAST_UNITS = 16
CLEAR = 30
"""So many times the tolerance is an effect that can't be missed."""
LOSSY_FACTOR, LOSSY_SHARE = 20, 0.15
"""A cache that rounds on purpose may be off by 20 times its own median error, and never by more
than this share of the largest logit: a wrong scale raises the median as well."""


@dataclass(frozen=True)
class Reference:
    """What is known of ``full``."""

    finding: Finding | None
    noise: float
    """Largest difference between two right ways to compute the same logits."""
    tolerance: float
    """What a cache may be off by."""
    still: float
    """What logits that don't depend on a token may move by when it changes."""
    notes: tuple[str, ...]


def judge(subject: Subject, rng: np.random.Generator) -> Reference:
    """Check ``full`` and measure its noise."""
    n = min(SHORTEST, subject.longest)
    rows = texts(subject, rng, 3, n)
    whole = subject.full(np.array(rows[:1]))[0]
    if not np.isfinite(whole).all():
        return Reference(
            _fault("LOG", "full returns logits that aren't finite", rows[:1]), 0, 0, 0, ()
        )
    scale = max(float(np.abs(whole).max()), 1e-30)
    unit = EPS[subject.dtype] * scale
    noise = 0.0
    for check, sentence, kind, difference, text in _questions(subject, rows, whole):
        if not difference <= FAULT_UNITS * unit:
            finding = _fault(check, f"{sentence} (a difference of {difference:.3g})", text, kind)
            return Reference(finding, noise, 0, 0, ())
        noise = max(noise, difference)
    tolerance = max(NOISE_FACTOR * noise, LEAST_UNITS * unit)
    blind = _blind_spot(subject, rows[0], tolerance)
    if blind is not None:
        return Reference(blind, noise, tolerance, tolerance, ())
    notes = list(_contrast(subject, rows[0], tolerance))
    if n < 4:
        notes.append(f"no text is longer than {n}: hardly anything that a cache does can be seen")
    if EPS[subject.dtype] > EPS["float32"]:
        notes.append(
            f"in {subject.dtype} only errors beyond {tolerance:.2g} can be told from rounding: "
            "check the same code in float32 as well"
        )
    still = tolerance
    if subject.lossy:
        tolerance = max(tolerance, _lossy_budget(subject, rows[0], scale))
    return Reference(None, noise, tolerance, still, tuple(notes))


def _lossy_budget(subject: Subject, text: Row, scale: float) -> float:
    if subject.noise is not None:
        return subject.noise
    result = run(subject, Case((text,), feeds([1] * len(text))))
    errors = [seen.error for seen in result.observations] or [np.inf]
    return min(LOSSY_FACTOR * float(np.median(errors)), LOSSY_SHARE * scale)


def _questions(
    subject: Subject, rows: tuple[Row, ...], whole: Logits
) -> Iterator[tuple[str, str, str, float, tuple[Row, ...]]]:
    """(check, sentence if it fails, kind, difference, text) of each property."""
    one = rows[:1]
    n = len(rows[0])
    again = subject.full(np.array(one))[0]
    yield (
        "REP",
        "full gives other logits when it is asked again",
        "UNKNOWN",
        _apart(again, whole),
        one,
    )
    for position in {n - 1, n // 2}:
        changed = np.array(one)
        changed[0, position] = (changed[0, position] + 1) % subject.vocab_size
        moved = _apart(subject.full(changed)[0, :position], whole[:position])
        sentence = f"full isn't causal: another token at position {position} moves earlier logits"
        yield "CAU", sentence, "MASK-SKIPPED", moved, one
    for end in range(1, n):
        prefix = subject.full(np.array([rows[0][:end]]))[0]
        sentence = f"full isn't prefix-stable: the first {end} tokens alone give other logits"
        yield "PFX", sentence, "ROPE-LEN", _apart(prefix, whole[:end]), one
    batch = subject.full(np.array(rows))
    for row, text in enumerate(rows):
        alone = whole if row == 0 else subject.full(np.array([text]))[0]
        sentence = f"full gives row {row} of a batch other logits than the row alone"
        yield "ROW", sentence, "UNKNOWN", _apart(batch[row], alone), rows
    yield from _long_prefixes(subject)


def _blind_spot(subject: Subject, text: Row, tolerance: float) -> Finding | None:
    """A token that doesn't move a later position at all, where others do as far back.

    What a mask hides moves nothing, to the last bit; what is only weak moves something, or others
    at that distance are weak as well.
    """
    if subject.window is not None:
        return None
    n = len(text)
    whole = subject.recompute(text)
    moved = np.zeros((n, n))  # (token, row)
    for token in range(n):
        other = (text[token] + 1) % subject.vocab_size
        changed = subject.recompute((*text[:token], other, *text[token + 1 :]))
        moved[token] = np.abs(changed - whole).max(axis=-1)
    for token, row in np.argwhere(np.triu(moved == 0, k=1)):
        if np.median(np.diagonal(moved, row - token)) > CLEAR * tolerance:
            sentence = f"full doesn't let position {row} see token {token}, and others see as far"
            return _fault("MSK", sentence, (text,), "MASK-TOPLEFT")
    return None


def _long_prefixes(
    subject: Subject,
) -> Iterator[tuple[str, str, str, float, tuple[Row, ...]]]:
    """Prefix stability further out, where a rotation may switch its base."""
    longest = min(subject.longest, 96)
    if longest <= SHORTEST:
        return
    text = texts(subject, np.random.default_rng(longest), 1, longest)
    whole = subject.full(np.array(text))[0]
    for end in (longest // 4, longest // 2, longest - 1):
        prefix = subject.full(np.array(text)[:, :end])[0]
        sentence = (
            f"full isn't prefix-stable: the first {end} of {longest} tokens give other logits"
        )
        yield "PFX", sentence, "ROPE-LEN", _apart(prefix, whole[:end]), text


def _apart(one: Logits, other: Logits) -> float:
    difference = float(np.abs(one - other).max(initial=0.0))
    return difference if np.isfinite(difference) else np.inf


SEE = {
    "LOG": ("print(np.isfinite(whole).all())",),
    "REP": ("print(np.abs(np.asarray(decoder.full(tokens)) - whole).max())  # should be 0",),
    "ROW": (
        "for row, text in enumerate(tokens):  # all of these should be rounding",
        "    alone = np.asarray(decoder.full(text[None]))[0]",
        "    print(row, np.abs(alone - whole[row]).max())",
    ),
    "MSK": (
        "for token in range(tokens.shape[1]):  # each should move all positions from its own on",
        "    changed = tokens.copy()",
        "    changed[0, token] = (changed[0, token] + 1) % decoder.vocab_size",
        "    moved = np.abs(np.asarray(decoder.full(changed)) - whole)[0].max(axis=-1)",
        "    print(token, np.flatnonzero(moved))",
    ),
}
"""Check -> lines that show what is wrong with ``whole``, the logits of ``tokens``."""
PREFIXES = (
    "for end in range(1, tokens.shape[1]):  # all of these should be rounding",
    "    part = np.asarray(decoder.full(tokens[:, :end]))",
    "    print(end, np.abs(part - whole[:, :end]).max())",
)


def _fault(check: str, sentence: str, text: tuple[Row, ...], kind: str = "UNKNOWN") -> Finding:
    lines = (
        "import numpy as np",
        f"tokens = np.array({[list(row) for row in text]})",
        "whole = np.asarray(decoder.full(tokens))",
        *SEE.get(check, PREFIXES),
    )
    evidence = (sentence, "the cache was not checked: it would be held against this")
    case = Case(text, feeds([len(text[0])]))
    return Finding(kind, check, case, 0.0, 0.0, {}, (), evidence, "\n".join(lines), 0.9)


def _contrast(subject: Subject, text: Row, tolerance: float) -> Iterator[str]:
    """Whether a mistake in order or position would be seen at all."""
    if len(text) < 4:
        return
    whole = subject.recompute(text)[-1]
    swapped = subject.recompute((text[1], text[0], *text[2:]))[-1]
    effect = _apart(swapped, whole)
    if effect < CLEAR * tolerance:
        yield (
            f"two swapped tokens move the last logits by {effect:.1e} only, and {tolerance:.1e} is "
            "allowed: mistakes in positions can't be seen in this model; use trained weights, or "
            "multiply the weights by 3 to 10, or float64"
        )
