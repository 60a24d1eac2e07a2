"""One sequence in chunks comes out wrong: what is the mistake?

Cheap questions with clear answers come first; as soon as one of them settles it the rest is left
out.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kvproof.checking.arrays import Logits
from kvproof.checking.cases import Case, feeds, run
from kvproof.checking.messages import Message
from kvproof.checking.names import CaseId, Check
from kvproof.checking.probes import Deviation, KeysValues
from kvproof.checking.subject import Row
from kvproof.checking.verdict import EXACT, HINT, LIKELY, STRONG, Facts, Verdict
from kvproof.kinds import Kind


def feeding(facts: Facts, verdict: Verdict) -> None:
    """Rank the kinds for a decoder that fails with one sequence."""
    lossy = facts.subject.lossy
    for ask in BY_EFFECT if lossy else (*BY_EFFECT, *BY_SIZE):
        ask(facts, verdict)
        if verdict.settled:
            return
    if lossy:
        _lossy(facts, verdict)
    else:
        _what_is_left(facts, verdict)


def _lossy(facts: Facts, verdict: Verdict) -> None:
    """Nothing explains the error: beyond the share that rounding may have it's a mistake."""
    verdict.check = Check.TOL
    worst = max(result.error for result in facts.wrong.values())
    odd = any(result.trouble or result.ledger for result in facts.wrong.values())
    if worst <= facts.error_limit and not odd:
        verdict.add(Kind.UNKNOWN, HINT)
        return
    verdict.add(Kind.QUANT_SCALE, STRONG, Message("feeding.lossy"))
    verdict.add(Kind.SLOT_WRITE, HINT)
    verdict.add(Kind.POS_DRIFT, HINT)


def _not_finite(facts: Facts, verdict: Verdict) -> None:
    seen = facts.smallest.first_bad(facts.tolerance)
    if seen is None or np.isfinite(seen.errors).all():
        return
    if seen.first_slot == 0 and seen.logits.shape[1] == 1:
        verdict.add(Kind.SELF_READ, STRONG, Message("feeding.first-nan"))
        verdict.add(Kind.MASK_VALUE, LIKELY)
        return
    verdict.add(Kind.MASK_VALUE, STRONG, Message("feeding.all-inf"))


# ---------------------------------------------------------------------- who sees whom


def _leaks(facts: Facts, verdict: Verdict) -> None:
    """A token that sees the future of its own chunk; one by one there is none."""
    probes = facts.probes
    if facts.is_wrong(CaseId.ONE_BY_ONE):
        return
    n_past = min(5, probes.n - 3)
    on_cache, from_empty = probes.leaks(n_past, 3), probes.leaks(0, 4)
    if not on_cache and not from_empty:
        return
    verdict.check = Check.CAU
    why = "feeding.leak" if from_empty else "feeding.leak-filled"
    ratio = probes.future_against_past(on_cache)
    verdict.evidence.append(Message("feeding.leak-ratio", ratio=ratio))
    if ratio > FULL_WEIGHT:
        verdict.add(Kind.MASK_SKIPPED, STRONG, Message(why))
        verdict.add(Kind.MASK_VALUE, HINT, Message(why))
    else:
        verdict.add(Kind.MASK_VALUE, STRONG, Message(f"{why}-less"))
        verdict.add(Kind.MASK_SKIPPED, HINT, Message(why))


FULL_WEIGHT = 0.7
"""Without a mask the future weighs as much as the past; with a mask added as 0 and 1, 1 / e."""


