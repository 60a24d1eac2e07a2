"""``prove`` passes a right decoder and fails a wrong one, and each of its claims can fail."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kvproof import (
    LAB,
    MODERN,
    REFERENCE,
    ConcatCache,
    DecoderConfig,
    KVCache,
    Proof,
    decode,
    new_cache,
    offset_mask,
    open_mask,
    prove,
    restarted_positions,
    top_left_mask,
)
from kvproof.experiments.proof import (
    CAUSALITY,
    CONTROLS,
    EQUIVALENCE,
    FIRST_PREFILL,
    GROUPS,
    KEYS_VALUES,
    LIFETIME,
    OPERATIONS,
    PADDING,
    PATHS,
    Claim,
    difference,
)
from kvproof.model.cache import CacheShape, PagedCache, Room, StaticCache
from kvproof.model.cache.paged import BlockPool
from kvproof.model.masks import BoolArray
from kvproof.model.params import FloatArray

VARIANTS = {
    "reference": REFERENCE,
    "lab": LAB,
    "modern": MODERN,
    "alibi": replace(REFERENCE, positions="alibi"),
    "no positions": replace(REFERENCE, positions="none"),
    "one kv head": replace(MODERN, n_kv_heads=1),
    "window": replace(MODERN, window=4),
    "window and sinks": replace(REFERENCE, window=4, n_sinks=2),
}


@pytest.fixture(scope="module")
def reference_proof() -> Proof:
    return prove()


@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
def test_a_right_decoder_is_proved(config: DecoderConfig) -> None:
    proof = prove(config)
    assert proof.passed, proof
    assert {claim.group for claim in proof.claims} == set(GROUPS)


@pytest.mark.parametrize(
    ("storage", "config"),
    [("static", REFERENCE), ("paged", MODERN), ("rolling", VARIANTS["window and sinks"])],
)
def test_every_exact_storage_is_proved(storage: Any, config: DecoderConfig) -> None:
    proof = prove(config, storage=storage)
    assert proof.passed, proof


def test_the_twelve_combinations_and_their_bounds(reference_proof: Proof) -> None:
    rows = [claim for claim in reference_proof.claims if claim.group == EQUIVALENCE]
    assert len(rows) == len({(row.dtype, row.name) for row in rows}) == 12
    for row in rows:
        assert row.error <= row.bound <= {"float32": 1e-4, "float64": 1e-12}[row.dtype]
    assert max(row.error for row in rows) > 0, "nothing was computed in another order"


def test_the_known_mistakes_are_off_by_more_than_a_tenth(reference_proof: Proof) -> None:
    """On three seeds: positions that restart and the mask without offset, 4 + 2 and 5 + 3."""
    for proof, names in (
        (reference_proof, ("mask without offset", "positions restart")),
        (prove(LAB), ("mask without offset", "positions restart")),
    ):
        rows = [c for c in proof.claims if c.group == CONTROLS and c.name.endswith(names)]
        assert len(rows) == 3 * 2 * len(names)
        assert all(row.error > 0.1 for row in rows)


# What must fail. Each sabotage is put in the place of decode, and its groups must turn red.

Decode = Callable[..., tuple[FloatArray, KVCache]]


def with_arguments(**wrong: Any) -> Decode:
    def sabotaged(*args: Any, **kwargs: Any) -> tuple[FloatArray, KVCache]:
        params, tokens, cache, config = args[:4]
        lengths = args[5] if len(args) > 5 else kwargs.get("lengths")
        return decode(params, tokens, cache, config, lengths=lengths, **wrong)

    return sabotaged


def deaf_to_lengths(*args: Any, **kwargs: Any) -> tuple[FloatArray, KVCache]:
    names = ("mask", "lengths", "positions")
    how = dict(zip(names, args[4:], strict=False)) | kwargs | {"lengths": None}
    return decode(*args[:4], **how)


def writing_into_its_past(*args: Any, **kwargs: Any) -> tuple[FloatArray, KVCache]:
    cache = args[2]
    logits, longer = decode(*args, **kwargs)
    if cache.length:
        cache.keys_values()[0][0][...] += 0.5
    return logits, longer


def with_shuffled_keys(*args: Any, **kwargs: Any) -> tuple[FloatArray, KVCache]:
    logits, longer = decode(*args, **kwargs)
    if args[2].length:
        longer.keys_values()[1][0][...] *= -1  # too late for these logits
    return logits, longer


def seeing_the_next_of_a_chunk(n_past: int, n_new: int) -> BoolArray:
    ahead = np.tri(n_new, n_past + n_new, k=n_past + 1, dtype=np.bool_)
    return ahead if n_past else offset_mask(n_past, n_new)


SABOTAGES: dict[str, tuple[Decode, set[str]]] = {
    "top-left mask": (
        with_arguments(mask=top_left_mask),
        {EQUIVALENCE, KEYS_VALUES, FIRST_PREFILL, PATHS, PADDING, OPERATIONS},
    ),
    "positions restart": (
        with_arguments(positions=restarted_positions),
        {EQUIVALENCE, KEYS_VALUES, FIRST_PREFILL, PATHS, PADDING, OPERATIONS},
    ),
    "no mask": (with_arguments(mask=open_mask), {EQUIVALENCE, PATHS, CAUSALITY, PADDING}),
    "a glimpse of the future": (
        with_arguments(mask=seeing_the_next_of_a_chunk),
        {EQUIVALENCE, PATHS, CAUSALITY},
    ),
    "padding unheard": (deaf_to_lengths, {PADDING}),
    "writes into its past": (writing_into_its_past, {LIFETIME}),
    "layer 2 goes astray": (with_shuffled_keys, {KEYS_VALUES, EQUIVALENCE}),
}


@pytest.mark.parametrize(("sabotaged", "red"), SABOTAGES.values(), ids=SABOTAGES)
def test_a_wrong_decoder_is_not_proved(
    sabotaged: Decode, red: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvproof.experiments.proof.decode", sabotaged)
    monkeypatch.setattr("kvproof.model.feeding.decode", sabotaged)
    with np.errstate(invalid="ignore"):  # a padded row may be left without a key
        proof = prove()
    assert not proof.passed
    assert red <= {claim.group for claim in proof.failures}


class AppendsInPlace(ConcatCache):
    """``decode`` adds to the very cache that it is given."""

    def begin(self, n_new: int, padding: Any = None) -> Any:
        self.padding = self.padding if padding is None else padding
        return self


class SharesItsLastBlock(PagedCache):
    """No copy on write: two branches write into one block."""

    def _rows_to_copy(self) -> Any:
        return super()._rows_to_copy()[:0]


class CropsOneMore(StaticCache):
    def crop(self, length: int) -> Any:
        return super().crop(max(length - 1, 0))


class NeverReorders(StaticCache):
    def reorder(self, rows: Any) -> Any:
        return super().reorder([i % self.shape.batch_size for i in range(len(rows))])


class ForgetsPaddingOfRows(ConcatCache):
    def reorder(self, rows: Any) -> Any:
        cache = super().reorder(rows)
        cache.padding = np.sort(cache.padding)
        return cache


BROKEN_STORAGES: dict[str, tuple[Any, set[str]]] = {
    "appends in place": (lambda shape: AppendsInPlace.empty(shape), {LIFETIME}),
    "shares its last block": (
        lambda shape: SharesItsLastBlock(
            shape, BlockPool(shape, 64, 16), np.zeros((shape.batch_size, 0), np.int64)
        ),
        {OPERATIONS},
    ),
    "crops one more": (lambda shape: CropsOneMore.empty(shape, Room(64)), {OPERATIONS}),
    "never reorders": (lambda shape: NeverReorders.empty(shape, Room(64)), {OPERATIONS}),
    "forgets the padding of rows": (lambda shape: ForgetsPaddingOfRows.empty(shape), {OPERATIONS}),
}


@pytest.mark.parametrize(("make", "red"), BROKEN_STORAGES.values(), ids=BROKEN_STORAGES)
def test_a_wrong_storage_is_not_proved(
    make: Callable[[CacheShape], KVCache], red: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(config: DecoderConfig, batch_size: int, dtype: Any, **_: Any) -> KVCache:
        return make(new_cache(config, batch_size, dtype).shape)

    monkeypatch.setattr("kvproof.experiments.proof.new_cache", broken)
    assert red <= {claim.group for claim in prove().failures}


def test_controls_that_go_unseen_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proof whose injected mistakes do nothing doesn't pass."""

    def deaf(*args: Any, **kwargs: Any) -> tuple[FloatArray, KVCache]:
        return decode(*args[:4])

    monkeypatch.setattr("kvproof.experiments.proof.decode", deaf)
    proof = prove()
    assert not proof.passed
    names = {claim.name.partition(": ")[2] for claim in proof.unseen}
    assert names == {"mask without offset", "no mask", "positions restart"}


