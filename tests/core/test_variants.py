"""Every variant of the decoder, every way to cut eight tokens, rows of unequal length together."""

from dataclasses import replace

import numpy as np
import pytest
from tests.core.recompute import (
    largest_error,
    random_tokens,
    reads_int8,
    rows_alone,
    splits,
    tiny_params,
)

from kvproof import (
    MODERN,
    REFERENCE,
    DecoderConfig,
    KVCache,
    Params,
    decode,
    example_tokens,
    forward,
    init_params,
    new_cache,
    offset_mask,
)
from kvproof.model.config import Positions
from kvproof.model.layers import Tokens
from kvproof.model.masks import BoolArray
from kvproof.model.params import FloatArray

N_TOTAL = 8
PADDING = np.array([0, 2, 5])
TOLERANCE = {"float32": 5e-6, "float64": 1e-13}

POSITIONS: tuple[Positions, ...] = ("learned", "rope", "alibi", "none")
HEADS = {"MHA": 4, "GQA": 2, "MQA": 1}
REACH = {"all": (None, 0), "window": (3, 0), "sinks": (3, 2)}


def variant(positions: Positions, heads: str, reach: str) -> DecoderConfig:
    """Four heads; the parts of Llama with RoPE, those of GPT-2 with the other positions."""
    window, n_sinks = REACH[reach]
    modern = positions == "rope"
    return DecoderConfig(
        width=16,
        n_heads=4,
        n_kv_heads=HEADS[heads],
        vocab_size=11,
        mlp_width=8,
        max_positions=N_TOTAL,
        positions=positions,
        norm="rmsnorm" if modern else "layernorm",
        mlp="swiglu" if modern else "gelu",
        window=window,
        n_sinks=n_sinks,
    )


def errors_of_all_splits(
    params: Params,
    tokens: Tokens,
    cache: KVCache,
    config: DecoderConfig,
    expected: list[FloatArray],
) -> list[float]:
    """The largest error of each way to feed the rest of a text; a common beginning is fed once."""
    n_past, n_total = cache.length, tokens.shape[1]
    if n_past == n_total:
        return [0.0]
    errors = []
    for end in range(n_past + 1, n_total + 1):
        lengths = np.clip(end - PADDING, 0, end - n_past)
        chunk = tokens[:, n_past:end]
        logits, longer = decode(params, chunk, cache.fork(), config, lengths=lengths)
        wanted = [row[: max(0, end - start)] for row, start in zip(expected, PADDING, strict=True)]
        error = largest_error(logits, wanted)
        rest = errors_of_all_splits(params, tokens, longer, config, expected)
        errors += [max(error, later) for later in rest]
    return errors


def check_all_splits(config: DecoderConfig, storage: str, dtype: str) -> None:
    params = tiny_params(config, 0, dtype)
    tokens = random_tokens(config, len(PADDING), N_TOTAL, seed=0)
    with reads_int8(storage == "int8"):
        expected = rows_alone(params, tokens, config, PADDING)
    capacity = N_TOTAL**2 if storage == "paged" else None  # a fork in each of the nested calls
    cache = new_cache(config, len(PADDING), dtype, storage, capacity, block_size=3)
    errors = errors_of_all_splits(params, tokens, cache, config, expected)
    assert len(errors) == len(splits(N_TOTAL)) == 128
    assert max(errors) <= TOLERANCE[dtype]


@pytest.mark.parametrize("reach", REACH)
@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("positions", POSITIONS)
def test_all_ways_to_cut_eight_tokens_give_each_rows_own_logits(
    positions: Positions, heads: str, reach: str
) -> None:
    config = variant(positions, heads, reach)
    check_all_splits(config, "concat", "float64")
    if config.window is not None:
        check_all_splits(config, "rolling", "float64")


@pytest.mark.parametrize(
    ("storage", "dtype"),
    # In float32 two right ways may round a key to neighbouring levels of int8: test_quantized.py.
    [("concat", "float32"), ("static", "float32"), ("paged", "float64"), ("int8", "float64")],
)
@pytest.mark.parametrize("reach", REACH)
def test_all_ways_to_cut_eight_tokens_in_every_storage(
    reach: str, storage: str, dtype: str
) -> None:
    check_all_splits(variant("rope", "GQA", reach), storage, dtype)


@pytest.mark.parametrize("reach", REACH)
@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("positions", POSITIONS)
def test_each_choice_of_a_variant_moves_the_logits(
    positions: Positions, heads: str, reach: str
) -> None:
    """Control: a variant that changed nothing would be proved by anything."""
    config = variant(positions, heads, reach)
    params = tiny_params(config, 0, "float64")
    tokens = random_tokens(config, 1, N_TOTAL, seed=0)
    logits = forward(params, tokens, config)
    others = [replace(config, window=None, n_sinks=0), replace(config, window=2, n_sinks=0)]
    others += [replace(config, positions=other) for other in POSITIONS if other != positions]
    for other in others:
        if (other.positions == "learned") == (positions == "learned") and other != config:
            assert np.abs(forward(params, tokens, other) - logits).max() > 0.01, other


# Padding: rows of 2, 6 and 4 real tokens in one batch of six slots.

LENGTHS = np.array([2, 6, 4])
CONFIGS = {
    "reference": REFERENCE,
    "modern": MODERN,
    "alibi": replace(REFERENCE, positions="alibi"),
    "no positions": replace(REFERENCE, positions="none"),
}


def test_what_stands_in_the_padding_does_not_matter(params: Params) -> None:
    tokens = example_tokens(6, batch_size=3)
    logits = forward(params, tokens, REFERENCE, LENGTHS)
    pads = np.arange(6) < 6 - LENGTHS[:, None]
    changed = forward(params, np.where(pads, 42, tokens), REFERENCE, LENGTHS)
    np.testing.assert_array_equal(changed[~pads], logits[~pads])
    assert np.abs(changed[pads] - logits[pads]).max() > 0.1, "no control: the pads are the same"


def test_padding_that_is_read_as_tokens_is_found(params: Params) -> None:
    """Control: the same call without ``lengths``."""
    tokens = example_tokens(6, batch_size=3)
    alone = rows_alone(params, tokens, REFERENCE, 6 - LENGTHS)
    logits = forward(params, tokens, REFERENCE)
    errors = [largest_error(logits[[row]], [alone[row]]) for row in range(3)]
    assert errors[1] <= 2e-6, "the row without padding"
    assert min(errors[0], errors[2]) > 0.1


@pytest.mark.parametrize("name", CONFIGS)
def test_positions_that_padding_has_shifted_are_found_where_they_are_absolute(name: str) -> None:
    """Control: padding hidden as it should be, but one vector of positions for all rows.

    RoPE and ALiBi know distances only and don't mind; a learned embedding is another one.
    """
    config = CONFIGS[name]
    params, tokens = init_params(config, 0, "float64"), example_tokens(6, batch_size=3)
    alone = rows_alone(params, tokens, config, 6 - LENGTHS)
    for row, n_pads in enumerate(6 - LENGTHS):

        def hides_padding(n_past: int, n_new: int, n_pads: int = n_pads) -> BoolArray:
            i, j = np.indices((n_new, n_past + n_new))
            return np.where(i < n_pads, i == j, offset_mask(n_past, n_new) & (j >= n_pads))

        cache = new_cache(config, 1, "float64")
        logits, _ = decode(params, tokens[[row]], cache, config, mask=hides_padding)
        error = largest_error(logits, [alone[row]])
        if name == "reference" and n_pads:
            assert error > 0.1
        else:
            assert error <= 1e-13


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
