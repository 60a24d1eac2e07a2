"""Some specimens do exactly what their reports say, number by number."""

from typing import Any

import numpy as np
import pytest

from kvproof.model.decoder import forward
from kvproof.zoo import SPECIMENS
from kvproof.zoo.blind import outcome
from kvproof.zoo.scenarios import feed

TEXT = np.random.default_rng(5).integers(23, size=(1, 18))


def seen_keys(name: str, n_past: int, n_new: int) -> list[int]:
    """How many keys each new token sees through the decoder's mask."""
    decoder = SPECIMENS[name].make(0)
    cache = decoder.step(TEXT[:, :n_past])[1]
    return [int(row.sum()) for row in decoder.mask(cache, n_new, np.zeros(1, int))]


def test_top_left_masks_see_what_the_operator_specification_said() -> None:
    assert seen_keys("mask-topleft", 3, 2) == [1, 2]  # instead of 4, 5
    assert seen_keys("mask-topleft", 3, 1) == [1]
    assert seen_keys("mask-topleft-chunks", 3, 1) == [4]
    assert seen_keys("mask-skipped-past", 3, 2) == [5, 5]
    assert seen_keys("self-read-chunk", 3, 2) == [3, 3]
    assert seen_keys("self-read-last", 3, 2) == [4, 4]


def test_a_prompt_counted_twice_gives_the_offsets_of_the_report() -> None:
    decoder = SPECIMENS["pos-drift-prompt-twice"].make(0)
    offsets, cache = [0], None
    for chunk in (TEXT[:, :6], TEXT[:, 6:7], TEXT[:, 7:8]):
        cache = decoder.step(chunk, cache)[1]
        offsets.append(cache.offset)
    assert offsets == [0, 6, 12, 13]


@pytest.mark.parametrize(
    ("name", "offsets"),
    [("pos-drift-heads", [2, 4, 6]), ("pos-drift-accept", [6, 7, 8])],
)
def test_counters_that_move_by_another_amount(name: str, offsets: list[int]) -> None:
    decoder, cache, found = SPECIMENS[name].make(0), None, []
    for start, end in ((0, 6), (6, 9), (9, 10)):
        cache = decoder.step(TEXT[:, start:end], cache)[1]
        found.append(cache.offset)
    assert found == offsets


def test_a_hole_behind_the_prompt_is_a_slot_of_zeros() -> None:
    decoder = SPECIMENS["slot-write-hole"].make(0)
    cache = feed(decoder, TEXT[:, :8], (6, 1, 1))[1]
    assert decoder.length(cache) == 9
    for pair in decoder.keys_values(cache):
        for array in pair:
            empty = (array == 0).all(axis=(0, 1, 3))
            assert empty.tolist() == [slot == 6 for slot in range(9)]


def test_the_first_token_is_never_written() -> None:
    decoder = SPECIMENS["slot-write-first"].make(0)
    keys = decoder.keys_values(decoder.step(TEXT[:, :3])[1])[0][0]
    assert (keys[:, :, 0] == 0).all()
    assert (keys[:, :, 1:] != 0).all()


def test_a_clamped_buffer_holds_the_newest_token_last() -> None:
    decoder, right = SPECIMENS["slot-write-clamp"].make(0), SPECIMENS["slot-write-clamp"].right(0)
    assert decoder.capacity == 12
    first_layer = [d.keys_values(d.step(TEXT)[1])[0][0] for d in (decoder, right)]
    assert first_layer[0].shape[2] == 12
    np.testing.assert_allclose(first_layer[0][:, :, -1], first_layer[1][:, :, -1], atol=1e-12)
    np.testing.assert_allclose(first_layer[0][:, :, :11], first_layer[1][:, :, :11], atol=1e-12)


def test_both_paths_tile_heads_so_that_only_another_implementation_sees_it() -> None:
    decoder = SPECIMENS["head-map-both"].make(0)
    logits = np.concatenate(feed(decoder, TEXT, (5, 1, 12))[0], axis=1)
    np.testing.assert_allclose(logits, decoder.full(TEXT), rtol=0, atol=1e-12)
    gold = forward(decoder.params, TEXT, decoder.config)
    assert np.abs(logits - gold).max() > 0.1


@pytest.mark.parametrize("name", ["rope-len-switch", "rope-len-dynamic"])
def test_full_isnt_prefix_stable_where_rotation_depends_on_the_length(name: str) -> None:
    decoder = SPECIMENS[name].make(0)
    changes = [
        np.abs(decoder.full(TEXT[:, :end])[:, -1] - decoder.full(TEXT)[:, end - 1]).max()
        for end in (6, 18)
    ]
    assert changes[0] > 0.01
    assert changes[1] == 0
    short = TEXT[:, :7]  # below the switch
    logits = np.concatenate(feed(decoder, short, (1,) * 7)[0], axis=1)
    np.testing.assert_allclose(logits, decoder.full(short), rtol=0, atol=1e-12)


def test_a_step_that_appends_in_place_changes_the_cache_that_it_was_given() -> None:
    decoder = SPECIMENS["alias-step"].make(0)
    assert decoder.keeps_old
    cache = decoder.step(TEXT[:, :6])[1]
    decoder.step(TEXT[:, 6:19], cache)
    assert decoder.length(cache) == 18


@pytest.mark.parametrize(
    ("name", "lengths"),
    [
        ("rollback-none", [10, 10, 10]),
        ("rollback-one-left", [8, 1, 10]),
        ("rollback-one-more", [6, 0, 10]),
        ("rollback-bounds", [7, 10, 10]),
        ("rollback-reset", [0, 0, 0]),
        ("rollback-positions", [7, 0, 10]),
    ],
)
def test_lengths_behind_wrong_crops(name: str, lengths: list[int]) -> None:
    found = []
    for length in (7, 0, 10):
        decoder = SPECIMENS[name].make(0)
        cache = decoder.step(TEXT[:, :10])[1]
        found.append(decoder.length(decoder.crop(cache, length)))
    assert found == lengths


def test_trimmed_tokens_come_back_with_the_next_one() -> None:
    decoder = SPECIMENS["rollback-resurrected"].make(0)
    cache = decoder.crop(decoder.step(TEXT[:, :10])[1], 7)
    assert decoder.length(cache) == decoder.keys_values(cache)[0][0].shape[2] == 7
    assert decoder.length(decoder.step(TEXT[:, :1], cache)[1]) == 11


def test_an_exact_hit_has_the_last_token_twice() -> None:
    decoder = SPECIMENS["dup-append-exact-hit"].make(0)
    lengths = [decoder.length(decoder.step(TEXT[:, :8])[1]) for _ in range(2)]
    assert lengths == [8, 9]


def test_only_the_first_request_has_scales_that_were_reset() -> None:
    one = SPECIMENS["quant-scale-touched"]
    decoder, right = one.make(0), one.right(0)

    def error(text: Any) -> float:
        pairs = zip(feed(decoder, text, (6, 1))[0], feed(right, text, (6, 1))[0], strict=True)
        return float(max(np.abs(a - b).max() for a, b in pairs))

    assert error(TEXT[:, :7]) > 0.1
    assert error(TEXT[:, 7:14]) < 1e-12


def test_two_beams_of_one_row_share_a_block_and_forks_dont() -> None:
    one = SPECIMENS["row-perm-shared-block"]
    assert outcome(one, "reorder", 0).error > 0.05
    assert outcome(one, "fork", 0).error < 1e-12
    assert outcome(one, "reorder", 0, n_rows=1).error < 1e-12
