"""One seed, one set of parameters: counted, stored, checked at the door."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvproof import (
    REFERENCE,
    DecoderConfig,
    init_params,
    parameter_count,
    params_from_arrays,
    params_to_arrays,
)
from kvproof.model.params import FloatArray

GOLDEN = Path(__file__).parents[1] / "data" / "seed_0.sha256"
TINY = DecoderConfig(n_layers=1, width=4, n_heads=2, vocab_size=5, mlp_width=8, max_positions=6)


def equal_bits(actual: dict[str, FloatArray], expected: dict[str, FloatArray]) -> bool:
    assert actual.keys() == expected.keys()
    return all(actual[name].tobytes() == expected[name].tobytes() for name in expected)


def test_the_reference_decoder_has_145_280_parameters() -> None:
    assert parameter_count(REFERENCE) == 145_280
    arrays = params_to_arrays(init_params(REFERENCE))
    assert sum(array.size for array in arrays.values()) == 145_280


def test_the_count_follows_the_config() -> None:
    block = 2 * (4 + 4) + (4 * 12 + 12) + (4 * 4 + 4) + (4 * 8 + 8) + (8 * 4 + 4)
    assert parameter_count(TINY) == 5 * 4 + 6 * 4 + block + (4 + 4) + 4 * 5


def test_seed_0_gives_the_stored_parameters() -> None:
    """Stored figures rest on these arrays: a change of a draw or of their order must show.

    The file has the form of ``sha256sum``: the hash of each array's float32 bytes, its name.
    """
    arrays = params_to_arrays(init_params(REFERENCE))
    drawn = [
        f"{hashlib.sha256(array.astype('<f4').tobytes()).hexdigest()}  {name}"
        for name, array in arrays.items()
    ]
    assert drawn == GOLDEN.read_text().splitlines()


def test_a_seed_gives_the_same_parameters_again_and_another_seed_others() -> None:
    first, again, other = (params_to_arrays(init_params(REFERENCE, seed)) for seed in (1, 1, 2))
    assert equal_bits(first, again)
    assert not any(np.array_equal(first[name], other[name]) for name in first)


def test_float64_parameters_are_the_float32_ones_converted() -> None:
    single = params_to_arrays(init_params(REFERENCE, dtype="float32"))
    double = params_to_arrays(init_params(REFERENCE, dtype="float64"))
    assert {array.dtype for array in single.values()} == {np.dtype(np.float32)}
    assert {array.dtype for array in double.values()} == {np.dtype(np.float64)}
    assert equal_bits({name: a.astype(np.float64) for name, a in single.items()}, double)


def test_the_flat_dictionary_holds_the_arrays_themselves() -> None:
    params = init_params(TINY)
    arrays = params_to_arrays(params)
    mlp = params.blocks[0].mlp
    assert mlp is not None
    assert arrays["block0.mlp.w_in"] is mlp.w_in
    again = params_to_arrays(params_from_arrays(arrays, TINY))
    assert list(again) == list(arrays)
    assert all(again[name] is array for name, array in arrays.items())


def tiny_arrays() -> dict[str, FloatArray]:
    return params_to_arrays(init_params(TINY))


def without(*names: str) -> dict[str, FloatArray]:
    return {name: array for name, array in tiny_arrays().items() if name not in names}


def changed(name: str, change: Callable[[FloatArray], FloatArray]) -> dict[str, FloatArray]:
    return tiny_arrays() | {name: change(tiny_arrays()[name])}


REFUSED: dict[str, tuple[dict[str, FloatArray], str]] = {
    "missing ones": (
        without("block0.mlp.b_in", "final_norm.gain"),
        r"missing: block0\.mlp\.b_in, final_norm\.gain$",
    ),
    "an unknown one": (
        tiny_arrays() | {"unembedding.bias": np.zeros(5, np.float32)},
        r"unknown parameters: unembedding\.bias$",
    ),
    "those of a deeper decoder": (
        params_to_arrays(init_params(replace(TINY, n_layers=2))),
        r"unknown parameters: block1\.attention\.b_out",
    ),
    # PyTorch stores (out, in), we store (in, out): the likeliest mistake on the way over.
    "a transposed weight": (
        changed("block0.mlp.w_in", np.transpose),
        r"block0\.mlp\.w_in must be \(4, 8\) float32, got \(8, 4\) float32",
    ),
    "mixed precisions": (
        changed("final_norm.bias", lambda array: array.astype(np.float64)),
        r"final_norm\.bias must be \(4,\) float32, got \(4,\) float64",
    ),
    **{
        dtype: (
            {name: array.astype(dtype) for name, array in tiny_arrays().items()},
            f"must be float32 or float64, got {dtype}",
        )
        for dtype in ("float16", "int64", "complex128")
    },
}


@pytest.mark.parametrize(("arrays", "message"), REFUSED.values(), ids=REFUSED)
def test_arrays_that_fit_no_decoder_are_refused(
    arrays: dict[str, FloatArray], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        params_from_arrays(arrays, TINY)


@pytest.mark.parametrize("dtype", ["float16", "int64", "'flaot32'", None])
def test_another_dtype_is_refused(dtype: Any) -> None:
    with pytest.raises(ValueError, match=f"must be float32 or float64, got {dtype}"):
        init_params(TINY, dtype=dtype and dtype.strip("'"))


@pytest.mark.parametrize("seed", [None, 1.5, -1, "0"])
def test_a_seed_that_is_none_is_refused(seed: Any) -> None:
    with pytest.raises(ValueError, match="seed must"):
        init_params(TINY, seed)


def test_parameters_compare_by_identity() -> None:
    """Two arrays have no one truth value: comparing them field by field would raise."""
    params = init_params(TINY)
    assert params == params
    assert params != init_params(TINY)
