"""The right mask and the wrong one, held against hand-written grids, formulas and PyTorch."""

import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.nn.functional import scaled_dot_product_attention

from kvproof import offset_mask, offset_positions, restarted_positions, top_left_mask
from kvproof.model.masks import BoolArray, Mask, visible_keys

LENGTHS = list(product(range(33), range(1, 17)))
MASKS = {"offset": offset_mask, "top-left": top_left_mask}
DATA = Path(__file__).parents[1] / "data"
GRIDS = (DATA / "masks.txt").read_text().strip().split("\n\n")[1:]
VISIBLE_GRIDS = (DATA / "visible_keys.txt").read_text().strip().split("\n\n")[1:]


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: grid.splitlines()[0])
def test_a_mask_is_the_grid_drawn_by_hand(grid: str) -> None:
    title, *rows = grid.split("\n")
    found = re.fullmatch(r"(\S+) P=(\d+) C=(\d+)", title)
    assert found
    mask = MASKS[found[1]](int(found[2]), int(found[3]))
    assert mask.dtype == np.bool_
    assert ["".join(".1"[seen] for seen in row) for row in mask.astype(int)] == rows


def by_predicate(n_past: int, n_new: int, offset: int) -> BoolArray:
    """Cell by cell, as the definition reads: query i may attend to key j iff j <= offset + i."""
    cells = [[j <= offset + i for j in range(n_past + n_new)] for i in range(n_new)]
    return np.array(cells)


def test_masks_are_their_definitions() -> None:
    for n_past, n_new in LENGTHS:
        right, wrong = offset_mask(n_past, n_new), top_left_mask(n_past, n_new)
        np.testing.assert_array_equal(right, by_predicate(n_past, n_new, offset=n_past))
        np.testing.assert_array_equal(wrong, by_predicate(n_past, n_new, offset=0))


def seen_by_pytorch(n_new: int, n_total: int, **mask: Any) -> BoolArray:
    """Which keys PyTorch's attention reads: with equal scores and the identity as values, the
    output's columns are the attention weights."""
    queries, keys = torch.zeros(1, 1, n_new, 8), torch.zeros(1, 1, n_total, 8)
    weights = scaled_dot_product_attention(queries, keys, torch.eye(n_total)[None, None], **mask)
    seen: BoolArray = weights[0, 0].numpy() > 0
    return seen


def test_pytorch_calls_them_lower_right_and_upper_left() -> None:
    for n_past, n_new in LENGTHS:
        sizes = n_new, n_past + n_new
        lower_right = seen_by_pytorch(*sizes, attn_mask=causal_lower_right(*sizes))
        np.testing.assert_array_equal(offset_mask(n_past, n_new), lower_right)
        upper_left = seen_by_pytorch(*sizes, attn_mask=causal_upper_left(*sizes))
        np.testing.assert_array_equal(top_left_mask(n_past, n_new), upper_left)


def test_pytorchs_is_causal_flag_forgets_the_history() -> None:
    """The trap in the wild: legal in shape, and it isn't the mask that a cache needs."""
    flag = seen_by_pytorch(2, 6, is_causal=True)
    np.testing.assert_array_equal(flag, top_left_mask(4, 2))
    assert not np.array_equal(flag, offset_mask(4, 2))


def test_positions_go_on_behind_the_history() -> None:
    """The exercise: ten cached, three new."""
    assert offset_positions(10, 3).tolist() == [10, 11, 12]
    assert restarted_positions(10, 3).tolist() == [0, 1, 2]
    assert offset_positions(0, 3).tolist() == restarted_positions(0, 3).tolist()
    assert offset_positions(10, 3).dtype == restarted_positions(10, 3).dtype == np.int64


@pytest.mark.parametrize(
    "function", [offset_mask, top_left_mask, offset_positions, restarted_positions]
)
@pytest.mark.parametrize(
    ("n_past", "n_new", "message"),
    [
        (-1, 2, "n_past must be at least 0, got -1"),
        (4, 0, "n_new must be at least 1, got 0"),
        (0, -3, "n_new must be at least 1, got -3"),
        (2.5, 2, r"n_past must be an integer, got 2\.5"),
        (4, "2", "n_new must be an integer, got '2'"),
        (4, None, "n_new must be an integer, got None"),
    ],
)
def test_bad_lengths_are_refused(function: Mask, n_past: int, n_new: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        function(n_past, n_new)


@pytest.mark.parametrize("narrow", [np.uint8, np.int8, np.int16])
def test_lengths_of_a_narrow_type_do_not_wrap_around(narrow: type[np.integer[Any]]) -> None:
    """120 + 16 isn't an int8, 250 + 10 not a uint8; sums of lengths must not be taken in either."""
    n_past, n_new = (250, 10) if narrow is np.uint8 else (120, 16)
    for mask in (offset_mask, top_left_mask):
        narrow_mask = mask(narrow(n_past), narrow(n_new))  # type: ignore[arg-type]
        np.testing.assert_array_equal(narrow_mask, mask(n_past, n_new))


# Padding, window and sinks narrow a causal mask; each is a question of its own.


def rows_of(cells: BoolArray) -> list[str]:
    return ["".join(".1"[seen] for seen in row) for row in cells.astype(int)]


@pytest.mark.parametrize("grid", VISIBLE_GRIDS, ids=lambda grid: grid.splitlines()[0])
def test_visible_keys_are_the_grid_drawn_by_hand(grid: str) -> None:
    title, *rows = grid.split("\n")
    found = re.fullmatch(r"P=(\d+) C=(\d+) padding=(\d+) window=(\d+|-) sinks=(\d+)", title)
    assert found
    n_past, n_new, n_pads, n_sinks = (int(found[group]) for group in (1, 2, 3, 5))
    window = None if found[4] == "-" else int(found[4])
    keys, padding = np.arange(n_past + n_new)[None], np.array([n_pads])
    visible = visible_keys(offset_mask(n_past, n_new), keys, padding, window, n_sinks)
    assert visible.dtype == np.bool_
    assert visible.shape == (1, 1, n_new, n_past + n_new)
    assert rows_of(visible[0, 0]) == rows


def test_padding_hides_keys_whatever_the_causal_mask_opens() -> None:
    """The wrong mask stays as wrong as it was: what is causal isn't decided here."""
    keys, padding = np.arange(5)[None], np.array([1])
    assert rows_of(visible_keys(top_left_mask(3, 2), keys, padding)[0, 0]) == [".....", ".1..."]
    everything = np.full((2, 5), True)
    assert rows_of(visible_keys(everything, keys, padding)[0, 0]) == [".1111", ".1111"]
