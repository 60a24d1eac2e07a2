"""Decoders in another style than the zoo's: right ones pass, broken ones are found and named.

Where a name is wrong it stands here as it is: a diagnosis is held to what it says, not excused.
"""

from typing import Any

import pytest
from tests.check.other_styles import (
    FUNCTION_MISTAKES,
    TORCH_MISTAKES,
    WINDOW,
    WINDOW_MISTAKES,
    TorchDecoder,
    function_decoder,
)

from kvproof.checking import Report, check
from kvproof.checking.messages import Message
from kvproof.experiments.scorecard import Hidden

SEEDS = (0, pytest.param(1, marks=pytest.mark.slow))


def run(decoder: Any, seed: int) -> Report:
    report = check(decoder, seed, budget_s=300)
    assert report.complete
    return report


def named(report: Report) -> list[str]:
    assert not report.ok
    first = report.findings[0]
    return [first.kind, *(other.kind for other in first.alternatives)]


@pytest.mark.parametrize("seed", SEEDS)
def test_right_decoders_have_no_findings(seed: int) -> None:
    in_place, functional = TorchDecoder(seed=seed), function_decoder(seed=seed)
    windowed = function_decoder(seed=seed, window=WINDOW)
    for decoder in (in_place, functional, Hidden(functional, "keys_values"), windowed):
        assert run(decoder, seed).findings == ()
    assert run(in_place, seed).dtype == "float32"
    assert Message("unlocks.keys_values") in run(in_place, seed).not_checked


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("mistake", "kind"), TORCH_MISTAKES.items())
def test_in_place_pytorch_without_a_look_inside(mistake: str, kind: str, seed: int) -> None:
    assert named(run(TorchDecoder(mistake, seed), seed))[0] == kind


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("mistake", "kind"), FUNCTION_MISTAKES.items())
def test_functions_in_numpy(mistake: str, kind: str, seed: int) -> None:
    assert named(run(function_decoder(mistake, seed), seed))[0] == kind


UNNAMED = {"strides": "HEAD-MAP", "first layer's": "POS-DRIFT"}
"""Without a look inside another kind is named first: strides change which head is read as well, and
with learned positions a wrong layer looks like a wrong position."""


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("mistake", "kind"), FUNCTION_MISTAKES.items())
def test_functions_in_numpy_without_a_look_inside(mistake: str, kind: str, seed: int) -> None:
    decoder = Hidden(function_decoder(mistake, seed), "keys_values")
    assert named(run(decoder, seed))[0] == UNNAMED.get(mistake, kind)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("mistake", "kind"), WINDOW_MISTAKES.items())
def test_windows_in_numpy(mistake: str, kind: str, seed: int) -> None:
    assert named(run(function_decoder(mistake, seed, WINDOW), seed))[0] == kind
