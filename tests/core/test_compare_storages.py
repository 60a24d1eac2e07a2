"""All storages with the same tokens: places, bytes and errors."""

from itertools import product

import numpy as np
import pytest

from kvproof import compare_storages
from kvproof.experiments.compare_storages import BLOCK_SIZE, CAPACITY, N_CONTINUED, WINDOWED, _texts

PREFIXES = [1, 4, 5, 6, 8, 13, CAPACITY - N_CONTINUED]
TOKEN_BYTES = 2 * WINDOWED.n_layers * WINDOWED.width * 4
TABLE_ENTRY, SLOT_NUMBER = 8, 8


cases = pytest.mark.parametrize(("prefix", "branches"), [*product(PREFIXES, (1, 2, 3))])


def slots_in_order(places: np.ndarray, n_tokens: int) -> None:
    expected = np.where(np.arange(len(places)) < n_tokens, np.arange(len(places)), -1)
    np.testing.assert_array_equal(places, expected)


@cases
def test_places_hold_the_tokens_of_the_text(prefix: int, branches: int) -> None:
    reports = compare_storages(prefix, branches)
    total = prefix + N_CONTINUED
    n_blocks = -(-total // BLOCK_SIZE)
    places = {"concat": total, "static": CAPACITY, "paged": n_blocks * BLOCK_SIZE, "int8": total}
    for storage, n_places in places.items():
        slots = reports[storage].slots
        assert slots.shape == (branches, n_places)
        for row in slots:
            slots_in_order(row, total)
    for row in reports["rolling"].slots:
        held = set(row.tolist()) - {-1}
        assert held == set(range(max(0, total - 8), total)), "the last 8"
        assert all(slot % 8 == place for place, slot in enumerate(row) if slot >= 0)


@cases
def test_bytes_are_those_of_the_formulas(prefix: int, branches: int) -> None:
    reports = compare_storages(prefix, branches)
    total = prefix + N_CONTINUED
    own_blocks = -(-total // BLOCK_SIZE) - prefix // BLOCK_SIZE
    blocks = prefix // BLOCK_SIZE + branches * own_blocks
    table = branches * -(-total // BLOCK_SIZE) * TABLE_ENTRY
    vectors = 2 * WINDOWED.n_layers * WINDOWED.n_kv_heads * total
    assert {name: report.nbytes for name, report in reports.items()} == {
        "concat": branches * total * TOKEN_BYTES,
        "static": branches * CAPACITY * TOKEN_BYTES,
        "rolling": branches * 8 * (TOKEN_BYTES + SLOT_NUMBER),
        "paged": blocks * BLOCK_SIZE * TOKEN_BYTES + table,
        "int8": branches * vectors * (WINDOWED.head_dim + 4),
    }


@cases
def test_only_whole_blocks_of_the_prefix_are_shared(prefix: int, branches: int) -> None:
    for storage, report in compare_storages(prefix, branches).items():
        n_shared = 0
        if storage == "paged" and branches > 1:
            n_shared = prefix // BLOCK_SIZE * BLOCK_SIZE
        expected = np.arange(report.shared.shape[1]) < n_shared
        assert (report.shared == expected).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_only_int8_is_off_by_more_than_rounding(dtype: str) -> None:
    for prefix in PREFIXES:
        for storage, report in compare_storages(prefix, 2, dtype).items():
            if storage == "int8":
                assert 1e-4 < report.max_abs_error < 0.05
            else:
                assert report.max_abs_error <= 10 * report.rounding_floor


def test_branches_that_read_each_others_tokens_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: what is expected stays, and the endings change places."""
    right = compare_storages(5)["concat"].max_abs_error
    monkeypatch.setattr(
        "kvproof.experiments.compare_storages._texts", lambda *case: _texts(*case)[::-1]
    )
    assert right < 1e-5
    assert compare_storages(5)["concat"].max_abs_error > 0.1
