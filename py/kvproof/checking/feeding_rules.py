"""One sequence in chunks comes out wrong: what is the mistake?

Cheap questions with clear answers come first; as soon as one of them settles it the rest is left
out.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kvproof.checking.arrays import Logits
from kvproof.checking.cases import Case, feeds, run
from kvproof.checking.kinds import UNKNOWN
from kvproof.checking.probes import Deviation, KeysValues
from kvproof.checking.subject import Row
from kvproof.checking.verdict import EXACT, HINT, LIKELY, STRONG, Facts, Verdict


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
    verdict.check = "TOL"
    worst = max(result.error for result in facts.wrong.values())
    odd = any(result.trouble or result.ledger for result in facts.wrong.values())
    if worst <= facts.most and not odd:
        verdict.add(UNKNOWN, HINT)
        return
    verdict.add("QUANT-SCALE", STRONG, "a lossy cache is off by more than its rounding")
    verdict.add("SLOT-WRITE", HINT)
    verdict.add("POS-DRIFT", HINT)


def _not_finite(facts: Facts, verdict: Verdict) -> None:
    seen = facts.smallest.first_bad(facts.tolerance)
    if seen is None or np.isfinite(seen.errors).all():
        return
    if seen.first_slot == 0 and seen.logits.shape[1] == 1:
        why = "the very first token gives NaN: it has no key to look at, not even its own"
        verdict.add("SELF-READ", STRONG, why)
        verdict.add("MASK-VALUE", LIKELY)
        return
    why = "logits that aren't finite: a row of scores that is all -inf"
    verdict.add("MASK-VALUE", STRONG, why)


# ---------------------------------------------------------------------- who sees whom


def _leaks(facts: Facts, verdict: Verdict) -> None:
    """A token that sees the future of its own chunk; one by one there is none."""
    probes = facts.probes
    if not facts.is_right("one by one"):
        return
    n_past = min(5, probes.n - 3)
    on_cache, from_empty = probes.leaks(n_past, 3), probes.leaks(0, 4)
    if not on_cache and not from_empty:
        return
    verdict.check = "CAU"
    where = "a chunk" if from_empty else "a chunk on a filled cache"
    why = f"inside {where} a later token moves the logits of an earlier one"
    ratio = probes.future_against_past(on_cache)
    verdict.evidence.append(f"a token moves earlier rows {ratio:.2f} times as much as later ones")
    if ratio > FULL_WEIGHT:
        verdict.add("MASK-SKIPPED", STRONG, why)
        verdict.add("MASK-VALUE", HINT, why)
    else:
        verdict.add("MASK-VALUE", STRONG, f"{why}, but less than a later one: it isn't hidden")
        verdict.add("MASK-SKIPPED", HINT, why)


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
    verdict.check = "MSK"
    verdict.evidence.append(
        f"after {n_past} tokens the rows of a chunk of {n_new} see up to token "
        f"{', '.join(map(str, furthest))}; they should see up to {', '.join(map(str, right))}"
    )
    blind_to_chunk = all(seen < n_past for seen in furthest)
    if furthest[0] == right[0] and blind_to_chunk:
        verdict.add("SELF-READ", STRONG, "the tokens of a chunk don't see one another")
        verdict.add("MASK-TOPLEFT", HINT)
    elif blind_to_chunk and facts.subject.window is None:
        why = "the rows of a chunk see the first keys of the cache only, one more with each row"
        verdict.add("MASK-TOPLEFT", STRONG, why)
        verdict.add("SELF-READ", HINT)
    elif facts.subject.window is not None:
        verdict.add("WINDOW-PHASE", LIKELY, "a row of a chunk doesn't see what it should")
        verdict.add("RING-ORDER", LIKELY)
        verdict.add("MASK-TOPLEFT", LIKELY - HINT)
    elif (lost := _lost_token(facts, n_past, n_new)) is not None:
        why = f"token {lost} of the past moves nothing any more: its slot is lost"
        verdict.add("SLOT-WRITE", STRONG, why)
        verdict.add("KV-LAYOUT", LIKELY)
    elif any(seen > wanted for seen, wanted in zip(furthest, right, strict=True)):
        why = "a row sees tokens after its own, and single tokens are wrong, too: memory is misread"
        verdict.add("KV-LAYOUT", STRONG, why)
        verdict.add("SLOT-WRITE", LIKELY)
    else:
        verdict.add("SLOT-WRITE", LIKELY, "a row of a chunk doesn't see what it should")
        verdict.add("MASK-TOPLEFT", HINT)


def _lost_token(facts: Facts, n_past: int, n_new: int) -> int | None:
    """A token of the past that moves no row of a chunk."""
    for position in range(n_past):
        moved = facts.probes.moved_by(n_past, n_new, position)
        if moved is not None and (moved <= facts.probes.still).all():
            return position
    return None


def _only_token_lost(facts: Facts, verdict: Verdict) -> None:
    """A past of one token that the next one doesn't notice."""
    if facts.subject.window is None and _lost_token(facts, 1, 1) is not None:
        why = "the second token doesn't see the first, fed alone: its slot is overwritten or unread"
        verdict.add("SLOT-WRITE", STRONG, why)


