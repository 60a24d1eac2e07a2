"""The numbers that the page, the notebook and the tests share, recomputed here the long way."""

from dataclasses import replace

import numpy as np
import pytest

from kvproof import (
    REFERENCE,
    compare_masks,
    decode,
    example_tokens,
    forward,
    init_params,
    new_cache,
    offset_mask,
    top_left_mask,
)
from kvproof.experiments.compare_masks import compare
from kvproof.model.masks import BoolArray

LENGTHS = [(4, 2), (0, 5), (1, 1), (10, 3), (32, 16)]


@pytest.mark.parametrize(("n_past", "n_new"), LENGTHS)
@pytest.mark.parametrize("seed", [0, 7])
def test_each_field_is_what_it_says(dtype: str, seed: int, n_past: int, n_new: int) -> None:
    result = compare_masks(n_past, n_new, dtype, seed)
    assert (result.n_past, result.n_new, result.dtype) == (n_past, n_new, dtype)
    params = init_params(REFERENCE, seed, dtype)
    tokens = example_tokens(n_past + n_new)
    full = forward(params, tokens, REFERENCE)[:, n_past:]
    past = new_cache(REFERENCE, dtype=dtype)
    if n_past:
        _, past = decode(params, tokens[:, :n_past], past, REFERENCE)
    for name, mask in ("offset", offset_mask), ("top_left", top_left_mask):
        logits, _ = decode(params, tokens[:, n_past:], past, REFERENCE, mask=mask)
        wide = [[float(x) for x in row] for row in logits[0]]  # Python floats: no NumPy promotion
        errors = [
            max(abs(a - float(b)) for a, b in zip(row, wanted, strict=True))
            for row, wanted in zip(wide, full[0], strict=True)
        ]
        same = [
            row.index(max(row)) == int(wanted.argmax())
            for row, wanted in zip(wide, full[0], strict=True)
        ]
        found = getattr(result, name)
        np.testing.assert_array_equal(found.mask, mask(n_past, n_new))
        assert found.row_errors.tolist() == errors
        assert found.max_abs_error == max(errors)
        assert found.worst_row == errors.index(max(errors))
        assert found.argmax_agreement == sum(same) / n_new
        assert found.n_nan == 0


@pytest.mark.parametrize(("dtype", "mantissa_bits"), [("float32", 23), ("float64", 52)])
def test_the_rounding_floor_is_one_unit_at_the_largest_logit(
    dtype: str, mantissa_bits: int
) -> None:
    logits = forward(init_params(REFERENCE, 0, dtype), example_tokens(9), REFERENCE)[:, 7:]
    assert logits.max() < -logits.min(), "no control: the sign of the largest logit is lost"
    largest = -float(logits.min())
    assert compare_masks(7, 2, dtype).rounding_floor == pytest.approx(2.0**-mantissa_bits * largest)


@pytest.mark.parametrize("n_new", range(1, 17))
def test_the_right_mask_is_at_the_floor_and_the_wrong_one_far_above(
    dtype: str, tolerance: float, n_new: int
) -> None:
    """All that the page's sliders can ask for: any history at all makes the wrong mask wrong."""
    for n_past in range(33):
        result = compare_masks(n_past, n_new, dtype)
        assert result.offset.max_abs_error <= tolerance
        assert result.offset.max_abs_error <= 8 * result.rounding_floor
        assert result.offset.argmax_agreement == 1
        assert result.wrongly_hidden_keys == n_past * n_new
        assert result.wrongly_hidden.sum(axis=1).tolist() == [n_past] * n_new
        assert result.offset.n_nan == result.top_left.n_nan == 0
        if n_past:
            assert result.top_left.row_errors.max() > 0.1, n_past
        else:
            np.testing.assert_array_equal(result.top_left.row_errors, result.offset.row_errors)


