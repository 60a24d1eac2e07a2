"""16-bit arithmetic: PyTorch's numbers, in every operation of the decoders."""

import pickle
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kvproof
from kvproof import LAB, REFERENCE, compare_masks, round_params, round_to
from kvproof.model import layers
from kvproof.model.cache import STORAGES
from kvproof.model.precision import EPS, ROUND, Rounded, precision_name
from kvproof.model.rounding import rounding_floor

torch = pytest.importorskip("torch", reason="PyTorch is the judge here; `build.py test` has it")


@pytest.mark.parametrize("precision", ROUND)
def test_numbers_are_rounded_as_pytorch_rounds_them(precision: str) -> None:
    rng = np.random.default_rng(0)
    every_exponent = rng.integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)
    ties = (np.arange(2**16, dtype=np.uint32) << 16 | 0x8000).view(np.float32)
    ends = np.array([0, -0.0, np.inf, -np.inf, np.nan, 65504, 65520], np.float32)
    x = np.concatenate([every_exponent, ties, ends])
    expected = torch.tensor(x).to(getattr(torch, precision)).float().numpy()
    np.testing.assert_array_equal(np.asarray(round_to(x, precision)), expected)


@pytest.mark.parametrize("precision", ROUND)
def test_a_product_adds_up_in_float32_and_is_rounded_once(precision: str) -> None:
    """A sum of many small numbers gets stuck where every addition is rounded."""
    ones = round_to(np.ones((1, 10_000)), precision)
    small = round_to(np.full((10_000, 1), 0.01), precision)
    total = 10_000 * float(small[0, 0])
    assert abs(float((ones @ small)[0, 0]) - total) <= EPS[precision] * total
    assert abs(float(small.sum()) - total) <= EPS[precision] * total
    stuck = torch.zeros(1, dtype=getattr(torch, precision))
    for _ in range(10_000):
        stuck += 0.01
    assert float(stuck[0]) < 0.5 * total


def is_rounded(array: Any) -> bool:
    return isinstance(array, Rounded) and np.array_equal(round_to(array, array.precision), array)


