"""An int8 cache isn't exact.  How wrong it may be, measured; and that it isn't wrong otherwise."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from tests.core.recompute import splits, tiny_params

from kvproof import MODERN, REFERENCE, DecoderConfig, decode, example_tokens, forward, new_cache
from kvproof.model.cache import quantized
from kvproof.model.cache.quantized import QuantizedArray, QuantizedCache, dequantize, quantize
from kvproof.model.params import FloatArray

BUDGET = 0.005
"""Largest logit error that right scales may cause, for logits of up to 2.5.  Measured for the
decoders below, seeds 0 to 3: 0.0022 to 0.0037."""
CONTROL = 20
"""Wrong scales must exceed the budget that many times.  Measured: 24 times or more."""

CONFIGS = {
    "reference": REFERENCE,
    "modern": MODERN,
    "alibi": replace(REFERENCE, positions="alibi"),
}


def logits_in_chunks(config: DecoderConfig, seed: int, dtype: str, chunks: list[int]) -> FloatArray:
    tokens = example_tokens(sum(chunks), batch_size=2)
    cache = new_cache(config, 2, dtype, "int8")
    logits = []
    for start, end in pairwise(np.cumsum([0, *chunks])):
        params = tiny_params(config, seed, dtype)
        new, cache = decode(params, tokens[:, start:end], cache, config)
        logits.append(new)
    return np.concatenate(logits, axis=1)


def logit_error(config: DecoderConfig, seed: int, dtype: str) -> float:
    logits = logits_in_chunks(config, seed, dtype, [5, 3, 7, 9])
    exact = forward(tiny_params(config, seed, dtype), example_tokens(24, batch_size=2), config)
    assert logits.dtype == exact.dtype
    return float(np.abs(logits - exact).max())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_logits_stay_within_the_budget(config: DecoderConfig, seed: int, dtype: str) -> None:
    error = logit_error(config, seed, dtype)
    assert 1e-4 < error <= BUDGET, "and an error of nothing would mean that nothing was rounded"


def wrong_scale(change: Callable[[FloatArray], FloatArray]) -> Callable[..., FloatArray]:
    """``dequantize`` with other scales, made from the right ones (B, H, T)."""

    def wrong(records: QuantizedArray) -> FloatArray:
        x: FloatArray = records["levels"] * change(records["scale"])[..., None]
        return x

    return wrong


WRONG_SCALES = {
    "another token's": wrong_scale(lambda scale: np.roll(scale, 1, axis=2)),
    "another head's": wrong_scale(lambda scale: np.roll(scale, 1, axis=1)),
    "none": wrong_scale(np.ones_like),
}


@pytest.mark.parametrize("wrong", WRONG_SCALES.values(), ids=WRONG_SCALES)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_wrong_scales_exceed_the_budget(
    wrong: Callable[..., FloatArray], config: DecoderConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantized, "dequantize", wrong)
    for seed in range(4):
        assert logit_error(config, seed, "float64") > CONTROL * BUDGET


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_text_may_be_cut_in_any_way(config: DecoderConfig) -> None:
    """All tokens are read rounded, those of the call too, so one cut is as good as another.

    To rounding in float64: test_properties.py.  In float32 the last bit of a key may tip it to the
    next level; that is within the budget.
    """
    whole = logits_in_chunks(config, 0, "float32", [8])
    for chunks in splits(8):
        logits = logits_in_chunks(config, 0, "float32", chunks)
        assert np.abs(logits - whole).max() <= BUDGET, chunks


def test_new_tokens_read_unrounded_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: an exact copy of the call's own tokens makes the cut matter."""
    right = QuantizedCache._append

    def exact_new_ones(
        cache: QuantizedCache, layer: int, keys: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        all_keys, all_values = right(cache, layer, keys, values)
        all_keys[:, :, cache.length :], all_values[:, :, cache.length :] = keys, values
        return all_keys, all_values

    monkeypatch.setattr(QuantizedCache, "_append", exact_new_ones)
    whole, one_by_one = (logits_in_chunks(MODERN, 0, "float64", cut) for cut in ([8], [1] * 8))
    assert np.abs(whole - one_by_one).max() > 1e-4


# The numbers themselves.


def odd_vectors(dtype: str) -> FloatArray:
    """(2, 3, 40, 16): token t of head h has its own magnitude, from 1e-30 to 1e+30."""
    rng = np.random.default_rng(0)
    magnitude = 10.0 ** rng.uniform(-30, 30, size=(2, 3, 40, 1))
    return (magnitude * rng.standard_normal((2, 3, 40, 16))).astype(dtype)


def test_each_feature_is_met_to_half_a_scale(dtype: str) -> None:
    x = odd_vectors(dtype)
    records = quantize(x)
    assert records.shape == (2, 3, 40)
    assert records["levels"].dtype == np.int8
    assert records["scale"].dtype == dtype
    largest = np.abs(x).max(axis=-1)
    np.testing.assert_allclose(records["scale"], largest / 127, rtol=1e-6)
    assert (np.abs(records["levels"]).max(axis=-1) == 127).all(), "all levels are made use of"
    restored = dequantize(records)
    assert restored.dtype == dtype
    room = 1 + 300 * np.finfo(dtype).eps  # the product of a level and a scale is rounded, too
    assert (np.abs(restored - x) <= room * records["scale"][..., None] / 2).all()
    assert (np.abs(restored - x).max(axis=-1) > 0.3 * records["scale"]).mean() > 0.9, "no control"


def test_zeros_and_the_smallest_numbers_survive(dtype: str) -> None:
    tiny = np.finfo(dtype).smallest_subnormal
    x = np.array([[[[0.0, 0.0], [tiny, -tiny], [-4.0, 4.0]]]], dtype)
    with np.errstate(under="ignore"):
        restored = dequantize(quantize(x))
    np.testing.assert_array_equal(restored[0, 0, [0, 2]], x[0, 0, [0, 2]])
    assert np.abs(restored - x).max() <= tiny


def filled(dtype: str) -> tuple[QuantizedCache, FloatArray]:
    cache = new_cache(replace(MODERN, n_kv_heads=1, n_heads=1, width=16), 2, dtype, "int8")
    assert isinstance(cache, QuantizedCache)
    x = odd_vectors(dtype)[:, :1]
    for start, end in ((0, 25), (25, 40)):
        cache = cache.begin(end - start)
        for layer in range(2):
            cache.append(layer, x[:, :, start:end], -x[:, :, start:end])
        cache.advance(end - start)
    return cache, x


def test_scales_go_with_their_tokens(dtype: str) -> None:
    """Magnitudes are 60 orders apart: a scale at the wrong token would show in each."""
    cache, x = filled(dtype)
    expected = dequantize(quantize(x))
    for got, wanted in (
        (cache, expected),
        (cache.fork(), expected),
        (cache.crop(17), expected[:, :, :17]),
        (cache.reorder([1, 0, 1]), expected[[1, 0, 1]]),
        (cache.crop(9).reorder([1]).fork(), expected[[1], :, :9]),
    ):
        for keys, values in got.keys_values():
            np.testing.assert_array_equal(keys, wanted)
            np.testing.assert_array_equal(values, -wanted)
