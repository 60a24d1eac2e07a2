"""Two requests at a time on one object: each has a cache of its own, so both must be right."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.check.decoders import CONFIG, Plain
from tests.check.said import run_snippet

from kvproof import decode, new_cache
from kvproof.checking import check
from kvproof.checking.cases import Case, Op, feeds, is_legal, run
from kvproof.checking.names import CaseId
from kvproof.checking.subject import Subject


@dataclass
class Handle:
    """Of no content: the one cache is in the decoder."""

    length: int


class OneCache(Plain):
    """Keeps its cache to itself and begins anew whenever it is given none."""

    def step(self, tokens: Any, cache: Any) -> Any:
        if cache is None:
            self.cache = new_cache(CONFIG, len(tokens), "float64")
        logits, self.cache = decode(self.params, tokens, self.cache, CONFIG)
        return logits, Handle(self.cache.length)


def test_one_cache_for_all_requests_is_found() -> None:
    assert check(Plain()).ok
    [finding] = check(OneCache()).findings
    assert finding.kind == "ALIAS"
    assert finding.case is not None
    assert [op.action for op in finding.case.ops].count("switch") == 1
    [fails] = [said for said in finding.evidence if said.id == "fails.cases"]
    assert CaseId.IN_TURNS.message in fails.args["cases"]


def test_its_snippet_shows_it() -> None:
    [finding] = check(OneCache()).findings
    assert run_snippet(finding, OneCache())[-1][1] == pytest.approx(finding.max_abs_error)
    assert run_snippet(finding, Plain())[-1][1] < finding.tolerance


def test_after_a_restart_a_switch_goes_back_to_the_first() -> None:
    ops = (*feeds([2]), Op("restart"), *feeds([3]), Op("switch"), *feeds([1]), Op("switch"))
    case = Case(((1, 2, 3, 4, 5, 6, 7),), (*ops, *feeds([1])))
    assert is_legal(case)
    assert not is_legal(Case(case.tokens, (*feeds([2]), Op("switch"), *feeds([1]))))
    histories = [seen.histories[0] for seen in run(Subject(Plain(), np.inf), case).observations]
    assert histories == [(1, 2), (3, 4, 5), (1, 2, 6), (3, 4, 5, 7)]
