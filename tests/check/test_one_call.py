"""One call of anybody's decoder, and of any mask, as the lab draws it."""

from typing import Any

import numpy as np
import pytest
from tests.check.decoders import Plain, Raises

from kvproof import (
    compare_masks,
    decoder_result,
    mask_result,
    offset_mask,
    open_mask,
    top_left_mask,
)


def with_mask(mask: Any) -> Plain:
    decoder = Plain()
    decoder.mask = mask
    return decoder


@pytest.mark.parametrize(("n_past", "n_new"), [(0, 1), (0, 5), (4, 1), (4, 2), (7, 6)])
def test_a_right_decoder_is_moved_by_all_that_it_may_see(n_past: int, n_new: int) -> None:
    result = decoder_result(Plain(), n_past, n_new)
    assert np.array_equal(result.mask, np.tri(n_new, n_past + n_new, n_past, dtype=bool))
    assert result.max_abs_error < 1e-13
    assert result.argmax_agreement == 1


def test_a_wrong_decoder_is_seen_to_forget_or_to_look_ahead() -> None:
    """With this mask row i reads keys 0 to i; its own token moves it past the attention."""
    forgets = decoder_result(with_mask(top_left_mask), 4, 2)
    assert forgets.mask.astype(int).tolist() == [[1, 0, 0, 0, 1, 0], [1, 1, 0, 0, 0, 1]]
    assert forgets.wrongly_hidden_keys == 3 + 3
    assert forgets.max_abs_error > 0.01
    ahead = decoder_result(with_mask(open_mask), 4, 2)
    assert ahead.mask.all()
    assert ahead.wrongly_hidden_keys == 0
    assert ahead.max_abs_error > 0.01


@pytest.mark.parametrize(
    ("n_past", "n_new", "says"),
    [(-1, 2, "-1 \\+ 2 tokens don't fit"), (2, 0, "2 \\+ 0"), (30, 3, "32 together")],
)
def test_lengths_that_do_not_fit(n_past: int, n_new: int, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        decoder_result(Plain(), n_past, n_new)


def test_what_a_decoder_does_wrong_is_said() -> None:
    with pytest.raises(ValueError, match="step raised IndexError: index 7 is out of bounds"):
        decoder_result(Raises(), 2, 3)
    with pytest.raises(ValueError, match="it has no method full"):
        decoder_result(object(), 2, 3)


def test_a_mask_of_ones_own_is_held_against_the_same_recompute() -> None:
    both = compare_masks(4, 2)
    for mask, expected in ((offset_mask, both.offset), (top_left_mask, both.top_left)):
        mine = mask_result(mask, 4, 2)
        assert np.array_equal(mine.mask, expected.mask)
        assert np.array_equal(mine.row_errors, expected.row_errors)
    assert mask_result(open_mask, 4, 1).max_abs_error < 1e-14


@pytest.mark.parametrize("made", [np.ones((2, 2), bool), np.ones((2, 6)), None])
def test_a_mask_that_is_none_is_refused(made: Any) -> None:
    with pytest.raises(ValueError, match="mask"):
        mask_result(lambda n_past, n_new: made, 4, 2)
