"""The storages: places, bytes and errors drawn are those that the storages report."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.lab.lab_states import all_states, move, sentences

from kvlab.formats import number
from kvlab.log_axis import ZERO_LEVEL
from kvlab.session import Session
from kvlab.storages_lab import (
    ACROSS,
    HEAVY,
    LARGEST,
    NAMES,
    SHARED_MARK,
    STRIDE,
    StoragesLab,
)
from kvproof import StorageReport, compare_storages
from kvproof.experiments.compare_storages import BLOCK_SIZE, N_CONTINUED, WINDOWED


def test_places_bytes_and_errors_are_the_cores() -> None:
    assert len(all_states("storages")) == len(NAMES) * 24 * 2
    for values, state in all_states("storages"):
        branches = values["branches"] + 1
        reports = compare_storages(values["prefix"], branches)
        assert list(reports) == NAMES
        chosen = reports[NAMES[values["storage"]]]
        cells, slots = state["places.cells"], chosen.slots.ravel().tolist()
        assert cells["label"] == [str(slot) if slot >= 0 else "–" for slot in slots]
        assert [state == "hidden-future" for state in cells["state"]] == [s < 0 for s in slots]
        rows, errors = state["bytes.rows"], state["errors.rows"]
        assert rows["storage"] == [f"storages.kind.{name}" for name in NAMES]
        assert rows["bytes"] == [report.nbytes for report in reports.values()]
        assert rows["strength"].index(0.9) == values["storage"]
        expected = [report.max_abs_error for report in reports.values()]
        assert errors["x"] == pytest.approx(np.maximum(expected, ZERO_LEVEL), rel=1e-3)
        assert rows["error"] == [number(error) for error in expected]
        assert errors["floor"] == [report.rounding_floor for report in reports.values()]


def test_a_place_in_memory_is_drawn_at_one_place_and_inside() -> None:
    """What both branches point to at the same, above them; what is a branch's own on its side."""
    fig: Any = Session(StoragesLab).lab.roots["places"]
    shared_states = 0
    for values, state in all_states("storages"):
        cells, n_branches = state["places.cells"], values["branches"] + 1
        places = list(zip(cells["x"], cells["y"], strict=True))
        shared = {place for place, s in zip(places, cells["state"], strict=True) if s == "shared"}
        own = set(places) - shared
        counted = Counter(places)
        assert all(counted[place] == n_branches for place in shared)
        assert all(counted[place] == 1 for place in own)
        for place, branch in zip(places, cells["branch"], strict=True):
            left = (branch - 1) * STRIDE
            assert place in shared or left <= place[0] < left + ACROSS
        names = [state[f"places.y-{n}"] for n in (1, 2) if state[f"places.visible-{n}"]]
        assert len(names) == n_branches
        assert all(
            max((y for _, y in shared), default=-1) < name < min(y for _, y in own)
            for name in names
        )
        assert all(fig.x_range.start < x < fig.x_range.end for x, _ in places)
        assert all(fig.y_range.end < y < fig.y_range.start for _, y in places)
        fork = state["places.fork"]
        assert bool(fork["x"]) == bool(shared)
        shared_states += bool(shared)
        assert max(state["bytes.rows"]["bytes"]) < LARGEST
    assert shared_states == 21  # two branches after 4 to 24 tokens in blocks of 4


@pytest.mark.parametrize(
    ("prefix", "states"),
    [
        (8, ["shared"] * 8 + ["chunk"] * 3 + ["hidden-future"]),
        (9, ["shared"] * 8 + ["history"] + ["chunk"] * 3),
        (3, ["history"] * 3 + ["chunk"] * 3 + ["hidden-future"] * 2),
    ],
)
def test_a_fork_shows_what_is_shared_copied_and_each_branchs_own(
    prefix: int, states: list[str]
) -> None:
    """By the rule: whole blocks of four are shared, the rest of the prefix is copied on write."""
    state = move(Session(StoragesLab), storage=NAMES.index("paged"), prefix=prefix, branches=1)
    assert state["places.cells"]["state"] == states * 2
    said = dict(sentences(state, "summary"))
    copied = {0: "none", 1: "one"}.get(prefix % 4, "many")
    assert f"storages.copied-{copied}" in said
    if copied == "many":
        assert said["storages.copied-many"] == {"copied": str(prefix % 4)}
    others = (move(Session(StoragesLab), storage=one, prefix=prefix) for one in (0, 1, 2, 4))
    assert not [m for o in others for m, _ in sentences(o, "summary") if "copied" in m]


