"""What each call computes, reads and computes again: closed forms beside what was noted."""

from dataclasses import replace

import numpy as np
import pytest

from kvproof import LAB, REFERENCE, Call, DecoderConfig, count_costs, trace_calls

DEEP = replace(LAB, n_layers=3, n_heads=2)
SHAPES = [(12, 1), (12, 5), (7, 3), (4, 4), (1, 1)]


def rows(calls: list[Call], name: str) -> int:
    return int(sum(getattr(call, name).sum() for call in calls))


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize(("n_total", "chunk"), SHAPES)
def test_the_calls_cut_the_text(n_total: int, chunk: int, cached: bool) -> None:
    calls = trace_calls(n_total, chunk, cached)
    assert len(calls) == -(-n_total // chunk)
    assert [call.n_past for call in calls] == list(range(0, n_total, chunk))
    assert sum(call.n_new for call in calls) == n_total
    assert all(call.n_new == chunk for call in calls[:-1])


@pytest.mark.parametrize("config", [LAB, DEEP])
@pytest.mark.parametrize(("n_total", "chunk"), SHAPES)
def test_a_call_computes_its_own_rows_and_without_a_cache_all_before_them(
    config: DecoderConfig, n_total: int, chunk: int
) -> None:
    row, nothing = np.arange(n_total), np.zeros((config.n_layers, n_total), dtype=bool)
    for cached in (True, False):
        for call in trace_calls(n_total, chunk, cached, config):
            before, so_far = row < call.n_past, row < call.n_past + call.n_new
            assert call.computed.shape == call.read.shape == nothing.shape
            assert (call.computed == (so_far & ~before if cached else so_far)).all()
            assert (call.read == (before if cached else nothing)).all()
            assert (call.again == (nothing if cached else before)).all()


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize(
    ("n_total", "first", "sizes"),
    [(6, 4, [4, 2]), (9, 4, [4, 2, 2, 1]), (4, 4, [4]), (3, 4, [3]), (3, 1, [1, 2])],
)
def test_the_first_call_may_have_a_size_of_its_own(
    n_total: int, first: int, sizes: list[int], cached: bool
) -> None:
    calls = trace_calls(n_total, 2, cached, REFERENCE, first)
    assert [call.n_new for call in calls] == sizes
    assert [call.n_past for call in calls] == [sum(sizes[:i]) for i in range(len(sizes))]
    assert [call.computed.sum() / 2 for call in calls] == [
        size if cached else call.n_past + size for call, size in zip(calls, sizes, strict=True)
    ]


@pytest.mark.parametrize("config", [LAB, REFERENCE, DEEP])
def test_token_by_token_the_sums_are_those_of_the_formulas(config: DecoderConfig) -> None:
    costs = count_costs(config, prefix=0, steps=24)
    for work, cached in ((costs.recomputed, False), (costs.cached, True)):
        calls = trace_calls(24, 1, cached, config)
        assert rows(calls, "computed") * 3 == work.qkv_rows
        assert sum(call.scores for call in calls) == work.scores
