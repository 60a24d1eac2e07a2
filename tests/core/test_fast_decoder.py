"""The tuned decoder is the plain one: same logits, same caches, same refusals."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import ArrayLike
from tests.core import test_properties as properties
from tests.core.recompute import random_tokens, tiny_params

from kvproof import (
    LAB,
    MODERN,
    REFERENCE,
    DecoderConfig,
    KVCache,
    Params,
    StaleCacheError,
    decode,
    example_tokens,
    forward,
    init_params,
    new_cache,
    params_from_arrays,
    params_to_arrays,
)
from kvproof.model.cache import STORAGES
from kvproof.model.fast_decoder import FastDecoder
from kvproof.model.params import FloatArray

TOLERANCE = {"float32": 5e-6, "float64": 1e-14}
"""Folding sums in another order: up to ten roundings of logits around 3."""

CONFIGS = {
    "reference": REFERENCE,
    "modern": MODERN,
    "lab": LAB,
    "alibi": DecoderConfig(positions="alibi", n_kv_heads=1),
    "window": DecoderConfig(positions="none", window=3, n_sinks=1, mlp="swiglu"),
}


@cache
def fast_decoder(config: DecoderConfig, dtype: str) -> FastDecoder:
    return FastDecoder(tiny_params(config, 0, dtype), config)


@pytest.fixture(params=CONFIGS)
def config(request: pytest.FixtureRequest) -> DecoderConfig:
    return CONFIGS[request.param]


def feed(
    decoder: FastDecoder, tokens: ArrayLike, chunks: list[int], storage: str = "static"
) -> tuple[FloatArray, KVCache]:
    """All logits and the final cache of a text fed in calls of these lengths."""
    tokens = np.asarray(tokens)
    kv_cache = new_cache(decoder.config, len(tokens), decoder.dtype, storage)
    logits = []
    for chunk in np.split(tokens, np.cumsum(chunks)[:-1], axis=1):
        new_logits, kv_cache = decoder.decode(chunk, kv_cache)
        logits.append(new_logits)
    return np.concatenate(logits, axis=1), kv_cache


def contents(kv_cache: KVCache) -> list[FloatArray]:
    return [array.copy() for pair in kv_cache.keys_values() for array in pair]


@pytest.mark.parametrize("name", ["reference", "modern"])
def test_all_512_positions_step_by_step(name: str, dtype: str) -> None:
    config, tokens = CONFIGS[name], example_tokens(512)
    expected = forward(tiny_params(config, 0, dtype), tokens, config)
    logits, _ = feed(fast_decoder(config, dtype), tokens, [1] * 512)
    np.testing.assert_allclose(logits, expected, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("storage", STORAGES)
def test_any_history_of_calls_gives_what_a_full_recompute_gives(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The storages' own property, with the tuned decoder in the place of the plain one."""

    def tuned(
        params: Params, tokens: ArrayLike, kv_cache: KVCache, config: DecoderConfig, **rest: Any
    ) -> tuple[FloatArray, KVCache]:
        drawn.add(config)
        return made(params, config).decode(tokens, kv_cache, **rest)

    drawn: set[DecoderConfig] = set()
    made = cache(FastDecoder)
    monkeypatch.setattr(properties, "decode", tuned)

    @given(setting=properties.settings_of(storage), history=properties.HISTORIES)
    @settings(derandomize=True, deadline=None, max_examples=100)
    def holds(setting: properties.Setting, history: list[tuple[Any, ...]]) -> None:
        run = properties.Run(setting)
        for operation in (("feed", 0, 3, (0, 1, 3)), *history, ("feed", 0, 1, (0, 0, 0))):
            run.carry_out(operation)

    holds()
    assert len(drawn) > 20, "no control: hardly any decoder was tried"


def test_plain_and_tuned_calls_may_take_turns_on_one_cache(
    config: DecoderConfig, dtype: str
) -> None:
    """So what is stored is the same, too: keys already turned, nothing scaled."""
    params, tokens = tiny_params(config, 0, dtype), random_tokens(config, 2, 9, seed=6)
    _, plain = decode(params, tokens, new_cache(config, 2, dtype), config)
    kv_cache, logits = new_cache(config, 2, dtype, "static"), []
    for start, end in ((0, 4), (4, 5), (5, 6), (6, 9)):
        new = tokens[:, start:end]
        if start % 5 == 0:
            new_logits, kv_cache = fast_decoder(config, dtype).decode(new, kv_cache)
        else:
            new_logits, kv_cache = decode(params, new, kv_cache, config)
        logits.append(new_logits)
    np.testing.assert_allclose(
        np.concatenate(logits, axis=1),
        forward(params, tokens, config),
        rtol=0,
        atol=TOLERANCE[dtype],
    )
    for actual, wanted in zip(contents(kv_cache), contents(plain), strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=0, atol=TOLERANCE[dtype])


