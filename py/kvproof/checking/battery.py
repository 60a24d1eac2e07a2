"""Which cases to run: every way of feeding, padding and operating that has hidden a bug before."""

from collections.abc import Iterator

import numpy as np

from kvproof.checking.cases import TAKES_TOKENS, Case, Op, feeds, walk
from kvproof.checking.names import CaseId
from kvproof.checking.subject import Row, Subject

Cases = Iterator[tuple[CaseId, Case]]

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


def chunkings(subject: Subject, n: int) -> dict[CaseId, list[int]]:
    """Chunk sizes of a text of ``n`` tokens."""
    patterns: dict[CaseId, list[int]] = {
        CaseId.ONE_CALL: [n],
        CaseId.ONE_BY_ONE: [1],
        CaseId.PREFILL_ONE_BY_ONE: [6, 1],
        CaseId.PAIRS: [2],
        CaseId.PREFILL_PAIRS: [3, 2],
        CaseId.RAGGED: [5, 1, 4, 2],
        CaseId.PREFILL_THREE_ONE_BY_ONE: [4, 3, 1],
    }
    window, block = subject.window, subject.block_size
    if window is not None:
        patterns |= {
            CaseId.WINDOW_ONE_BY_ONE: [window, 1],
            CaseId.WINDOW_PAIRS: [window, 2],
            CaseId.LONGER_THAN_WINDOW: [window + 2, 1, window + 1],
        }
    if block is not None:
        patterns |= {
            CaseId.WHOLE_BLOCKS: [block],
            CaseId.BLOCK_ONE_BY_ONE: [block, 1],
            CaseId.ONE_MORE_THAN_BLOCK: [block + 1, block - 1 or 1],
        }
    return {name: cut(pattern, n) for name, pattern in patterns.items()}


def feeding(subject: Subject, rng: np.random.Generator) -> Cases:
    """One sequence, fed in every way."""
    n = text_length(subject)
    text = texts(subject, rng, 1, n)
    for name, sizes in chunkings(subject, n).items():
        yield name, Case(text, feeds(sizes))
    yield from _to_the_end(subject, rng, n)
    yield from _long(subject, n)


