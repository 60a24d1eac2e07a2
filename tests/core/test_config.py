"""The shape of a decoder."""

from dataclasses import FrozenInstanceError

import pytest

from kvproof import REFERENCE, DecoderConfig


def test_the_reference_decoder_has_the_published_sizes() -> None:
    assert vars(REFERENCE) == {
        "n_layers": 2,
        "width": 64,
        "n_heads": 4,
        "vocab_size": 97,
        "mlp_width": 256,
        "max_positions": 512,
    }
    assert REFERENCE.head_dim == 16


def test_heads_share_the_width() -> None:
    assert DecoderConfig(width=96, n_heads=3).head_dim == 32


@pytest.mark.parametrize("name", vars(REFERENCE))
@pytest.mark.parametrize("size", [0, -1])
def test_a_size_below_one_is_refused_by_name(name: str, size: int) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got {size}"):
        DecoderConfig(**{name: size})


def test_a_width_that_heads_cannot_share_is_refused() -> None:
    with pytest.raises(ValueError, match="width 64 and n_heads 5"):
        DecoderConfig(n_heads=5)


def test_a_config_is_not_changed_by_accident() -> None:
    with pytest.raises(FrozenInstanceError):
        REFERENCE.width = 128  # type: ignore[misc]
