"""Rows of a batch, padding, operations or a second request come out wrong: what is the mistake?

One sequence alone is right by now.
"""

from dataclasses import replace

import numpy as np

from kvproof.checking.arrays import distance
from kvproof.checking.battery import BESIDE, IN_TURNS, OTHER_ROWS, PADDED_TURNS
from kvproof.checking.cases import Observation, run
from kvproof.checking.verdict import EXACT, HINT, LIKELY, STRONG, Facts, Verdict


def batch(facts: Facts, verdict: Verdict) -> None:
    """Three rows of equal length."""
    seen = facts.first.first_bad(facts.tolerance)
    if seen is None:
        return
    if not np.isfinite(seen.errors).all():
        verdict.add("MASK-VALUE", LIKELY, "logits that aren't finite")
    n_new = seen.logits.shape[1]
    for row, history in enumerate(seen.histories):
        for other, prefix in enumerate(seen.histories):
            if other != row and facts.gives(seen, prefix[:-n_new] + history[-n_new:], row):
                verdict.add("PAGE-MAP", EXACT, f"row {row} goes on from the past of row {other}")
                verdict.add("ROW-PERM", HINT)
                return
    verdict.add("PAGE-MAP", LIKELY, "each row alone is right, in a batch it isn't")
    verdict.add("SLOT-WRITE", LIKELY - HINT)
    verdict.add("KV-LAYOUT", HINT)
    verdict.add("REUSE-KEY", HINT)


def padding(facts: Facts, verdict: Verdict) -> None:
    """Rows after padding."""
    seen = facts.first.first_bad(facts.tolerance)
    if seen is None:
        return
    if not np.isfinite(seen.errors).all():
        why = "rows with padding aren't finite: a row of scores that is all -inf"
        verdict.add("MASK-VALUE", STRONG, why)
        verdict.add("PAD-MASK", HINT)
    elif _future_leaks(facts):
        verdict.check = "CAU"
        why = "with padding in the batch a later token moves the logits of an earlier one"
        verdict.add("MASK-SKIPPED", STRONG, why)
        verdict.add("MASK-VALUE", LIKELY)
    elif _padding_moves(facts, seen):
        verdict.check = "MSK"
        verdict.add("PAD-MASK", STRONG, "other tokens in the padding move the logits of real ones")
        verdict.add("POS-PERROW", HINT)
    elif blind := _unseen_token(facts, seen):
        verdict.check = "MSK"
        why = f"row {blind[0]}, after padding, doesn't see its own token {blind[1]}"
        verdict.add("PAD-MASK", STRONG, f"{why}: the mask counts padding wrongly")
        verdict.add("POS-PERROW", HINT)
    else:
        why = "padding isn't looked at, and rows after it are still wrong: their positions are"
        verdict.add("POS-PERROW", STRONG, why)
        verdict.add("PAD-MASK", HINT)
        verdict.add("POS-DRIFT", HINT)


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
        bool((moved[row, pad:last] > facts.probes.still).any()) for row, pad in enumerate(pads)
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
    return bool((moved[seen.errors > facts.tolerance] > facts.probes.still).any())


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
            if (alone > facts.probes.still) != (moved > facts.probes.still):
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


NOT_WITHOUT = "right without padding, wrong with it"


def _forked(facts: Facts, verdict: Verdict) -> None:
    verdict.check = "OLD"
    seen = facts.smallest.first_bad(facts.tolerance)
    of_fork = seen is not None and facts.smallest.case.ops[seen.op].action == "fork"
    why = (
        "the fork itself is wrong: it doesn't hold what the cache did"
        if of_fork
        else "what is fed to one of two caches changes the other"
    )
    verdict.add("ALIAS", STRONG, why)
    if facts.smallest.case.lengths is not None:
        verdict.add("POS-PERROW", STRONG + HINT, f"{NOT_WITHOUT}: the fork forgets it")
        verdict.add("PAD-MASK", LIKELY)
    if facts.subject.block_size is not None:
        verdict.add("PAGE-MAP", LIKELY)
        if any(op.action == "crop" for op in facts.smallest.case.ops):
            why = "a crop gives away or overwrites blocks that a fork still reads"
            verdict.add("PAGE-MAP", STRONG, why)


def _cropped(facts: Facts, verdict: Verdict) -> None:
    seen = facts.first.first_bad(facts.tolerance)
    if facts.smallest.ledger:
        verdict.add("ROLLBACK", LIKELY, facts.smallest.ledger)
    verdict.add("ROLLBACK", LIKELY, "wrong only after tokens have been taken back")
    verdict.add("ROPE-FRAME", HINT)
    if facts.smallest.case.lengths is not None:
        verdict.add("ROLLBACK", LIKELY, f"{NOT_WITHOUT}: the crop forgets it")
        verdict.add("POS-PERROW", LIKELY)
        verdict.add("PAD-MASK", HINT)
    if facts.subject.window is not None and not facts.smallest.case.lengths:
        why = "tokens have been taken back from a ring that had let go of what came before them"
        verdict.add("RING-ORDER", STRONG + HINT, why)
    if facts.subject.block_size is not None:
        verdict.add("PAGE-MAP", HINT)
    if seen is None or len(seen.histories) != 1:
        return
    history, n_new = seen.histories[0], seen.logits.shape[1]
    kept, new = history[:-n_new], history[-n_new:]
    fed = facts.first.case.tokens[0]
    for length in range(len(fed) - n_new + 1):
        if fed[:length] != kept and facts.gives(seen, (*fed[:length], *new)):
            why = f"as if cropped to {length} tokens instead of {len(kept)}"
            verdict.add("ROLLBACK", EXACT, why)
            return
    if kept and facts.gives(seen, (*kept, kept[-1], *new)):
        verdict.add("DUP-APPEND", EXACT, "as if the last token had been fed twice")


