"""Rows of a batch, padding, operations or a second request come out wrong: what is the mistake?

One sequence alone is right by now.
"""

from dataclasses import replace

import numpy as np

from kvproof.checking.arrays import distance
from kvproof.checking.battery import OTHER_ROWS
from kvproof.checking.cases import Observation, run
from kvproof.checking.messages import Message
from kvproof.checking.names import CaseId, Check
from kvproof.checking.verdict import EXACT, HINT, LIKELY, STRONG, Facts, Verdict
from kvproof.kinds import Kind


def batch(facts: Facts, verdict: Verdict) -> None:
    """Three rows of equal length."""
    seen = facts.first.first_bad(facts.tolerance)
    if seen is None:
        return
    if not np.isfinite(seen.errors).all():
        verdict.add(Kind.MASK_VALUE, LIKELY, Message("rows.not-finite"))
    n_new = seen.logits.shape[1]
    for row, history in enumerate(seen.histories):
        for other, prefix in enumerate(seen.histories):
            if other != row and facts.gives(seen, prefix[:-n_new] + history[-n_new:], row):
                why = Message("rows.other-past", row=row, other=other)
                verdict.add(Kind.PAGE_MAP, EXACT, why)
                verdict.add(Kind.ROW_PERM, HINT)
                return
    verdict.add(Kind.PAGE_MAP, LIKELY, Message("rows.batch-only"))
    verdict.add(Kind.SLOT_WRITE, LIKELY - HINT)
    verdict.add(Kind.KV_LAYOUT, HINT)
    verdict.add(Kind.REUSE_KEY, HINT)


def padding(facts: Facts, verdict: Verdict) -> None:
    """Rows after padding."""
    seen = facts.first.first_bad(facts.tolerance)
    if seen is None:
        return
    if not np.isfinite(seen.errors).all():
        verdict.add(Kind.MASK_VALUE, STRONG, Message("rows.padded-inf"))
        verdict.add(Kind.PAD_MASK, HINT)
    elif _future_leaks(facts):
        verdict.check = Check.CAU
        verdict.add(Kind.MASK_SKIPPED, STRONG, Message("rows.padded-leak"))
        verdict.add(Kind.MASK_VALUE, LIKELY)
    elif _padding_moves(facts, seen):
        verdict.check = Check.MSK
        verdict.add(Kind.PAD_MASK, STRONG, Message("rows.padding-moves"))
        verdict.add(Kind.POS_PERROW, HINT)
    elif blind := _unseen_token(facts, seen):
        verdict.check = Check.MSK
        why = Message("rows.padded-blind", row=blind[0], token=blind[1])
        verdict.add(Kind.PAD_MASK, STRONG, why)
        verdict.add(Kind.POS_PERROW, HINT)
    else:
        verdict.add(Kind.POS_PERROW, STRONG, Message("rows.padded-positions"))
        verdict.add(Kind.PAD_MASK, HINT)
        verdict.add(Kind.POS_DRIFT, HINT)


def _future_leaks(facts: Facts) -> bool:
    """The first chunk's last token, changed, moves earlier logits."""
    case = facts.first.case
    n_first = case.ops[0].argument
    last = n_first - 1
    changed = tuple(facts.subject.changed(row, last) for row in case.tokens)
    before, after = (
        run(facts.subject, replace(case, tokens=tokens, ops=case.ops[:1]))
        for tokens in (case.tokens, changed)
    )
    if not before.observations or not after.observations:
        return False
    moved = distance(after.observations[0].logits, before.observations[0].logits)
    pads = [0 if case.lengths is None else n_first - length for length in case.lengths or ()]
    return any(
        bool((moved[row, pad:last] > facts.probes.noise_floor).any())
        for row, pad in enumerate(pads)
    )


def _padding_moves(facts: Facts, seen: Observation) -> bool:
    case = facts.first.case
    if case.lengths is None:
        return False
    n_first = case.ops[0].argument
    rows = [
        (*map(facts.subject.another, row[: n_first - length]), *row[n_first - length :])
        for row, length in zip(case.tokens, case.lengths, strict=True)
    ]
    changed = run(facts.subject, replace(case, tokens=tuple(rows)))
    moved = distance(_same_call(changed.observations, seen).logits, seen.logits)
    return bool((moved[seen.errors > facts.tolerance] > facts.probes.noise_floor).any())


