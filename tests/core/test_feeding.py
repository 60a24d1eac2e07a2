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


def test_a_longer_text_begins_with_the_shorter_one() -> None:
    """And a larger batch adds rows of other texts below."""
    longest, vectors = example_tokens(512, batch_size=3), example_vectors(24, 3, LAB)
    assert longest[0, :6].tolist() == [12, 7, 31, 4, 9, 18], "the worked example"
    assert longest.shape == (3, 512)
    assert longest.dtype == np.int64
    assert (longest.min(), longest.max()) == (0, 96)
    for n_total in (1, 6, 7, 24):
        np.testing.assert_array_equal(example_tokens(n_total, 2), longest[:2, :n_total])
        np.testing.assert_array_equal(example_vectors(n_total, 2, LAB), vectors[:2, :n_total])
    assert len({tuple(row) for row in longest[:, 6:].tolist()}) == 3


def test_a_small_vocabulary_and_few_positions_still_have_a_text() -> None:
    config = replace(REFERENCE, vocab_size=5, max_positions=4)
    np.testing.assert_array_equal(example_tokens(4, config=config), [[2, 2, 1, 4]])
    assert example_text(config, 4).dtype == np.int64
    assert example_text(LAB, 4).dtype == np.float64


@pytest.mark.parametrize(
    ("start", "size", "real"), [(0, 3, [3, 0]), (3, 4, [4, 2]), (7, 2, [2, 2]), (0, 9, [9, 4])]
)
def test_the_real_tokens_of_a_chunk(start: int, size: int, real: list[int]) -> None:
    """Nine slots, the second row after five of padding."""
    np.testing.assert_array_equal(real_tokens([9, 4], 9, start, size), real)
