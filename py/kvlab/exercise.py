"""The reader's exercise: ten tokens in the cache, three new ones in one call."""

from types import EllipsisType

import numpy as np
from numpy.typing import ArrayLike

from kvproof import offset_mask, offset_positions, top_left_mask

N_PAST, N_NEW = 10, 3

_HINTS = {
    "positions": f"the cache already holds positions 0 to {N_PAST - 1}",
    "score_shape": "a row for each new query, a column for each key, cached or new",
    "keys_read": "a query reads the whole history, the new tokens before it, and itself",
    "top_left_keys": "that triangle begins at key 0, as if there were no history",
}

_REASONS = {
    "positions": f"after the {N_PAST} cached ones",
    "score_shape": f"{N_NEW} queries, {N_PAST} + {N_NEW} keys",
    "keys_read": f"{N_PAST} cached keys, then one more new key a row",
    "top_left_keys": f"keys 0, 1, ... as if {N_PAST} were 0: each row loses its latest {N_PAST}",
}


def check(**given: ArrayLike | EllipsisType | None) -> None:
    """Print for each answer whether it is right; a wrong one gets a hint.

    Args:
        given: answers by name, each a list of integers; ``...`` or None where there is none yet.

    Raises:
        ValueError: there is no question of that name.
    """
    right = right_answers()
    for name, value in given.items():
        if name not in right:
            raise ValueError(f"no question {name!r}; the questions are {', '.join(right)}")
        if value is None or value is ...:
            verdict = "no answer yet"
        elif np.array_equal(value, right[name]):
            verdict = "right"
        else:
            verdict = f"wrong: {_HINTS[name]}"
        print(f"{name:14} {verdict}")


def answer() -> None:
    """Print the right answers with a reason each."""
    for name, value in right_answers().items():
        print(f"{name:14} {value}: {_REASONS[name]}")


def right_answers() -> dict[str, list[int]]:
    """The answers by name, read off the masks."""
    mask = offset_mask(N_PAST, N_NEW)
    return {
        "positions": offset_positions(N_PAST, N_NEW).tolist(),
        "score_shape": list(mask.shape),
        "keys_read": mask.sum(axis=1).tolist(),
        "top_left_keys": top_left_mask(N_PAST, N_NEW).sum(axis=1).tolist(),
    }