def _unseen_token(facts: Facts, seen: Observation) -> tuple[int, int] | None:
    """(row, index) of a real token that moves a bad row alone and doesn't in the batch."""
    case = facts.first.case
    if case.lengths is None:
        return None
    n_first = case.ops[0].argument
    for row in np.flatnonzero(seen.errors.max(axis=1) > facts.tolerance):
        pad = n_first - case.lengths[row]
        history = seen.histories[row]
        for index in range(len(history) - 1):
            column = pad + index
            tokens = [list(tokens) for tokens in case.tokens]
            tokens[row][column] = facts.subject.another(tokens[row][column])
            other = (*history[:index], tokens[row][column], *history[index + 1 :])
            alone = distance(facts.subject.recompute(other)[-1], seen.expected[row, -1])
            changed = run(facts.subject, replace(case, tokens=tuple(map(tuple, tokens))))
            call = _same_call(changed.observations, seen)
            moved = distance(call.logits[row, -1], seen.logits[row, -1])
            if (alone > facts.probes.noise_floor) != (moved > facts.probes.noise_floor):
                return int(row), index
    return None


def _same_call(observations: tuple[Observation, ...], seen: Observation) -> Observation:
    return next(call for call in observations if call.op == seen.op)


# ---------------------------------------------------------------------- operations


def operations(facts: Facts, verdict: Verdict) -> None:
    """Crop, fork, reorder, and going on."""
    actions = [op.action for op in facts.smallest.case.ops]
    if "fork" in actions or "branch" in actions:
        _forked(facts, verdict)
    if "reorder" in actions:
        _reordered(facts, verdict)
    if "crop" in actions:
        _cropped(facts, verdict)


def _forked(facts: Facts, verdict: Verdict) -> None:
    verdict.check = Check.OLD
    seen = facts.smallest.first_bad(facts.tolerance)
    of_fork = seen is not None and facts.smallest.case.ops[seen.op].action == "fork"
    why = Message("operations.fork" if of_fork else "operations.fork-shared")
    verdict.add(Kind.ALIAS, STRONG, why)
    if facts.smallest.case.lengths is not None:
        verdict.add(Kind.POS_PERROW, STRONG + HINT, Message("operations.fork-padding"))
        verdict.add(Kind.PAD_MASK, LIKELY)
    if facts.subject.block_size is not None:
        verdict.add(Kind.PAGE_MAP, LIKELY)
        if any(op.action == "crop" for op in facts.smallest.case.ops):
            verdict.add(Kind.PAGE_MAP, STRONG, Message("operations.fork-blocks"))


def _cropped(facts: Facts, verdict: Verdict) -> None:
    seen = facts.first.first_bad(facts.tolerance)
    if facts.smallest.ledger is not None:
        verdict.add(Kind.ROLLBACK, LIKELY, facts.smallest.ledger)
    verdict.add(Kind.ROLLBACK, LIKELY, Message("operations.crop"))
    verdict.add(Kind.ROPE_FRAME, HINT)
    if facts.smallest.case.lengths is not None:
        verdict.add(Kind.ROLLBACK, LIKELY, Message("operations.crop-padding"))
        verdict.add(Kind.POS_PERROW, LIKELY)
        verdict.add(Kind.PAD_MASK, HINT)
    if facts.subject.window is not None and not facts.smallest.case.lengths:
        verdict.add(Kind.RING_ORDER, STRONG + HINT, Message("operations.crop-ring"))
    if facts.subject.block_size is not None:
        verdict.add(Kind.PAGE_MAP, HINT)
    if seen is None or len(seen.histories) != 1:
        return
    history, n_new = seen.histories[0], seen.logits.shape[1]
    kept, new = history[:-n_new], history[-n_new:]
    fed = facts.first.case.tokens[0]
    for length in range(len(fed) - n_new + 1):
        if fed[:length] != kept and facts.gives(seen, (*fed[:length], *new)):
            why = Message("operations.crop-to", length=length, kept=len(kept))
            verdict.add(Kind.ROLLBACK, EXACT, why)
            return
    if kept and facts.gives(seen, (*kept, kept[-1], *new)):
        verdict.add(Kind.DUP_APPEND, EXACT, Message("operations.last-twice"))


def _reordered(facts: Facts, verdict: Verdict) -> None:
    seen = facts.first.first_bad(facts.tolerance)
    verdict.add(Kind.ROW_PERM, LIKELY, Message("operations.reorder"))
    verdict.add(Kind.ALIAS, HINT)
    if facts.smallest.case.lengths is not None:
        verdict.add(Kind.ROW_PERM, LIKELY, Message("operations.reorder-padding"))
        verdict.add(Kind.POS_PERROW, LIKELY)
        verdict.add(Kind.PAD_MASK, HINT)
    if seen is None:
        return
    n_new = seen.logits.shape[1]
    if not _from_other_row(facts, seen, verdict):
        _reordered_inside(facts, verdict)
    if facts.subject.block_size is not None:
        duplicates = not facts.is_wrong(CaseId.REORDER_PERMUTES) and n_new > 0
        verdict.add(Kind.PAGE_MAP, LIKELY if duplicates else HINT)