def _who_is_seen(facts: Facts, verdict: Verdict) -> None:
    """Compare the last token that each row of a chunk sees with the one before its own."""
    probes = facts.probes
    n_past, n_new = min(5, probes.n - 3), 3
    furthest = probes.furthest_seen(n_past, n_new)
    right = [n_past + row - 1 for row in range(n_new)]
    if furthest is None or furthest == right:
        return
    verdict.check = Check.MSK
    said = Message("feeding.furthest", past=n_past, new=n_new, seen=furthest, right=right)
    verdict.evidence.append(said)
    blind_to_chunk = all(seen < n_past for seen in furthest)
    if furthest[0] == right[0] and blind_to_chunk:
        verdict.add(Kind.SELF_READ, STRONG, Message("feeding.blind-chunk"))
        verdict.add(Kind.MASK_TOPLEFT, HINT)
    elif blind_to_chunk and facts.subject.window is None:
        verdict.add(Kind.MASK_TOPLEFT, STRONG, Message("feeding.first-keys"))
        verdict.add(Kind.SELF_READ, HINT)
    elif facts.subject.window is not None:
        verdict.add(Kind.WINDOW_PHASE, LIKELY, Message("feeding.unseen"))
        verdict.add(Kind.RING_ORDER, LIKELY)
        verdict.add(Kind.MASK_TOPLEFT, LIKELY - HINT)
    elif (lost := _lost_token(facts, n_past, n_new)) is not None:
        verdict.add(Kind.SLOT_WRITE, STRONG, Message("feeding.lost", token=lost))
        verdict.add(Kind.KV_LAYOUT, LIKELY)
    elif any(seen > wanted for seen, wanted in zip(furthest, right, strict=True)):
        verdict.add(Kind.KV_LAYOUT, STRONG, Message("feeding.misread"))
        verdict.add(Kind.SLOT_WRITE, LIKELY)
    else:
        verdict.add(Kind.SLOT_WRITE, LIKELY, Message("feeding.unseen"))
        verdict.add(Kind.MASK_TOPLEFT, HINT)


def _lost_token(facts: Facts, n_past: int, n_new: int) -> int | None:
    """A token of the past that moves no row of a chunk."""
    for position in range(n_past):
        moved = facts.probes.moved_by(n_past, n_new, position)
        if moved is not None and (moved <= facts.probes.noise_floor).all():
            return position
    return None


def _only_token_lost(facts: Facts, verdict: Verdict) -> None:
    """A past of one token that the next one doesn't notice."""
    if facts.subject.window is None and _lost_token(facts, 1, 1) is not None:
        verdict.add(Kind.SLOT_WRITE, STRONG, Message("feeding.only-lost"))


def _last_row_only(facts: Facts, verdict: Verdict) -> None:
    """In a chunk only the last row is wrong, and so is a single token: it misses itself."""
    probes = facts.probes
    seen = probes.feed(probes.text[:9], [6, 3])
    ones_are_wrong = facts.is_wrong(CaseId.PREFILL_ONE_BY_ONE)
    if seen is None or facts.subject.lossy or not ones_are_wrong:
        return
    bad = (seen.errors[0] > facts.tolerance).tolist()
    if bad == [False, False, True]:
        verdict.add(Kind.SELF_READ, STRONG, Message("feeding.last-row"))
        verdict.add(Kind.SLOT_WRITE, HINT)


def _window(facts: Facts, verdict: Verdict) -> None:
    """How far back a token sees, with the cache and without."""
    if facts.subject.window is not None and not _window_start(facts, verdict):
        _ring_edge(facts, facts.subject.window, verdict)


def _window_start(facts: Facts, verdict: Verdict) -> bool:
    """Whether a token sees less far, or further, than in ``full``."""
    probes = facts.probes
    ones_are_right = not facts.is_wrong(CaseId.ONE_BY_ONE)
    for n_past in (probes.n - 1, probes.n - 2):
        starts = probes.first_that_matters(n_past)
        if starts is None or starts[0] == starts[1]:
            continue
        cached, right = starts
        verdict.check = Check.MSK
        start = {"past": n_past, "cached": cached, "right": right}
        why = Message("feeding.window-start", **start)
        # An edge that is off by one is so in each layer, and in the last one only in a later call.
        everywhere = facts.is_wrong(CaseId.ONE_CALL)
        near = abs(cached - right) <= max(1, probes.n_layers - (not everywhere))
        if cached == 0 or not (ones_are_right or near):
            verdict.add(Kind.WINDOW_PHASE, STRONG, why)
            verdict.add(Kind.WINDOW_OBO, HINT)
        elif ones_are_right and cached > right:
            why = Message("feeding.window-start-chunks", **start)
            verdict.add(Kind.RING_ORDER, STRONG, why)
            verdict.add(Kind.WINDOW_OBO, LIKELY)
        else:
            verdict.add(Kind.WINDOW_OBO, STRONG, why)
            verdict.add(Kind.WINDOW_PHASE, LIKELY)
        return True
    return False


