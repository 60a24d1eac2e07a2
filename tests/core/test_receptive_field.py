"""The two experiments: the future doesn't reach back, and a deep layer has seen further back."""

from dataclasses import replace

import numpy as np
import pytest

from kvproof import (
    LAB,
    MODERN,
    REFERENCE,
    DecoderConfig,
    decode,
    example_vectors,
    init_params,
    new_cache,
    open_mask,
    perturb_future,
    receptive_field,
    trim_or_refeed,
)

ALIBI = replace(REFERENCE, positions="alibi")


@pytest.mark.parametrize("config", [LAB, REFERENCE, MODERN, ALIBI])
@pytest.mark.parametrize("changed", [0, 12, 20, 23])
def test_a_changed_token_moves_nothing_before_it(config: DecoderConfig, changed: int) -> None:
    moves = perturb_future(changed, config=config)
    assert moves.shape == (24,)
    np.testing.assert_array_equal(moves[:changed], 0.0)
    assert moves[changed] > 0.1
    assert (moves[changed:] > 0).all(), "each later query sees the changed key"


def test_without_a_mask_the_future_leaks_into_every_position() -> None:
    moves = perturb_future(20, mask=open_mask)
    assert (moves[:20] > 0.01).all()


def test_a_window_ends_the_reach_of_a_token() -> None:
    """Two layers with a window of three: four positions further, and none beyond."""
    moves = perturb_future(10, config=replace(LAB, window=3))
    reached = np.flatnonzero(moves)
    np.testing.assert_array_equal(reached, [10, 11, 12, 13, 14])


@pytest.mark.parametrize(
    "config", [replace(c, n_layers=4) for c in (LAB, REFERENCE, MODERN, ALIBI)]
)
def test_a_trimmed_cache_is_not_the_end_fed_anew(config: DecoderConfig) -> None:
    report = trim_or_refeed(config=config)
    for errors in (report.key_errors, report.value_errors):
        assert errors.shape == (4,)
        assert errors[0] <= 1e-14, "the first layer looks at single tokens"
        assert (errors[1:] > 0.1).all(), "deeper layers have seen further back"
    assert report.next_error > 0.01


def test_feeding_all_of_the_text_anew_gives_the_trimmed_cache() -> None:
    report = trim_or_refeed(refed=24)
    assert report.key_errors.max() <= 1e-14
    assert report.next_error <= 1e-14


@pytest.mark.parametrize("window", [2, 3, 5])
@pytest.mark.parametrize("n_layers", [2, 3])
def test_behind_a_window_a_longer_end_is_enough(window: int, n_layers: int) -> None:
    """Layer l + 1 has seen l * (W - 1) tokens further back than its own."""
    config = replace(LAB, n_layers=n_layers, window=window)
    enough = 4 + (n_layers - 1) * (window - 1)
    report = trim_or_refeed(refed=enough, config=config)
    assert report.key_errors.max() <= 1e-14
    assert report.value_errors.max() <= 1e-14
    one_less = trim_or_refeed(refed=enough - 1, config=config)
    assert one_less.key_errors[-1] > 1e-6


DEEP = replace(LAB, n_layers=3)


@pytest.mark.parametrize(
    "config", [LAB, DEEP, replace(DEEP, window=3), replace(LAB, window=2, n_sinks=1)]
)
def test_a_key_depends_on_the_tokens_that_move_it(config: DecoderConfig) -> None:
    """Measured: replace each token, and see which keys and values of each layer are others."""
    params = init_params(config, dtype="float64")

    def keys_values(text: np.ndarray) -> np.ndarray:
        _, cache = decode(params, text, new_cache(config, dtype="float64"), config)
        return np.array(cache.keys_values())  # (L, 2, 1, 1, T, D)

    text = example_vectors(9, config=config)
    before = keys_values(text)
    field = receptive_field(9, config)
    assert field.shape == (config.n_layers, 9, 9)
    for token in range(9):
        changed = text.copy()
        changed[:, token] *= -1
        moved = (keys_values(changed) != before).any(axis=(1, 2, 3, 5))
        np.testing.assert_array_equal(moved, field[:, :, token])


def test_what_was_fed_again_has_seen_no_further_than_its_beginning() -> None:
    report = trim_or_refeed(n_total=12, kept=4, refed=6)
    assert report.kept_seen.shape == report.refed_seen.shape == (2, 4, 12)
    np.testing.assert_array_equal(report.kept_seen[0], np.eye(12, dtype=bool)[-4:])
    np.testing.assert_array_equal(report.refed_seen[0], report.kept_seen[0])
    np.testing.assert_array_equal(report.kept_seen[1], np.tri(12, dtype=bool)[-4:])
    assert not report.refed_seen[:, :, :6].any()
    np.testing.assert_array_equal(report.refed_seen[1, :, 6:], np.tri(6, dtype=bool)[-4:])


def test_layers_that_have_seen_the_same_are_equal() -> None:
    """The picture and the errors say the same: they differ where what was seen differs."""
    for refed in range(4, 13):
        for window in (None, 4):
            report = trim_or_refeed(12, 4, refed, replace(LAB, window=window))
            same = (report.kept_seen == report.refed_seen).all(axis=(1, 2))
            np.testing.assert_array_equal(report.key_errors <= 1e-14, same)
