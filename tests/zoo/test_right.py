"""The right decoders and the controls, held against a recompute of each row's own tokens."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kvproof.model.cache import StaleCacheError
from kvproof.model.decoder import forward
from kvproof.zoo import CONTROLS, RIGHT, RightDecoder
from kvproof.zoo.right import LEARNED, ROPE
from kvproof.zoo.scenarios import CHUNKINGS, feed

EXACT = {name: make for name, make in RIGHT.items() if not name.endswith("int8")}
EXACT |= {name: control.make for name, control in CONTROLS.items() if name != "right-int8"}
ROUNDING = 1e-12


@pytest.mark.parametrize("name", EXACT)
def test_right_decoders_do_in_every_chunking(name: str) -> None:
    decoder = EXACT[name](seed=2)
    text = np.random.default_rng(3).integers(23, size=(2, 18))
    expected = forward(decoder.params, text, decoder.config)
    np.testing.assert_allclose(decoder.full(text), expected, rtol=0, atol=ROUNDING)
    for _ in range(2):  # the second time some know the prompt
        for sizes in CHUNKINGS.values():
            logits, _ = feed(decoder, text, sizes)
            np.testing.assert_allclose(np.concatenate(logits, 1), expected, rtol=0, atol=ROUNDING)


def test_int8_is_inexact_as_it_says_and_doesnt_depend_on_the_chunks() -> None:
    decoder = CONTROLS["right-int8"].make(seed=0)
    assert decoder.quantized
    text = np.random.default_rng(3).integers(23, size=(2, 18))
    whole = decoder.step(text)[0]
    for sizes in CHUNKINGS.values():
        logits = np.concatenate(feed(decoder, text, sizes)[0], axis=1)
        np.testing.assert_allclose(logits, whole, rtol=0, atol=ROUNDING)
    error = np.abs(whole - decoder.full(text)).max()
    assert 1e-4 < error < 0.2


def test_a_control_that_shifts_positions_has_other_keys_and_the_same_logits() -> None:
    shifted, plain = CONTROLS["shifted-rope"].make(0), RightDecoder(0, replace(ROPE))
    text = np.random.default_rng(3).integers(23, size=(1, 6))
    keys = [d.keys_values(d.step(text)[1])[0][0] for d in (shifted, plain)]
    assert np.abs(keys[0] - keys[1]).max() > 0.1


@pytest.mark.parametrize("storage", ["concat", "static", "paged"])
def test_keys_and_values_are_those_of_concat_in_order(storage: Any) -> None:
    text = np.random.default_rng(3).integers(23, size=(2, 9))
    pairs = []
    for decoder in (RightDecoder(0), RightDecoder(0, storage=storage)):
        cache = feed(decoder, text, (5, 1, 3))[1]
        pairs.append(decoder.keys_values(cache))
    for (k, v), (wanted_k, wanted_v) in zip(*pairs[::-1], strict=True):
        assert k.shape == (2, 2, 9, 8)
        np.testing.assert_allclose(k, wanted_k, rtol=0, atol=ROUNDING)
        np.testing.assert_allclose(v, wanted_v, rtol=0, atol=ROUNDING)


def test_a_ring_gives_what_it_holds_newest_last() -> None:
    text = np.random.default_rng(3).integers(23, size=(1, 9))
    windowed = replace(LEARNED, window=4)
    ring, all_kept = RightDecoder(0, windowed, "rolling"), RightDecoder(0, windowed)
    for n_tokens in (2, 9):
        kept = ring.keys_values(feed(ring, text[:, :n_tokens], (n_tokens,))[1])
        all_pairs = all_kept.keys_values(feed(all_kept, text[:, :n_tokens], (n_tokens,))[1])
        for (k, v), (all_k, all_v) in zip(kept, all_pairs, strict=True):
            assert k.shape[2] == min(n_tokens, 4)
            np.testing.assert_allclose(k, all_k[:, :, -4:], rtol=0, atol=ROUNDING)
            np.testing.assert_allclose(v, all_v[:, :, -4:], rtol=0, atol=ROUNDING)


def test_a_ring_cuts_back_only_what_it_still_has() -> None:
    decoder = RightDecoder(0, replace(LEARNED, window=4), "rolling")
    cache = decoder.step(np.arange(9)[None])[1]
    with pytest.raises(NotImplementedError, match="overwritten"):
        decoder.crop(cache, 6)
    assert decoder.length(decoder.crop(cache, 0)) == 0


@pytest.mark.parametrize("storage", ["concat", "static", "paged", "int8"])
def test_small_print(storage: Any) -> None:
    decoder = RightDecoder(0, storage=storage)
    text = np.arange(6)[None]
    cache = decoder.step(text)[1]
    with pytest.raises(ValueError, match="has 6"):
        decoder.crop(cache, 7)
    with pytest.raises(ValueError, match="first chunk"):
        decoder.step(text, cache, lengths=[6])
    fork = decoder.fork(cache)
    decoder.step(text, cache)
    if decoder.keeps_old:
        decoder.step(text, cache)
    else:
        with pytest.raises(StaleCacheError):
            decoder.step(text, cache)
    assert decoder.length(decoder.crop(fork, 0)) == 0
    assert decoder.keeps_old == (storage in ("concat", "int8"))


def test_declared_sizes() -> None:
    windowed = replace(LEARNED, window=4, n_sinks=2)
    paged, ring = RightDecoder(0, storage="paged"), RightDecoder(0, windowed, "rolling")
    assert (paged.block_size, paged.capacity, paged.window) == (4, None, None)
    assert (ring.block_size, ring.capacity, ring.window) == (None, 6, 4)
    assert RightDecoder(0, storage="static").capacity == 48
    assert (ring.vocab_size, ring.max_length) == (23, 48)
    text = np.zeros((1, 49), int)
    with pytest.raises(ValueError, match="48"):
        paged.full(text)


def test_a_decoder_of_vectors_is_refused() -> None:
    with pytest.raises(ValueError, match="vocab_size"):
        RightDecoder(0, replace(LEARNED, vocab_size=None))


def test_a_hook_is_its_own_decoders_and_never_the_cores() -> None:
    class NoEmbedding(RightDecoder):
        def embed(self, *_: Any) -> None:
            raise AssertionError("called")

    broken, right = NoEmbedding(0), RightDecoder(0)
    before = right.full([[1]])
    with pytest.raises(AssertionError, match="called"):
        broken.step([[1]])
    assert np.array_equal(broken.full([[1]]), before), "full isn't changed unless a class says so"
    assert np.array_equal(right.step([[1]])[0], before)
