"""From a failing decoder to the name of the mistake: ask, weigh the answers, rank the kinds."""

from collections.abc import Callable

import numpy as np

from kvproof.checking.feeding_rules import feeding
from kvproof.checking.kinds import UNKNOWN
from kvproof.checking.other_rules import batch, operations, padding, second_use
from kvproof.checking.verdict import EXACT, HINT, STRONG, Facts, Verdict

RULES: dict[str, Callable[[Facts, Verdict], None]] = {
    "feeding": feeding,
    "batch": batch,
    "padding": padding,
    "operations": operations,
    "second use": second_use,
}


AFTER_OPERATIONS = ("operations", "second use")
"""Stages in which a wrong count says which operation is wrong."""


def diagnose(facts: Facts, stage: str) -> Verdict:
    """Rank the kinds of mistake that would explain the failures of a stage."""
    verdict = Verdict()
    if facts.smallest.trouble:
        verdict.add(UNKNOWN, EXACT)
    elif facts.smallest.first_bad(facts.tolerance) is None and stage not in AFTER_OPERATIONS:
        _miscounted(verdict)
    elif stage != "feeding" or not (_shifted(facts, verdict) or _ignored(facts, verdict)):
        RULES[stage](facts, verdict)
    return verdict


def diagnosis_of_full() -> Verdict:
    """``step`` is right as long as nobody calls ``full`` while its request goes on."""
    verdict = Verdict()
    why = "right if full isn't called between the calls of step, wrong if it is"
    verdict.add("ALIAS", STRONG, f"{why}: full writes into what step keeps")
    verdict.add("SLOT-STALE", HINT)
    return verdict


def _miscounted(verdict: Verdict) -> None:
    """All logits are right and the counted length isn't."""
    verdict.add("POS-DRIFT", STRONG, "all logits are right, and the counted length isn't")
    verdict.add("SLOT-WRITE", HINT)


def _shifted(facts: Facts, verdict: Verdict) -> bool:
    """Logits that are exactly those of the position before or after."""
    for result in facts.wrong.values():
        seen = result.first_bad(facts.tolerance)
        if seen is None:
            continue
        history = seen.histories[0]
        whole = facts.subject.recompute(history)
        rows = np.flatnonzero(seen.errors[0] > facts.tolerance)
        at = len(history) - seen.logits.shape[1] + rows
        for step, what in ((-1, "earlier"), (1, "later")):
            inside = (at + step >= 0) & (at + step < len(history))
            if inside.all() and facts.probes.same(seen.logits[0, rows], whole[at + step]):
                why = f"the logits are those of one position {what}, exactly"
                verdict.add("LOGIT-SHIFT", EXACT, why)
                return True
    return False


def _ignored(facts: Facts, verdict: Verdict) -> bool:
    """Wherever something is wrong, the logits are exactly those of the chunk alone."""
    calls = [result.first_bad(facts.tolerance) for result in facts.wrong.values()]
    for seen in calls:
        if seen is None or seen.first_slot == 0:
            return False
        if not facts.gives(seen, seen.histories[0][-seen.logits.shape[1] :]):
            return False
    verdict.add(UNKNOWN, EXACT, "the logits are those of the chunk alone: step ignores its cache")
    verdict.add("MASK-TOPLEFT", HINT)
    verdict.add("POS-RESET", HINT)
    return True
