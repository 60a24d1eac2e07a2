"""Mistakes that need two things at once: operations, requests, padding, rows, or a chunk's size.

One small decoder keeps all keys and values of its requests as texts: what leaks is easy to write.
"""

from typing import Any

import numpy as np
import pytest
from tests.check.decoders import Plain
from tests.check.said import run_snippet

from kvproof.checking import Report, check
from kvproof.checking.names import CaseId, Stage


class Texts(Plain):
    """The cache is the text so far, (B, T) with the real lengths; every call computes it anew."""

    keeps_old = True
    supports_padding = True

    def full(self, tokens: Any, lengths: Any = None) -> Any:
        tokens = np.asarray(tokens)
        if lengths is None:
            return super().full(tokens)
        logits = np.zeros((*tokens.shape, self.vocab_size))
        for row, n in enumerate(lengths):
            logits[row, -n:] = super().full(tokens[row : row + 1, -n:])[0]
        return logits

    def step(self, tokens: Any, cache: Any, lengths: Any = None) -> Any:
        n_new = tokens.shape[1]
        if cache is None:
            lengths = np.full(len(tokens), n_new) if lengths is None else np.array(lengths)
            return self.full(tokens, lengths), (tokens.copy(), lengths)
        text = np.concatenate([cache[0], tokens], axis=1)
        lengths = cache[1] + n_new
        return self.full(text, lengths)[:, -n_new:], (text, lengths)

    def fork(self, cache: Any) -> Any:
        return cache[0].copy(), cache[1].copy()

    def crop(self, cache: Any, length: int) -> Any:
        if length > cache[0].shape[1]:
            raise ValueError("too long")
        pads = cache[0].shape[1] - cache[1]
        return cache[0][:, :length], np.maximum(length - pads, 0)

    def reorder(self, cache: Any, rows: Any) -> Any:
        return cache[0][rows], cache[1][rows]

    def reset(self) -> None:
        pass


def kinds(report: Report) -> list[str]:
    return [finding.kind for finding in report.findings]


def snippet_error(report: Report, decoder: Any) -> float:
    return max(float(words[-1]) for words in run_snippet(report.findings[0], decoder))


def test_the_right_one_is_right() -> None:
    report = check(Texts())
    assert report.ok, str(report)
    assert Stage.OPERATIONS.message in [one.args.get("stage") for one in report.checked]


# --- Two operations -----------------------------------------------------------------------------


class ForkSharesRows(Texts):
    """The fork is the same arrays, and reorder writes into them."""

    keeps_old = False

    def fork(self, cache: Any) -> Any:
        return cache

    def reorder(self, cache: Any, rows: Any) -> Any:
        if len(rows) != len(cache[0]):
            raise ValueError("as many rows as there are")
        cache[0][:] = cache[0][rows]
        cache[1][:] = cache[1][rows]
        return cache


class ForkWritesBelow(Texts):
    """The fork owns the memory from which the first one still reads."""

    keeps_old = False

    def step(self, tokens: Any, cache: Any, lengths: Any = None) -> Any:
        logits, longer = super().step(tokens, cache, lengths)
        if isinstance(cache, _Cut):
            cache.memory[:, cache.length :] = 0
        return logits, longer

    def fork(self, cache: Any) -> Any:
        return _Fork(cache)

    def crop(self, cache: Any, length: int) -> Any:
        cut = super().crop(cache, length)
        return _Cut(cut, cache.memory, length) if isinstance(cache, _Fork) else cut


class _Fork(tuple[Any, Any]):
    memory: Any

    def __new__(cls, cache: Any) -> "_Fork":
        made = super().__new__(cls, (cache[0].copy(), cache[1].copy()))
        made.memory = cache[0]
        return made


class _Cut(tuple[Any, Any]):
    memory: Any
    length: int

    def __new__(cls, cache: Any, memory: Any, length: int) -> "_Cut":
        made = super().__new__(cls, cache)
        made.memory, made.length = memory, length
        return made


def test_a_fork_and_a_reorder() -> None:
    report = check(ForkSharesRows())
    [finding] = report.findings
    assert "ALIAS" in [finding.kind, *(other.kind for other in finding.alternatives)]
    refused = [one.args for one in report.not_checked if one.id == "not-checked.refused"]
    assert CaseId.REORDER_FEWER.message in [one["case"] for one in refused]


def test_a_fork_and_a_crop_of_the_fork() -> None:
    report = check(ForkWritesBelow())
    assert kinds(report) == ["ALIAS"]
    assert snippet_error(report, ForkWritesBelow()) > 0.01


# --- Two requests -------------------------------------------------------------------------------


