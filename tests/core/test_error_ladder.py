"""The error ladder: right decoders stand on their floors, broken ones far above."""

import math

import numpy as np
import pytest

from kvproof import zoo
from kvproof.experiments import error_ladder
from kvproof.zoo.blind import outcome
from kvproof.zoo.right import RightDecoder, random_text
from kvproof.zoo.scenarios import N_TOKENS


@pytest.fixture(scope="module")
def errors() -> dict[str, dict[str, float]]:
    """Group -> name -> error."""
    rungs = [*error_ladder.right_rungs(), *error_ladder.broken_rungs()]
    return {
        group: {rung.name: rung.error for rung in rungs if rung.group == group}
        for group in error_ladder.GROUPS
    }


def test_every_decoder_of_the_zoo_has_its_rung(errors: dict[str, dict[str, float]]) -> None:
    makers = zoo.RIGHT | {name: control.make for name, control in zoo.CONTROLS.items()}
    int8 = {name for name, make in makers.items() if make().storage == "int8"}
    assert errors["broken"].keys() == zoo.SPECIMENS.keys()
    assert errors["int8"].keys() == int8
    assert errors["float32"].keys() == errors["float64"].keys() == makers.keys() - int8


def test_right_decoders_stay_near_their_floor(errors: dict[str, dict[str, float]]) -> None:
    for group, floor in error_ladder.rounding_floors().items():
        worst = max(errors[group].values())
        assert floor / 100 < worst < 20 * floor


def test_broken_ones_are_far_above_what_rounding_does(errors: dict[str, dict[str, float]]) -> None:
    """And above what int8 does, with these weights: where the two meet a test can't tell."""
    least = min(errors["broken"].values())
    assert least > 1e4 * max(errors["float32"].values())
    assert least > max(errors["int8"].values())


def test_what_is_no_number_is_infinitely_wrong(errors: dict[str, dict[str, float]]) -> None:
    assert [name for name, e in errors["broken"].items() if math.isinf(e)] == ["mask-value-nan"]


def test_a_floor_is_a_unit_of_rounding_at_the_largest_logit() -> None:
    decoder = RightDecoder(seed=1)
    largest = np.abs(decoder.full(random_text(decoder, N_TOKENS, seed=1))).max()
    floors = error_ladder.rounding_floors(seed=1)
    assert floors["float64"] == 2.0**-52 * largest
    assert floors["float32"] == 2.0**-23 * largest
    assert floors["int8"] == pytest.approx(largest / 127)


@pytest.mark.parametrize("name", ["mask-topleft", "mask-skipped-cache", "reuse-key-first-token"])
def test_a_specimens_errors_are_those_of_its_scenarios(name: str) -> None:
    specimen = zoo.SPECIMENS[name]
    found = error_ladder.specimen_errors(name)
    assert list(found) == ["one shot", "ones", "prefill, then ones", "ragged", "trigger"]
    assert found["trigger"] == outcome(specimen, specimen.trigger, 0).error > 1e-3
    for way in specimen.harmless:
        assert found.get(way, 0.0) < 1e-9
