"""From a failing decoder to the name of the mistake: ask, weigh the answers, rank the kinds."""

from collections.abc import Callable

import numpy as np

from kvproof.checking.feeding_rules import feeding
from kvproof.checking.messages import Message
from kvproof.checking.names import Stage
from kvproof.checking.other_rules import batch, operations, padding, second_use
from kvproof.checking.verdict import EXACT, HINT, STRONG, Facts, Verdict
from kvproof.kinds import Kind

RULES: dict[Stage, Callable[[Facts, Verdict], None]] = {
    Stage.FEEDING: feeding,
    Stage.BATCH: batch,
    Stage.PADDING: padding,
    Stage.OPERATIONS: operations,
    Stage.SECOND_USE: second_use,
}


AFTER_OPERATIONS = (Stage.OPERATIONS, Stage.SECOND_USE)
"""Stages in which a wrong count says which operation is wrong."""


def diagnose(facts: Facts, stage: Stage) -> Verdict:
    """Rank the kinds of mistake that would explain the failures of a stage."""
    verdict = Verdict()
    if facts.smallest.trouble is not None:
        verdict.add(Kind.UNKNOWN, EXACT)
    elif facts.smallest.first_bad(facts.tolerance) is None and stage not in AFTER_OPERATIONS:
        _miscounted(verdict)
    elif stage is not Stage.FEEDING or not (_shifted(facts, verdict) or _ignored(facts, verdict)):
        RULES[stage](facts, verdict)
    return verdict


def diagnosis_of_full() -> Verdict:
    """``step`` is right as long as nobody calls ``full`` while its request goes on."""
    verdict = Verdict()
    verdict.add(Kind.ALIAS, STRONG, Message("full.writes"))
    verdict.add(Kind.SLOT_STALE, HINT)
    return verdict


def _miscounted(verdict: Verdict) -> None:
    """All logits are right and the counted length isn't."""
    verdict.add(Kind.POS_DRIFT, STRONG, Message("feeding.counted"))
    verdict.add(Kind.SLOT_WRITE, HINT)


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
        for step, why in ((-1, Message("feeding.earlier")), (1, Message("feeding.later"))):
            inside = (at + step >= 0) & (at + step < len(history))
            if inside.all() and facts.probes.same(seen.logits[0, rows], whole[at + step]):
                verdict.add(Kind.LOGIT_SHIFT, EXACT, why)
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
    verdict.add(Kind.UNKNOWN, EXACT, Message("feeding.no-cache"))
    verdict.add(Kind.MASK_TOPLEFT, HINT)
    verdict.add(Kind.POS_RESET, HINT)
    return True