class Remembers(Texts):
    """Something of a request stays on the object until ``reset``."""

    def reset(self) -> None:
        self.left: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.reset()

    def stale(self, tokens: Any) -> Any:
        """The tokens of a new request as this one takes them."""
        return tokens

    def step(self, tokens: Any, cache: Any, lengths: Any = None) -> Any:
        if cache is None:
            tokens = self.stale(np.array(tokens))
        return super().step(tokens, cache, lengths)


class AfterCrop(Remembers):
    def crop(self, cache: Any, length: int) -> Any:
        self.left = True
        return super().crop(cache, length)

    def stale(self, tokens: Any) -> Any:
        return np.zeros_like(tokens) if self.left else tokens


class AfterReorder(Remembers):
    def reorder(self, cache: Any, rows: Any) -> Any:
        self.left = rows
        return super().reorder(cache, rows)

    def stale(self, tokens: Any) -> Any:
        return tokens[self.left] if self.left is not None and len(tokens) == 3 else tokens


class StickyLengths(Remembers):
    def step(self, tokens: Any, cache: Any, lengths: Any = None) -> Any:
        if cache is None:
            lengths = self.left if lengths is None and self.left is not None else lengths
            lengths = None if lengths is not None and len(lengths) != len(tokens) else lengths
            self.left = lengths
            if lengths is not None:
                lengths = np.minimum(lengths, tokens.shape[1])
        return super().step(tokens, cache, lengths)


class PadsOfTheLast(Remembers):
    """Pads are counted on the object, which the latest request sets."""

    reorder: Any = None

    def step(self, tokens: Any, cache: Any, lengths: Any = None) -> Any:
        logits, (text, lengths) = super().step(tokens, cache, lengths)
        if cache is None:
            self.left = text.shape[1] - lengths
        elif len(self.left) == len(lengths):
            lengths = text.shape[1] - self.left
            logits = self.full(text, lengths)[:, -tokens.shape[1] :]
        return logits, (text, lengths)


class RowsOfTheLast(Remembers):
    """How many rows there are is on the object as well."""

    reorder: Any = None

    def step(self, tokens: Any, cache: Any, lengths: Any = None) -> Any:
        logits, longer = super().step(tokens, cache, lengths)
        if cache is None:
            self.left = len(tokens)
        return logits * (1.0 if self.left == len(tokens) else 0.5), longer


@pytest.mark.parametrize(
    "decoder", [AfterCrop, AfterReorder, StickyLengths, PadsOfTheLast, RowsOfTheLast]
)
def test_what_a_request_leaves_behind_is_found(decoder: type) -> None:
    report = check(decoder())
    assert report.findings, str(report)
    assert report.findings[0].case is not None
    assert {op.action for op in report.findings[0].case.ops} >= {"restart"}
    assert snippet_error(report, decoder()) > 0.01


# --- A chunk's size ------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [range(32, 64), [8], [16], [127]])
def test_a_chunk_of_just_this_size(sizes: Any) -> None:
    class Sized(Plain):
        max_length = 300

        def full(self, tokens: Any) -> Any:
            return np.cumsum(np.eye(11)[tokens], axis=1)

        def step(self, tokens: Any, cache: Any) -> Any:
            logits = self.full(tokens) + (0 if cache is None else cache)
            return logits + (tokens.shape[1] in sizes), logits[:, -1:]

    assert not check(Sized()).ok


# --- full and step on one object -----------------------------------------------------------------


def test_a_full_that_writes_into_a_live_cache_is_said_to() -> None:
    class Clobbers(Texts):
        keeps_old = False
        supports_padding = False
        live: Any = None

        def full(self, tokens: Any, lengths: Any = None) -> Any:
            if lengths is None and self.live is not None:
                self.live[:] = 0
            return super().full(tokens, lengths)

        def step(self, tokens: Any, cache: Any, lengths: Any = None) -> Any:
            logits, longer = super().step(tokens, cache, lengths)
            self.live = longer[0]
            return logits, longer

    report = check(Clobbers())
    assert kinds(report) == ["ALIAS"]
    assert report.findings[0].evidence[0].id == "full.writes"
    assert snippet_error(report, Clobbers()) > 0.01


# --- Padding -------------------------------------------------------------------------------------


def test_what_stands_in_padding_does_not_matter() -> None:
    class NanInPads(Texts):
        def full(self, tokens: Any, lengths: Any = None) -> Any:
            logits = super().full(tokens, lengths)
            for row, n in enumerate([] if lengths is None else lengths):
                logits[row, : logits.shape[1] - n] = np.nan
            return logits

    assert check(NanInPads()).ok
