"""How the checker does on the zoo: what it finds, what it calls it, and what it must not find.

The only module that knows both; neither the zoo nor the checker imports the other.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kvproof.checking.checker import check
from kvproof.checking.report import Report, plain
from kvproof.zoo import CONTROLS, RIGHT, SPECIMENS, Facts, Specimen, blind

BUDGET_S = 300.0
"""More than any check takes: a busy machine must not change a score."""


@dataclass(frozen=True)
class Score:
    """What the checker says of one specimen with one seed."""

    specimen: str
    kind: str
    seed: int
    named: tuple[str, ...]
    """The kinds of the first finding, the likeliest first; empty if nothing was found."""
    seconds: float

    @property
    def place(self) -> int | None:
        """1 if its kind was named first; None if it wasn't named."""
        return self.named.index(self.kind) + 1 if self.kind in self.named else None

    @property
    def verdict(self) -> str:
        """One of ``VERDICTS``."""
        if not self.named:
            return "missed"
        return "other" if self.place is None else VERDICTS[min(self.place, 4) - 1]


VERDICTS = ("first", "second", "third", "later", "other", "missed")
"""Where the right kind stands among those that the checker names, the best first; ``other``: it
isn't among them; ``missed``: nothing was found at all."""


class Hidden:
    """A decoder without the look inside, or without any other of its optional members."""

    def __init__(self, decoder: Any, *names: str) -> None:
        self._decoder = decoder
        self._names = names

    def __getattr__(self, name: str) -> Any:
        if name in self._names:
            raise AttributeError(name)
        return getattr(self._decoder, name)


def report_on(specimen: Specimen, seed: int = 0, hide: Sequence[str] = ()) -> Report:
    """Check a specimen.  If it says that ``full`` is wrong as well, the right one's is the gold.

    Args:
        specimen: of the zoo.
        seed: of its parameters and of the checker's texts.
        hide: optional members that the checker shall not see, such as ``keys_values``.
    """
    gold = specimen.right(seed).full if specimen.gold else None
    decoder = specimen.make(seed)
    return check(Hidden(decoder, *hide) if hide else decoder, seed, BUDGET_S, gold)


def score(specimen: Specimen, seed: int = 0, hide: Sequence[str] = ()) -> Score:
    """Check a specimen, and see whether the checker finds and names what is wrong with it."""
    return scored(specimen, seed, report_on(specimen, seed, hide))


def scored(specimen: Specimen, seed: int, report: Report) -> Score:
    """What a report on a specimen is worth."""
    named: tuple[str, ...] = ()
    if report.findings:
        first = report.findings[0]
        named = (first.kind, *(other.kind for other in first.alternatives))
    return Score(specimen.name, specimen.kind, seed, named, report.seconds)


@dataclass(frozen=True)
class Totals:
    """Shares of the specimens, each with each seed."""

    n: int
    detected: float
    first: float
    """Its kind is named first."""
    among_three: float

    def __str__(self) -> str:
        return (
            f"found {self.detected:.1%}, named first {self.first:.1%}, "
            f"among the first three {self.among_three:.1%} of {self.n}"
        )


def totals(scores: Iterable[Score]) -> Totals:
    """Sum up.

    Raises:
        ValueError: there are none.
    """
    scores = list(scores)
    if not scores:
        raise ValueError("no scores to sum up")
    places = [one.place or 99 for one in scores]

    def share(hits: Iterable[bool]) -> float:
        return sum(hits) / len(places)

    return Totals(
        len(places),
        share(bool(one.named) for one in scores),
        share(place == 1 for place in places),
        share(place <= 3 for place in places),
    )


@dataclass(frozen=True)
class Row:
    """A specimen's line of the zoo's table."""

    facts: Facts
    scores: tuple[Score, ...]
    """One for each seed."""

    @property
    def worst(self) -> Score:
        """Of the seeds."""
        return max(self.scores, key=lambda one: VERDICTS.index(one.verdict))

    def __str__(self) -> str:
        worst = self.worst
        said = "" if worst.place == 1 or not worst.named else f"; named {worst.named[0]}"
        return f"{worst.verdict:<9}{blind.line(self.facts)}{said}"


def rows(seeds: Sequence[int] = (0, 1, 2)) -> Iterator[Row]:
    """The zoo's table with what the checker says, row by row as they are measured.

    Raises:
        ValueError: no seeds.
    """
    for specimen in SPECIMENS.values():
        facts = blind.facts(specimen, seeds)
        yield Row(facts, tuple(score(specimen, seed) for seed in seeds))


HEAD = f"{'checker':<9}{blind.head()}"


def summary(table: Sequence[Row]) -> Iterator[str]:
    """What stands below the table."""
    yield from blind.summary([row.facts for row in table], len(table[0].scores))
    yield f"the checker: {totals(one for row in table for one in row.scores)}"
    yield "its column: where the right kind stands among those that it names, in the worst seed"


def to_json(table: Sequence[Row]) -> str:
    """All figures of the table, strict JSON."""
    content = {"checker": totals(one for row in table for one in row.scores), "rows": table}
    return json.dumps(plain(content), indent=2, allow_nan=False)


def right_decoders() -> dict[str, Callable[..., Any]]:
    """Name -> ``make(seed, ...)`` of a right decoder of the zoo: none may have a finding."""
    return {name: control.make for name, control in CONTROLS.items()} | RIGHT


def right_report(name: str, seed: int) -> Report:
    """Check one of ``right_decoders``."""
    return check(right_decoders()[name](seed), seed, BUDGET_S)
