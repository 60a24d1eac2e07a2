"""Attention masks and positions for a chunk of new tokens after a history.

One signature for all: ``n_past`` tokens lie in the cache, ``n_new`` tokens are fed in this call.
Query row ``i`` of the call stands at absolute position ``n_past + i``; key column ``j`` is
absolute position ``j``.  A mask is True where the query may attend to the key.

With P = ``n_past`` and C = ``n_new``::

    offset_mask(4, 2)          top_left_mask(4, 2)
    1 1 1 1 1 .                1 . . . . .
    1 1 1 1 1 1                1 1 . . . .
"""

import operator
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
Mask = Callable[[int, int], BoolArray]
Positions = Callable[[int, int], IntArray]


def offset_mask(n_past: int, n_new: int) -> BoolArray:
    """The right mask: query ``i`` may attend to key ``j`` iff ``j <= n_past + i``.

    PyTorch calls it ``causal_lower_right``, flash-attention bottom-right aligned.

    Returns:
        bool (n_new, n_past + n_new) with ``P*C + C*(C+1)/2`` True cells.

    Raises:
        ValueError: ``n_past`` is negative or ``n_new`` less than 1.

    Example:
        >>> kvproof.offset_mask(4, 2).astype(int)
        array([[1, 1, 1, 1, 1, 0],
               [1, 1, 1, 1, 1, 1]])
    """
    n_past, n_new = check_lengths(n_past, n_new)
    key_positions = np.arange(n_past + n_new)
    return key_positions <= offset_positions(n_past, n_new)[:, None]


def top_left_mask(n_past: int, n_new: int) -> BoolArray:
    """The wrong mask: the causal triangle pinned to the top left corner, ``j <= i``.

    It has a legal shape and doesn't leak the future; it forgets the past.  Row ``i`` keeps keys 0
    to ``i`` and loses the latest ``n_past`` that it may read, its own included.
    ``is_causal=True`` of PyTorch's scaled_dot_product_attention is this mask.

    Returns:
        bool (n_new, n_past + n_new) with ``C*(C+1)/2`` True cells.

    Raises:
        ValueError: ``n_past`` is negative or ``n_new`` less than 1.

    Example:
        >>> kvproof.top_left_mask(4, 2).astype(int)
        array([[1, 0, 0, 0, 0, 0],
               [1, 1, 0, 0, 0, 0]])
    """
    n_past, n_new = check_lengths(n_past, n_new)
    key_positions = np.arange(n_past + n_new)
    return key_positions <= restarted_positions(n_past, n_new)[:, None]


def open_mask(n_past: int, n_new: int) -> BoolArray:
    """Another wrong mask: every query sees every key, its own future included.

    Returns:
        bool (n_new, n_past + n_new), all True.

    Raises:
        ValueError: ``n_past`` is negative or ``n_new`` less than 1.

    Example:
        >>> kvproof.open_mask(4, 2).astype(int)
        array([[1, 1, 1, 1, 1, 1],
               [1, 1, 1, 1, 1, 1]])
    """
    n_past, n_new = check_lengths(n_past, n_new)
    return np.full((n_new, n_past + n_new), True)


def offset_positions(n_past: int, n_new: int) -> IntArray:
    """The right positions of the new tokens: ``n_past .. n_past + n_new - 1``, int64 (n_new,).

    Raises:
        ValueError: ``n_past`` is negative or ``n_new`` less than 1.

    Example:
        >>> kvproof.offset_positions(4, 2)
        array([4, 5])
    """
    n_past, n_new = check_lengths(n_past, n_new)
    return np.arange(n_past, n_past + n_new)


def restarted_positions(n_past: int, n_new: int) -> IntArray:
    """The wrong positions: ``0 .. n_new - 1``, int64 (n_new,), as if each chunk began a new text.

    Raises:
        ValueError: ``n_past`` is negative or ``n_new`` less than 1.

    Example:
        >>> kvproof.restarted_positions(4, 2)
        array([0, 1])
    """
    n_past, n_new = check_lengths(n_past, n_new)
    return np.arange(n_new)


def visible_keys(
    causal: BoolArray,
    keys: IntArray,
    padding: IntArray,
    window: int | None = None,
    n_sinks: int = 0,
) -> BoolArray:
    """What each query may attend to: a causal mask, narrowed by padding, window and sinks.

    The query at slot ``i`` sees the key at slot ``j`` iff the causal mask opens it, neither is
    padding, and the key is one of the last ``window`` (``i - j < window``) or one of the first
    ``n_sinks`` tokens of its row.  Padding sees itself, so that its numbers stay finite; nobody
    else sees it.

    Args:
        causal: bool (C, P + C), the mask of the call.
        keys: int (1 or B, S), the slots 0 .. P + C - 1 of the keys at hand; -1 is no token.
        padding: int (B,), the slots at the beginning of each row that hold no token.
        window: keys that a query sees, itself included; None = all.
        n_sinks: first tokens that stay visible outside the window.

    Returns:
        bool (B, 1, C, S).
    """
    n_new, n_total = causal.shape
    query = np.arange(n_total - n_new, n_total)[:, None]  # (C, 1)
    key = keys[:, None, None, :]  # (1 or B, 1, 1, S)
    start = padding[:, None, None, None]  # (B, 1, 1, 1)
    visible = np.moveaxis(causal[:, keys], 0, 1)[:, None] & (key >= start)
    if window is not None:
        visible &= (query - key < window) | (key < start + n_sinks)
    return np.where(query < start, key == query, visible)


def check_mask(causal: BoolArray, n_past: int, n_new: int) -> BoolArray:
    """The mask of a call, if it can be one.

    Raises:
        ValueError: it isn't bool (n_new, n_past + n_new).
    """
    wanted = n_new, n_past + n_new
    causal = np.asarray(causal)  # people write their own
    if causal.shape != wanted or causal.dtype != np.bool_:
        raise ValueError(f"mask must be bool {wanted}, got {causal.dtype} {causal.shape}")
    return causal


def check_lengths(n_past: int, n_new: int) -> tuple[int, int]:
    """Both lengths as Python's own integers: NumPy's narrow ones would wrap around in a sum.

    Raises:
        ValueError: one isn't an integer, the history is negative or the chunk empty.
    """
    return check_integer("n_past", n_past, least=0), check_integer("n_new", n_new, least=1)


def check_integer(name: str, value: int, least: int | None = None) -> int:
    """``value`` as Python's own integer.

    Raises:
        ValueError: it isn't an integer, or less than ``least``; the message begins with ``name``.
    """
    try:
        value = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be an integer, got {value!r}") from None
    if least is not None and value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    return value
