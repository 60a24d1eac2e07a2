"""Experiments on a decoder that is known to be wrong: each answers one question about the mistake.

Only ``full``, ``step`` and, where it is offered, ``keys_values`` are used.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvproof.checking import battery
from kvproof.checking.arrays import Logits, distance
from kvproof.checking.cases import Case, Observation, feeds, run
from kvproof.checking.report import Influence
from kvproof.checking.rounding import Rounding
from kvproof.checking.subject import NotSupported, Refused, Row, Subject, Trouble

KeysValues = list[tuple[Logits, Logits]]


class Probes:
    """One decoder, one text, and what can be asked of the two."""

    def __init__(self, subject: Subject, tolerance: float, noise_floor: float) -> None:
        self.subject = subject
        self.tolerance = tolerance
        self.noise_floor = noise_floor
        """What logits may move by that don't depend on the token that was changed."""
        self._fed: dict[tuple[Row, tuple[int, ...]], Observation | None] = {}
        self.n = min(battery.SHORTEST, subject.longest)
        rng = np.random.default_rng(7)
        self.text: Row = battery.texts(subject, rng, 1, self.n)[0]

    def feed(self, text: Sequence[int], sizes: Sequence[int]) -> Observation | None:
        """The last call of a text in chunks, or None if it can't be run; asked once for each."""
        key = tuple(text), tuple(sizes)
        if key not in self._fed:
            self._fed[key] = self._feed(Case((tuple(text),), feeds(sizes)))
        return self._fed[key]

    def _feed(self, case: Case) -> Observation | None:
        if case.n_tokens > self.subject.longest:
            return None
        try:
            result = run(self.subject, case)
        except (Trouble, NotSupported, Refused):
            return None
        return None if result.trouble else result.observations[-1]

    def error(self, text: Sequence[int], sizes: Sequence[int]) -> float:
        """Largest error of the last call; inf if it can't be run."""
        seen = self.feed(text, sizes)
        return float("inf") if seen is None else seen.error

    def is_right(self, sizes: Sequence[int], text: Sequence[int] | None = None) -> bool:
        """Whether the last call agrees with ``full``."""
        text = self.text if text is None else text
        return self.error(text[: sum(sizes)], sizes) <= self.tolerance

    def same(self, one: Logits, other: Logits) -> bool:
        """Equal up to noise."""
        return one.shape == other.shape and bool((distance(one, other) <= self.tolerance).all())

    # ------------------------------------------------------------------ who sees whom

    def moved_by(self, n_past: int, n_new: int, position: int) -> NDArray[np.float64] | None:
        """How far each row of the last chunk moves when one token of the text is another; (C,)."""
        sizes = [size for size in (n_past, n_new) if size]
        text = self.text[: n_past + n_new]
        before = self.feed(text, sizes)
        after = self.feed(self.subject.changed(text, position), sizes)
        if before is None or after is None:
            return None
        return distance(after.logits[0], before.logits[0])

    def leaks(self, n_past: int, n_new: int) -> bool:
        """Whether the chunk's last token moves the logits of an earlier one."""
        moved = self.moved_by(n_past, n_new, n_past + n_new - 1)
        return moved is not None and bool((moved[:-1] > self.noise_floor).any())

    def influence(self, n_past: int, n_new: int) -> Influence | None:
        """Which tokens move which rows of the last chunk; None if it can't be run."""
        n_total = n_past + n_new
        text = self.text[:n_total]
        whole = self.subject.recompute(text)[n_past:]
        seen = np.zeros((n_new, n_total), np.bool_)
        expected = np.zeros((n_new, n_total), np.bool_)
        for position in range(n_total):
            moved = self.moved_by(n_past, n_new, position)
            if moved is None:
                return None
            changed = self.subject.changed(text, position)
            right = distance(self.subject.recompute(changed)[n_past:], whole)
            seen[:, position] = moved > self.noise_floor
            expected[:, position] = right > self.noise_floor
        rows = [tuple(tuple(row) for row in array.tolist()) for array in (seen, expected)]
        return Influence(n_past, n_new, rows[0], rows[1])

    def furthest_seen(self, n_past: int, n_new: int) -> list[int] | None:
        """For each row of the chunk the last token other than its own that moves it; -1 for none.

        A token also acts through the later ones that have read it, so a row that is moved by
        token j sees j or a later one: the last that moves it is the last that it sees.
        """
        found = self.influence(n_past, n_new)
        if found is None:
            return None
        return [
            max((at for at, moves in enumerate(seen) if moves and at != n_past + row), default=-1)
            for row, seen in enumerate(found.seen)
        ]

    def first_that_matters(self, n_past: int) -> tuple[int, int] | None:
        """The first token that moves the one after ``n_past``: (with the cache, in ``full``)."""
        found = self.influence(n_past, 1)
        if found is None or not any(found.seen[0]) or not any(found.expected[0]):
            return None
        return found.seen[0].index(True), found.expected[0].index(True)

    def future_against_past(self, on_cache: bool) -> float:
        """What a token does to an earlier row of its chunk, over what it does to a later one.

        The geometric mean over tokens, distances and texts, since single effects depend on what the
        tokens are.  After many others, so that the chunk itself hardly changes what each row
        divides its weights by.
        """
        widest = self.subject.window or 16  # a ring may take no longer chunks
        n_new = min(7, self.n, widest)
        n_past = min(widest, self.subject.longest - n_new) if on_cache else 0
        logs: list[float] = []
        for text in battery.texts(self.subject, np.random.default_rng(7), 8, n_past + n_new):
            other = Probes(self.subject, self.tolerance, self.noise_floor)
            other.text = text
            for token in range(n_new):
                moved = other.moved_by(n_past, n_new, n_past + token)
                for apart in range(1, min(token, n_new - 1 - token, 3) + 1):
                    if moved is not None:
                        with np.errstate(divide="ignore", invalid="ignore"):
                            logs.append(float(np.log(moved[token - apart] / moved[token + apart])))
        finite = [log for log in logs if np.isfinite(log)]
        return float(np.exp(np.mean(finite))) if finite else 1.0

    # ------------------------------------------------------------------ a text of one token

    def positions_act_on_scores_only(self) -> bool:
        """In ``full`` a text of one repeated token gives the same logits everywhere.

        So it is with RoPE, ALiBi or no positions: all values are equal, and their average is the
        same whatever the weights.
        """
        whole = self.subject.recompute((self.text[0],) * self.n)
        return bool((distance(whole, whole[:1]) <= self.tolerance).all())

    def one_token_repeated(self, sizes: Sequence[int]) -> Observation | None:
        """Feed it in chunks."""
        return self.feed((self.text[0],) * sum(sizes), sizes)

    def ignores_its_own(self) -> bool:
        """After a past of one repeated token, does its number not matter?

        It must, as the new token's own share shrinks.  If a token doesn't read itself, only equal
        values are averaged.
        """
        a, b = self.text[0], self.subject.another(self.text[0])
        seen = [self.feed((*[a] * n_past, b), [n_past, 1]) for n_past in (2, 5)]
        right = [self.subject.recompute((*[a] * n_past, b))[-1:] for n_past in (2, 5)]
        if seen[0] is None or seen[1] is None or self.same(*right):
            return False
        return self.same(seen[0].logits, seen[1].logits)

    def wrong_values_are_constant(self) -> bool | None:
        """A repeated token: are the wrong logits the same after 2 and after 6 of them?

        None where positions are in the values, so that nothing follows.
        """
        if not self.positions_act_on_scores_only():
            return None
        few, many = (self.one_token_repeated([n_past, 1]) for n_past in (2, 6))
        if few is None or many is None:
            return None
        return self.same(few.logits, many.logits)

    # ------------------------------------------------------------------ what is stored

    @property
    def n_layers(self) -> int:
        """Layers, where they can be counted; else 2."""
        stored = self.stored(self.text[:1], [1])
        return 2 if stored is None else len(stored)

    @property
    def looks_inside(self) -> bool:
        """Whether keys and values are offered."""
        return self.subject.has("keys_values")

    def stored(self, text: Sequence[int], sizes: Sequence[int]) -> KeysValues | None:
        """Copies of all keys and values after a text in chunks; None where that can't be had."""
        if sum(sizes) > self.subject.longest:
            return None
        return self.stored_after(Case((tuple(text),), feeds(sizes)))

    def stored_after(self, case: Case) -> KeysValues | None:
        """The same after any case."""
        if not self.looks_inside:
            return None
        kept: list[object] = []
        try:
            run(self.subject, case, kept)
            return self.subject.keys_values(kept[0]) if kept else None
        except (Trouble, NotSupported, Refused):
            return None

    def deviations(self, actual: KeysValues, wanted: KeysValues) -> list["Deviation"]:
        """Per layer, which slots of K and of V differ."""
        found: list[Deviation] = []
        for layer, (pair, other) in enumerate(zip(actual, wanted, strict=False)):
            n = min(pair[0].shape[2], other[0].shape[2])
            bad = [
                _bad_slots(one, two, n, self.subject) for one, two in zip(pair, other, strict=True)
            ]
            found.append(Deviation(layer, bad[0], bad[1]))
        return found

    def same_vectors(self, one: Logits, other: Logits) -> bool:
        """Equal up to what keys and values may differ by."""
        return one.shape == other.shape and _close(one, other, self.subject)

    def older_keys_change(self, text: Row) -> bool:
        """Whether a later call changes the first layer's keys of an earlier one."""
        n = min(4, len(text) - 2)
        early = self.stored(text[:n], [n]) if n > 0 else None
        late = self.stored(text[: n + 2], [n, 1, 1]) if n > 0 else None
        if early is None or late is None or late[0][0].shape[2] < n + 2:
            return False
        return not self.same_vectors(early[0][0], late[0][0][:, :, :n])

    def positions_used(self, text: Row, sizes: Sequence[int]) -> dict[int, int]:
        """Slot -> the position at which its token has the key that is stored there.

        Only of tokens that are still held, and where it can be read off; empty where keys carry
        no position.
        """
        stored = self.stored(text, sizes)
        if stored is None or stored[0][0].shape[2] > len(text):
            return {}
        keys = stored[0][0][0]  # (H, S, D), the newest last
        found: dict[int, int] = {}
        for index in range(keys.shape[1]):
            slot = len(text) - keys.shape[1] + index
            places = self._positions_of(text[slot], keys[:, index])
            if places:
                found[slot] = slot if slot in places else places[0]
        return found

    def _positions_of(self, token: int, key: Logits) -> list[int]:
        """Where ``token`` has this key: a text of it alone holds it at every position."""
        n = min(self.subject.longest, 4 * self.n)
        places: list[int] = []
        step = n if self.subject.window is None else self.subject.window
        for end in range(min(step, n), n + 1, step):
            stored = self.stored((token,) * end, [end])
            if stored is None:
                return []
            table = stored[0][0][0]  # (H, S, D)
            start = end - table.shape[1]
            same = [i for i in range(table.shape[1]) if _close(table[:, i], key, self.subject)]
            if len(same) == table.shape[1] > 1:
                return []  # keys carry no position
            places += [start + i for i in same]
        return places


@dataclass(frozen=True)
class Deviation:
    """Where a layer's keys and values aren't those of a recompute."""

    layer: int
    key_slots: tuple[int, ...]
    value_slots: tuple[int, ...]

    @property
    def any(self) -> bool:
        """Whether anything differs."""
        return bool(self.key_slots or self.value_slots)


def _kv_tolerance(array: Logits, subject: Subject) -> float:
    scale = max(float(np.abs(array).max(initial=0.0)), 1e-30)
    return 2.0**-5 * scale if subject.lossy else Rounding(subject.dtype, scale).allowed


def _bad_slots(one: Logits, two: Logits, n: int, subject: Subject) -> tuple[int, ...]:
    if one.shape[:2] != two.shape[:2] or one.shape[3] != two.shape[3]:
        return tuple(range(n))
    last = slice(-n, None) if n else slice(0)
    apart = distance(one[:, :, last], two[:, :, last]).max(axis=(0, 1))
    return tuple(int(slot) for slot in np.flatnonzero(~(apart <= _kv_tolerance(two, subject))))


def _close(one: Logits, two: Logits, subject: Subject) -> bool:
    return bool((distance(one, two) <= _kv_tolerance(two, subject)).all())
