"""The ways to feed a text: each gives every position's logits, and none can be cut wrongly."""

from dataclasses import replace

import numpy as np
import pytest

from kvproof import (
    LAB,
    REFERENCE,
    Params,
    decode,
    every_prefix,
    example_tokens,
    example_vectors,
    forward,
    in_chunks,
    init_params,
    new_cache,
    one_by_one,
)
from kvproof.model.feeding import example_text, real_tokens


def test_each_way_gives_the_logits_of_one_pass(params: Params, tolerance: float) -> None:
    text = example_tokens(9, batch_size=2)
    expected = forward(params, text, REFERENCE)
    ways = {
        "prefixes": every_prefix(params, text, REFERENCE),
        "one by one": one_by_one(params, text, REFERENCE)[0],
        "chunks": in_chunks(params, text, REFERENCE, [2, 4, 3])[0],
    }
    for name, logits in ways.items():
        assert logits.dtype == params.dtype, name
        np.testing.assert_allclose(logits, expected, rtol=0, atol=tolerance, err_msg=name)


def test_chunks_go_on_from_a_cache(params: Params, tolerance: float) -> None:
    text = example_tokens(9)
    _, past = decode(params, text[:, :4], new_cache(REFERENCE, dtype=params.dtype), REFERENCE)
    logits, cache = in_chunks(params, text[:, 4:], REFERENCE, [2, 3], past)
    assert (past.length, cache.length) == (4, 9)
    expected = forward(params, text, REFERENCE)[:, 4:]
    np.testing.assert_allclose(logits, expected, rtol=0, atol=tolerance)
    from_nothing, _ = in_chunks(params, text[:, 4:], REFERENCE, [2, 3])
    assert np.abs(from_nothing - expected).max() > 0.1, "no control: the history doesn't matter"


@pytest.mark.parametrize("sizes", [[4, 4], [5, 5], [9, 0], [10, -1], []])
def test_chunks_that_do_not_cut_the_text_are_refused(sizes: list[int]) -> None:
    with pytest.raises(ValueError, match=r"chunks of \[.*\] don't cut a text of 9 tokens"):
        in_chunks(init_params(REFERENCE), example_tokens(9), REFERENCE, sizes)


def test_the_lab_reads_24_vectors_and_returns_24_hidden_states() -> None:
    """Source B: recompute every prefix, token by token, chunks of 5, 3, 7 and 9; three seeds."""
    for seed in range(3):
        params = init_params(LAB, seed, "float64")
        text = example_vectors(24, config=LAB)
        full = forward(params, text, LAB)
        assert full.shape == (1, 24, 16)
        for logits in (
            every_prefix(params, text, LAB),
            one_by_one(params, text, LAB)[0],
            in_chunks(params, text, LAB, [5, 3, 7, 9])[0],
        ):
            np.testing.assert_allclose(logits, full, rtol=0, atol=1e-12)


def test_a_longer_text_begins_with_the_shorter_one() -> None:
    np.testing.assert_array_equal(example_tokens(30)[:, :6], [[12, 7, 31, 4, 9, 18]])
    np.testing.assert_array_equal(example_tokens(30)[:, :11], example_tokens(11))
    np.testing.assert_array_equal(
        example_vectors(24, config=LAB)[:, :11], example_vectors(11, config=LAB)
    )


def test_a_small_vocabulary_and_few_positions_still_have_a_text() -> None:
    config = replace(REFERENCE, vocab_size=5, max_positions=4)
    np.testing.assert_array_equal(example_tokens(4, config=config), [[2, 2, 1, 4]])
    assert example_text(config, 4).dtype == np.int64
    assert example_text(LAB, 4).dtype == np.float64


def test_what_is_no_text_of_the_decoder_is_refused() -> None:
    with pytest.raises(ValueError, match="n_total must be 1..512, got 513"):
        example_tokens(513)
    with pytest.raises(ValueError, match="n_total must be 1..64, got 0"):
        example_vectors(0, config=LAB)
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        example_vectors(4, 0)
    with pytest.raises(ValueError, match="reads vectors, not token IDs"):
        example_tokens(4, config=LAB)


@pytest.mark.parametrize(
    ("start", "size", "real"), [(0, 3, [3, 0]), (3, 4, [4, 2]), (7, 2, [2, 2]), (0, 9, [9, 4])]
)
def test_the_real_tokens_of_a_chunk(start: int, size: int, real: list[int]) -> None:
    """Nine slots, the second row after five of padding."""
    np.testing.assert_array_equal(real_tokens([9, 4], 9, start, size), real)