def _last_row_only(facts: Facts, verdict: Verdict) -> None:
    """In a chunk only the last row is wrong, and so is a single token: it misses itself."""
    probes = facts.probes
    seen = probes.feed(probes.text[:9], [6, 3])
    if seen is None or facts.subject.lossy or facts.is_right("a prefill, then one by one"):
        return
    bad = (seen.errors[0] > facts.tolerance).tolist()
    if bad == [False, False, True]:
        why = "of a chunk only the last row is wrong, of single tokens each: a key is missing"
        verdict.add("SELF-READ", STRONG, why)
        verdict.add("SLOT-WRITE", HINT)


def _window(facts: Facts, verdict: Verdict) -> None:
    """How far back a token sees, with the cache and without."""
    window = facts.subject.window
    if window is None:
        return
    probes = facts.probes
    ones_are_right = facts.is_right("one by one")
    for n_past in (probes.n - 1, probes.n - 2):
        starts = probes.first_that_matters(n_past)
        if starts is None or starts[0] == starts[1]:
            continue
        cached, right = starts
        verdict.check = "MSK"
        why = f"after {n_past} tokens the first that matters is {cached}; it should be {right}"
        # An edge that is off by one is so in each layer, and in the last one only in a later call.
        everywhere = not facts.is_right("one call")
        near = abs(cached - right) <= max(1, probes.n_layers - (not everywhere))
        if cached == 0 or not (ones_are_right or near):
            verdict.add("WINDOW-PHASE", STRONG, why)
            verdict.add("WINDOW-OBO", HINT)
        elif ones_are_right and cached > right:
            verdict.add("RING-ORDER", STRONG, f"{why}, and one by one it is right")
            verdict.add("WINDOW-OBO", LIKELY)
        else:
            verdict.add("WINDOW-OBO", STRONG, why)
            verdict.add("WINDOW-PHASE", LIKELY)
        return
    if ones_are_right:
        why = "one by one it is right, in chunks across the window's edge it isn't"
        verdict.add("RING-ORDER", STRONG, why)
        verdict.add("WINDOW-PHASE", LIKELY)
        verdict.add("WINDOW-OBO", LIKELY - HINT)
        return
    slot = first_bad_slot(facts, probes.text, [1] * probes.n)
    if slot is not None and window - 1 <= slot <= window + 1:
        why = f"one by one the first wrong slot is {slot}, where a ring of {window} fills"
        verdict.add("RING-ORDER", STRONG, why)
        verdict.add("WINDOW-OBO", HINT)
        if not probes.looks_inside:  # else a wrong position would have been seen
            verdict.add("POS-DRIFT", LIKELY)
            verdict.add("ROPE-FRAME", LIKELY - HINT)