def _ring_edge(facts: Facts, window: int, verdict: Verdict) -> None:
    """All see as far as they should, and are wrong where a ring begins anew."""
    probes = facts.probes
    if not facts.is_wrong(CaseId.ONE_BY_ONE):
        verdict.add(Kind.RING_ORDER, STRONG, Message("feeding.window-chunks"))
        verdict.add(Kind.WINDOW_PHASE, LIKELY)
        verdict.add(Kind.WINDOW_OBO, LIKELY - HINT)
        return
    slot = first_bad_slot(facts, probes.text, [1] * probes.n)
    if slot is not None and window - 1 <= slot <= window + 1:
        why = Message("feeding.ring-fills", slot=slot, window=window)
        verdict.add(Kind.RING_ORDER, STRONG, why)
        verdict.add(Kind.WINDOW_OBO, HINT)
        if not probes.looks_inside:  # else a wrong position would have been seen
            verdict.add(Kind.POS_DRIFT, LIKELY)
            verdict.add(Kind.ROPE_FRAME, LIKELY - HINT)


def _blocks(facts: Facts, verdict: Verdict) -> None:
    """Does it depend on how many tokens there are, and on nothing else?"""
    block = facts.subject.block_size
    if block is None:
        return
    if all(name.is_long for name in facts.wrong):
        verdict.add(Kind.PAGE_MAP, STRONG, Message("feeding.long-block"))
        verdict.add(Kind.SLOT_WRITE, LIKELY)
        return
    lengths = range(2, min(2 * block + 3, facts.probes.n) + 1)
    wrong = [n for n in lengths if not facts.probes.is_right([n - 1, 1])]
    if wrong and len(wrong) < len(lengths):
        why = Message("feeding.block-numbers", block=block, numbers=wrong)
        verdict.add(Kind.PAGE_MAP, STRONG, why)
        verdict.add(Kind.SLOT_WRITE, LIKELY)


# ---------------------------------------------------------------------- what is stored


def _stored(facts: Facts, verdict: Verdict) -> None:
    """What the stored keys and values of the first layers say."""
    probes, case = facts.probes, facts.first.case
    if not probes.looks_inside:
        return
    text, sizes = case.tokens[0], [op.argument for op in case.ops]
    actual, wanted = probes.stored(text, sizes), probes.stored(text, [len(text)])
    if actual is None or wanted is None:
        return
    if actual[0][0].shape[2] > len(text):
        _other_history(facts, verdict)  # one may be there twice
        if verdict.settled:
            return
        why = Message("stored.hole", slots=actual[0][0].shape[2], tokens=len(text))
        verdict.add(Kind.SLOT_WRITE, STRONG, why)
        return
    empty = [slot for slot in range(actual[0][0].shape[2]) if _is_empty(actual[0], slot)]
    if empty:
        verdict.add(Kind.SLOT_WRITE, STRONG, Message("stored.zeros", slot=empty[0]))
        return
    deviations = probes.deviations(actual, wanted)
    bad_layers = [deviation.layer for deviation in deviations if deviation.any]
    verdict.layer = bad_layers[0] if bad_layers else None
    if not bad_layers:
        verdict.evidence.append(Message("stored.right"))
    elif bad_layers[0] > 0:
        verdict.evidence.append(Message("stored.first-layer-reads"))
    else:
        verdict.check = Check.KVL
        _first_layer(facts, text, (actual, wanted), deviations[0], verdict)


def _first_layer(
    facts: Facts,
    text: Row,
    stored: tuple[KeysValues, KeysValues],
    first: Deviation,
    verdict: Verdict,
) -> None:
    """A first-layer key depends on its own token and position: it tells which were used."""
    probes = facts.probes
    (keys, values), (right_keys, right_values) = stored[0][0], stored[1][0]
    slot = (first.key_slots or first.value_slots)[0]
    both = first.key_slots and first.value_slots
    which = "both" if both else "keys" if first.key_slots else "values"
    n_bad = len({*first.key_slots, *first.value_slots})
    verdict.evidence.append(Message(f"stored.{which}-differ", n=n_bad, slot=slot))
    n_read = min(keys.shape[2], right_keys.shape[2])
    if slot >= n_read:
        return
    value = values[0, :, slot]
    if first.value_slots and probes.same_vectors(value, right_keys[0, :, slot]):
        verdict.add(Kind.KV_LAYOUT, EXACT, Message("stored.key-as-value", slot=slot))
    elif facts.subject.lossy or _is_scaled(value, right_values[0, :, slot]):
        verdict.add(Kind.QUANT_SCALE, STRONG, Message("stored.scale", slot=slot))
    elif not first.key_slots and _from_other_head(facts, values[0], right_values[0], slot):
        verdict.add(Kind.KV_LAYOUT, EXACT, Message("stored.strides", slot=slot))
    elif not first.value_slots and probes.older_keys_change(text):
        verdict.add(Kind.ROPE_FRAME, STRONG, Message("stored.older-change"))
    elif not _named_position(facts, bool(first.value_slots), verdict):
        _other_slot(facts, text, keys, right_keys, slot, verdict)


