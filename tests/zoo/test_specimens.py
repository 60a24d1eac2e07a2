"""Every specimen is broken where it says so, and nowhere else."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvproof import zoo
from kvproof.kinds import Kind
from kvproof.model.decoder import forward
from kvproof.zoo import (
    KINDS,
    SPECIMENS,
    RightDecoder,
    Specimen,
    all_variations,
    specimen,
    variations,
)
from kvproof.zoo.blind import outcome
from kvproof.zoo.scenarios import CHUNKINGS, SCENARIOS, feed
from kvproof.zoo.specimen import broken

PACKAGE = Path(zoo.__file__).parents[1]
SEEDS = range(5)
ROUNDING = 1e-12
WRONG_FULL = {"rope-len-switch", "rope-len-dynamic", "mask-topleft-reference", "head-map-both"}


def noise(seed: int) -> float:
    """How far a right decoder of this size is from a recompute, at most, in float64."""
    decoder = RightDecoder(seed)
    text = np.random.default_rng(seed).integers(23, size=(1, 18))
    expected = decoder.full(text)
    runs = [np.concatenate(feed(decoder, text, s)[0], 1) for s in CHUNKINGS.values()]
    return max(float(np.abs(run - expected).max()) for run in runs)


NOISE = max(noise(seed) for seed in SEEDS)


def test_noise_is_rounding() -> None:
    assert 0 < NOISE < ROUNDING


@pytest.mark.parametrize("one", SPECIMENS.values(), ids=SPECIMENS)
def test_wrong_in_its_trigger(one: Specimen) -> None:
    errors = [outcome(one, one.trigger, seed).error for seed in SEEDS]
    assert min(errors) > 1000 * NOISE
    assert np.median(errors) > 0.05  # not only beyond rounding


@pytest.mark.parametrize("one", SPECIMENS.values(), ids=SPECIMENS)
def test_right_where_it_is_harmless(one: Specimen) -> None:
    for name in one.harmless:
        assert outcome(one, name, seed=1).error < ROUNDING, name


@pytest.mark.slow
@pytest.mark.parametrize("one", SPECIMENS.values(), ids=SPECIMENS)
def test_in_other_decoders_too(one: Specimen) -> None:
    for name, varied in variations(one).items():
        assert outcome(varied, varied.trigger, 0).error > 1000 * NOISE, name
        for scenario in varied.harmless:
            assert outcome(varied, scenario, 0).error < ROUNDING, (name, scenario)


def test_variations_are_other_decoders_under_their_own_names() -> None:
    varied = all_variations()
    assert len(varied) > 300
    assert not varied.keys() & SPECIMENS.keys()
    assert all(one.name == name for name, one in varied.items())
    assert {one.kind for one in varied.values()} == set(KINDS)
    modern, rope = varied["mask-topleft+modern"], varied["mask-topleft+rope"]
    assert modern.make(0).config.norm == modern.right(0).config.norm == "rmsnorm"
    assert rope.make(0).config.positions == rope.right(0).config.positions == "rope"
    assert "pos-reset-learned+rope" not in varied


@pytest.mark.parametrize("one", SPECIMENS.values(), ids=SPECIMENS)
def test_what_it_should_have_been_is_right(one: Specimen) -> None:
    decoder = one.right(2)
    text = np.random.default_rng(2).integers(23, size=(1, 18))
    full = decoder.full(text)
    ends = range(1, 19)
    if one.kind == "ROPE-LEN":
        full = np.concatenate([decoder.full(text[:, :end])[:, -1:] for end in ends], axis=1)
    whole = decoder.step(text)[0] if decoder.quantized else full
    for sizes in CHUNKINGS.values():
        logits = np.concatenate(feed(decoder, text, sizes)[0], axis=1)
        np.testing.assert_allclose(logits, whole, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(whole, full, rtol=0, atol=0.3 if decoder.quantized else ROUNDING)


@pytest.mark.parametrize("one", SPECIMENS.values(), ids=SPECIMENS)
def test_full_is_right_except_where_that_is_the_bug(one: Specimen) -> None:
    decoder = one.make(0)
    text = np.random.default_rng(0).integers(23, size=(2, 18))
    expected = forward(decoder.params, text, decoder.config)
    error = np.abs(decoder.full(text) - expected).max()
    assert (error > 0.05) == (one.name in WRONG_FULL)
    assert error < ROUNDING or one.gold


@pytest.mark.parametrize("one", SPECIMENS.values(), ids=SPECIMENS)
def test_reset_and_a_new_object_are_the_same(one: Specimen) -> None:
    used = one.make(0)
    for name in (one.trigger, "ragged"):
        SCENARIOS[name].run(used, 0, SCENARIOS[name].n_rows)
    used.reset()
    text = np.random.default_rng(0).integers(23, size=(1, 18))
    for a, b in zip(*(feed(d, text, (6, 1, 4, 7))[0] for d in (used, one.make(0))), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("one", SPECIMENS.values(), ids=SPECIMENS)
def test_its_longest_text_is_taken_and_a_longer_one_refused(one: Specimen) -> None:
    decoder = one.make(0)
    text = np.random.default_rng(0).integers(23, size=(3, decoder.max_length))
    for sizes in ((1,) * 48, (48,)):
        assert np.concatenate(feed(decoder, text, sizes)[0], axis=1).shape == (3, 48, 23)
    decoder.full(text)
    if decoder.longest is None:
        with pytest.raises(ValueError, match="48"):
            decoder.step(text[:, :1], feed(decoder, text, (48,))[1])


def test_all_kinds_are_there() -> None:
    assert {one.kind for one in SPECIMENS.values()} == set(KINDS)
    kinds = [KINDS.index(one.kind) for one in SPECIMENS.values()]
    assert kinds == sorted(kinds)


@pytest.mark.parametrize("one", SPECIMENS.values(), ids=SPECIMENS)
def test_labels(one: Specimen) -> None:
    assert one.name.startswith(one.kind.lower())
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", report) for report in one.report.split(", "))
    assert one.story.endswith(".")
    assert len(one.story) > 60
    assert one.smallest
    assert one.trigger in SCENARIOS
    assert set(one.harmless) <= set(SCENARIOS)
    assert one.trigger not in one.harmless


def test_a_specimen_describes_itself() -> None:
    lines = str(SPECIMENS["head-map-both"]).splitlines()
    assert lines[0] == "head-map-both (HEAD-MAP)"
    assert lines[1].startswith("The operator tiles the kv heads")
    assert lines[3].startswith("Not told by full and step: full() and step() share")
    assert lines[-1] == "https://github.com/onnx/onnx/issues/7274"
    assert len(SPECIMENS["mask-topleft"].links) == 2


def test_unknown_names_are_refused_with_a_hint() -> None:
    assert specimen("mask-topleft").kind == "MASK-TOPLEFT"
    with pytest.raises(ValueError, match="did you mean mask-topleft, mask-topleft-chunks"):
        specimen("MASK-TOP")
    with pytest.raises(ValueError, match="names begin with a kind: pos-reset"):
        specimen("bug")


def test_a_name_is_given_once_and_a_kind_must_be_known() -> None:
    unknown: Any = "MASK-TOP"
    for name, kind in (("mask-topleft", Kind.MASK_TOPLEFT), ("new", unknown)):
        with pytest.raises(ValueError, match=r"is taken|is no kind of the taxonomy: POS-RESET"):
            broken(name, kind, "a/b#1", "any", "ones")
    assert "new" not in SPECIMENS


def test_small_weights_hide_wrong_positions_first() -> None:
    def error(name: str, contrast: float) -> float:
        text = np.random.default_rng(0).integers(23, size=(1, 18))
        decoder = SPECIMENS[name].make(0, contrast=contrast)
        logits = np.concatenate(feed(decoder, text, CHUNKINGS["prefill, then ones"])[0], axis=1)
        return float(np.abs(logits - decoder.full(text)).max())

    position, mask = (error(n, 0.3) / error(n, 3.0) for n in ("pos-reset-rope", "mask-topleft"))
    assert position < 0.02
    assert mask > 5 * position