LONG_TEXTS = ("up to the last slot", "up to the capacity", "a long text")
"""How the titles of cases begin that are longer than the others."""


def _blocks(facts: Facts, verdict: Verdict) -> None:
    """Does it depend on how many tokens there are, and on nothing else?"""
    block = facts.subject.block_size
    if block is None:
        return
    if all(title.startswith(LONG_TEXTS) for title in facts.wrong):
        why = "only long texts are wrong: a block with a large number is mistaken for another"
        verdict.add("PAGE-MAP", STRONG, why)
        verdict.add("SLOT-WRITE", LIKELY)
        return
    lengths = range(2, min(2 * block + 3, facts.probes.n) + 1)
    wrong = [n for n in lengths if not facts.probes.is_right([n - 1, 1])]
    if wrong and len(wrong) < len(lengths):
        said = ", ".join(map(str, wrong))
        why = f"with blocks of {block} a new token is wrong as number {said} and right otherwise"
        verdict.add("PAGE-MAP", STRONG, why)
        verdict.add("SLOT-WRITE", LIKELY)


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
        why = f"{actual[0][0].shape[2]} slots are stored for {len(text)} tokens: one is a hole"
        verdict.add("SLOT-WRITE", STRONG, why)
        return
    empty = [slot for slot in range(actual[0][0].shape[2]) if _is_empty(actual[0], slot)]
    if empty:
        verdict.add("SLOT-WRITE", STRONG, f"slot {empty[0]} holds zeros")
        return
    deviations = probes.deviations(actual, wanted)
    bad_layers = [deviation.layer for deviation in deviations if deviation.any]
    verdict.layer = bad_layers[0] if bad_layers else None
    if not bad_layers:
        verdict.evidence.append("all stored keys and values are right: what is wrong is the read")
    elif bad_layers[0] > 0:
        verdict.evidence.append(
            "the first layer's stored keys and values are right and the second's aren't: "
            "the first layer's attention reads wrongly"
        )
    else:
        verdict.check = "KVL"
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
    which = "K and V" if first.key_slots and first.value_slots else "K" if first.key_slots else "V"
    n_bad = len({*first.key_slots, *first.value_slots})
    verdict.evidence.append(
        f"{which} of the first layer differ from a recompute in {n_bad} slots, first in slot {slot}"
    )
    n_read = min(keys.shape[2], right_keys.shape[2])
    if slot >= n_read:
        return
    value = values[0, :, slot]
    if first.value_slots and probes.same_vectors(value, right_keys[0, :, slot]):
        verdict.add("KV-LAYOUT", EXACT, f"slot {slot} holds the key where the value belongs")
    elif facts.subject.lossy or _is_scaled(value, right_values[0, :, slot]):
        why = f"slot {slot} holds numbers that rounding can't explain: another scale"
        verdict.add("QUANT-SCALE", STRONG, why)
    elif not first.key_slots and _from_other_head(facts, values[0], right_values[0], slot):
        why = f"in slot {slot} a head of V holds another head's vector of another slot: strides"
        verdict.add("KV-LAYOUT", EXACT, why)
    elif not first.value_slots and probes.older_keys_change(text):
        why = "keys that were right when they were written change in later calls"
        verdict.add("ROPE-FRAME", STRONG, why)
    elif not _named_position(facts, bool(first.value_slots), verdict):
        _other_slot(facts, text, keys, right_keys, slot, verdict)


