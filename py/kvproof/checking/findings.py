"""From a failure to what a report says of it: where, what speaks for it, how to see it."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from kvproof.checking.cases import Case, Observation, Result, feeds
from kvproof.checking.messages import Message
from kvproof.checking.names import CaseId, Check
from kvproof.checking.report import Alternative, Finding, Influence
from kvproof.checking.snippets import PREAMBLE, snippet
from kvproof.checking.subject import Row, Subject
from kvproof.checking.verdict import Facts, Verdict
from kvproof.kinds import Kind


def snippet_of(
    subject: Subject, result: Result, tolerance: float, full_disturbs: bool = False
) -> str:
    """Lines that show what is wrong with a result."""
    bad = result.first_bad(tolerance)
    text = snippet(result.case, bad, tolerance, full_disturbs)
    if bad is not None and subject.limit < np.inf and np.abs(bad.expected).max() > subject.limit:
        text += f"\n# (logits beyond {subject.limit:.3g} were compared by their logarithms)"
    counted = bad is None and result.ledger
    return f"{text}\nprint(decoder.length(cache))  # {result.ledger}" if counted else text


def simplest(wrong: Mapping[CaseId, Result]) -> Result:
    """The failure that says most: wrong numbers before a call that raised, then the smallest."""
    return min(wrong.values(), key=lambda one: (one.trouble is not None, one.case.size))


def sentences(*said: Message | None) -> tuple[Message, ...]:
    """Those that there are."""
    return tuple(sentence for sentence in said if sentence is not None)


def undiagnosed(
    subject: Subject, check: Check, wrong: dict[CaseId, Result], tolerance: float, why: Message
) -> Finding:
    """What is certain before a failure is understood."""
    first = simplest(wrong)
    return Finding(
        kind=Kind.UNKNOWN,
        check=check,
        case=first.case,
        max_abs_error=first.error,
        tolerance=tolerance,
        first_bad=where(first.first_bad(tolerance), tolerance),
        evidence=sentences(first.trouble, Message("fails.cases", cases=_titles(wrong)), why),
        snippet=snippet_of(subject, first, tolerance),
        confidence=0.5,
    )


def _titles(names: Iterable[CaseId]) -> list[Message]:
    return [name.message for name in names]


def where(bad: Observation | None, tolerance: float) -> dict[str, int]:
    """The first wrong call, its first wrong position, and a row in which that is wrong."""
    if bad is None:
        return {}
    rows, columns = np.nonzero(bad.errors > tolerance)
    first = columns.argmin()
    position = bad.first_slot + int(columns[first])
    return {"operation": bad.op, "row": int(rows[first]), "position": position}


def evidence(facts: Facts, verdict: Verdict) -> Iterator[Message | None]:
    """What speaks for the verdict."""
    smallest, wrong, results = facts.smallest, facts.wrong, facts.results
    yield smallest.trouble
    yield from verdict.evidence
    n_odd = sum(
        int((~np.isfinite(seen.logits) & (seen.logits != seen.expected)).sum())
        for seen in smallest.observations
    )
    if n_odd:
        yield Message("fails.not-finite", n=n_odd)
    yield smallest.ledger
    if len(wrong) < 6:
        yield Message("fails.cases", cases=_titles(wrong))
    else:
        yield Message("fails.many", n=len(wrong), all=len(results))
    if passing := [name for name in results if name not in wrong]:
        yield Message("fails.passes", cases=_titles(passing))


def influence(facts: Facts) -> Influence | None:
    """In the first wrong call, if it is small enough to look at; else after four tokens."""
    seen = facts.first.first_bad(facts.tolerance)
    if seen is None:
        return None
    n_past, n_new = seen.first_slot, seen.logits.shape[1]
    if n_past + n_new > min(12, facts.probes.n):
        n_past, n_new = 4, 2
    found = facts.probes.influence(n_past, n_new)
    return None if found is None or found.seen == found.expected else found


def unlike_gold(subject: Subject, text: Row, difference: float, tolerance: float) -> Finding:
    """Which kind is in both paths: heads that are mixed up, unless there is only one."""
    n_heads = subject.kv_heads()
    kind = Kind.HEAD_MAP if n_heads is None or n_heads > 1 else Kind.UNKNOWN
    case = Case((text,), feeds([len(text)]))
    others = Alternative(Kind.LOGIT_SHIFT, 0.1), Alternative(Kind.MASK_VALUE, 0.1)
    lines = (
        f"{PREAMBLE}\ntokens = np.array({[list(text)]})\n"
        "print(apart(decoder.full(tokens), gold(tokens)))"
    )
    return Finding(
        kind=kind,
        check=Check.GOLD,
        case=case,
        max_abs_error=difference,
        tolerance=tolerance,
        alternatives=others,
        evidence=(Message("full.gold"), Message("full.gold-heads")),
        snippet=lines,
        confidence=0.6,
    )


def padded_unlike_alone(
    rows: tuple[Row, ...],
    lengths: tuple[int, ...],
    error: float,
    tolerance: float,
    sentence: Message,
) -> Finding:
    """``full`` doesn't give rows after padding what it gives each of them alone."""
    lines = (
        PREAMBLE,
        f"tokens, lengths = np.array({[list(row) for row in rows]}), np.array({list(lengths)})",
        "padded = array(decoder.full(tokens, lengths=lengths))",
        "for row, (text, n) in enumerate(zip(tokens, lengths)):  # all of these should be rounding",
        "    print(row, apart(padded[row, -n:], array(decoder.full(text[None, -n:]))[0]))",
    )
    others = Alternative(Kind.POS_PERROW, 0.3), Alternative(Kind.MASK_VALUE, 0.1)
    return Finding(
        kind=Kind.PAD_MASK,
        check=Check.ROW,
        case=Case(rows, feeds([len(rows[0])]), lengths),
        max_abs_error=error,
        tolerance=tolerance,
        alternatives=others,
        evidence=(sentence, Message("full.padded-itself")),
        snippet="\n".join(lines),
        confidence=0.6,
    )
