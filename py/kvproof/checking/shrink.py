"""From a failing case to the smallest that still fails in the same way."""

from collections.abc import Callable

from kvproof.checking.cases import Case, is_legal, smaller

MAX_RUNS = 400


def shrink(case: Case, fails: Callable[[Case], bool]) -> Case:
    """The first smaller case that fails takes over, until none does.

    Deterministic: the order of the candidates is fixed.  Gives up after ``MAX_RUNS`` runs with
    what it has.
    """
    tried: set[Case] = {case}
    found = True
    while found and len(tried) < MAX_RUNS:
        found = False
        for candidate in smaller(case):
            if candidate in tried or not is_legal(candidate) or candidate.size >= case.size:
                continue
            tried.add(candidate)
            if fails(candidate):
                case, found = candidate, True
                break
            if len(tried) >= MAX_RUNS:
                break
    return case