def _other_slot(
    facts: Facts, text: Row, keys: Logits, right_keys: Logits, slot: int, verdict: Verdict
) -> None:
    for other in range(min(keys.shape[2], right_keys.shape[2])):
        if other != slot and facts.probes.same_vectors(keys[0, :, slot], right_keys[0, :, other]):
            why = f"slot {slot} holds the key that belongs into slot {other}"
            if keys.shape[2] == len(text) and text[slot] == text[other]:
                why = f"{why}, where the same token stood: it wasn't rotated anew"
                verdict.add("ROPE-FRAME", STRONG, why)
                return
            blocks = facts.subject.block_size is not None
            ring = facts.subject.window is not None
            kind = "RING-ORDER" if ring else "PAGE-MAP" if blocks else "SLOT-WRITE"
            verdict.add(kind, STRONG, why)
            verdict.add("SLOT-WRITE", HINT)
            return
    if facts.subject.block_size is not None:
        why = f"slot {slot} holds what no token of this text left there"
        verdict.add("PAGE-MAP", STRONG, why)
        verdict.add("SLOT-WRITE", LIKELY)
        return
    why = "the first layer's new keys stand at no position of this text"
    verdict.add("POS-DRIFT", LIKELY, why)
    verdict.add("ROPE-FRAME", LIKELY)
    verdict.add("SLOT-WRITE", HINT)


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
    why = f"after a prefill of {n_past} the token in slot {slot} has the key of position {position}"
    window = facts.subject.window
    if all(position == 0 for position in singles.values()):
        verdict.add("POS-RESET", STRONG, f"{why}: counted from the start of its chunk")
        verdict.add("POS-DRIFT", HINT)
    elif all(position == at[0] for at, position in singles.items()):
        why = f"{why}, which was right for the first call of this size"
        verdict.add("ROPE-FRAME", STRONG, why)
        verdict.add("POS-DRIFT", LIKELY)
    elif window is not None and set(singles.values()) == {window} and not values_differ:
        why = f"{why}: rotated by the number of keys that are kept"
        verdict.add("ROPE-FRAME", STRONG, why)
        verdict.add("POS-DRIFT", LIKELY)
    else:
        verdict.add("POS-DRIFT", STRONG, why)
        verdict.add("POS-RESET", HINT)
        verdict.add("ROPE-FRAME", HINT)
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
    titles = [title for title in facts.wrong if "last slot" in title or "capacity" in title]
    if titles and len(titles) == len(facts.wrong):
        verdict.add("SLOT-WRITE", STRONG, f"only at the end of the cache: {', '.join(titles)}")
        return
    text = facts.first.case.tokens[0]
    n = len(text)
    starts = {
        first_bad_slot(facts, text, [n_past, *[1] * (n - n_past)]) for n_past in range(1, min(5, n))
    }
    [slot, *others] = starts
    if others or slot is None or slot <= 5:
        return
    why = f"however the text is fed, slot {slot} is the first that is wrong"
    verdict.add("SLOT-WRITE", LIKELY, why)
    verdict.add("POS-DRIFT", HINT)


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
        verdict.add("DUP-APPEND", EXACT, "the logits are those of the text with a token twice")
        return
    for index in range(len(past)):
        if facts.gives(seen, (*past[:index], *past[index + 1 :], *new)):
            why = f"the logits are those of the text without token {index}"
            verdict.add("SLOT-WRITE", EXACT, why)
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
            why = "the error is gone when the cache is full: its empty slots are read"
            verdict.add("SLOT-STALE", STRONG, why)
            return
        if facts.tolerance < few and all_full < few / 5:
            why = "the error gets less as the cache fills: a key too much, or one too few"
            verdict.add("SELF-READ", LIKELY, why)
            verdict.add("SLOT-STALE", LIKELY, why)


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
        verdict.evidence.append(
            "a text of one repeated token comes out right: weights are wrong, not values"
        )
        _wrong_weights(facts, verdict)
    else:
        verdict.evidence.append(
            "a text of one repeated token comes out wrong: the values that are read are wrong"
        )


