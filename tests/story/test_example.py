"""The story of the first screen: right at every slider position, and forgotten at nearly all."""

from functools import cache

import numpy as np
import pytest

from kvproof import decode, forward, new_cache, offset_mask, top_left_mask
from kvproof.model.masks import Mask
from kvproof.story import EXAMPLE, encode, example_story, labels, load_story_decoder

WITH_FACT = 13
"""Words from the end back to the key's last fact, "The key fell in the cave."."""
STATES = [
    (n_past, n_new)
    for n_past in range(1, 33, 3)
    for n_new in range(1, 17, 2)
    if n_past + n_new >= WITH_FACT
]
PLACES_TOLD = {word for word in EXAMPLE.split() if word[-1] == "."} - {"milk.", "rains."}


@cache
def said(mask: Mask, n_past: int, n_new: int) -> str:
    """The word after the story's end, if its last call has this mask."""
    params, config = load_story_decoder("float64")
    tokens = np.array([example_story(n_past + n_new)])
    _, past = decode(params, tokens[:, :n_past], new_cache(config, dtype="float64"), config)
    logits, _ = decode(params, tokens[:, n_past:], past, config, mask)
    return labels([int(logits[0, -1].argmax())])[0]


def test_the_right_mask_says_where_the_key_is_whatever_the_sliders_say() -> None:
    assert {said(offset_mask, *state) for state in STATES} == {"cave."}


def test_the_top_left_mask_says_another_place_of_the_story_nearly_always() -> None:
    others = [said(top_left_mask, *state) for state in STATES]
    assert sum(word != "cave." for word in others) > 0.9 * len(STATES)
    assert sum(word in PLACES_TOLD - {"cave."} for word in others) > 0.75 * len(STATES)


def test_what_the_first_screen_says() -> None:
    """Where Ivy is, of whom nobody asked; in the longest chunk the place that the key fell from."""
    for n_past, n_new in ((12, 6), (13, 5)):
        assert said(top_left_mask, n_past, n_new) == "tent."
    assert said(top_left_mask, 32, 16) == "pot."
    params, config = load_story_decoder("float64")
    whole = forward(params, [encode(EXAMPLE)], config)[0, -1]
    assert labels([int(whole.argmax())]) == ["cave."]


def test_a_shorter_text_is_the_end_of_a_longer_one() -> None:
    tokens = encode(EXAMPLE)
    assert len(tokens) == 48
    for n_words in range(1, 49):
        assert example_story(n_words) == tokens[48 - n_words :]
    assert " ".join(labels(example_story(18))).startswith("Ivy is in the tent. The key fell in")
    for n_words in (0, 49):
        with pytest.raises(ValueError, match=f"n_words must be 1..48, got {n_words}"):
            example_story(n_words)