def test_argmax_is_too_weak_a_witness(dtype: str) -> None:
    """In the worked example both tokens keep their most likely successor under the wrong mask."""
    example = compare_masks(4, 2, dtype).top_left
    assert example.argmax_agreement == 1
    assert example.max_abs_error > 0.1
    assert compare_masks(4, 16, dtype).top_left.argmax_agreement == 1, "sixteen rows in a row"
    agreement = [compare_masks(n_past, 16, dtype).top_left.argmax_agreement for n_past in range(33)]
    assert min(agreement) < 1, "no control: argmax sees nothing at all"


def logits_of(rows: list[list[float]]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.array([rows])


def test_a_row_whose_largest_logit_moves_does_not_agree() -> None:
    expected = logits_of([[0, 1, 2], [0, 1, 2], [5, 0, 0], [0, 3, 0]])
    logits = logits_of([[0, 1, 2], [0, 2.5, 2], [4, 0, 0], [0, 3, 3.25]])
    result = compare(logits, expected, offset_mask(0, 4))
    assert result.row_errors.tolist() == [0, 1.5, 1, 3.25]
    assert (result.max_abs_error, result.worst_row) == (3.25, 3)
    assert result.argmax_agreement == 0.5


def test_of_equal_errors_the_first_row_is_the_worst() -> None:
    expected = logits_of([[0.0], [0.0], [0.0]])
    result = compare(logits_of([[1.0], [-2.0], [2.0]]), expected, offset_mask(0, 3))
    assert result.worst_row == 1


def test_a_nan_is_counted_and_is_the_worst_of_all() -> None:
    """A comparison with NaN is False, so a check for "too large" would pass it."""
    expected = logits_of([[5, 1, 2], [5, 1, 2], [5, 1, 2]])
    logits = logits_of([[5, 1, 2], [np.nan, 1, np.nan], [9, 1, 2]])
    result = compare(logits, expected, offset_mask(0, 3))
    assert result.n_nan == 2
    assert np.isnan(result.row_errors).tolist() == [False, True, False]
    assert np.isnan(result.max_abs_error)
    assert result.worst_row == 1
    assert result.argmax_agreement == pytest.approx(2 / 3), "NumPy's argmax points at the NaN"


def test_a_query_without_a_key_turns_its_whole_chunk_into_nan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its keys and values in layer 2 are NaN, and a hidden key's weight 0 times NaN is NaN."""

    def blind(n_past: int, n_new: int) -> BoolArray:
        mask = offset_mask(n_past, n_new)
        mask[1] = False
        return mask

    monkeypatch.setattr("kvproof.experiments.compare_masks.top_left_mask", blind)
    with np.errstate(invalid="ignore"):
        result = compare_masks(4, 3)
    assert result.top_left.n_nan == 3 * 97
    assert np.isnan(result.top_left.row_errors).all()
    assert result.top_left.argmax_agreement == 0
    assert result.wrongly_hidden_keys == 4 + 2
    assert result.offset.n_nan == 0, "the history is untouched"


@pytest.mark.parametrize(("n_past", "n_new"), LENGTHS)
def test_a_right_mask_hides_nothing_wrongly(n_past: int, n_new: int) -> None:
    result = compare_masks(n_past, n_new)
    expected = [[j <= n_past + i for j in range(n_past + n_new)] for i in range(n_new)]
    nothing = replace(result.offset, mask=np.zeros((n_new, n_past + n_new), dtype=bool))
    assert nothing.wrongly_hidden.tolist() == expected
    assert result.offset.wrongly_hidden_keys == 0
    assert result.top_left.wrongly_hidden_keys == n_past * n_new


def test_a_broken_offset_mask_is_told_by_its_own_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is held against the definition: held against itself, it would always be right."""
    monkeypatch.setattr("kvproof.experiments.compare_masks.offset_mask", top_left_mask)
    result = compare_masks(4, 2)
    assert result.offset.wrongly_hidden_keys == 4 * 2
    assert result.wrongly_hidden_keys == 4 * 2, "the other mask's count doesn't lean on it"
