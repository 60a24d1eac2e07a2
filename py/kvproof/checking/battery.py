"""Which cases to run: every way of feeding, padding and operating that has hidden a bug before."""

from collections.abc import Iterator

import numpy as np

from kvproof.checking.cases import TAKES_TOKENS, Case, Op, feeds, walk
from kvproof.checking.subject import Row, Subject

SHORTEST = 12
"""Tokens of a text, where the decoder takes as many: enough for two chunks after a prefill."""

LONGEST = 256
"""Tokens of the longest text: a mistake may begin at a constant that nobody declares."""


LONG_LOGITS = 2**23
"""Logits of the longest text, of all its tokens together: 64 MB."""


def _fits(subject: Subject) -> int:
    """Tokens of the longest text that decoder and memory take."""
    return min(subject.longest, max(SHORTEST, LONG_LOGITS // subject.vocab_size))


def affordable(subject: Subject) -> int:
    """Tokens of a long text that is still cheap."""
    return min(_fits(subject), LONGEST)


def text_length(subject: Subject) -> int:
    """Past every constant that the decoder declares, as far as it goes."""
    window, block = subject.window or 0, subject.block_size or 0
    wanted = max(SHORTEST, 2 * window + 4, 2 * block + 3)
    return min(wanted, max(LONGEST, window + SHORTEST, block + SHORTEST), _fits(subject))


def texts(subject: Subject, rng: np.random.Generator, batch_size: int, n: int) -> tuple[Row, ...]:
    """Random rows, no token twice in a row where the vocabulary allows it."""
    rows = rng.integers(subject.vocab_size, size=(batch_size, n))
    if subject.vocab_size > 1:
        for column in range(1, n):
            same = rows[:, column] == rows[:, column - 1]
            rows[same, column] = (rows[same, column] + 1) % subject.vocab_size
    return tuple(tuple(int(token) for token in row) for row in rows)


def cut(pattern: list[int], n: int) -> list[int]:
    """A pattern of chunk sizes, its end repeated, cut to ``n`` tokens."""
    sizes: list[int] = []
    while sum(sizes) < n:
        size = pattern[min(len(sizes), len(pattern) - 1)]
        sizes.append(min(size, n - sum(sizes)))
    return sizes


def chunkings(subject: Subject, n: int) -> dict[str, list[int]]:
    """Name -> chunk sizes of a text of ``n`` tokens."""
    patterns: dict[str, list[int]] = {
        "one call": [n],
        "one by one": [1],
        "a prefill, then one by one": [6, 1],
        "pairs": [2],
        "a prefill of 3, then pairs": [3, 2],
        "ragged chunks": [5, 1, 4, 2],
        "a prefill, three at once, then one by one": [4, 3, 1],
    }
    window, block = subject.window, subject.block_size
    if window is not None:
        patterns |= {
            "a prefill as long as the window": [window, 1],
            "a prefill as long as the window, then pairs": [window, 2],
            "chunks longer than the window": [window + 2, 1, window + 1],
        }
    if block is not None:
        patterns |= {
            "whole blocks": [block],
            "a block, then one by one": [block, 1],
            "one more than a block": [block + 1, block - 1 or 1],
        }
    return {name: cut(pattern, n) for name, pattern in patterns.items()}


def feeding(subject: Subject, rng: np.random.Generator) -> Iterator[tuple[str, Case]]:
    """One sequence, fed in every way."""
    n = text_length(subject)
    text = texts(subject, rng, 1, n)
    for name, sizes in chunkings(subject, n).items():
        yield name, Case(text, feeds(sizes))
    yield from _to_the_end(subject, rng, n)
    yield from _long(subject, n)


def _long(subject: Subject, n: int) -> Iterator[tuple[str, Case]]:
    """A text as long as is cheap, in chunks far longer than the others, after a filled cache."""
    end = affordable(subject)
    if end <= n:
        return
    # A text of its own generator: those of the other cases stay what they are.
    text = texts(subject, np.random.default_rng(end), 1, end)
    widest = subject.window or end  # a ring may take no longer chunks
    patterns = {
        "a long text, in long chunks": [end // 3, end // 3, 17, 1, 1, 30],
        "a long text, chunks of powers of two": [1, 1, 2, 4, 8, 16, 32, 1, 63, 1, 127],
    }
    for name, pattern in patterns.items():
        sizes = [min(size, widest) for size in pattern if size]
        yield name, Case(text, feeds(cut(sizes, end)))


def _to_the_end(subject: Subject, rng: np.random.Generator, n: int) -> Iterator[tuple[str, Case]]:
    """Texts that fill the cache to its last slot, and one more, where that isn't too long."""
    ends = {"up to the last slot": subject.longest}
    if subject.capacity is not None:
        ends["up to the capacity"] = subject.capacity
        ends["one more than the capacity"] = subject.capacity + 1
    for name, end in ends.items():
        if 3 < end <= min(subject.max_length, affordable(subject) + 1) and (
            end > n or "capacity" in name
        ):
            text = texts(subject, rng, 1, end)
            may_refuse = subject.capacity is not None and end > subject.capacity
            yield name, Case(text, feeds([end - 2, 1, 1]), may_refuse=may_refuse)


def batches(subject: Subject, rng: np.random.Generator) -> Iterator[tuple[str, Case]]:
    """Three rows of equal length."""
    n = text_length(subject)
    rows = texts(subject, rng, 3, n)
    for name in ("one by one", "a prefill, then one by one", "ragged chunks", "whole blocks"):
        sizes = chunkings(subject, n).get(name)
        if sizes:
            yield f"three rows, {name}", Case(rows, feeds(sizes))


def padded(subject: Subject, rng: np.random.Generator) -> Iterator[tuple[str, Case]]:
    """Three rows after 0, 3 and 5 slots of padding."""
    n = text_length(subject)
    rows = texts(subject, rng, 3, n)
    for name, sizes in (
        ("one call", [n]),
        ("one by one after it", [6, 1]),
        ("pairs after it", [6, 2]),
    ):
        sizes = cut(sizes, n)
        lengths = (sizes[0], max(sizes[0] - 3, 1), max(sizes[0] - 5, 1))
        yield f"padding of 0, 3 and 5, {name}", Case(rows, feeds(sizes), lengths)


def operations(subject: Subject, rng: np.random.Generator) -> Iterator[tuple[str, Case]]:
    """Crops, forks and reorders, and going on after them."""
    texts_of = {n_rows: texts(subject, rng, n_rows, 24) for n_rows in (1, 3)}
    able = _able(subject)  # asked once: what one case finds unsupported another may not need
    for title, ops in OPERATIONS.items():
        actions = {op.action for op in ops}
        if actions <= able:
            yield title, Case(texts_of[3 if "reorder" in actions else 1], ops)
    yield from _combined(subject)


def _able(subject: Subject) -> set[str]:
    """Operations that the decoder has."""
    able = {name for name in ("crop", "reorder", "fork") if subject.has(name)}
    return able | {"feed", "switch"} | ({"branch"} if subject.keeps_old else set())


SWITCH = Op("switch")


def _reordered(order: tuple[int, ...]) -> tuple[Op, ...]:
    return *feeds([5]), Op("reorder", order), *feeds([1, 2])


OPERATIONS: dict[str, tuple[Op, ...]] = {
    "crop three of ten, then five": (*feeds([6, 4]), Op("crop", 7), *feeds([5])),
    "crop one, then one by one": (*feeds([6, 1]), Op("crop", 6), *feeds([1, 1, 1])),
    "crop nothing": (*feeds([6]), Op("crop", 6), *feeds([1, 2])),
    "crop everything": (*feeds([6]), Op("crop", 0), *feeds([4, 1, 2])),
    "crop twice": (*feeds([8]), Op("crop", 6), *feeds([1]), Op("crop", 5), *feeds([2, 1])),
    "fork, then the first goes on": (*feeds([6]), Op("fork", 3), *feeds([1, 3])),
    "fork, then both go on": (
        *feeds([6]),
        Op("fork", 3),
        *feeds([2, 1]),
        SWITCH,
        *feeds([1, 2]),
        SWITCH,
        *feeds([1]),
    ),
    "fork twice": (*feeds([5]), Op("fork", 3), Op("fork", 1), *feeds([2, 1])),
    "go on twice from one cache": (*feeds([6]), Op("branch", 3), *feeds([1, 3])),
    "reorder to (2, 0, 0)": _reordered((2, 0, 0)),
    "reorder to (1, 2, 0)": _reordered((1, 2, 0)),
    "reorder to (0, 1, 2)": _reordered((0, 1, 2)),
    "reorder to two of three rows": _reordered((2, 0)),
    "reorder twice": (
        *feeds([5]),
        Op("reorder", (1, 2, 0)),
        *feeds([1]),
        Op("reorder", (2, 2, 1)),
        *feeds([1, 1]),
    ),
    "reorder, then crop": (
        *feeds([6]),
        Op("reorder", (2, 0, 0)),
        *feeds([2]),
        Op("crop", 5),
        *feeds([1, 2]),
    ),
}
"""Title -> the operations; of three rows where some are picked, else of one."""


Combination = tuple[str, list[int], tuple[int, ...] | None, tuple[Op, ...]]
"""Title, chunks of the start, its padding, and what is done after it."""


def _combined(subject: Subject) -> Iterator[tuple[str, Case]]:
    """Three rows: operations after padding, a full window or a block's edge, and together."""
    able = _able(subject)
    combinations = [
        one for one in _combinations(subject) if able.issuperset(op.action for op in one[3])
    ]
    for title, sizes, lengths, ops in combinations:
        longest = sum(sizes) + sum(op.argument for op in ops if op.action in TAKES_TOKENS)
        # A text of their own: those of the stages after this one stay what they are.
        rows = texts(subject, np.random.default_rng(longest), 3, longest)
        yield title, Case(rows, (*feeds(sizes), *ops), lengths)


def _combinations(subject: Subject) -> Iterator[Combination]:
    go_on, keep = feeds([1, 2]), Op("branch", 0)
    mixed = (Op("reorder", (2, 0, 1)), *go_on)
    forked = (Op("fork", 2), *feeds([1]), SWITCH, *feeds([2]))

    def cut_to(length: int) -> tuple[Op, ...]:
        return Op("crop", length), *go_on

    def cut_below_fork(length: int, n_new: int) -> tuple[Op, ...]:
        return Op("fork", 1), Op("crop", length), *feeds([n_new]), SWITCH, *feeds([2])

    yield "fork of three rows", [6], None, forked
    yield "fork, then reorder the first", [6], None, (Op("fork", 0), *mixed, SWITCH, *feeds([2]))
    below = (Op("fork", 0), SWITCH, Op("crop", 3), *feeds([4]), SWITCH, *feeds([2]))
    yield "fork, then crop the second below it", [6], None, below
    yield "fork, then crop the first below it", [6], None, cut_below_fork(3, 4)
    yield "crop, and go on with the old cache too", [6], None, (keep, *cut_to(4), SWITCH, *go_on)
    yield "reorder, and go on with the old cache too", [6], None, (keep, *mixed, SWITCH, *go_on)
    if subject.has("supports_padding"):
        pads = (6, 3, 2)
        yield "padding, then reorder", [6], pads, mixed
        yield "padding, then crop", [6, 1], pads, cut_to(5)
        yield "padding, then fork", [6], pads, forked
    window, block = subject.window, subject.block_size
    if window is not None:
        if window > 2:
            yield "less than a window, then crop", [window - 1], None, cut_to(window - 2)
        full = [window, 1, 2]
        yield "more than a window, then reorder", full, None, mixed
        yield "more than a window, then crop", full, None, cut_to(window + 2)
        yield "more than a window, then fork", full, None, forked
    if block is not None:
        yield "one more than a block, then reorder", [block + 1], None, mixed
        yield "one more than a block, then crop to it", [block + 1], None, cut_to(block)
        yield "one less than a block, then fork", [max(block - 1, 1)], None, forked
        cut_first = cut_below_fork(max(block - 1, 1), block + 2)
        yield "two blocks, fork, then crop the first to less than one", [2 * block], None, cut_first


IN_TURNS = "a second request: in turns with the first"
BESIDE = "a second request: 3 rows beside 1"
PADDED_TURNS = "a second request: in turns, with other padding"
_TURNS = (SWITCH, *feeds([1]), SWITCH, *feeds([1]))
OTHER_ROWS: dict[str, tuple[tuple[int, int], tuple[Op, ...]]] = {
    "a second request: 3 rows after 1": ((1, 3), ()),
    "a second request: 1 row after 3": ((3, 1), ()),
    BESIDE: ((1, 3), _TURNS),
}
"""Title -> rows of the first request and of the second, and how it goes on."""


def second_use(subject: Subject, rng: np.random.Generator) -> Iterator[tuple[str, Case]]:
    """A second request on the same object, more or less like the first one."""
    (first,), (second,) = texts(subject, rng, 1, 12), texts(subject, rng, 1, 12)
    others = {
        "another text": second,
        "the same start": (*first[:6], *second[6:]),
        "the same text": first,
        "another first token": subject.changed(first, 0),
        "the same end": (*second[:4], *first[4:]),
    }
    for name, other in others.items():
        ops = (*feeds([8, 4]), Op("restart"), *feeds([8, 1, 3]))
        yield f"a second request: {name}", Case(((*first, *other),), ops)
    yield (
        "a second request: a shorter text",
        Case(((*first, *second[:5]),), (*feeds([12]), Op("restart"), *feeds([1, 1, 3]))),
    )
    yield (
        "a second request: the start of the first",
        Case(((*first, *first[:6]),), (*feeds([8, 4]), Op("restart"), *feeds([5, 1]))),
    )
    turns = (
        *feeds([5]),
        Op("restart"),
        *feeds([5]),
        SWITCH,
        *feeds([1, 4]),
        SWITCH,
        *feeds([1, 4]),
    )
    yield IN_TURNS, Case(((*first, *second[:8]),), turns)
    for name, (n_rows, go_on) in OTHER_ROWS.items():
        ops = (*feeds([5, 1]), Op("restart"), *feeds([4, 1, 1]), *go_on)
        yield name, Case(texts(subject, np.random.default_rng(3), 3, 14), ops, rows=n_rows)
    rows = texts(subject, np.random.default_rng(4), 3, 12)
    for name, op in (("crop", Op("crop", 3)), ("reorder", Op("reorder", (2, 0, 0)))):
        if subject.has(name):
            ops = (*feeds([5]), op, Op("restart"), *feeds([4, 2]))
            yield f"a second request: after a {name}", Case(rows, ops)
    if subject.has("supports_padding"):
        rows = texts(subject, rng, 2, 8)
        twice = tuple((*row, *row) for row in rows)
        for name, before, after in (
            ("other padding", None, (6, 3)),
            ("no padding now", (6, 3), (6, 6)),
            ("no lengths now", (6, 3), None),
        ):
            ops = (*feeds([6, 2]), Op("restart", after), *feeds([6, 2]))
            yield f"a second request: {name}", Case(twice, ops, before)
        ops = (*feeds([6]), Op("restart", (3, 6)), *feeds([6]), *_TURNS)
        yield PADDED_TURNS, Case(twice, ops, (6, 3))


def within(subject: Subject, case: Case) -> bool:
    """Whether the decoder is long enough for a case."""
    longest = subject.max_length if case.may_refuse else subject.longest
    return all(max(slots, other or 0) <= longest for _, _, (slots, other) in walk(case))
