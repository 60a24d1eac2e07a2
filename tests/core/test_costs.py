"""Costs: the articles' counts, formulas against counting code, published figures."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvproof.experiments.costs import (
    Work,
    count_costs,
    measure_cached,
    measure_costs,
    watch,
)
from kvproof.experiments.model_shapes import MODEL_SHAPES, ModelShape
from kvproof.model.config import LAB, MODERN, REFERENCE, DecoderConfig
from kvproof.model.decoder import forward
from kvproof.model.params import init_params

WINDOWED = DecoderConfig(window=4, n_sinks=1)


# ------------------------------------------------------------------ the articles' figures


def test_a_prefix_of_256_and_16_steps_project_4232_positions_or_16() -> None:
    """Counted while it runs as well: the command's test."""
    costs = count_costs(REFERENCE, 256, 16)
    assert costs.recomputed.positions == 4232
    assert costs.cached.positions == 16
    assert costs.cached.kv_bytes == 278_528 == 272 * 1024


@pytest.mark.parametrize("count", [count_costs, measure_costs])
def test_24_tokens_of_the_lab_token_by_token(count: Any) -> None:
    costs = count(LAB, 0, 24, dtype="float64")
    assert (costs.recomputed.qkv_rows, costs.cached.qkv_rows) == (1800, 144)
    assert (costs.recomputed.scores, costs.cached.scores) == (9800, 600)
    assert (costs.recomputed.kv_bytes, costs.cached.kv_bytes) == (0, 12_288)


# ------------------------------------------------------------------ formula against counting code


@st.composite
def cases(draw: st.DrawFn) -> tuple[DecoderConfig, int, int, int, str]:
    n_kv_heads = draw(st.integers(1, 2))
    n_heads = n_kv_heads * draw(st.integers(1, 2))
    config = DecoderConfig(
        n_layers=draw(st.integers(1, 3)),
        width=n_heads * draw(st.sampled_from([2, 4])),
        n_heads=n_heads,
        n_kv_heads=n_kv_heads,
        vocab_size=draw(st.sampled_from([None, 5])),
        mlp_width=4,
        max_positions=32,
        positions=draw(st.sampled_from(["learned", "rope", "alibi", "none"])),
        norm=draw(st.sampled_from(["layernorm", "rmsnorm"])),
        mlp=draw(st.sampled_from(["gelu", "swiglu", "none"])),
    )
    prefix, steps, batch_size = (
        draw(st.integers(0, 6)),
        draw(st.integers(1, 5)),
        draw(st.integers(1, 3)),
    )
    return config, prefix, steps, batch_size, draw(st.sampled_from(["float32", "float64"]))


@given(cases())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_formula_and_counting_code_agree(case: tuple[DecoderConfig, int, int, int, str]) -> None:
    assert count_costs(*case) == measure_costs(*case)


@given(prefix=st.integers(0, 9), steps=st.integers(1, 9), room=st.integers(1, 12))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_the_formulas_are_the_sums_that_they_stand_for(prefix: int, steps: int, room: int) -> None:
    shape = ModelShape(3, 1, 1, 1, window=room, n_windowed_layers=2)
    costs = count_costs(shape, prefix, steps, dtype="int8")
    totals = range(prefix + 1, prefix + steps + 1)
    assert costs.recomputed.positions == sum(totals)
    assert costs.recomputed.scores == 3 * sum(t * t for t in totals)
    assert costs.cached.scores == 3 * sum(totals)
    assert (costs.rolling is not None) == (prefix + steps > room)
    if costs.rolling is not None:
        assert costs.rolling.scores == sum(totals) + 2 * sum(room + 1 for _ in totals)
        assert costs.rolling.kv_bytes == (prefix + steps + 2 * room) * (1 + 1 + 4 + 4)


@pytest.mark.parametrize(("prefix", "steps"), [(0, 4), (0, 6), (3, 9), (12, 2)])
@pytest.mark.parametrize("n_sinks", [0, 2])
def test_a_rolling_cache_costs_what_its_formula_says(prefix: int, steps: int, n_sinks: int) -> None:
    config = DecoderConfig(window=4, n_sinks=n_sinks, n_kv_heads=2)
    for batch_size in (1, 3):
        case = (config, prefix, steps, batch_size)
        assert count_costs(*case) == measure_costs(*case)


@pytest.mark.parametrize("storage", ["concat", "static", "paged", "int8"])
def test_every_storage_does_the_same_work(storage: str) -> None:
    dtype = "int8" if storage == "int8" else "float32"
    wanted = count_costs(MODERN, 5, 7, 2, dtype).cached
    assert measure_cached(MODERN, 5, 7, 2, "float32", storage) == wanted