@pytest.mark.parametrize(("prefix", "shared"), [(3, 0), (4, 4), (9, 8), (24, 24)])
def test_whole_blocks_of_the_prefix_are_outlined_and_marked(prefix: int, shared: int) -> None:
    paged = NAMES.index("paged")
    state = move(Session(StoragesLab), storage=paged, prefix=prefix, branches=1)
    cells = state["places.cells"]
    assert cells["state"].count("shared") == 2 * shared
    blocks = state["places.blocks"]
    assert blocks["width"].count(HEAVY) == 2 * shared // BLOCK_SIZE
    for x, y, width in zip(blocks["x"], blocks["y"], blocks["width"], strict=True):
        inside = {
            (*place, state)
            for state, *place in zip(cells["state"], cells["x"], cells["y"], strict=True)
            if place[1] == y and abs(place[0] - x) < BLOCK_SIZE / 2
        }
        assert len(inside) == BLOCK_SIZE
        assert ({state for *_, state in inside} == {"shared"}) == (width == HEAVY)
    assert sum(SHARED_MARK in twin for twin in cells["twin"]) == 2 * shared
    said = dict(sentences(state, "summary"))
    assert said.get("storages.shared") == ({"shared": str(shared)} if shared else None)
    in_memory = len(blocks["x"]) - shared // BLOCK_SIZE
    assert said["storages.blocks"] == {"blocks": str(in_memory), "size": "4"}
    held = 2 * (prefix + N_CONTINUED) - shared
    places = {"held": str(held), "empty": str(4 * in_memory - held)}
    assert said["storages.places"] == places
    alone = move(Session(StoragesLab), storage=paged, prefix=prefix, branches=0)
    assert alone["places.blocks"]["width"].count(HEAVY) == 0
    assert "shared" not in alone["places.cells"]["state"]


def test_what_the_decoder_is_comes_from_the_core() -> None:
    [(_, sizes)] = sentences(move(Session(StoragesLab)), "decoder")
    assert sizes == {"window": str(WINDOWED.window), "own": str(N_CONTINUED)}


def test_only_pages_have_blocks() -> None:
    for values, state in all_states("storages"):
        is_paged = NAMES[values["storage"]] == "paged"
        assert bool(state["places.blocks"]["x"]) == is_paged
        places = len(state["places.cells"]["x"])
        assert len(state["places.blocks"]["x"]) * BLOCK_SIZE == (places if is_paged else 0)


def test_the_ring_holds_the_last_eight_in_their_places() -> None:
    rolling = NAMES.index("rolling")
    state = move(Session(StoragesLab), storage=rolling, prefix=9, branches=0)
    assert state["places.cells"]["label"] == ["8", "9", "10", "11", "4", "5", "6", "7"]


def test_int8_alone_is_far_off_its_floor() -> None:
    for _, state in all_states("storages"):
        rows = state["errors.rows"]
        for storage, error, floor in zip(NAMES, rows["x"], rows["floor"], strict=True):
            assert (error > 100 * floor) == (storage == "int8")


def test_a_pool_that_shares_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: outlines come from what the report calls shared."""

    def alone(prefix: int, branches: int) -> dict[str, StorageReport]:
        reports = compare_storages(prefix, branches).items()
        return {name: replace(one, shared=np.zeros_like(one.shared)) for name, one in reports}

    monkeypatch.setattr("kvlab.storages_lab.compare_storages", alone)
    state = move(Session(StoragesLab), prefix=10, branches=1)
    assert len(state["places.blocks"]["x"]) == 8
    assert HEAVY not in state["places.blocks"]["width"]
    assert "shared" not in state["places.cells"]["state"]
    assert "storages.shared" not in dict(sentences(state, "summary"))