def _other_slot(
    facts: Facts, text: Row, keys: Logits, right_keys: Logits, slot: int, verdict: Verdict
) -> None:
    for other in range(min(keys.shape[2], right_keys.shape[2])):
        if other != slot and facts.probes.same_vectors(keys[0, :, slot], right_keys[0, :, other]):
            if keys.shape[2] == len(text) and text[slot] == text[other]:
                why = Message("stored.not-rotated", slot=slot, other=other)
                verdict.add(Kind.ROPE_FRAME, STRONG, why)
                return
            why = Message("stored.other-slot", slot=slot, other=other)
            blocks = facts.subject.block_size is not None
            ring = facts.subject.window is not None
            kind = Kind.RING_ORDER if ring else Kind.PAGE_MAP if blocks else Kind.SLOT_WRITE
            verdict.add(kind, STRONG, why)
            verdict.add(Kind.SLOT_WRITE, HINT)
            return
    if facts.subject.block_size is not None:
        verdict.add(Kind.PAGE_MAP, STRONG, Message("stored.foreign", slot=slot))
        verdict.add(Kind.SLOT_WRITE, LIKELY)
        return
    verdict.add(Kind.POS_DRIFT, LIKELY, Message("stored.no-position"))
    verdict.add(Kind.ROPE_FRAME, LIKELY)
    verdict.add(Kind.SLOT_WRITE, HINT)


def _from_other_head(facts: Facts, values: Logits, right: Logits, slot: int) -> bool:
    """Whether each head's wrong value (H, S, D) in a slot belongs elsewhere, and one to a head."""
    heads = range(right.shape[0])
    places = [
        [
            head != other
            for other in heads
            for source in range(right.shape[1])
            if facts.probes.same_vectors(values[head, slot], right[other, source])
        ]
        for head in heads
    ]
    return all(places) and any(all(place) for place in places)


def _is_empty(pair: tuple[Logits, Logits], slot: int) -> bool:
    """Whether a head's key or value in a slot is all zeros."""
    return any(bool((np.abs(array[0, :, slot]).max(axis=-1) == 0).any()) for array in pair)


def _named_position(facts: Facts, values_differ: bool, verdict: Verdict) -> bool:
    """Read off the position of each token after a prefill of 3, and after one of 4."""
    used: dict[tuple[int, int], int] = {}
    n = min(9, facts.probes.n)
    for n_past in (3, 4):
        sizes = [n_past, *[1] * (n - n_past - 2), 2]
        for slot, position in facts.probes.positions_used(facts.probes.text[:n], sizes).items():
            used[n_past, slot] = position
    wrong = {at: position for at, position in used.items() if position != at[1]}
    singles = {at: position for at, position in wrong.items() if at[1] < n - 2}
    if not wrong:
        return False
    (n_past, slot), position = next(iter(wrong.items()))
    said = {"past": n_past, "slot": slot, "position": position}
    window = facts.subject.window
    if all(position == 0 for position in singles.values()):
        verdict.add(Kind.POS_RESET, STRONG, Message("stored.position-chunk", **said))
        verdict.add(Kind.POS_DRIFT, HINT)
    elif all(position == at[0] for at, position in singles.items()):
        verdict.add(Kind.ROPE_FRAME, STRONG, Message("stored.position-first-call", **said))
        verdict.add(Kind.POS_DRIFT, LIKELY)
    elif window is not None and set(singles.values()) == {window} and not values_differ:
        verdict.add(Kind.ROPE_FRAME, STRONG, Message("stored.position-kept", **said))
        verdict.add(Kind.POS_DRIFT, LIKELY)
    else:
        verdict.add(Kind.POS_DRIFT, STRONG, Message("stored.position", **said))
        verdict.add(Kind.POS_RESET, HINT)
        verdict.add(Kind.ROPE_FRAME, HINT)
    return True


def _is_scaled(vectors: NDArray[np.float64], right: NDArray[np.float64]) -> bool:
    """(H, D): each vector is its right one times a number that isn't 1."""
    norms, right_norms = (np.linalg.norm(array, axis=-1) for array in (vectors, right))
    if not (norms > 0).all() or not (right_norms > 0).all():
        return False
    cosine = (vectors * right).sum(axis=-1) / (norms * right_norms)
    return bool((cosine > 0.98).all() and (np.abs(norms / right_norms - 1) > 0.05).any())


