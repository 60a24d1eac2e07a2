"""The plain cache at the reference's size: it holds each layer's keys and values.

What all storages promise is in test_storages.py.
"""

import numpy as np
import pytest

from kvproof import (
    REFERENCE,
    ConcatCache,
    DecoderConfig,
    KVCache,
    Params,
    decode,
    example_tokens,
    forward,
    init_params,
    new_cache,
)
from kvproof.model.params import FloatArray


def prefilled(params: Params, n_past: int, batch_size: int = 1) -> KVCache:
    tokens = example_tokens(n_past, batch_size)
    return decode(params, tokens, new_cache(REFERENCE, batch_size, params.dtype), REFERENCE)[1]


def content(cache: KVCache) -> tuple[int, list[bytes]]:
    arrays = [array for pair in cache.keys_values() for array in pair]
    return cache.length, [array.tobytes() for array in arrays]


def test_a_new_cache_is_empty(dtype: str) -> None:
    cache = new_cache(REFERENCE, batch_size=3, dtype=dtype)
    assert (cache.length, cache.nbytes) == (0, 0)
    shapes = {(array.shape, array.dtype.name) for pair in cache.keys_values() for array in pair}
    assert shapes == {((3, 4, 0, 16), dtype)}


def test_a_cache_holds_a_pair_for_each_layer(params: Params) -> None:
    """The worked example: layer by layer K and V of six tokens, [B, H, 6, D]."""
    cache = prefilled(params, 6, batch_size=2)
    assert cache.length == 6
    assert [(k.shape, v.shape) for k, v in cache.keys_values()] == [((2, 4, 6, 16),) * 2] * 2
    assert {array.dtype for pair in cache.keys_values() for array in pair} == {params.dtype}


def test_a_call_does_not_change_the_cache_that_it_is_given(params: Params) -> None:
    past = prefilled(params, 4)
    before = content(past)
    _, longer = decode(params, example_tokens(6)[:, 4:], past, REFERENCE)
    assert content(past) == before
    assert content(longer) != before, "no control: the call added nothing"
    assert longer.length == 6


def test_branches_go_on_from_one_prefix(params: Params, tolerance: float) -> None:
    """Two endings of one beginning, fed in turns, as a beam search does."""
    beginning, start = prefilled(params, 4), example_tokens(4)[0]
    endings = [(9, 18), (50, 60)]
    firsts = [decode(params, [[first]], beginning, REFERENCE) for first, _ in endings]
    logits = []
    for ending, (first_logits, longer) in zip(endings, firsts, strict=True):
        second_logits, _ = decode(params, [ending[1:]], longer, REFERENCE)
        logits.append(np.concatenate([first_logits, second_logits], axis=1))
        expected = forward(params, [[*start, *ending]], REFERENCE)[:, 4:]
        np.testing.assert_allclose(logits[-1], expected, rtol=0, atol=tolerance)
    assert np.abs(logits[0] - logits[1]).max() > 0.1, "no control: the endings are alike"


def test_one_layers_keys_and_values_cannot_stand_in_for_anothers(
    params: Params, tolerance: float
) -> None:
    past, new = prefilled(params, 4), example_tokens(6)[:, 4:]
    expected = forward(params, example_tokens(6), REFERENCE)[:, 4:]
    keys, values = map(list, zip(*past.keys_values(), strict=True))
    copied = ConcatCache(past.shape, list(keys), list(values), past.length)
    logits, _ = decode(params, new, copied, REFERENCE)
    np.testing.assert_allclose(logits, expected, rtol=0, atol=tolerance)
    tied = ConcatCache(past.shape, [keys[0]] * 2, [values[0]] * 2, past.length)
    logits, _ = decode(params, new, tied, REFERENCE)
    assert np.abs(logits - expected).max() > 0.1
    assert not np.isnan(logits).any()


def test_bytes_of_272_tokens_in_float32() -> None:
    params = init_params(REFERENCE)
    cache = prefilled(params, 272)
    assert cache.nbytes == 278_528
    assert cache.nbytes == sum(array.nbytes for pair in cache.keys_values() for array in pair)


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("n_total", [1, 6, 24])
def test_bytes_follow_the_formula(params: Params, batch_size: int, n_total: int) -> None:
    cache = prefilled(params, n_total, batch_size)
    per_token = 2 * 2 * 4 * 16  # K and V, layers, heads, head dim
    assert cache.nbytes == batch_size * n_total * per_token * params.dtype.itemsize


def pair_of(*shape: int) -> tuple[FloatArray, FloatArray]:
    return np.ones(shape, "float32"), np.ones(shape, "float32")


def test_the_length_moves_once_after_all_layers() -> None:
    """Within a call each layer must see the same history."""
    cache = new_cache(REFERENCE, batch_size=2)
    for layer in range(2):
        keys, values = cache.append(layer, *pair_of(2, 4, 3, 16))
        assert keys.shape == values.shape == (2, 4, 3, 16)
        assert cache.length == 0
    cache.advance(3)
    assert cache.length == 3


def test_the_refusal_says_how_to_make_a_cache_that_fits() -> None:
    with pytest.raises(ValueError, match=r"make it with new_cache\(config, batch_size, params\."):
        decode(init_params(REFERENCE, dtype="float64"), [[12]], new_cache(REFERENCE), REFERENCE)


def test_a_full_cache_takes_no_more() -> None:
    config = DecoderConfig(1, 4, 1, vocab_size=5, mlp_width=4, max_positions=6)
    params = init_params(config)
    _, cache = decode(params, [[0, 1, 2, 3]], new_cache(config), config)
    _, full = decode(params, [[4, 0]], cache, config)
    assert full.length == 6
    with pytest.raises(ValueError, match=r"4 cached \+ 3 new tokens = 7 positions.* has 6"):
        decode(params, [[4, 0, 1]], cache, config)
    with pytest.raises(ValueError, match=r"6 cached \+ 1 new tokens = 7 positions.* has 6"):
        decode(params, [[4]], full, config)


@pytest.mark.parametrize("batch_size", [0, -1])
def test_a_cache_without_rows_is_refused(batch_size: int) -> None:
    with pytest.raises(ValueError, match=f"batch_size must be at least 1, got {batch_size}"):
        new_cache(REFERENCE, batch_size)


@pytest.mark.parametrize("dtype", ["float16", "int64"])
def test_a_cache_of_another_dtype_is_refused(dtype: str) -> None:
    with pytest.raises(ValueError, match=f"must be float32 or float64, got {dtype}"):
        new_cache(REFERENCE, dtype=dtype)