def _long(subject: Subject, n: int) -> Cases:
    """A text as long as is cheap, in chunks far longer than the others, after a filled cache."""
    end = affordable(subject)
    if end <= n:
        return
    # A text of its own generator: those of the other cases stay what they are.
    text = texts(subject, np.random.default_rng(end), 1, end)
    widest = subject.window or end  # a ring may take no longer chunks
    patterns = {
        CaseId.LONG_CHUNKS: [end // 3, end // 3, 17, 1, 1, 30],
        CaseId.POWERS_OF_TWO: [1, 1, 2, 4, 8, 16, 32, 1, 63, 1, 127],
    }
    for name, pattern in patterns.items():
        sizes = [min(size, widest) for size in pattern if size]
        yield name, Case(text, feeds(cut(sizes, end)))


def _to_the_end(subject: Subject, rng: np.random.Generator, n: int) -> Cases:
    """Texts that fill the cache to its last slot, and one more, where that isn't too long."""
    ends = {CaseId.LAST_SLOT: subject.longest} if subject.longest > n else {}
    if subject.capacity is not None:
        ends |= {CaseId.CAPACITY: subject.capacity, CaseId.BEYOND_CAPACITY: subject.capacity + 1}
    for name, end in ends.items():
        if 3 < end <= min(subject.max_length, affordable(subject) + 1):
            text = texts(subject, rng, 1, end)
            may_refuse = subject.capacity is not None and end > subject.capacity
            yield name, Case(text, feeds([end - 2, 1, 1]), may_refuse=may_refuse)


def batches(subject: Subject, rng: np.random.Generator) -> Cases:
    """Three rows of equal length."""
    n = text_length(subject)
    rows = texts(subject, rng, 3, n)
    sizes = chunkings(subject, n)
    for name, chunking in (
        (CaseId.ROWS_ONE_BY_ONE, CaseId.ONE_BY_ONE),
        (CaseId.ROWS_PREFILL_ONE_BY_ONE, CaseId.PREFILL_ONE_BY_ONE),
        (CaseId.ROWS_RAGGED, CaseId.RAGGED),
        (CaseId.ROWS_WHOLE_BLOCKS, CaseId.WHOLE_BLOCKS),
    ):
        if chunking in sizes:
            yield name, Case(rows, feeds(sizes[chunking]))


def padded(subject: Subject, rng: np.random.Generator) -> Cases:
    """Three rows after 0, 3 and 5 slots of padding."""
    n = text_length(subject)
    rows = texts(subject, rng, 3, n)
    for name, sizes in (
        (CaseId.PADDING_ONE_CALL, [n]),
        (CaseId.PADDING_ONE_BY_ONE, [6, 1]),
        (CaseId.PADDING_PAIRS, [6, 2]),
    ):
        sizes = cut(sizes, n)
        lengths = (sizes[0], max(sizes[0] - 3, 1), max(sizes[0] - 5, 1))
        yield name, Case(rows, feeds(sizes), lengths)


def operations(subject: Subject, rng: np.random.Generator) -> Cases:
    """Crops, forks and reorders, and going on after them."""
    texts_of = {n_rows: texts(subject, rng, n_rows, 24) for n_rows in (1, 3)}
    able = _able(subject)  # asked once: what one case finds unsupported another may not need
    for name, ops in OPERATIONS.items():
        actions = {op.action for op in ops}
        if actions <= able:
            yield name, Case(texts_of[3 if "reorder" in actions else 1], ops)
    yield from _combined(subject)


def _able(subject: Subject) -> set[str]:
    """Operations that the decoder has."""
    able = {name for name in ("crop", "reorder", "fork") if subject.has(name)}
    return able | {"feed", "switch"} | ({"branch"} if subject.keeps_old else set())


SWITCH = Op("switch")


def _reordered(order: tuple[int, ...]) -> tuple[Op, ...]:
    return *feeds([5]), Op("reorder", order), *feeds([1, 2])


OPERATIONS: dict[CaseId, tuple[Op, ...]] = {
    CaseId.CROP_THREE: (*feeds([6, 4]), Op("crop", 7), *feeds([5])),
    CaseId.CROP_ONE: (*feeds([6, 1]), Op("crop", 6), *feeds([1, 1, 1])),
    CaseId.CROP_NOTHING: (*feeds([6]), Op("crop", 6), *feeds([1, 2])),
    CaseId.CROP_EVERYTHING: (*feeds([6]), Op("crop", 0), *feeds([4, 1, 2])),
    CaseId.CROP_TWICE: (*feeds([8]), Op("crop", 6), *feeds([1]), Op("crop", 5), *feeds([2, 1])),
    CaseId.FORK_FIRST: (*feeds([6]), Op("fork", 3), *feeds([1, 3])),
    CaseId.FORK_BOTH: (
        *feeds([6]),
        Op("fork", 3),
        *feeds([2, 1]),
        SWITCH,
        *feeds([1, 2]),
        SWITCH,
        *feeds([1]),
    ),
    CaseId.FORK_TWICE: (*feeds([5]), Op("fork", 3), Op("fork", 1), *feeds([2, 1])),
    CaseId.BRANCH: (*feeds([6]), Op("branch", 3), *feeds([1, 3])),
    CaseId.REORDER_DUPLICATES: _reordered((2, 0, 0)),
    CaseId.REORDER_PERMUTES: _reordered((1, 2, 0)),
    CaseId.REORDER_NOTHING: _reordered((0, 1, 2)),
    CaseId.REORDER_FEWER: _reordered((2, 0)),
    CaseId.REORDER_TWICE: (
        *feeds([5]),
        Op("reorder", (1, 2, 0)),
        *feeds([1]),
        Op("reorder", (2, 2, 1)),
        *feeds([1, 1]),
    ),
    CaseId.REORDER_CROP: (
        *feeds([6]),
        Op("reorder", (2, 0, 0)),
        *feeds([2]),
        Op("crop", 5),
        *feeds([1, 2]),
    ),
}
"""The operations; of three rows where some are picked, else of one."""


Combination = tuple[CaseId, list[int], tuple[int, ...] | None, tuple[Op, ...]]
"""Name, chunks of the start, its padding, and what is done after it."""


def _combined(subject: Subject) -> Cases:
    """Three rows: operations after padding, a full window or a block's edge, and together."""
    able = _able(subject)
    combinations = [
        one for one in _combinations(subject) if able.issuperset(op.action for op in one[3])
    ]
    for name, sizes, lengths, ops in combinations:
        longest = sum(sizes) + sum(op.argument for op in ops if op.action in TAKES_TOKENS)
        # A text of their own: those of the stages after this one stay what they are.
        rows = texts(subject, np.random.default_rng(longest), 3, longest)
        yield name, Case(rows, (*feeds(sizes), *ops), lengths)


def _combinations(subject: Subject) -> Iterator[Combination]:
    go_on, keep = feeds([1, 2]), Op("branch", 0)
    mixed = (Op("reorder", (2, 0, 1)), *go_on)
    forked = (Op("fork", 2), *feeds([1]), SWITCH, *feeds([2]))

    def cut_to(length: int) -> tuple[Op, ...]:
        return Op("crop", length), *go_on

    def cut_below_fork(length: int, n_new: int) -> tuple[Op, ...]:
        return Op("fork", 1), Op("crop", length), *feeds([n_new]), SWITCH, *feeds([2])

    yield CaseId.FORK_ROWS, [6], None, forked
    yield CaseId.FORK_REORDER, [6], None, (Op("fork", 0), *mixed, SWITCH, *feeds([2]))
    below = (Op("fork", 0), SWITCH, Op("crop", 3), *feeds([4]), SWITCH, *feeds([2]))
    yield CaseId.FORK_CROP_SECOND, [6], None, below
    yield CaseId.FORK_CROP_FIRST, [6], None, cut_below_fork(3, 4)
    yield CaseId.CROP_KEEP, [6], None, (keep, *cut_to(4), SWITCH, *go_on)
    yield CaseId.REORDER_KEEP, [6], None, (keep, *mixed, SWITCH, *go_on)
    if subject.has("supports_padding"):
        pads = (6, 3, 2)
        yield CaseId.PADDING_REORDER, [6], pads, mixed
        yield CaseId.PADDING_CROP, [6, 1], pads, cut_to(5)
        yield CaseId.PADDING_FORK, [6], pads, forked
    window, block = subject.window, subject.block_size
    if window is not None:
        if window > 2:
            yield CaseId.WINDOW_CROP_SHORT, [window - 1], None, cut_to(window - 2)
        full = [window, 1, 2]
        yield CaseId.WINDOW_REORDER, full, None, mixed
        yield CaseId.WINDOW_CROP, full, None, cut_to(window + 2)
        yield CaseId.WINDOW_FORK, full, None, forked
    if block is not None:
        yield CaseId.BLOCK_REORDER, [block + 1], None, mixed
        yield CaseId.BLOCK_CROP, [block + 1], None, cut_to(block)
        yield CaseId.BLOCK_FORK, [max(block - 1, 1)], None, forked
        cut_first = cut_below_fork(max(block - 1, 1), block + 2)
        yield CaseId.BLOCKS_FORK_CROP, [2 * block], None, cut_first


RESTART = Op("restart")
_TURNS = (SWITCH, *feeds([1]), SWITCH, *feeds([1]))
OTHER_ROWS: dict[CaseId, tuple[tuple[int, int], tuple[Op, ...]]] = {
    CaseId.MORE_ROWS: ((1, 3), ()),
    CaseId.FEWER_ROWS: ((3, 1), ()),
    CaseId.ROWS_BESIDE: ((1, 3), _TURNS),
}
"""Rows of the first request and of the second, and how it goes on."""


def second_use(subject: Subject, rng: np.random.Generator) -> Cases:
    """A second request on the same object, more or less like the first one."""
    (first,), (second,) = texts(subject, rng, 1, 12), texts(subject, rng, 1, 12)
    yield from _other_texts(subject, first, second)
    for name, (n_rows, go_on) in OTHER_ROWS.items():
        ops = (*feeds([5, 1]), RESTART, *feeds([4, 1, 1]), *go_on)
        yield name, Case(texts(subject, np.random.default_rng(3), 3, 14), ops, rows=n_rows)
    rows = texts(subject, np.random.default_rng(4), 3, 12)
    for name, op in (
        (CaseId.AFTER_CROP, Op("crop", 3)),
        (CaseId.AFTER_REORDER, Op("reorder", (2, 0, 0))),
    ):
        if subject.has(op.action):
            yield name, Case(rows, (*feeds([5]), op, RESTART, *feeds([4, 2])))
    if subject.has("supports_padding"):
        yield from _other_padding(texts(subject, rng, 2, 8))


def _other_texts(subject: Subject, first: Row, second: Row) -> Cases:
    """One row, and then another."""
    chunks, other_chunks = [8, 4], [8, 1, 3]
    for name, other, before, after in (
        (CaseId.OTHER_TEXT, second, chunks, other_chunks),
        (CaseId.SAME_START, (*first[:6], *second[6:]), chunks, other_chunks),
        (CaseId.SAME_TEXT, first, chunks, other_chunks),
        (CaseId.OTHER_FIRST_TOKEN, subject.changed(first, 0), chunks, other_chunks),
        (CaseId.SAME_END, (*second[:4], *first[4:]), chunks, other_chunks),
        (CaseId.SHORTER_TEXT, second[:5], [12], [1, 1, 3]),
        (CaseId.START_OF_FIRST, first[:6], chunks, [5, 1]),
    ):
        yield name, Case(((*first, *other),), (*feeds(before), RESTART, *feeds(after)))
    once_more = (SWITCH, *feeds([1, 4]))
    turns = (*feeds([5]), RESTART, *feeds([5]), *once_more, *once_more)
    yield CaseId.IN_TURNS, Case(((*first, *second[:8]),), turns)


def _other_padding(rows: tuple[Row, ...]) -> Cases:
    """The same two rows twice, with other padding."""
    twice = tuple((*row, *row) for row in rows)
    for name, before, after in (
        (CaseId.OTHER_PADDING, None, (6, 3)),
        (CaseId.NO_PADDING, (6, 3), (6, 6)),
        (CaseId.NO_LENGTHS, (6, 3), None),
    ):
        ops = (*feeds([6, 2]), Op("restart", after), *feeds([6, 2]))
        yield name, Case(twice, ops, before)
    ops = (*feeds([6]), Op("restart", (3, 6)), *feeds([6]), *_TURNS)
    yield CaseId.PADDED_TURNS, Case(twice, ops, (6, 3))


def within(subject: Subject, case: Case) -> bool:
    """Whether the decoder is long enough for a case."""
    longest = subject.max_length if case.may_refuse else subject.longest
    return all(max(slots, other or 0) <= longest for _, _, (slots, other) in walk(case))