@pytest.mark.parametrize("precision", ROUND)
@pytest.mark.parametrize("config", [REFERENCE, LAB, kvproof.MODERN], ids=["learned", "lab", "rope"])
def test_every_operation_of_a_decoder_is_rounded(precision: str, config: Any) -> None:
    seen: list[Any] = []

    def watched(function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            arrays = result if isinstance(result, tuple) else (result,)
            seen.extend(a for a in arrays if getattr(a, "dtype", None) == np.float32)
            return result

        return call

    names = ("embed", "layer_norm", "scaled_dot_product_attention", "merge_heads", "mlp", "unembed")
    watching = SimpleNamespace(**vars(layers) | {n: watched(getattr(layers, n)) for n in names})
    params = kvproof.init_params(config)
    tokens: Any = kvproof.example_tokens(6)
    if config.vocab_size is None:
        tokens = kvproof.example_vectors(6, config=config)
    for parameters, rounded in (round_params(params, config, precision), True), (params, False):
        seen.clear()
        kvproof.decode(parameters, tokens, kvproof.new_cache(config), config, layers=watching)
        assert len(seen) > len(names)
        assert [is_rounded(array) for array in seen] == [rounded] * len(seen)


@pytest.mark.parametrize("storage", [s for s in STORAGES if STORAGES[s].is_exact])
def test_all_exact_storages_keep_16_bits(storage: str) -> None:
    config = replace(REFERENCE, window=6)
    params = round_params(kvproof.init_params(config), config, "bfloat16")
    cache = kvproof.new_cache(config, storage=storage)
    tokens = kvproof.example_tokens(8)
    _, cache = kvproof.decode(params, tokens[:, :5], cache, config)
    logits, _ = kvproof.decode(params, tokens[:, 5:], cache, config)
    whole = kvproof.forward(params, tokens, config)[:, 5:]
    assert is_rounded(logits)
    assert np.abs(np.asarray(logits) - np.asarray(whole)).max() <= 8 * rounding_floor(whole)


@pytest.mark.parametrize("precision", ROUND)
def test_the_right_mask_stays_near_the_floor_and_the_wrong_one_does_not(precision: str) -> None:
    result = compare_masks(12, 6, precision)
    assert result.dtype == precision
    assert result.rounding_floor > 1000 * compare_masks(12, 6, "float32").rounding_floor
    assert result.offset.max_abs_error <= 8 * result.rounding_floor
    assert result.top_left.max_abs_error > 8 * result.rounding_floor
    exact = compare_masks(12, 6).top_left.max_abs_error
    assert abs(result.top_left.max_abs_error - exact) <= 8 * result.rounding_floor


def test_an_error_is_measured_without_rounding_it() -> None:
    x = round_to([1.0, 256.0], "bfloat16")
    assert (x.astype(np.float64) + 1e-9).tolist() == [1 + 1e-9, 256 + 1e-9]
    assert (x + 1e-9).tolist() == [1.0, 256.0]
    x += 0.5  # in place as well
    assert x.tolist() == [1.5, 256.0]


@pytest.mark.parametrize("precision", ROUND)
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "maximum", "power"])
def test_an_operation_on_two_arrays_is_pytorchs(name: str, precision: str) -> None:
    rng = np.random.default_rng(1)
    one, other = (round_to(rng.uniform(0.1, 4, 5000), precision) for _ in range(2))
    theirs = [torch.tensor(np.asarray(x)).to(getattr(torch, precision)) for x in (one, other)]
    expected = getattr(torch, {"power": "pow"}.get(name, name))(*theirs).float().numpy()
    found = getattr(np, name)(one, other)
    assert is_rounded(found)
    apart = np.abs(np.asarray(found) - expected)
    assert (apart <= EPS[precision] * np.abs(expected)).all()
    assert (apart == 0).mean() > 0.99  # a power may be rounded in float32 first


@pytest.mark.parametrize("precision", ROUND)
@pytest.mark.parametrize("name", ["exp", "sqrt", "tanh"])
def test_an_operation_on_one_array_is_pytorchs(name: str, precision: str) -> None:
    x = round_to(np.random.default_rng(2).uniform(0.1, 4, 5000), precision)
    expected = getattr(torch, name)(torch.tensor(np.asarray(x)).to(getattr(torch, precision)))
    found = getattr(np, name)(x)
    assert is_rounded(found)
    assert (np.asarray(found) == expected.float().numpy()).mean() > 0.99


def test_an_array_stays_itself() -> None:
    """In place, pickled, written into, and in operations that give two arrays."""
    x = round_to([1.0, 256.0], "bfloat16")
    y = x
    y += 0.5
    assert y is x
    assert np.add(x, 1, out=x) is x
    assert x.tolist() == [2.5, 256.0]  # whose neighbour is 258
    copy = pickle.loads(pickle.dumps(x))
    assert is_rounded(copy + 0.1)
    assert copy.precision == "bfloat16"
    x[0] = 0.1
    assert is_rounded(x)
    assert all(is_rounded(part) for part in np.modf(x))
    assert (np.asarray(x, np.float32).view(Rounded) + 0.1).dtype == np.float32
    with pytest.raises(ValueError, match="can't mix bfloat16 and float16"):
        x + round_to([1.0, 2.0], "float16")


def test_other_precisions_are_refused() -> None:
    for precision in ("int8", "float32", ""):
        with pytest.raises(ValueError, match="precision must be one of float16, bfloat16, got"):
            round_to([1.0], precision)
    with pytest.raises(ValueError, match="dtype must be one of float64, float32"):
        compare_masks(4, 2, "float8")
    assert [precision_name(name) for name in EPS] == list(EPS)
    assert [precision_name(np.dtype(kind)) for kind in "fde"] == ["float32", "float64", "float16"]
