"""Mistakes that once got through: operations after padding, a window or blocks, and long texts."""

import math
import signal
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.check.decoders import Plain
from tests.check.said import ids, run_snippet

from kvproof import Report, check
from kvproof.checking.messages import Message
from kvproof.checking.names import Stage
from kvproof.model.cache import new_cache
from kvproof.zoo.right import LEARNED, ROPE, WINDOW, RightDecoder


class ReorderKeepsPadding(RightDecoder):
    def reorder(self, cache: Any, rows: Any) -> Any:
        picked = cache.reorder(rows)
        picked.padding = cache.padding
        return picked


class CropForgetsPadding(RightDecoder):
    def crop(self, cache: Any, length: int) -> Any:
        cropped = super().crop(cache, length)
        cropped.padding = np.zeros_like(cropped.padding)
        return cropped


class ForkForgetsPadding(RightDecoder):
    def fork(self, cache: Any) -> Any:
        forked = cache.fork()
        forked.padding = np.zeros_like(forked.padding)
        return forked


class CropFreesSharedPages(RightDecoder):
    storage = "paged"

    def crop(self, cache: Any, length: int) -> Any:
        pool = cache.pool
        gone = np.unique(cache.table[:, pool.blocks_for(length) :])
        cropped = super().crop(cache, length)
        pool.free += [block for block in gone.tolist() if block not in pool.free]
        return cropped


class Ring(RightDecoder):
    config = replace(ROPE, window=WINDOW)
    storage = "rolling"


class RingReorderedWrongly(Ring):
    def reorder(self, cache: Any, rows: Any) -> Any:
        return cache.reorder(rows if cache.length <= WINDOW else range(len(rows)))


class RingForkLosesKeys(Ring):
    def fork(self, cache: Any) -> Any:
        forked = cache.fork()
        if cache.length > WINDOW:
            forked.keys[0][:] = 0
        return forked


class ForkMixesRows(RightDecoder):
    def fork(self, cache: Any) -> Any:
        n_rows = cache.shape.batch_size
        return cache.fork().reorder(np.roll(np.arange(n_rows), 1))


class CropChangesOld(RightDecoder):
    def crop(self, cache: Any, length: int) -> Any:
        cropped = super().crop(cache, length)
        for array in cache.keys:
            array[:, :, length:] = 0
        return cropped


class ReorderChangesOld(RightDecoder):
    def reorder(self, cache: Any, rows: Any) -> Any:
        picked = cache.reorder(rows)
        cache.keys[:] = picked.keys
        return picked


class CropLosesWholeBlock(RightDecoder):
    storage = "paged"

    @property
    def block_size(self) -> int:
        return 16

    def empty(self, batch_size: int) -> Any:
        return new_cache(self.config, batch_size, "float64", "paged", 4 * 48, self.block_size)

    def crop(self, cache: Any, length: int) -> Any:
        cropped = super().crop(cache, length)
        if length and length % self.block_size == 0:
            cropped.pool.keys[0][cropped.table[:, -1]] = 0
        return cropped


class PositionsEndAt127(RightDecoder):
    config = replace(LEARNED, max_positions=1024)

    def positions(self, cache: Any, n_new: int, padding: Any) -> Any:
        return np.minimum(super().positions(cache, n_new, padding), 127)


class LongChunksSeeTheFuture(RightDecoder):
    def mask(self, cache: Any, n_new: int, padding: Any) -> Any:
        mask = super().mask(cache, n_new, padding)
        return np.ones_like(mask) if cache.length and n_new > 8 else mask


class FullIgnoresPadding(RightDecoder):
    def full(self, tokens: Any, lengths: Any = None) -> Any:
        return super().full(tokens)


class CropHasATypo(Ring):
    def crop(self, cache: Any, length: int) -> Any:
        return cache.cropp(length)


class CropOfAShortTextRaises(Ring):
    def crop(self, cache: Any, length: int) -> Any:
        raise ValueError("no")


class RaisesInAPrefillOfMost(RightDecoder):
    """Before the capacity is reached."""

    storage = "static"
    capacity = 40

    def step(self, tokens: Any, cache: Any = None, lengths: Any = None) -> Any:
        if tokens.shape[1] == self.capacity - 1:
            raise ValueError("no more room")
        return super().step(tokens, cache, lengths)