# Small mistakes in small decoders, and mistakes that make no difference: which ones go unseen.
RESTARTS = {
    f"seed {seed}, {case} tokens: positions restart"
    for seed in range(3)
    for case in ("4 + 2", "5 + 3")
}
SHOWS_LITTLE: dict[str, tuple[DecoderConfig, set[str]]] = {
    "a token alone, wherever it stands": (replace(MODERN, window=1), RESTARTS),
    "a token and the one before": (replace(MODERN, window=2), set()),
    "four features": (replace(LAB, width=4), set()),
    "two features": (replace(LAB, width=2), set()),
    "no other token": (
        replace(REFERENCE, vocab_size=1),
        {
            "recomputed: its own logits do change",
            "cached: its own logits do change",
            "without a mask: earlier logits change",
        },
    ),
    "one other token": (replace(REFERENCE, vocab_size=2), set()),
}


@pytest.mark.parametrize(("config", "unseen"), SHOWS_LITTLE.values(), ids=SHOWS_LITTLE)
def test_a_mistake_that_cannot_show_says_nothing_against_a_decoder(
    config: DecoderConfig, unseen: set[str]
) -> None:
    proof = prove(config)
    assert proof.failures == ()
    assert {claim.name for claim in proof.unseen} == unseen
    assert str(proof).count("  open  ") == str(proof).count("can't be seen here")
    assert proof.passed == (not unseen)