# ---------------------------------------------------------------------- where it starts


def _end_of_the_cache(facts: Facts, verdict: Verdict) -> None:
    """Only at the end, or, however the text is fed, from the same slot on."""
    if all(name.ends_the_cache for name in facts.wrong):
        why = Message("feeding.end", cases=[name.message for name in facts.wrong])
        verdict.add(Kind.SLOT_WRITE, STRONG, why)
        return
    text = facts.first.case.tokens[0]
    n = len(text)
    starts = {
        first_bad_slot(facts, text, [n_past, *[1] * (n - n_past)]) for n_past in range(1, min(5, n))
    }
    [slot, *others] = starts
    if others or slot is None or slot <= 5:
        return
    verdict.add(Kind.SLOT_WRITE, LIKELY, Message("feeding.same-slot", slot=slot))
    verdict.add(Kind.POS_DRIFT, HINT)


def first_bad_slot(facts: Facts, text: Sequence[int], sizes: Sequence[int]) -> int | None:
    """The slot of the first wrong logits of a text in chunks."""
    seen = run(facts.subject, Case((tuple(text),), feeds(sizes))).first_bad(facts.tolerance)
    if seen is None:
        return None
    return seen.first_slot + int(np.flatnonzero(seen.errors[0] > facts.tolerance)[0])


def _other_history(facts: Facts, verdict: Verdict) -> None:
    """Logits that are those of the text without one token, or with its last one twice."""
    seen = facts.first.first_bad(facts.tolerance)
    if seen is None:
        return
    history, n_new = seen.histories[0], seen.logits.shape[1]
    past, new = history[:-n_new], history[-n_new:]
    if past and facts.gives(seen, (*past, past[-1], *new)):
        verdict.add(Kind.DUP_APPEND, EXACT, Message("feeding.twice"))
        return
    for index in range(len(past)):
        if facts.gives(seen, (*past[:index], *past[index + 1 :], *new)):
            verdict.add(Kind.SLOT_WRITE, EXACT, Message("feeding.without", token=index))
            return


def _empty_slots(facts: Facts, verdict: Verdict) -> None:
    """Does the error go away as the cache fills?  Then its empty slots are read."""
    longest = facts.subject.longest
    if longest > 512 or facts.subject.window is not None:
        return
    text = [facts.probes.text[i % facts.probes.n] for i in range(longest)]
    pairs = ([4], [longest]), ([3, 1], [longest - 1, 1])
    for short, whole in pairs:
        few, all_full = facts.probes.error(text[:4], short), facts.probes.error(text, whole)
        if facts.tolerance < few and all_full <= facts.tolerance:
            verdict.add(Kind.SLOT_STALE, STRONG, Message("feeding.empty-read"))
            return
        if facts.tolerance < few and all_full < few / 5:
            why = Message("feeding.less-as-filled")
            verdict.add(Kind.SELF_READ, LIKELY, why)
            verdict.add(Kind.SLOT_STALE, LIKELY, why)


# ---------------------------------------------------------------------- weights or values


def _one_token_text(facts: Facts, verdict: Verdict) -> None:
    """Equal tokens have equal values: any weights give the same average, so only content shows."""
    probes = facts.probes
    if not probes.positions_act_on_scores_only():
        return
    after = probes.one_token_repeated([4, 1])
    if after is None:
        return
    if after.error <= facts.tolerance:
        verdict.evidence.append(Message("feeding.repeated-right"))
        _wrong_weights(facts, verdict)
    else:
        verdict.evidence.append(Message("feeding.repeated-wrong"))


def _wrong_weights(facts: Facts, verdict: Verdict) -> None:
    probes = facts.probes
    if probes.ignores_its_own():
        verdict.add(Kind.SELF_READ, STRONG, Message("feeding.own-unread"))
        return
    inside = probes.stored((probes.text[0],) * 6, [6])
    if inside is not None:
        keys = inside[0][0]
        if probes.same_vectors(keys[:, :, 0], keys[:, :, -1]):
            verdict.add(Kind.BIAS_LEN, STRONG, Message("feeding.distances"))
            verdict.add(Kind.POS_DRIFT, HINT)
            return
    why = Message("feeding.position")
    drifts = probes.is_right([1, 1]) and probes.is_right([1, 1, 1])
    if _same_in_any_chunks(facts):
        why, drifts = Message("feeding.position-any-chunk"), True
    verdict.add(Kind.POS_DRIFT if drifts else Kind.POS_RESET, STRONG, why)
    verdict.add(Kind.POS_RESET if drifts else Kind.POS_DRIFT, LIKELY)
    verdict.add(Kind.BIAS_LEN, LIKELY - HINT if inside is None else HINT)
    verdict.add(Kind.ROPE_FRAME, HINT)