HOLES: dict[type[RightDecoder], tuple[str, ...]] = {  # () is any kind
    ReorderKeepsPadding: ("ROW-PERM",),
    CropForgetsPadding: ("ROLLBACK",),
    ForkForgetsPadding: ("POS-PERROW",),
    CropFreesSharedPages: ("PAGE-MAP",),
    RingReorderedWrongly: ("ROW-PERM",),
    RingForkLosesKeys: ("ALIAS",),
    ForkMixesRows: ("ALIAS", "ROW-PERM"),
    CropChangesOld: ("ALIAS",),
    ReorderChangesOld: ("ALIAS",),
    CropLosesWholeBlock: ("ROLLBACK",),
    PositionsEndAt127: (),
    LongChunksSeeTheFuture: (),
    FullIgnoresPadding: ("PAD-MASK",),
    CropHasATypo: ("UNKNOWN",),
    CropOfAShortTextRaises: ("UNKNOWN",),
    RaisesInAPrefillOfMost: ("UNKNOWN",),
}


@pytest.mark.parametrize(("decoder", "kinds"), HOLES.items(), ids=lambda one: str(one))
def test_it_is_found_and_named(decoder: type[RightDecoder], kinds: tuple[str, ...]) -> None:
    report = check(decoder(), budget_s=300)
    [finding, *_] = report.findings
    assert not kinds or finding.kind in kinds, finding
    if kinds == ("UNKNOWN",):
        with pytest.raises((ValueError, AttributeError)):
            run_snippet(finding, decoder())
    else:
        assert max(words[-1] for words in run_snippet(finding, decoder())) > finding.tolerance


def test_what_a_window_has_let_go_of_may_be_refused() -> None:
    class Refuses(Ring):
        def crop(self, cache: Any, length: int) -> Any:
            return cache.crop(length)  # a ValueError

    report = check(Refuses(), budget_s=300)
    assert report.ok
    assert "not-checked.refused" in ids(report.not_checked)


def test_a_call_beyond_the_capacity_may_be_refused() -> None:
    class Refuses(RightDecoder):
        capacity = 40

        def step(self, tokens: Any, cache: Any = None, lengths: Any = None) -> Any:
            if (0 if cache is None else cache.length) + tokens.shape[1] > self.capacity:
                raise ValueError("no more room")
            return super().step(tokens, cache, lengths)

    assert check(Refuses(), budget_s=300).ok


# ------------------------------------------------------------------ what the report says


def test_the_longest_text_is_named() -> None:
    report = check(RightDecoder(config=replace(LEARNED, max_positions=1024)), budget_s=300)
    assert reached(report) == (256, 127)
    assert Message("not-checked.longer", longest=256, widest=127) in report.not_checked
    whole = check(RightDecoder(), budget_s=300)
    assert reached(whole)[0] == 48
    assert "not-checked.longer" not in ids(whole.not_checked)


def reached(report: Report) -> tuple[int, int]:
    [feeding] = [one for one in report.checked if one.id == "checked.feeding"]
    return feeding.args["longest"], feeding.args["widest"]


def test_what_comes_after_a_failure_is_listed() -> None:
    broken = check(LongChunksSeeTheFuture(), budget_s=300)
    left_out = [one.args["stage"] for one in broken.not_checked if one.id == "not-checked.stage"]
    assert left_out == [stage.message for stage in Stage if stage is not Stage.FEEDING]


class NeverSteps(Plain):
    def step(self, tokens: Any, cache: Any) -> Any:
        raise NotImplementedError


class SlowToStep(Plain):
    def step(self, tokens: Any, cache: Any) -> Any:
        time.sleep(0.03)
        return super().step(tokens, cache)


@pytest.mark.parametrize(("decoder", "budget_s"), [(NeverSteps(), 300.0), (SlowToStep(), 0.3)])
def test_what_was_not_checked_is_not_ok(decoder: Any, budget_s: float) -> None:
    report = check(decoder, budget_s=budget_s)
    assert not report.ok
    assert report.findings == ()
    assert report.verdict.id == "report.not-known"


def test_near_ties_are_noted() -> None:
    class Tied(Plain):
        """The last two logits are equal, and larger than all others."""

        def full(self, tokens: Any) -> Any:
            return tied(super().full(tokens))

        def step(self, tokens: Any, cache: Any) -> Any:
            logits, cache = super().step(tokens, cache)
            return tied(logits), cache

    def tied(logits: Any) -> Any:
        top = logits.max(axis=-1, keepdims=True) + 1
        return np.concatenate([logits[..., :-2], top, top], axis=-1)

    [note] = [note for note in check(Tied(), budget_s=300).notes if note.id == "note.ties"]
    assert note.args["margin"] == 0
    assert "note.ties" not in ids(check(Plain(), budget_s=300).notes)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no alarms here")
def test_somebody_elses_alarm_goes_on() -> None:
    rung: list[int] = []

    def rings(number: int, _: object) -> None:
        rung.append(number)

    before = signal.signal(signal.SIGALRM, rings)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1000, 500)
        check(Plain(), budget_s=300)
        assert signal.getsignal(signal.SIGALRM) is rings
        left, interval = signal.getitimer(signal.ITIMER_REAL)
        assert 0 < left < 1000
        assert math.isclose(interval, 500)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert rung == []
