"""The checker in ``kvproof``: imported when it is used, and complete or not."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.check import decoders
from tests.check.decoders import Plain
from tests.check.said import ids

import kvproof
from kvproof.checking import checker
from kvproof.checking.messages import Message
from kvproof.checking.names import Stage
from kvproof.checking.subject import OutOfTime

PY = Path(kvproof.__file__).parents[1]
NAMES = ["Finding", "Report", "assert_cache_matches", "check"]


def python(program: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=PY, check=True
    )
    return ran.stdout.strip()


def test_the_checker_is_imported_when_it_is_used() -> None:
    loaded = "any(name.startswith('kvproof.checking') for name in sys.modules)"
    printed = python(
        f"import sys, kvproof; print({loaded}); kvproof.check; print({loaded})"
    ).split()
    assert printed == ["False", "True"]


@pytest.mark.parametrize(
    "before", ["pass", "import kvproof.checking.report", "from kvproof.checking import check"]
)
def test_check_is_the_function_whatever_is_imported(before: str) -> None:
    printed = python(f"{before}\nimport kvproof\nprint(kvproof.check.__qualname__)")
    assert printed == "check"


def test_the_names_are_public() -> None:
    assert set(NAMES) <= set(kvproof.__all__) <= set(dir(kvproof))
    assert all(getattr(kvproof, name) is getattr(checker, name) for name in NAMES)
    assert not hasattr(kvproof, "checks")
    with pytest.raises(AttributeError, match="'kvproof' has no attribute 'checks'"):
        kvproof.checks  # noqa: B018


def test_a_mistake_stays_one_when_the_budget_ends_before_it_is_understood(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def too_slow(*arguments: object) -> None:
        raise OutOfTime

    monkeypatch.setattr(checker, "shrink", too_slow)
    report = kvproof.check(decoders.ForgetsAfterReorder())
    assert (report.ok, report.complete) == (False, False)
    [finding] = report.findings
    assert finding.kind == "UNKNOWN"
    assert finding.max_abs_error > 0.1
    assert {"fails.cases", "fails.budget"} <= {*ids(finding.evidence)}
    assert "decoder.reorder(cache" in finding.snippet


def test_a_check_that_did_not_end_is_no_green_test() -> None:
    report = kvproof.check(Plain(), budget_s=1e-9)
    assert (report.ok, report.complete) == (False, False)
    assert report.verdict.id == "report.not-known"
    with pytest.raises(AssertionError, match="the budget of 1e-09 s is used up"):
        kvproof.assert_cache_matches(Plain(), budget_s=1e-9)
    assert kvproof.check(Plain()).complete


def test_progress_is_told_stage_by_stage() -> None:
    told: list[Message] = []
    kvproof.check(Plain(), progress=told.append)
    stages = (Stage.FEEDING, Stage.BATCH, Stage.OPERATIONS, Stage.SECOND_USE)
    assert told == [Message("progress.full"), *(stage.message for stage in stages)]
