"""Token IDs that are never given: their logits are -inf or huge, in ``full`` and in ``step``."""

from typing import Any

import numpy as np
import pytest
from tests.check.decoders import CONFIG, Plain
from tests.check.said import ids

from kvproof import init_params, top_left_mask
from kvproof.checking import check

FORBIDDEN = {
    "-inf": -np.inf,
    "-1e9": -1e9,
    "the lowest float32": float(np.finfo(np.float32).min),
    "+1e9": 1e9,
}


class Masked(Plain):
    """IDs from 8 on are never given."""

    value = -np.inf
    dtype = "float64"

    def __init__(self, **members: Any) -> None:
        for name, value in members.items():
            setattr(self, name, value)
        self.params = init_params(CONFIG, 0, self.dtype)

    def full(self, tokens: Any) -> Any:
        return self.forbid(super().full(tokens))

    def step(self, tokens: Any, cache: Any) -> Any:
        logits, cache = super().step(tokens, cache)
        return self.forbid(logits), cache

    def forbid(self, logits: Any) -> Any:
        logits = logits.copy()
        logits[..., 8:] = self.value
        return logits


class Added(Masked):
    """The mask is added, so that the forbidden logits still move by what their rounding leaves."""

    def forbid(self, logits: Any) -> Any:
        logits = logits.copy()
        logits[..., 8:] += logits.dtype.type(self.value)
        return logits


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("value", FORBIDDEN.values(), ids=FORBIDDEN)
@pytest.mark.parametrize("decoder", [Masked, Added])
def test_a_masked_vocabulary_hides_nothing(decoder: type[Masked], value: float, dtype: str) -> None:
    right = check(decoder(value=value, dtype=dtype))
    assert right.ok, str(right)
    assert right.tolerance < (1e-4 if dtype == "float32" else 1e-8)
    wrong = check(decoder(value=value, dtype=dtype, mask=top_left_mask))
    assert [finding.kind for finding in wrong.findings] == ["MASK-TOPLEFT"]


@pytest.mark.parametrize("value", [-1e4, -1e9, np.finfo(np.float32).min])
def test_a_huge_logit_that_step_gets_wrong_is_found(value: float) -> None:
    class Open(Masked):
        def step(self, tokens: Any, cache: Any) -> Any:
            logits, cache = super().step(tokens, cache)
            return np.where(logits == self.value, 0.0, logits), cache

    report = check(Open(value=value))
    assert not report.ok
    assert "note.huge" in ids(report.notes)


def test_infinities_on_one_side_only_are_wrong() -> None:
    class Opens(Masked):
        def step(self, tokens: Any, cache: Any) -> Any:
            logits, cache = super().step(tokens, cache)
            return np.where(np.isneginf(logits), -50.0, logits), cache

    [finding] = check(Opens()).findings
    assert finding.max_abs_error == np.inf


def test_a_mask_that_depends_on_the_position_is_legal() -> None:
    """As of a grammar: of the IDs only those of the position's parity may be given."""

    class Grammar(Plain):
        def full(self, tokens: Any) -> Any:
            return self.allow(super().full(tokens), 0)

        def step(self, tokens: Any, cache: Any) -> Any:
            start = 0 if cache is None else cache.length
            logits, cache = super().step(tokens, cache)
            return self.allow(logits, start), cache

        def allow(self, logits: Any, start: int) -> Any:
            positions = start + np.arange(logits.shape[1])[:, None]
            return np.where(positions % 2 == np.arange(11) % 2, logits, -np.inf)

    assert check(Grammar()).ok


@pytest.mark.parametrize(
    ("value", "says"),
    [(np.nan, "trouble.nan"), (np.inf, "trouble.inf")],
)
def test_other_odd_numbers_stay_a_fault(value: float, says: str) -> None:
    [finding] = check(Masked(value=value)).findings
    assert finding.evidence[0].id == says


def test_a_row_without_any_legal_id_is_a_fault() -> None:
    class Nothing(Plain):
        def full(self, tokens: Any) -> Any:
            return np.full_like(super().full(tokens), -np.inf)

    [finding] = check(Nothing()).findings
    assert finding.evidence[0].id == "trouble.minus-inf"


def test_logits_that_never_change_show_nothing() -> None:
    class Constant(Plain):
        def full(self, tokens: Any) -> Any:
            return np.broadcast_to(np.arange(11.0), (*np.shape(tokens), 11))

        def step(self, tokens: Any, cache: Any) -> Any:
            return self.full(tokens), "nothing"

    report = check(Constant())
    assert not report.ok
    assert not report.findings
    assert report.notes[0].id == "note.constant"
    assert report.verdict.id == "report.not-known"