def test_without_its_mask_a_chunk_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a single new token needs no mask, two do."""
    tokens = example_tokens(6)
    expected = forward(tiny_params(REFERENCE, 0, "float64"), tokens, REFERENCE)
    monkeypatch.setattr(FastDecoder, "_penalty", lambda *_: None)
    decoder = fast_decoder(REFERENCE, "float64")
    single, _ = feed(decoder, tokens, [1] * 6)
    np.testing.assert_allclose(single, expected, rtol=0, atol=1e-14)
    pair, _ = feed(decoder, tokens, [1, 1, 1, 1, 2])
    assert np.abs(pair - expected)[:, 4].max() > 0.05


@pytest.mark.parametrize(("factor", "bounded"), [(1, True), (1.25, True), (6, False), (60, False)])
def test_large_scores_are_safe(factor: float, bounded: bool, config: DecoderConfig) -> None:
    """Queries and keys ``factor`` times as large; float32 overflows from a score of 88 on."""
    arrays = params_to_arrays(tiny_params(config, 0, "float64"))
    n_turned = (config.n_heads + config.n_kv_heads) * config.head_dim
    for name, array in arrays.items():
        if name.endswith("qkv"):
            arrays[name] = array.copy()
            arrays[name][..., :n_turned] *= factor
    params = params_from_arrays(arrays, config)
    single = params_from_arrays({n: a.astype(np.float32) for n, a in arrays.items()}, config)
    decoder, tokens = FastDecoder(single, config), random_tokens(config, 2, 9, seed=9)
    if config is REFERENCE:
        assert [block.bounded for block in decoder._blocks] == [bounded] * 2
    logits, _ = feed(decoder, tokens, [4, 1, 3, 1])
    expected = forward(params, tokens, config)
    # The scores' own rounding grows with them: by factor**2.
    np.testing.assert_allclose(logits, expected, rtol=0, atol=5e-6 * factor**2)


REFUSED: dict[str, dict[str, Any]] = {
    "unknown ID": {"tokens": [[97]]},
    "negative ID": {"tokens": [[-1]]},
    "no tokens": {"tokens": np.zeros((1, 0), int)},
    "one axis": {"tokens": [1]},
    "fractions": {"tokens": [[0.5]]},
    "two rows": {"tokens": [[1], [2]]},
    "beyond the last position": {"tokens": np.zeros((1, 509), int)},
    "beyond the capacity": {"tokens": np.zeros((1, 16), int)},
    "padding after a token": {"tokens": [[1, 2]], "lengths": [1]},
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_refusals_are_the_plain_decoders(call: dict[str, Any]) -> None:
    decoder, params = fast_decoder(REFERENCE, "float64"), tiny_params(REFERENCE, 0, "float64")
    past = decode(
        params,
        example_tokens(4),
        new_cache(REFERENCE, 1, "float64", "static", capacity=12),
        REFERENCE,
    )[1]
    before = contents(past)
    with pytest.raises(ValueError, match=r"\d|shape|integers") as plain:
        decode(params, cache=past, config=REFERENCE, **call)
    with pytest.raises(ValueError, match=r"\d|shape|integers") as tuned:
        decoder.decode(cache=past, **call)
    assert str(tuned.value) == str(plain.value)
    assert past.length == 4
    for actual, wanted in zip(contents(past), before, strict=True):
        np.testing.assert_array_equal(actual, wanted)
    decoder.decode([[9]], past)  # a refused call hasn't used the handle up


def test_the_last_position_is_open_and_the_next_is_not() -> None:
    """The short way for a single token has its own check."""
    config = DecoderConfig(max_positions=5)
    decoder = FastDecoder(init_params(config), config)
    _, kv_cache = feed(decoder, example_tokens(5), [4, 1], "concat")
    with pytest.raises(ValueError, match="5 cached \\+ 1 new tokens = 6 positions"):
        decoder.decode([[1]], kv_cache)


def test_foreign_caches_and_parameters_are_refused() -> None:
    decoder = fast_decoder(REFERENCE, "float64")
    decoder.decode([[1]], new_cache(REFERENCE, 1, "float64"))  # one that fits, seen before
    with pytest.raises(ValueError, match="float32"):
        decoder.decode([[1]], new_cache(REFERENCE))
    with pytest.raises(ValueError, match="with window 8; this one has window None"):
        decoder.decode([[1]], new_cache(DecoderConfig(window=8), 1, "float64"))
    with pytest.raises(ValueError, match="the configuration says"):
        FastDecoder(tiny_params(REFERENCE, 0, "float64"), MODERN)


def test_a_handle_that_was_used_up_is_refused() -> None:
    decoder = fast_decoder(REFERENCE, "float64")
    _, past = feed(decoder, example_tokens(4), [4])
    kept = past.fork()
    first, _ = decoder.decode([[9]], past)
    with pytest.raises(StaleCacheError, match="fork"):
        decoder.decode([[9]], past)
    again, _ = decoder.decode([[9]], kept)
    np.testing.assert_array_equal(again, first)


@pytest.mark.parametrize("storage", STORAGES)
def test_work_buffers_never_show(storage: str, dtype: str) -> None:
    """A later call of the same size changes neither logits nor caches that were given out."""
    config = DecoderConfig(window=8) if storage == "rolling" else REFERENCE
    decoder = fast_decoder(config, dtype)
    for n_new in (1, 3):
        start = new_cache(config, 1, dtype, storage)
        logits, kv_cache = decoder.decode(example_tokens(n_new), start)
        kept, before = logits.copy(), contents(kv_cache)
        decoder.decode(example_tokens(9)[:, 9 - n_new :], new_cache(config, 1, dtype, storage))
        np.testing.assert_array_equal(logits, kept)
        for actual, wanted in zip(contents(kv_cache), before, strict=True):
            np.testing.assert_array_equal(actual, wanted)


def test_parameters_are_only_read(config: DecoderConfig, dtype: str) -> None:
    params = init_params(config, 0, dtype)
    for array in params_to_arrays(params).values():
        array.setflags(write=False)
    decoder = FastDecoder(params, config)
    logits, _ = feed(decoder, random_tokens(config, 1, 3, seed=1), [2, 1])
    assert np.isfinite(logits).all()
    owned = [array for block in decoder._blocks for array in vars(block).values()]
    for array in params_to_arrays(params).values():
        assert not any(np.shares_memory(array, own) for own in owned if own is not None)
