"""A call made rightly and with a mistake, held against what is computed here in another way."""

from typing import Any

import numpy as np
import pytest

from kvproof import (
    REFERENCE,
    compare_masks,
    example_tokens,
    forward,
    init_params,
    offset_mask,
    open_mask,
    restarted_positions,
    top_left_mask,
)
from kvproof.experiments.compare_calls import compare_calls
from kvproof.story import encode, load_story_decoder

STORY = "Ada is in the tent. The key fell in the bag. Where's my key? In the"
MISTAKES: dict[str, dict[str, Any]] = {
    "top-left": {"mask": top_left_mask},
    "open": {"mask": open_mask},
    "restarted": {"positions": restarted_positions},
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n_past", "n_new"), [(0, 3), (1, 1), (4, 2), (12, 6)])
def test_on_the_random_decoder_it_is_what_the_mask_lab_says(
    n_past: int, n_new: int, dtype: str
) -> None:
    params = init_params(REFERENCE, dtype=dtype)
    tokens = example_tokens(n_past + n_new)[0].tolist()
    report = compare_calls(params, REFERENCE, tokens, n_past, mask=top_left_mask)
    known = compare_masks(n_past, n_new, dtype)
    assert (report.n_past, report.n_new, report.dtype) == (n_past, n_new, dtype)
    assert report.rounding_floor == known.rounding_floor
    for found, wanted in (report.right, known.offset), (report.wrong, known.top_left):
        assert found.row_errors.tolist() == wanted.row_errors.tolist()
        assert found.mask.tolist() == wanted.mask.tolist()
        assert found.argmax_agreement == wanted.argmax_agreement
    assert report.next_token == forward(params, [tokens], REFERENCE)[0, -1].argmax()


def test_the_right_call_says_what_the_decoder_without_a_cache_says() -> None:
    """In every cut of the story, whose answer stands in it."""
    params, config = load_story_decoder("float64")
    tokens = encode(STORY)
    [answer] = encode("bag.")
    for n_past in range(len(tokens)):
        report = compare_calls(params, config, tokens, n_past)
        assert report.right.next_token == report.next_token == answer
        assert report.right.max_abs_error < 100 * report.rounding_floor
        assert report.right.is_made_like(report.wrong)
        assert report.wrong.row_errors.tolist() == report.right.row_errors.tolist()


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_shows_in_logits_and_only_some_in_the_word(mistake: str) -> None:
    """The negative control.  A wrong mask answers wrongly here, an open one rightly: the lesson."""
    params, config = load_story_decoder("float64")
    report = compare_calls(params, config, encode(STORY), 11, **MISTAKES[mistake])
    assert not report.wrong.is_made_like(report.right)
    assert report.wrong.max_abs_error > 1
    said = {"top-left": encode("tent.")[0], "open": report.next_token}
    assert report.wrong.next_token == said.get(mistake, report.wrong.next_token)


def test_masks_and_positions_are_those_that_were_asked_for() -> None:
    params, config = load_story_decoder()
    report = compare_calls(params, config, encode(STORY), 13, positions=restarted_positions)
    assert report.right.positions.tolist() == [13, 14, 15]
    assert report.wrong.positions.tolist() == [0, 1, 2]
    assert report.wrong.mask.tolist() == offset_mask(13, 3).tolist()
    assert report.wrong.mask.shape == (3, 16)
    assert report.wrong.row_errors.shape == (3,)
    assert report.wrong.row_errors.dtype == np.float64


@pytest.mark.parametrize(
    ("mistake", "n_past", "n_new"), [("top-left", 0, 5), ("restarted", 0, 5), ("open", 6, 1)]
)
def test_where_a_mistake_is_none_the_call_is_the_same(
    mistake: str, n_past: int, n_new: int
) -> None:
    params, config = load_story_decoder()
    tokens = encode(STORY)[: n_past + n_new]
    report = compare_calls(params, config, tokens, n_past, **MISTAKES[mistake])
    assert report.wrong.is_made_like(report.right)
    assert report.wrong.row_errors.tolist() == report.right.row_errors.tolist()


@pytest.mark.parametrize(
    ("n_past", "tokens", "says"),
    [
        (16, encode(STORY), "n_new must be at least 1, got 0"),
        (-1, encode(STORY), "n_past must be at least 0, got -1"),
        (1.5, encode(STORY), "n_past must be an integer, got 1.5"),
        (1, [0, 97], "97"),
    ],
)
def test_what_cannot_be_a_call_is_refused(n_past: Any, tokens: list[int], says: str) -> None:
    params, config = load_story_decoder()
    with pytest.raises(ValueError, match=says):
        compare_calls(params, config, tokens, n_past)


def test_a_mask_of_another_shape_is_refused() -> None:
    params, config = load_story_decoder()

    def mask(n_past: int, n_new: int) -> Any:
        return offset_mask(n_past + 1, n_new)

    with pytest.raises(ValueError, match="mask must be bool"):
        compare_calls(params, config, encode(STORY), 4, mask=mask)
