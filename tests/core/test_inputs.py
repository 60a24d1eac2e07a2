"""What the decoders read.  What they compute is held against PyTorch in tests/oracles."""

import numpy as np
import pytest
from numpy.typing import ArrayLike

from kvproof import REFERENCE, decode, example_tokens, forward, init_params, new_cache


def test_all_512_positions_can_be_used_and_no_more() -> None:
    params = init_params(REFERENCE)
    assert forward(params, example_tokens(512), REFERENCE).shape == (1, 512, 97)
    with pytest.raises(ValueError, match="513 positions, the decoder has 512"):
        forward(params, np.zeros((1, 513), int), REFERENCE)


BAD_TOKENS = {
    "no batch axis": ([12, 7, 31], r"got shape \(3,\)"),
    "an axis too many": ([[[12, 7, 31]]], r"got shape \(1, 1, 3\)"),
    "no tokens": (np.zeros((1, 0), int), r"not empty, got shape \(1, 0\)"),
    "no rows": (np.zeros((0, 3), int), r"not empty, got shape \(0, 3\)"),
    "floats": ([[12.0, 7.0]], "must be integers, got float64"),
    "booleans": ([[True, False]], "must be integers, got bool"),
    "an ID too large": ([[12, 97]], r"token ID 97 is outside the vocabulary 0\.\.96"),
    "a negative ID": ([[12, -1]], r"token ID -1 is outside the vocabulary 0\.\.96"),
}


@pytest.mark.parametrize(("tokens", "message"), BAD_TOKENS.values(), ids=BAD_TOKENS)
def test_bad_tokens_are_refused_with_what_is_wrong(tokens: ArrayLike, message: str) -> None:
    params = init_params(REFERENCE)
    with pytest.raises(ValueError, match=message):
        forward(params, tokens, REFERENCE)
    with pytest.raises(ValueError, match=message):
        decode(params, tokens, new_cache(REFERENCE), REFERENCE)


@pytest.mark.parametrize("integer", ["uint8", "int32", "int64"])
def test_any_integer_type_and_plain_lists_will_do(integer: str) -> None:
    params = init_params(REFERENCE)
    logits = forward(params, [[12, 7, 96]], REFERENCE)
    as_array = np.array([[12, 7, 96]], dtype=integer)
    np.testing.assert_array_equal(forward(params, as_array, REFERENCE), logits)


BAD_LENGTHS = {
    "too few": ([2, 6], r"lengths must be 3 integers, one for each row, got int64 \(2,\)"),
    "one for all": (6, r"lengths must be 3 integers.*got int64 \(\)"),
    "floats": ([2.0, 6.0, 4.0], r"lengths must be 3 integers.*got float64"),
    "more than there are": ([2, 7, 4], r"lengths must be 0\.\.6.*\[2 7 4\]"),
    "negative": ([2, 6, -1], r"lengths must be 0\.\.6.*\[ 2  6 -1\]"),
}


@pytest.mark.parametrize(("lengths", "message"), BAD_LENGTHS.values(), ids=BAD_LENGTHS)
def test_lengths_that_fit_no_batch_are_refused(lengths: object, message: str) -> None:
    params, tokens = init_params(REFERENCE), example_tokens(6, batch_size=3)
    with pytest.raises(ValueError, match=message):
        forward(params, tokens, REFERENCE, lengths)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        decode(params, tokens, new_cache(REFERENCE, 3), REFERENCE, lengths=lengths)  # type: ignore[arg-type]