def _wrong_weights(facts: Facts, verdict: Verdict) -> None:
    probes = facts.probes
    if probes.ignores_its_own():
        why = "after a repeated token its number makes no difference: a token doesn't read itself"
        verdict.add("SELF-READ", STRONG, why)
        return
    inside = probes.stored((probes.text[0],) * 6, [6])
    if inside is not None:
        keys = inside[0][0]
        if probes.same_vectors(keys[:, :, 0], keys[:, :, -1]):
            why = "keys carry no position and weights are wrong: the distances are"
            verdict.add("BIAS-LEN", STRONG, why)
            verdict.add("POS-DRIFT", HINT)
            return
    why = "weights are wrong for every new token: its position is"
    drifts = probes.is_right([1, 1]) and probes.is_right([1, 1, 1])
    if _same_in_any_chunks(facts):
        why, drifts = f"{why}, and it isn't counted from the start of a chunk", True
    verdict.add("POS-DRIFT" if drifts else "POS-RESET", STRONG, why)
    verdict.add("POS-RESET" if drifts else "POS-DRIFT", LIKELY)
    verdict.add("BIAS-LEN", LIKELY - HINT if inside is None else HINT)
    verdict.add("ROPE-FRAME", HINT)


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
    one_call = facts.is_right("one call")
    first_token = probes.is_right([1])
    if not one_call and probes.is_right([4]):
        n = next((n for n in range(5, probes.n + 1) if not probes.is_right([n])), probes.n)
        why = f"one call is right with {n - 1} tokens and wrong with {n}: the layout changes there"
        verdict.add("KV-LAYOUT", STRONG, why)
        verdict.add("PAGE-MAP", LIKELY)
        verdict.add("SLOT-WRITE", LIKELY - HINT)
    elif not first_token:
        why = "even a single token is wrong, and it can only read itself: another head's value"
        verdict.add("HEAD-MAP", STRONG, why)
        verdict.add("LAYER-MIX", LIKELY)
        verdict.add("KV-LAYOUT", HINT)
    elif one_call and probes.is_right([5, 4]) and not probes.is_right([5, 1]):
        why = "a single token is wrong where a chunk is right: its path reads other heads"
        verdict.add("HEAD-MAP", LIKELY, why)
        verdict.add("BIAS-LEN", LIKELY - HINT)
        verdict.add("SLOT-STALE", LIKELY - HINT)
        verdict.add("LAYER-MIX", HINT)
    else:
        _past_is_misread(facts, verdict)


def _past_is_misread(facts: Facts, verdict: Verdict) -> None:
    constant = facts.probes.wrong_values_are_constant()
    if constant:
        why = "what is wrongly read doesn't depend on position or number: another layer's values"
        verdict.add("LAYER-MIX", STRONG, why)
        verdict.add("HEAD-MAP", LIKELY)
    elif constant is False:
        why = "what is wrongly read depends on its position, as keys do and values don't"
        verdict.add("KV-LAYOUT", LIKELY, why)
        verdict.add("SLOT-WRITE", LIKELY - HINT)
        verdict.add("LAYER-MIX", HINT)
    else:
        if not facts.probes.looks_inside:
            _hidden_positions(facts, verdict)
        why = "what is read is wrong"
        verdict.add("LAYER-MIX", LIKELY, why)
        verdict.add("KV-LAYOUT", LIKELY - HINT, why)
        verdict.add("HEAD-MAP", HINT, why)
        verdict.add("SLOT-WRITE", HINT, why)


def _hidden_positions(facts: Facts, verdict: Verdict) -> None:
    """Nothing more can be told from outside: of what is left, wrong positions are most common."""
    if facts.probes.positions_act_on_scores_only():
        return
    why = "positions are part of the values, which can't be looked at: they may be wrong"
    if _same_in_any_chunks(facts):
        verdict.add("POS-DRIFT", LIKELY, why)
        verdict.add("SLOT-WRITE", LIKELY - HINT)
    else:
        why = f"{why}, and it matters where a chunk begins"
        verdict.add("POS-RESET", STRONG, why)
        verdict.add("POS-DRIFT", LIKELY - HINT)


BY_EFFECT = (_not_finite, _leaks, _stored, _who_is_seen, _window, _blocks, _end_of_the_cache)
"""Questions after what moves what, and what is stored where."""
BY_SIZE = (_last_row_only, _other_history, _only_token_lost, _empty_slots, _one_token_text)
"""Questions after logits that are equal, which those of a lossy cache never are."""