def _same_in_any_chunks(facts: Facts) -> bool:
    """Whether the last wrong logits stay the same however the tokens after a prefill come."""
    text = facts.probes.text[:7]
    calls = [facts.probes.feed(text, [3, *sizes]) for sizes in ([3, 1], [1, 2, 1], [1, 1, 1, 1])]
    first = calls[0]
    return first is not None and all(
        call is not None and facts.probes.same(call.logits, first.logits) for call in calls
    )


def _what_is_left(facts: Facts, verdict: Verdict) -> None:
    """The right keys and values are stored, somebody else's are read: whose?"""
    probes = facts.probes
    one_call_is_wrong = facts.is_wrong(CaseId.ONE_CALL)
    if one_call_is_wrong and probes.is_right([4]):
        n = next((n for n in range(5, probes.n + 1) if not probes.is_right([n])), probes.n)
        verdict.add(Kind.KV_LAYOUT, STRONG, Message("feeding.layout", right=n - 1, wrong=n))
        verdict.add(Kind.PAGE_MAP, LIKELY)
        verdict.add(Kind.SLOT_WRITE, LIKELY - HINT)
    elif not probes.is_right([1]):
        verdict.add(Kind.HEAD_MAP, STRONG, Message("feeding.single"))
        verdict.add(Kind.LAYER_MIX, LIKELY)
        verdict.add(Kind.KV_LAYOUT, HINT)
    elif not one_call_is_wrong and probes.is_right([5, 4]) and not probes.is_right([5, 1]):
        verdict.add(Kind.HEAD_MAP, LIKELY, Message("feeding.single-path"))
        verdict.add(Kind.BIAS_LEN, LIKELY - HINT)
        verdict.add(Kind.SLOT_STALE, LIKELY - HINT)
        verdict.add(Kind.LAYER_MIX, HINT)
    else:
        _past_is_misread(facts, verdict)


def _past_is_misread(facts: Facts, verdict: Verdict) -> None:
    constant = facts.probes.wrong_values_are_constant()
    if constant:
        verdict.add(Kind.LAYER_MIX, STRONG, Message("feeding.constant"))
        verdict.add(Kind.HEAD_MAP, LIKELY)
    elif constant is False:
        verdict.add(Kind.KV_LAYOUT, LIKELY, Message("feeding.by-position"))
        verdict.add(Kind.SLOT_WRITE, LIKELY - HINT)
        verdict.add(Kind.LAYER_MIX, HINT)
    else:
        if not facts.probes.looks_inside:
            _hidden_positions(facts, verdict)
        why = Message("feeding.read")
        verdict.add(Kind.LAYER_MIX, LIKELY, why)
        verdict.add(Kind.KV_LAYOUT, LIKELY - HINT, why)
        verdict.add(Kind.HEAD_MAP, HINT, why)
        verdict.add(Kind.SLOT_WRITE, HINT, why)


def _hidden_positions(facts: Facts, verdict: Verdict) -> None:
    """Nothing more can be told from outside: of what is left, wrong positions are most common."""
    if facts.probes.positions_act_on_scores_only():
        return
    if _same_in_any_chunks(facts):
        verdict.add(Kind.POS_DRIFT, LIKELY, Message("feeding.hidden-positions"))
        verdict.add(Kind.SLOT_WRITE, LIKELY - HINT)
    else:
        verdict.add(Kind.POS_RESET, STRONG, Message("feeding.hidden-positions-chunk"))
        verdict.add(Kind.POS_DRIFT, LIKELY - HINT)


BY_EFFECT = (_not_finite, _leaks, _stored, _who_is_seen, _window, _blocks, _end_of_the_cache)
"""Questions after what moves what, and what is stored where."""
BY_SIZE = (_last_row_only, _other_history, _only_token_lost, _empty_slots, _one_token_text)
"""Questions after logits that are equal, which those of a lossy cache never are."""