def test_a_causal_leak_in_the_plain_decoder_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvproof.model.decoder.offset_mask", open_mask)
    red = {(claim.group, claim.name) for claim in prove().failures}
    assert (CAUSALITY, "recomputed: earlier logits") in red


@pytest.mark.parametrize(
    ("error", "passed"),
    [(0.0, True), (1.0, True), (1.1, False), (math.inf, False), (math.nan, False)],
)
def test_a_claim_holds_within_its_bound_and_a_control_beyond_it(error: float, passed: bool) -> None:
    assert Claim("", "", "float32", error, 1.0).passed == passed
    assert Claim("", "", "float32", error, 1.0, "control").passed != passed


def test_arrays_of_other_shapes_or_dtypes_are_infinitely_far_apart() -> None:
    ones = np.ones((2, 3))
    assert difference(ones, ones + 0.25) == 0.25
    assert difference(ones, ones[:1]) == math.inf
    assert difference(ones.astype("float32"), ones) == math.inf
    assert math.isnan(difference(ones * np.nan, ones))


def test_a_proof_is_strict_json(reference_proof: Proof) -> None:
    broken = replace(reference_proof.claims[0], error=math.nan)
    failed = replace(reference_proof, claims=(broken,))
    data = json.loads(json.dumps(failed.to_dict(), allow_nan=False))
    assert data["passed"] is False
    assert data["claims"][0]["error"] == "nan"
    assert data["config"]["n_heads"] == 4
    whole = json.loads(json.dumps(reference_proof.to_dict(), allow_nan=False))
    assert [claim["passed"] for claim in whole["claims"]] == [True] * len(reference_proof.claims)
