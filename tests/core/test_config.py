"""The shape of a decoder."""

from typing import Any

import numpy as np
import pytest

from kvproof import DecoderConfig, parameter_count

SIZES = ["n_layers", "width", "n_heads", "vocab_size", "mlp_width", "max_positions", "window"]


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("size", [0, -1])
def test_a_size_below_one_is_refused_by_name(name: str, size: int) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got {size}"):
        DecoderConfig(**{name: size})  # type: ignore[arg-type]


def test_no_number_of_kv_heads_is_as_many_as_query_heads() -> None:
    assert DecoderConfig(n_heads=8).n_kv_heads == 8
    assert DecoderConfig(n_heads=8, n_kv_heads=2).n_kv_heads == 2


REFUSED = {
    "a width that heads cannot share": ({"n_heads": 5}, "width 64 and n_heads 5"),
    "kv heads below none": ({"n_kv_heads": -1}, "n_kv_heads must be at least 1, got -1"),
    "kv heads": ({"n_heads": 4, "n_kv_heads": 3}, "n_heads 4 and n_kv_heads 3"),
    "more kv heads": ({"n_heads": 2, "n_kv_heads": 4}, "n_heads 2 and n_kv_heads 4"),
    "sinks below none": ({"window": 4, "n_sinks": -1}, "n_sinks must be at least 0, got -1"),
    "sinks alone": ({"n_sinks": 2}, "n_sinks 2 needs a window"),
    "odd rope": ({"width": 12, "positions": "rope"}, "pairs of features, got head dim 3"),
    "positions": ({"positions": "sine"}, "one of learned, rope, alibi, none, got 'sine'"),
    "norm": ({"norm": "batchnorm"}, "one of layernorm, rmsnorm, got 'batchnorm'"),
    "mlp": ({"mlp": "relu"}, "one of gelu, swiglu, none, got 'relu'"),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED)
def test_what_makes_no_decoder_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DecoderConfig(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        {"width": 64.0},
        {"n_heads": True},
        {"window": 2.5},
        {"width": "64"},
        {"vocab_size": False},
        {"max_positions": float("nan")},
    ],
)
def test_a_size_that_is_no_integer_is_refused(wrong: dict[str, Any]) -> None:
    [(name, value)] = wrong.items()
    with pytest.raises(ValueError, match=f"{name} must be an integer, got {value!r}"):
        DecoderConfig(**wrong)


def test_narrow_integers_become_pythons_own() -> None:
    config = DecoderConfig(width=np.int8(64))  # type: ignore[arg-type]
    assert type(config.width) is int
    assert parameter_count(config) == 145_280
