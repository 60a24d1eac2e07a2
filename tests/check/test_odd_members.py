"""Optional members that raise, or give what they must not: a sentence each, and no traceback."""

from typing import Any

import numpy as np
import pytest
from tests.check.decoders import CropsAtMost, CropsBeyond, NeverEmpties, Plain
from tests.check.said import ids

from kvproof.checking import checker
from kvproof.checking.messages import Message


def leaves(*arguments: Any) -> None:
    raise SystemExit("bye")


@pytest.mark.parametrize(
    ("member", "value", "says"),
    [
        ("length", lambda cache: None, "length() must return an integer, got None"),
        ("length", lambda cache: 2.5, "length() must return an integer, got 2.5"),
        ("length", lambda cache: np.arange(2), "length() must return an integer, got array"),
        ("max_length", "long", "max_length must be a positive integer, got 'long'"),
        ("max_length", float("nan"), "max_length must be a positive integer, got nan"),
        ("window", float("inf"), "window must be a positive integer, got inf"),
        ("noise", "little", "noise must be a positive number, got 'little'"),
        ("noise", float("nan"), "noise must be a positive number, got nan"),
        ("noise", -1.0, "noise must be a positive number, got -1.0"),
        ("crop", 5, "crop raised TypeError: 'int' object is not callable"),
        ("step", leaves, "step raised SystemExit: bye"),
        ("reset", leaves, "reset raised SystemExit: bye"),
    ],
)
def test_a_member_that_is_none_is_named(member: str, value: object, says: str) -> None:
    decoder = Plain()
    setattr(decoder, member, value)
    report = checker.check(decoder)
    assert not report.ok
    assert any(str(line).startswith(says) for line in report.findings[0].evidence), report


@pytest.mark.parametrize("member", ["full", "window", "crop", "noise", "keys_values", "keeps_old"])
def test_a_property_that_raises_is_named(member: str) -> None:
    def raises(decoder: Plain) -> None:
        raise RuntimeError("not today")

    odd = type("Odd", (Plain,), {member: property(raises)})
    [finding] = checker.check(odd()).findings
    said = Message("trouble.raised", member=member, error="RuntimeError", said="not today")
    assert finding.evidence == (said,)


@pytest.mark.parametrize("given", [None, [(1, 2)], [(np.zeros((1, 1, 1)),) * 2], 3])
def test_keys_values_of_no_use_condemn_nothing(given: object) -> None:
    decoder = Plain()
    decoder.keys_values = lambda cache: given  # type: ignore[attr-defined]
    report = checker.check(decoder)
    assert report.ok
    assert "note.keys-values" in ids(report.notes)


def test_a_decoder_of_very_short_texts_is_told_that_it_shows_nothing() -> None:
    decoder = Plain()
    decoder.max_length = 2
    report = checker.check(decoder)
    assert report.ok
    assert Message("note.short", n=2) in report.notes
    assert "note.short" not in ids(checker.check(Plain()).notes)


def test_a_crop_that_goes_beyond_the_end_has_a_snippet() -> None:
    [finding] = checker.check(CropsBeyond()).findings
    assert finding.kind == "ROLLBACK"
    printed: list[Any] = []
    exec(finding.snippet, {"decoder": CropsBeyond(), "print": printed.append})
    assert printed == [6]  # 4 were fed


def test_a_crop_to_at_most_or_one_that_never_empties_is_no_mistake() -> None:
    assert checker.check(CropsAtMost()).ok
    report = checker.check(NeverEmpties())
    assert report.ok
    assert any("length must be positive" in str(line) for line in report.not_checked)


def test_a_wrong_count_has_a_snippet() -> None:
    class Miscounts(Plain):
        def length(self, cache: Any) -> int:
            return int(cache.length) + 1

    [finding] = checker.check(Miscounts()).findings
    printed: list[Any] = []
    exec(finding.snippet, {"decoder": Miscounts(), "print": printed.append})
    assert printed == [2]
