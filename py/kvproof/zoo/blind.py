"""What a specimen's bug looks like from outside, and which habits of testing don't see it.

All numbers are computed here and now; nothing is stored.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

import numpy as np

from kvproof.kinds import KINDS
from kvproof.zoo.right import RightDecoder
from kvproof.zoo.scenarios import SCENARIOS, Logits
from kvproof.zoo.specimen import REGISTRY, Specimen

SEEN = 1e-9
"""In float64 the logits of a right cache are within about 1e-13; a bug is beyond this."""

HABITS = ("argmax", "last argmax", "C = 1", "one shot", "B = 1", "first use")
"""Ways to test less: compare the argmax only, or only the last one; feed single tokens only, or one
chunk only; one row without padding; one request for each object."""

COLUMNS = ("one shot", "ones", "prefill, then ones", "ragged")


@dataclass(frozen=True)
class Facts:
    """Of one specimen; errors are medians over the seeds of the largest difference in a logit."""

    name: str
    kind: str
    errors: dict[str, float]
    """Of four chunkings, with one row."""
    trigger: str
    trigger_error: float
    argmax: float
    """Share of the seeds in which the trigger changes any argmax at all."""
    argmax_last: float
    """The same, of the last call's last position alone."""
    blind: tuple[str, ...]
    """Of ``HABITS``: the argmaxes of the trigger with any of the seeds, the others with the first
    seed and everything that the habit allows."""


@dataclass(frozen=True)
class Outcome:
    """One scenario on the broken and on the right decoder."""

    error: float
    """Largest difference of a logit; inf where shapes differ, one raises or is NaN."""
    argmax: bool
    """Whether an argmax differs."""
    last: bool
    """Whether it does at the end."""


SAME = Outcome(0.0, False, False)


def run(decoder: RightDecoder, name: str, seed: int, n_rows: int) -> Logits | str:
    """The logits of a scenario; a sentence if the decoder raises."""
    try:
        return SCENARIOS[name].run(decoder, seed, n_rows)
    except NotImplementedError:
        return "unsupported"
    except (ValueError, IndexError) as error:
        return f"{type(error).__name__}: {error}"


def outcome(specimen: Specimen, name: str, seed: int, n_rows: int | None = None) -> Outcome:
    """Hold a specimen against what it should have been.

    Args:
        specimen: of the zoo.
        name: of a scenario.
        seed: of the parameters and of the text.
        n_rows: rows of the batch; None: as the scenario has them.

    Raises:
        ValueError: there is no such scenario.
    """
    if name not in SCENARIOS:
        raise ValueError(f"scenario must be one of {', '.join(SCENARIOS)}, got {name!r}")
    n_rows = SCENARIOS[name].n_rows if n_rows is None else n_rows
    actual = run(specimen.make(seed), name, seed, n_rows)
    expected = _expected(specimen.right, name, seed, n_rows)
    if "unsupported" in (actual, expected):
        return SAME
    return compare(actual, expected)


@lru_cache(maxsize=1024)
def _expected(
    right: Callable[..., RightDecoder], name: str, seed: int, n_rows: int
) -> Logits | str:
    return run(right(seed), name, seed, n_rows)


def compare(actual: Logits | str, expected: Logits | str) -> Outcome:
    """Largest difference, and whether an argmax differs."""
    if isinstance(actual, str) or isinstance(expected, str):
        return SAME if actual == expected else Outcome(np.inf, True, True)
    if [a.shape for a in actual] != [e.shape for e in expected]:
        return Outcome(np.inf, True, True)
    differences = [np.abs(a - e).max() for a, e in zip(actual, expected, strict=True)]
    error = float(np.max(differences))  # a NaN stays
    changed = [a.argmax(-1) != e.argmax(-1) for a, e in zip(actual, expected, strict=True)]
    last = changed[-1][..., -1].any()
    any_changed = any(array.any() for array in changed)
    return Outcome(np.inf if np.isnan(error) else error, any_changed, bool(last))


def facts(specimen: Specimen, seeds: Sequence[int] = (0, 1, 2)) -> Facts:
    """Measure a specimen with these seeds.

    Raises:
        ValueError: no seeds.
    """
    if not seeds:
        raise ValueError("facts need at least one seed")

    def error(name: str) -> float:
        return median(outcome(specimen, name, seed).error for seed in seeds)

    triggers = [outcome(specimen, specimen.trigger, seed) for seed in seeds]
    argmax = float(np.mean([trigger.argmax for trigger in triggers]))
    last = float(np.mean([trigger.last for trigger in triggers]))
    return Facts(
        specimen.name,
        specimen.kind,
        {name: error(name) for name in COLUMNS},
        specimen.trigger,
        median(trigger.error for trigger in triggers),
        argmax,
        last,
        _blind(specimen, seeds[0], argmax, last),
    )


def _blind(specimen: Specimen, seed: int, argmax: float, last: float) -> tuple[str, ...]:
    """A habit is blind if nothing that it allows shows a difference."""

    def sees(names: Sequence[str], n_rows: int | None = None) -> bool:
        return any(outcome(specimen, name, seed, n_rows).error > SEEN for name in names)

    names = sorted(SCENARIOS, key=lambda name: name != specimen.trigger)  # the quickest answer
    first = [name for name in names if SCENARIOS[name].n_requests == 1]
    is_seen = (
        argmax > 0,
        last > 0,
        sees(["ones"]),
        sees(["one shot"]),
        sees(names, n_rows=1),
        sees(first),
    )
    return tuple(habit for habit, seen in zip(HABITS, is_seen, strict=True) if not seen)


def lines(seeds: Sequence[int] = (0, 1, 2)) -> Iterator[str]:
    """The table of all specimens, line by line as they are measured: some seconds in all.

    Raises:
        ValueError: no seeds.
    """
    yield head()
    rows: list[Facts] = []
    for specimen in sorted(REGISTRY.values(), key=lambda specimen: KINDS.index(specimen.kind)):
        rows.append(facts(specimen, seeds))
        yield line(rows[-1])
    yield ""
    yield from summary(rows, len(seeds))


def head() -> str:
    """The table's first line."""
    columns = f"{'specimen':<24}{'one shot':>9}{'ones':>9}{'6, ones':>9}{'ragged':>9}{'trigger':>9}"
    return f"{columns}{'argmax':>8}{'last':>6}  trigger; blind to it"


def line(row: Facts) -> str:
    """A specimen's line."""
    errors = [*(row.errors[name] for name in COLUMNS), row.trigger_error]
    numbers = "".join(f"{_short(error):>9}" for error in errors)
    shares = f"{row.argmax:>8.0%}{row.argmax_last:>6.0%}"
    return f"{row.name:<24}{numbers}{shares}  {row.trigger}; {', '.join(row.blind) or 'none'}"


def summary(rows: Sequence[Facts], n_seeds: int) -> Iterator[str]:
    """What stands below the table."""
    blind = Counter(habit for row in rows for habit in row.blind)
    seeds = f"{n_seeds} seeds" if n_seeds > 1 else "1 seed"
    yield f"{len(rows)} specimens, float64, median error over {seeds}; 0: below {SEEN:g}"
    yield "blind: " + ", ".join(f"{habit} to {blind[habit]}" for habit in HABITS)


def table(seeds: Sequence[int] = (0, 1, 2)) -> str:
    """All ``lines`` as one text.

    Raises:
        ValueError: no seeds.
    """
    return "\n".join(lines(seeds))


def _short(error: float) -> str:
    return "0" if error <= SEEN else f"{error:.2g}"