def _reordered(facts: Facts, verdict: Verdict) -> None:
    seen = facts.first.first_bad(facts.tolerance)
    verdict.add("ROW-PERM", LIKELY, "wrong only after rows have been picked")
    verdict.add("ALIAS", HINT)
    if facts.smallest.case.lengths is not None:
        verdict.add("ROW-PERM", LIKELY, f"{NOT_WITHOUT}: it isn't permuted with the rows")
        verdict.add("POS-PERROW", LIKELY)
        verdict.add("PAD-MASK", HINT)
    if seen is None:
        return
    n_new = seen.logits.shape[1]
    if not _from_other_row(facts, seen, verdict):
        _reordered_inside(facts, verdict)
    if facts.subject.block_size is not None:
        duplicates = facts.is_right("reorder to (1, 2, 0)") and n_new > 0
        verdict.add("PAGE-MAP", LIKELY if duplicates else HINT)


def _from_other_row(facts: Facts, seen: Observation, verdict: Verdict) -> bool:
    n_new = seen.logits.shape[1]
    for row, history in enumerate(seen.histories):
        past = len(history) - n_new
        for other, tokens in enumerate(facts.first.case.tokens):
            if tokens[:past] != history[:past] and facts.gives(
                seen, (*tokens[:past], *history[-n_new:]), row
            ):
                why = f"row {row} goes on from what was row {other} before, and shouldn't"
                verdict.add("ROW-PERM", EXACT, why)
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
            verdict.check = "KVL"
            verdict.add("KV-LAYOUT", EXACT, "after the reorder the values are the keys")
            return
        for name, one, two in (("keys", new[0], keys), ("values", new[1], values)):
            if not probes.same_vectors(one, two):
                verdict.add("ROW-PERM", STRONG, f"the {name} of layer {layer} are not permuted")
                return
    verdict.layer = None


# ---------------------------------------------------------------------- a second request


def second_use(facts: Facts, verdict: Verdict) -> None:
    """A second request on the same object."""
    seen = facts.first.first_bad(facts.tolerance)
    if seen is not None and len(seen.histories) == 1 and _from_before(facts, seen, verdict):
        return
    if facts.wrong.keys() <= {IN_TURNS, BESIDE, PADDED_TURNS}:
        why = "one request after the other is right, in turns they disturb each other"
        paged = facts.subject.block_size is not None
        verdict.add("PAGE-MAP" if paged else "ALIAS", STRONG, why)
        verdict.add("ALIAS" if paged else "SLOT-STALE", LIKELY)
        verdict.add("POS-DRIFT", HINT)
        return
    if all(title in OTHER_ROWS for title in facts.wrong):
        why = "a second request is wrong only if it has another number of rows"
        verdict.add("SLOT-STALE", STRONG, f"{why}: memory of the first one is used again")
        verdict.add("ALIAS", HINT)
        verdict.add("REUSE-KEY", HINT)
        return
    unrelated = {"a second request: another text", "a second request: a shorter text"}
    if unrelated & set(facts.wrong):
        verdict.add("SLOT-STALE", STRONG, "a second request is wrong whatever its text is")
        verdict.add("ALIAS", HINT)
        verdict.add("QUANT-SCALE", LIKELY if facts.subject.lossy else HINT)
        verdict.add("REUSE-KEY", HINT)
    elif set(facts.wrong) == {"a second request: the same text"}:
        verdict.add("DUP-APPEND", STRONG, "wrong only if the very same prompt comes again")
        verdict.add("REUSE-KEY", LIKELY)
        verdict.add("ALIAS", LIKELY)
    else:
        alike = ", ".join(title.partition(": ")[2] for title in facts.wrong)
        why = f"a second request is wrong only if it is like the first ({alike})"
        verdict.add("REUSE-KEY", STRONG, f"{why}: what was stored is found by too small a key")
        verdict.add("DUP-APPEND", HINT)
        verdict.add("ALIAS", LIKELY - HINT)


def _from_before(facts: Facts, seen: Observation, verdict: Verdict) -> bool:
    """Logits that are exactly those of a text made of both requests."""
    history, n_new = seen.histories[0], seen.logits.shape[1]
    past, new = history[:-n_new], history[-n_new:]
    first = facts.first.case.tokens[0]
    if past and facts.gives(seen, (*past, past[-1], *new)):
        verdict.add("DUP-APPEND", EXACT, "as if the last token had been fed twice")
        return True
    for length in range(1, len(first) + 1):
        if facts.gives(seen, (*first[:length], *history)):
            why = f"as if the first {length} tokens of the first request were still there"
            verdict.add("SLOT-STALE", EXACT, why)
            verdict.add("ALIAS", LIKELY)
            return True
    begun = first[: len(history)]
    if begun != history and facts.gives(seen, begun):
        why = (
            "the logits are those of the first request: it was found by a key that says too little"
        )
        verdict.add("REUSE-KEY", EXACT, why)
        return True
    if past and first[: len(past)] != past and facts.gives(seen, (*first[: len(past)], *new)):
        why = "the past is that of the first request: it was found by a key that says too little"
        verdict.add("REUSE-KEY", EXACT, why)
        return True
    return False
