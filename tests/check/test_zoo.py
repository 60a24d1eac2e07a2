"""The checker on the zoo: all that is broken is found, most of it named, nothing right condemned.

More seeds, and the figures of them, are the benchmark's.
"""

import math
import re
from typing import Any

import numpy as np
import pytest
from tests.check.said import all_said, run_snippet

from kvproof.checking import Report, checker, messages
from kvproof.checking.cases import Case, is_legal, run
from kvproof.checking.messages import LANGUAGES
from kvproof.checking.names import Stage
from kvproof.checking.shrink import shrink
from kvproof.checking.subject import Subject
from kvproof.experiments.scorecard import (
    Score,
    report_on,
    right_decoders,
    right_report,
    score,
    scored,
    totals,
)
from kvproof.zoo import CONTROLS, RIGHT, SPECIMENS, Specimen

pytestmark = pytest.mark.slow  # more than 300 checks

SEEDS = (0, 1)


class Zoo:
    """The reports on all specimens, each made once, and what was shrunk for each."""

    def __init__(self) -> None:
        self.reports: dict[tuple[str, int], Report] = {}
        self.shrunk: dict[str, list[tuple[Case, Case]]] = {}

    def scores(self, seed: int) -> list[Score]:
        return [scored(one, seed, self.reports[name, seed]) for name, one in SPECIMENS.items()]


@pytest.fixture(scope="module")
def zoo() -> Zoo:
    made = Zoo()
    name = ""

    def noted(case: Case, fails: Any) -> Case:
        smallest = shrink(case, fails)
        made.shrunk.setdefault(name, []).append((case, smallest))
        return smallest

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checker, "shrink", noted)
        for name in SPECIMENS:
            for seed in SEEDS:
                made.reports[name, seed] = report_on(SPECIMENS[name], seed)
    return made


@pytest.mark.parametrize("seed", SEEDS)
def test_all_are_found_and_most_are_named(zoo: Zoo, seed: int) -> None:
    scores = zoo.scores(seed)
    assert [one.specimen for one in scores if one.verdict == "missed"] == []
    assert totals(scores).first >= 0.85
    assert totals(scores).among_three >= 0.95


def test_all_are_found_without_a_look_inside() -> None:
    """Fewer are named; the figures are the benchmark's."""
    scores = [score(one, 0, hide=["keys_values"]) for one in SPECIMENS.values()]
    assert [one.specimen for one in scores if one.verdict == "missed"] == []
    assert totals(scores).first >= 0.75
    assert totals(scores).among_three >= 0.90


def test_nothing_right_is_condemned() -> None:
    assert right_decoders().keys() == {*CONTROLS, *RIGHT}
    assert len(right_decoders()) > 50
    for name in right_decoders():
        for seed in SEEDS:
            report = right_report(name, seed)
            assert report.findings == (), (name, seed)
            assert report.complete


# ------------------------------------------------------------------ the smallest case


def test_shrinking_makes_nothing_larger(zoo: Zoo) -> None:
    pairs = [pair for pairs in zoo.shrunk.values() for pair in pairs]
    assert len(pairs) > 150
    for before, after in pairs:
        assert is_legal(after)
        assert after.size <= before.size
        assert after.n_tokens <= before.n_tokens
    assert np.median([after.n_tokens / before.n_tokens for before, after in pairs]) < 0.4


def test_what_shrinking_leaves_still_fails_on_a_new_object(zoo: Zoo) -> None:
    for (name, seed), report in zoo.reports.items():
        finding = report.findings[0]
        if name in zoo.shrunk:
            assert finding.case is not None
            subject = Subject(SPECIMENS[name].make(seed), math.inf)
            assert run(subject, finding.case).wrong(finding.tolerance), (name, seed)


@pytest.mark.parametrize("one", SPECIMENS.values(), ids=SPECIMENS)
def test_the_snippet_of_each_finding_shows_what_is_wrong(zoo: Zoo, one: Specimen) -> None:
    finding = zoo.reports[one.name, 0].findings[0]
    printed = run_snippet(finding, one.make(0), gold=one.right(0).full)
    if finding.check == "MSK" and finding.evidence[0].id == "full.blind":
        n = len(printed)
        assert any(len(moved) < n - token for token, moved in printed)
        return
    errors = [float(words[-1]) for words in printed]
    assert errors
    assert not max(errors) <= max(finding.tolerance, 1e-9)
    if finding.max_abs_error and np.isfinite(finding.max_abs_error):
        assert max(errors) == pytest.approx(finding.max_abs_error, rel=1e-6)


SAME_IN_CHINESE = (
    "token logit logits full step length lengths capacity window inf NaN float64 block_size gold "
    "supports_padding crop fork reorder reset keys_values NotImplementedError"
)


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_all_that_is_said_has_its_chinese(zoo: Zoo, language: str) -> None:
    """No English word is left but names."""
    reports = list(zoo.reports.values())
    said = {message for report in reports for message in all_said(report)}
    said |= {finding.case.message for one in reports for finding in one.findings if finding.case}
    assert len(said) > 250
    texts = {message.text(language) for message in said}
    words = {word for text in texts for word in re.findall(r"[A-Za-z_]{3,}\d*", text)}
    assert words - set(SAME_IN_CHINESE.split()) == set()


def test_texts_of_any_kind_change_no_name(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    """All texts are written backwards around their places: names stay, nothing breaks."""

    def backwards(text: str) -> str:
        pieces = re.split(r"(\{\w+\})", text)
        return "".join(piece if piece.startswith("{") else piece[::-1] for piece in pieces)

    renamed = {name: backwards(text) for name, text in messages.catalogue("en").items()}
    monkeypatch.setattr(messages, "_loaded", lambda language: messages.Catalogue(renamed))
    for name, specimen in SPECIMENS.items():
        report = report_on(specimen)
        assert named(report) == named(zoo.reports[name, 0]), name
        assert "lluf" in str(report)


def named(report: Report) -> list[Any]:
    return [
        (one.kind, one.check, one.case, one.confidence, [other.kind for other in one.alternatives])
        for one in report.findings
    ]


# ------------------------------------------------------------------ the checker itself, broken


@pytest.mark.parametrize(
    ("stage", "name"),
    [
        (Stage.FEEDING, "slot-write-clamp"),
        (Stage.BATCH, "page-map-contiguous"),
        (Stage.PADDING, "pos-perrow-learned"),
        (Stage.OPERATIONS, "rollback-one-left"),
        (Stage.SECOND_USE, "slot-stale-leftover"),
    ],
)
def test_each_stage_is_needed(
    zoo: Zoo, stage: Stage, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert scored(SPECIMENS[name], 0, zoo.reports[name, 0]).verdict == "first"
    others = {key: value for key, value in checker.STAGES.items() if key is not stage}
    monkeypatch.setattr(checker, "STAGES", others)
    assert score(SPECIMENS[name], 0).verdict != "first"


def test_without_shrinking_cases_would_be_large(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [
        found.findings[0].case.size for found in zoo.reports.values() if found.findings[0].case
    ]
    monkeypatch.setattr(checker, "shrink", lambda case, _: case)
    report = report_on(SPECIMENS["pos-reset-rope"])
    assert report.findings[0].case is not None
    assert report.findings[0].case.size > sorted(sizes)[len(sizes) * 3 // 4]