def _from_other_row(facts: Facts, seen: Observation, verdict: Verdict) -> bool:
    n_new = seen.logits.shape[1]
    for row, history in enumerate(seen.histories):
        past = len(history) - n_new
        for other, tokens in enumerate(facts.first.case.tokens):
            if tokens[:past] != history[:past] and facts.gives(
                seen, (*tokens[:past], *history[-n_new:]), row
            ):
                why = Message("operations.other-row", row=row, other=other)
                verdict.add(Kind.ROW_PERM, EXACT, why)
                return True
    return False


def _reordered_inside(facts: Facts, verdict: Verdict) -> None:
    """Only keys, or only values, or the one in the place of the other."""
    probes, case = facts.probes, facts.smallest.case
    index = next(i for i, op in enumerate(case.ops) if op.action == "reorder")
    if not probes.looks_inside or index == 0:
        return
    before, after = (
        probes.stored_after(replace(case, ops=case.ops[:end])) for end in (index, index + 1)
    )
    if before is None or after is None:
        return
    picked = list(case.ops[index].argument)
    for layer, (old, new) in enumerate(zip(before, after, strict=True)):
        keys, values = old[0][picked], old[1][picked]
        verdict.layer = layer
        if probes.same_vectors(new[1], keys) and not probes.same_vectors(keys, values):
            verdict.check = Check.KVL
            verdict.add(Kind.KV_LAYOUT, EXACT, Message("operations.values-are-keys"))
            return
        for name, one, two in (("keys", new[0], keys), ("values", new[1], values)):
            if not probes.same_vectors(one, two):
                why = Message(f"operations.{name}-stay", layer=layer)
                verdict.add(Kind.ROW_PERM, STRONG, why)
                return
    verdict.layer = None


# ---------------------------------------------------------------------- a second request


def second_use(facts: Facts, verdict: Verdict) -> None:
    """A second request on the same object."""
    seen = facts.first.first_bad(facts.tolerance)
    if seen is not None and len(seen.histories) == 1 and _from_before(facts, seen, verdict):
        return
    if facts.wrong.keys() <= {CaseId.IN_TURNS, CaseId.ROWS_BESIDE, CaseId.PADDED_TURNS}:
        why = Message("second.in-turns")
        paged = facts.subject.block_size is not None
        verdict.add(Kind.PAGE_MAP if paged else Kind.ALIAS, STRONG, why)
        verdict.add(Kind.ALIAS if paged else Kind.SLOT_STALE, LIKELY)
        verdict.add(Kind.POS_DRIFT, HINT)
        return
    if facts.wrong.keys() <= OTHER_ROWS.keys():
        verdict.add(Kind.SLOT_STALE, STRONG, Message("second.other-rows"))
        verdict.add(Kind.ALIAS, HINT)
        verdict.add(Kind.REUSE_KEY, HINT)
        return
    if facts.is_wrong(CaseId.OTHER_TEXT) or facts.is_wrong(CaseId.SHORTER_TEXT):
        verdict.add(Kind.SLOT_STALE, STRONG, Message("second.any"))
        verdict.add(Kind.ALIAS, HINT)
        verdict.add(Kind.QUANT_SCALE, LIKELY if facts.subject.lossy else HINT)
        verdict.add(Kind.REUSE_KEY, HINT)
    elif facts.wrong.keys() == {CaseId.SAME_TEXT}:
        verdict.add(Kind.DUP_APPEND, STRONG, Message("second.same"))
        verdict.add(Kind.REUSE_KEY, LIKELY)
        verdict.add(Kind.ALIAS, LIKELY)
    else:
        why = Message("second.alike", cases=[name.short_message for name in facts.wrong])
        verdict.add(Kind.REUSE_KEY, STRONG, why)
        verdict.add(Kind.DUP_APPEND, HINT)
        verdict.add(Kind.ALIAS, LIKELY - HINT)


def _from_before(facts: Facts, seen: Observation, verdict: Verdict) -> bool:
    """Logits that are exactly those of a text made of both requests."""
    history, n_new = seen.histories[0], seen.logits.shape[1]
    past, new = history[:-n_new], history[-n_new:]
    first = facts.first.case.tokens[0]
    if past and facts.gives(seen, (*past, past[-1], *new)):
        verdict.add(Kind.DUP_APPEND, EXACT, Message("operations.last-twice"))
        return True
    for length in range(1, len(first) + 1):
        if facts.gives(seen, (*first[:length], *history)):
            why = Message("second.left", length=length)
            verdict.add(Kind.SLOT_STALE, EXACT, why)
            verdict.add(Kind.ALIAS, LIKELY)
            return True
    begun = first[: len(history)]
    if begun != history and facts.gives(seen, begun):
        verdict.add(Kind.REUSE_KEY, EXACT, Message("second.logits-of-first"))
        return True
    if past and first[: len(past)] != past and facts.gives(seen, (*first[: len(past)], *new)):
        verdict.add(Kind.REUSE_KEY, EXACT, Message("second.past-of-first"))
        return True
    return False
