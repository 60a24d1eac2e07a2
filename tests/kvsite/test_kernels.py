"""Which kernels differ, and what a failure under one of them comes to."""

from collections.abc import Sequence

import pytest

from kvproof.experiments import scorecard
from kvproof.zoo import SPECIMENS
from kvsite import kernels


def test_a_name_that_falls_back_or_crashes_is_left_out() -> None:
    answers = [("Old", "a"), ("New", "b"), ("Newer", "b"), ("Newest", "")]
    found, left_out = kernels.distinct(iter(answers))
    assert found == ["Old", "New"]
    assert left_out == [
        "left out: Newer, which computes as New does here",
        "left out: Newest, which this processor can't run",
    ]


def test_a_kernel_is_told_by_what_it_computes() -> None:
    """A name that doesn't exist falls back to that of the processor."""
    answers = dict(kernels.asked(["NoSuchKernel", "NorThis"]))
    assert answers["NoSuchKernel"] == answers["NorThis"]
    assert len(answers["NorThis"]) == 64


def test_a_child_that_crashes_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "venv_python", lambda: "false")
    assert dict(kernels.asked(["Haswell"])) == {"Haswell": ""}


@pytest.mark.parametrize(("failing", "code"), [(None, 0), ("B", 1)])
def test_one_failure_under_one_kernel_fails_the_command(
    failing: str | None,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ran = []

    def tests(kernel: str, threads: int, *_: Sequence[str]) -> tuple[bool, str, str]:
        ran.append((kernel, threads))
        return kernel != failing, "3 passed", "what pytest said"

    monkeypatch.setattr(kernels, "asked", lambda names: iter([("A", "a"), ("B", "b")]))
    monkeypatch.setattr(kernels, "_tests", tests)
    assert kernels.main(False, 0, []) == code
    assert ran == [("A", 1), ("A", 2), ("B", 1), ("B", 2)]
    assert ("what pytest said" in capsys.readouterr().out) == bool(code)


def test_no_tests_at_all_are_a_failure() -> None:
    passed, said, _ = kernels._tests("Haswell", 1, ["tests/kvsite/test_kernels.py"], ["-k=nothing"])
    assert not passed
    assert said == "no tests"


def test_right_decoders_are_right_and_broken_ones_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernels._verdict("rope-concat", 0, "float64", 40.0) == ("right", "")
    assert kernels._verdict("rope-int8", 0, "float64", 40.0)[0] == "in doubt"
    broken = {"rope-concat": SPECIMENS["mask-topleft-chunks"].make}
    monkeypatch.setattr(scorecard, "right_decoders", lambda: broken)
    said, report = kernels._verdict("rope-concat", 0, "float64", 40.0)
    assert said == "wrong"
    assert "MASK-TOPLEFT" in report
