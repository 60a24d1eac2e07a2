"""What a diagnosis starts from, and what it comes to."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvproof.checking.cases import Observation, Result
from kvproof.checking.messages import Message
from kvproof.checking.names import CaseId, Check
from kvproof.checking.probes import Probes
from kvproof.checking.report import Alternative
from kvproof.checking.subject import Row, Subject
from kvproof.kinds import Kind

EXACT, STRONG, LIKELY, HINT = 9, 5, 3, 1
"""Weights: an exact match with what a mistake would give; a question that few mistakes answer
alike; what fits some kinds better than others; a kind that can't be ruled out."""


@dataclass(frozen=True)
class Facts:
    """What is known when the questions begin."""

    probes: Probes
    results: Mapping[CaseId, Result]
    """All cases of the stage that were run."""
    first: Result
    """The simplest that failed, with a random text."""
    smallest: Result
    """What shrinking made of it."""
    error_limit: float
    """What not even a lossy cache may be off by."""

    @property
    def subject(self) -> Subject:
        """The decoder."""
        return self.probes.subject

    @property
    def tolerance(self) -> float:
        """What a right cache may be off by."""
        return self.probes.tolerance

    @property
    def wrong(self) -> dict[CaseId, Result]:
        """The cases that failed."""
        return {name: r for name, r in self.results.items() if r.wrong(self.tolerance)}

    def is_right(self, name: CaseId) -> bool | None:
        """Whether a case of the stage came out right; None: it wasn't run.

        Raises:
            KeyError: there is no such case.
        """
        if name not in CaseId.__members__.values():
            raise KeyError(f"no case {name!r}")
        return None if name not in self.results else name not in self.wrong

    def is_wrong(self, name: CaseId) -> bool:
        """Whether a case of the stage was run and failed."""
        return self.is_right(name) is False

    def gives(self, seen: Observation, history: Row, row: int = 0) -> bool:
        """Whether the bad logits of a call are those of another history, exactly."""
        n_new = seen.logits.shape[1]
        if not n_new <= len(history) <= self.subject.max_length:
            return False
        bad = seen.errors[row] > self.tolerance
        wanted = self.subject.recompute(tuple(history))[-n_new:]
        return bool(bad.any()) and self.probes.same(seen.logits[row, bad], wanted[bad])


@dataclass
class Verdict:
    """Kinds with their weights, and what speaks for them."""

    weights: dict[Kind, float] = field(default_factory=dict)
    reasons: dict[Kind, tuple[float, Message]] = field(default_factory=dict)
    evidence: list[Message] = field(default_factory=list)
    check: Check | None = None
    layer: int | None = None

    def add(self, kind: Kind, weight: float, why: Message | None = None) -> None:
        """Weigh in for a kind; the heaviest reason is kept."""
        if why is not None and (kind not in self.reasons or weight >= self.reasons[kind][0]):
            self.reasons[kind] = weight, why
        self.weights[kind] = self.weights.get(kind, 0.0) + weight

    @property
    def settled(self) -> bool:
        """Something strong is known: further questions would only blur it."""
        return max(self.weights.values(), default=0.0) >= STRONG

    @property
    def ranking(self) -> list[Alternative]:
        """The kinds, the heaviest first."""
        total = sum(self.weights.values())
        if not total:
            return [Alternative(Kind.UNKNOWN, 0.0)]
        order = sorted(self.weights, key=lambda kind: -self.weights[kind])
        return [
            Alternative(kind, round(self.weights[kind] / total, 3), self._why(kind))
            for kind in order
        ]

    def _why(self, kind: Kind) -> Message | None:
        return self.reasons[kind][1] if kind in self.reasons else None
