"""Whatever a decoder does, the checker answers with a sentence and never with a traceback."""

import json
from typing import Any

import numpy as np
import pytest
from tests.check import decoders
from tests.check.decoders import Plain
from tests.check.said import ids, run_snippet

from kvproof.checking import Report, assert_cache_matches, check
from kvproof.checking.messages import Message


def verdict(decoder: Any, budget_s: float = 60.0) -> Report:
    return check(decoder, budget_s=budget_s)


def test_a_right_decoder_with_two_methods_is_right() -> None:
    report = verdict(Plain())
    assert report.ok
    assert report.findings == ()
    assert report.verdict.id == "report.right"
    unlockable = {"crop", "reorder", "fork", "length", "keys_values", "supports_padding"}
    assert {f"unlocks.{member}" for member in unlockable} <= {*ids(report.not_checked)}


ODD: dict[str, tuple[type, str]] = {
    "raises": (decoders.Raises, "trouble.raised"),
    "gives NaN": (decoders.GivesNan, "fails.not-finite"),
    "full gives NaN": (decoders.FullGivesNan, "trouble.nan"),
    "wrong shape": (decoders.WrongShape, "trouble.shape"),
    "no tuple": (decoders.WrongType, "trouble.no-pair"),
    "text": (decoders.GivesText, "trouble.no-logits"),
    "random": (decoders.IsRandom, "full.again"),
    "writes tokens": (decoders.WritesTokens, "trouble.tokens"),
    "ignores its cache": (decoders.IgnoresCache, "feeding.no-cache"),
    "sees the future": (decoders.SeesTheFuture, "full.causal"),
    "depends on length": (decoders.DependsOnLength, "full.long-prefix"),
    "mixes rows": (decoders.MixesRows, "full.row"),
    "crops beyond": (decoders.CropsBeyond, "operations.crop-beyond"),
    "miscounts": (decoders.Miscounts, "fails.length"),
}


@pytest.mark.parametrize(("decoder", "says"), ODD.values(), ids=ODD)
def test_odd_behaviour_gets_a_sentence(decoder: type, says: str) -> None:
    report = verdict(decoder())
    assert not report.ok
    [finding] = report.findings
    assert says in ids(finding.evidence), finding
    assert "Traceback" not in str(report)
    json.loads(report.to_json())


def test_shapes_are_told_as_they_are_and_as_they_must_be() -> None:
    [sentence] = verdict(decoders.WrongShape()).findings[0].evidence[:1]
    shapes = {"got": "(1, 11)", "tokens": "(1, 1)", "wanted": "(1, 1, 11)"}
    assert sentence == Message("trouble.shape", member="step", size=11, **shapes)


@pytest.mark.parametrize("decoder", [decoders.Hangs, decoders.HangsAndCatches])
def test_a_call_that_hangs_is_given_up(decoder: type) -> None:
    report = verdict(decoder(), budget_s=0.5)
    assert not report.ok
    assert not report.complete
    assert report.not_checked[0] == Message("not-checked.budget", budget=0.5)
    hangs = Message("trouble.hangs", member="step", budget=0.5)
    assert report.findings[0].evidence[0] == hangs


def test_what_is_not_implemented_is_not_condemned() -> None:
    report = verdict(decoders.NotImplementedCrop())
    assert report.ok
    left_out = Message("not-checked.crop-beyond", member="crop")
    assert {left_out.id, "not-checked.unsupported"} & {*ids(report.not_checked)}


def test_the_dtype_decides_what_is_allowed() -> None:
    double, single = verdict(Plain()), verdict(decoders.InFloat32())
    assert (double.dtype, single.dtype) == ("float64", "float32")
    assert double.ok
    assert single.ok
    assert double.tolerance < 1e-8
    assert 1e-7 < single.tolerance < 1e-3


def test_a_model_in_which_positions_cannot_be_seen_is_told_so() -> None:
    assert "note.contrast" in ids(verdict(decoders.Faint()).notes)
    assert "note.contrast" not in ids(verdict(Plain()).notes)


def test_a_mistake_in_both_paths_needs_another_implementation() -> None:
    """Half of all logits have the wrong sign, with a cache and without."""

    class Both(Plain):
        def full(self, tokens: Any) -> Any:
            return super().full(tokens) * SIGNS

        def step(self, tokens: Any, cache: Any) -> Any:
            logits, cache = super().step(tokens, cache)
            return logits * SIGNS, cache

    blind = verdict(Both())
    assert blind.ok
    assert "not-checked.gold" in ids(blind.not_checked)
    [finding] = check(Both(), gold=Plain().full).findings
    assert finding.check == "GOLD"
    right = check(Plain(), gold=Plain().full)
    assert right.ok
    assert "not-checked.gold" not in ids(right.not_checked)


@pytest.mark.parametrize("share", [0.9, 1.1])
def test_a_gold_is_held_against_what_the_finding_prints(share: float) -> None:
    """Ten times the tolerance: another implementation may approximate in another way."""
    report = check(Plain())
    by = 10 * report.tolerance * share
    findings = check(Plain(), gold=lambda tokens: Plain().full(tokens) + by).findings
    assert [finding.tolerance for finding in findings] == [10 * report.tolerance] * (share > 1)


SIGNS = np.where(np.arange(11) % 2, 1.0, -1.0)


def test_a_gold_that_fails_is_named() -> None:
    def broken(tokens: Any) -> Any:
        raise RuntimeError("no weights")

    raised = Message("trouble.raised", member="gold", error="RuntimeError", said="no weights")
    assert check(Plain(), gold=broken).findings[0].evidence == (raised,)


def test_the_same_seed_gives_the_same_report() -> None:
    def without_time(report: Report) -> dict[str, Any]:
        return {**report.to_dict(), "seconds": 0}

    first, second = (without_time(check(decoders.LosesTheThirdToken(), 5)) for _ in range(2))
    assert first == second
    assert first != without_time(check(decoders.LosesTheThirdToken(), 6))


def test_the_smallest_case_is_small_and_its_snippet_shows_the_error() -> None:
    """One spot is wrong: a chunk of two over position 8.  Nothing smaller can fail."""
    decoder = decoders.LosesTheThirdToken()
    [finding] = check(decoder).findings
    assert finding.case is not None
    assert [str(op) for op in finding.case.ops] in (["feed 7", "feed 2"], ["feed 8", "feed 2"])
    assert finding.max_abs_error == pytest.approx(0.5)
    assert finding.first_bad["position"] == 8
    assert run_snippet(finding, decoder)[-1][1] == pytest.approx(0.5)


def test_operations_are_checked_when_they_are_there() -> None:
    assert_cache_matches(Plain())
    with pytest.raises(AssertionError, match="ROW-PERM: the sequences in the cache are not"):
        assert_cache_matches(decoders.ForgetsAfterReorder())


def test_json_is_strict() -> None:
    report = check(decoders.GivesNan())
    data = json.loads(report.to_json(), parse_constant=lambda name: pytest.fail(name))
    assert data["ok"] is False
    assert data["findings"][0]["max_abs_error"] == "inf"
    assert np.isfinite(data["tolerance"])
