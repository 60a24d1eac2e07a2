"""The two experiments: the future doesn't reach back, and a deep layer has seen further back."""

from dataclasses import replace

import numpy as np
import pytest

from kvproof import LAB, MODERN, REFERENCE, DecoderConfig, open_mask, perturb_future, trim_or_refeed

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


@pytest.mark.parametrize("changed", [-1, 24])
def test_a_token_outside_the_text_cannot_change(changed: int) -> None:
    with pytest.raises(ValueError, match=f"changed must be 0..23, got {changed}"):
        perturb_future(changed)


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


@pytest.mark.parametrize(
    ("n_total", "kept", "refed"), [(24, 0, None), (24, 4, 3), (24, 25, None), (64, 4, None)]
)
def test_lengths_that_make_no_sense_are_refused(n_total: int, kept: int, refed: int | None) -> None:
    with pytest.raises(ValueError, match=r"needs 1 <= kept <= refed <= n_total < 64, got"):
        trim_or_refeed(n_total, kept, refed)