def test_counting_changes_no_result() -> None:
    params = init_params(MODERN, 0, "float32")
    watched, tally = watch(params, MODERN)
    tokens = np.arange(6)[None]
    assert np.array_equal(forward(watched, tokens, MODERN), forward(params, tokens, MODERN))
    assert tally.scores == MODERN.n_layers * MODERN.n_heads * 6 * 6


# ------------------------------------------------------------------ negative controls


def test_a_decoder_that_recomputes_is_not_counted_as_cached() -> None:
    params = init_params(REFERENCE, 0, "float32")
    watched, tally = watch(params, REFERENCE)
    tokens = np.arange(8)[None]
    for n_total in range(5, 9):  # says "one more token", reads all
        forward(watched, tokens[:, :n_total], REFERENCE)[:, -1:]
    rows = tally.rows["block0.attention.w_qkv"]
    costs = count_costs(REFERENCE, 4, 4)
    assert rows == costs.recomputed.positions == 5 + 6 + 7 + 8
    assert rows != costs.cached.positions


@pytest.mark.parametrize("change", [(1, 0), (0, 1), (0, -1)])
def test_one_token_more_or_less_is_seen(change: tuple[int, int]) -> None:
    measured = measure_costs(REFERENCE, 5, 3)
    wrong = count_costs(REFERENCE, 5 + change[0], 3 + change[1])
    for way in ("recomputed", "cached"):
        assert getattr(wrong, way).scores != getattr(measured, way).scores


# ------------------------------------------------------------------ published models


@pytest.mark.parametrize(
    ("name", "way", "kilobytes"),
    [
        ("deepseek-v3", "latent", 70.272),
        ("qwen2.5-72b", "cached", 327.680),
        ("llama-3.1-405b", "cached", 516.096),
    ],
)
def test_bytes_of_a_token_as_published(name: str, way: str, kilobytes: float) -> None:
    """Table 1 of "Insights into DeepSeek-V3" (arXiv 2505.09343): K/V per token in BF16."""
    work: Work = getattr(count_costs(MODEL_SHAPES[name], 0, 1, dtype="bfloat16"), way)
    assert work.kv_bytes == kilobytes * 1000


def test_a_latent_cache_beside_full_keys_and_values() -> None:
    """MLA keeps 512 + 64 numbers; full K/V are 128 heads of 128 + 64 (keys) and 128 (values)."""
    costs = count_costs(MODEL_SHAPES["deepseek-v3"], 0, 1, dtype="bfloat16")
    assert costs.latent is not None
    assert costs.latent.kv_bytes == 61 * 576 * 2
    assert costs.cached.kv_bytes == 61 * 128 * (192 + 128) * 2
    # DeepSeek-V2 (arXiv 2405.04434), table 1: 9/2 head dims of 128 for each token and layer.
    assert MODEL_SHAPES["deepseek-v2"].latent_dim == 9 * 128 // 2


def test_a_window_bounds_what_mistral_keeps_and_half_of_gemma() -> None:
    def bytes_of(name: str, prefix: int) -> int:
        costs = count_costs(MODEL_SHAPES[name], prefix, 1, dtype="bfloat16")
        assert costs.rolling is not None
        return costs.rolling.kv_bytes

    token = 2 * 32 * 8 * 128 * 2
    assert bytes_of("mistral-7b", 4096) == 4096 * token
    assert bytes_of("mistral-7b", 100_000) == 4096 * token
    layer = 2 * 8 * 256 * 2
    assert bytes_of("gemma-2-9b", 9_999) == layer * 21 * (4096 + 10_000)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_layers": 0}, "n_layers must be at least 1, got 0"),
        ({"n_kv_heads": 3}, "n_heads must be a multiple of n_kv_heads, got 4 and 3"),
        ({"window": 0}, "window must be at least 1"),
        ({"latent_dim": 0}, "latent_dim must be at least 1"),
        ({"n_windowed_layers": 1}, "1 of 2 layers have the window None"),
        ({"n_windowed_layers": 3, "window": 8}, "3 of 2 layers have the window 8"),
    ],
)
def test_impossible_shapes_are_refused(change: dict[str, Any], message: str) -> None:
    shape = ModelShape(2, 4, 2, 16)
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(shape, **change)


def test_costs_without_window_or_latent_have_two_ways() -> None:
    assert list(count_costs(REFERENCE, 0, 1).ways()) == ["recomputed", "cached"]
    assert list(count_costs(WINDOWED, 0, 5).ways()) == ["recomputed", "cached"]
    assert list(count_costs(WINDOWED, 0, 6).ways()) == ["recomputed", "cached", "rolling"]
