"""Somebody's decoder behind a careful wrapper: float64 logits, and a sentence for each fault."""

import math
import numbers
import operator
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvproof.checking.arrays import (
    Logits,
    compressed,
    distance,
    first_line,
    shown,
    to_array,
    what,
)
from kvproof.checking.messages import Message
from kvproof.checking.rounding import EPS

Row = tuple[int, ...]
"""The token IDs of one sequence."""

UNLOCKS = (
    "length",
    "keys_values",
    "crop",
    "reorder",
    "fork",
    "reset",
    "supports_padding",
    "window",
    "block_size",
    "capacity",
)
"""Optional members of a decoder that let the checker look at more; what at, the messages say."""


class Trouble(Exception):
    """The decoder did something that leaves nothing to compare; the message says what."""

    def __init__(self, message: Message) -> None:
        super().__init__(message)
        self.message = message


class Raised(Trouble):
    """The decoder raised something."""

    def __init__(self, name: str, error: BaseException) -> None:
        said: dict[str, Any] = {"member": name, "error": type(error).__name__}
        if line := first_line(error):
            super().__init__(Message("trouble.raised", **said, said=line))
        else:
            super().__init__(Message("trouble.raised-nothing", **said))
        self.name, self.error = name, error

    @property
    def is_refusal(self) -> bool:
        """It is what a decoder raises that won't do what it was asked for."""
        return isinstance(self.error, (ValueError, RuntimeError, IndexError))


class NotSupported(Exception):
    """The decoder raised ``NotImplementedError``: not a fault."""

    def __init__(self, member: str) -> None:
        super().__init__(member)
        self.member = member


class Refused(Exception):
    """The decoder may refuse this, and did: not a fault."""

    def __init__(self, message: Message) -> None:
        super().__init__(message)
        self.message = message


MEMORY = 2**27
"""Bytes of recomputed logits that are kept; then they are forgotten, all at once."""
MOST_TOKENS = 2**31 - 1
"""IDs beyond are never asked for."""


class OutOfTime(BaseException):  # not an Exception: the decoder must not catch it
    """The budget is used up."""


class Subject:
    """The decoder under test.

    Raises:
        Trouble: a call raised, or gave something that isn't what the contract says.
        NotSupported: a call raised ``NotImplementedError``.
        OutOfTime: the budget was used up before a call.
    """

    def __init__(self, decoder: Any, deadline: float) -> None:
        self._decoder = decoder
        self._deadline = deadline
        self._memo: dict[Row, Logits] = {}
        self._memo_bytes = 0
        self.limit = math.inf
        """Logits beyond are compared by their logarithms."""
        self.returns_tensors = False
        """Logits come as PyTorch's tensors."""
        self.n_calls = 0
        self.calling = ""
        self.since = time.monotonic()
        self.declared_dtype = self._declared_dtype()
        self.dtype = self.declared_dtype if self.declared_dtype in EPS else "float64"
        """The coarsest of what is declared and of all logits so far."""
        self.unsupported: set[str] = set()
        for name in ("full", "step"):
            if not callable(self._member(name)):
                raise Trouble(Message("trouble.no-method", member=name))
        # Asked once: a property may raise, now or later.
        self._offered = {
            name
            for name in UNLOCKS
            if (member := self._member(name)) is not None and member is not False
        }
        self.vocab_size = self._size("vocab_size")
        self.max_length = self._size("max_length")
        self.window = self._optional_size("window")
        self.block_size = self._optional_size("block_size")
        self.capacity = self._optional_size("capacity")
        self.keeps_old = self._flag("keeps_old")
        self.quantized = self._flag("quantized")
        self.noise = self._noise()

    @property
    def lossy(self) -> bool:
        """The cache is declared to round on purpose."""
        return self.quantized or self.noise is not None

    @property
    def longest(self) -> int:
        """Tokens of the longest text to feed: what decoder and cache both take."""
        if self.capacity is None or self.window is not None:
            return self.max_length
        return min(self.max_length, self.capacity)

    def has(self, name: str) -> bool:
        """Whether an optional member is there, and hasn't turned out to be unsupported."""
        return name in self._offered and name not in self.unsupported

    def set_limit(self, limit: float) -> None:
        """From now on logits beyond it are compressed."""
        self.limit = limit
        self.forget()

    def forget(self) -> None:
        """Have ``full`` asked anew for every text."""
        self._memo.clear()
        self._memo_bytes = 0

    def full(self, tokens: NDArray[np.int64], lengths: Sequence[int] | None = None) -> Logits:
        """``full`` of a batch (B, T), checked: (B, T, V)."""
        extra = {} if lengths is None else {"lengths": np.array(lengths)}
        return self._logits("full", self._with_tokens("full", tokens, extra), tokens.shape)

    def step(
        self, tokens: NDArray[np.int64], cache: Any, lengths: Sequence[int] | None = None
    ) -> tuple[Logits, Any]:
        """``step`` of a chunk (B, C), checked: (B, C, V) and the next cache."""
        extra = {} if lengths is None else {"lengths": np.array(lengths)}
        answer = self._with_tokens("step", tokens, extra, cache)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise Trouble(Message("trouble.no-pair", got=what(answer)))
        return self._logits("step", answer[0], tokens.shape), answer[1]

    def recompute(self, row: Row) -> Logits:
        """What ``full`` says of one sequence alone, (T, V); asked once for each, or rarely more.

        Raises:
            Trouble: it isn't finite, which it was for other texts.
        """
        if row not in self._memo:
            logits = self.full(np.array([row], np.int64))[0]
            if odd := odd_logits(logits):
                raise Trouble(Message(f"trouble.{odd}", tokens=str(list(row))))
            if self._memo_bytes > MEMORY:
                self.forget()
            self._memo[row] = logits
            self._memo_bytes += logits.nbytes
        return self._memo[row]

    def another(self, token: int) -> int:
        """The next ID, the first after the last: what a token is replaced by."""
        return (token + 1) % self.vocab_size

    def changed(self, row: Row, position: int) -> Row:
        """The row with another token at a position."""
        return (*row[:position], self.another(row[position]), *row[position + 1 :])

    def compare(self, gold: Callable[[Any], Any], row: Row) -> float:
        """How far another implementation's logits of a text are from ``full``'s."""
        tokens = np.array([row], np.int64)
        try:
            answer = gold(tokens)
        except (Exception, SystemExit) as error:
            raise Raised("gold", error) from error
        logits = self._logits("gold", answer, tokens.shape)
        return float(distance(logits[0], self.recompute(row)).max())

    def kv_heads(self) -> int | None:
        """Heads of keys and values, where they can be seen."""
        if not self.has("keys_values"):
            return None
        _, cache = self.step(np.zeros((1, 1), np.int64), None)
        try:
            return int(self.keys_values(cache)[0][0].shape[1])
        except NotSupported:
            return None

    def length(self, cache: Any) -> int:
        """Tokens in a cache, as the decoder counts them."""
        counted = self._call("length", cache)
        try:
            return operator.index(counted)
        except TypeError:
            raise Trouble(Message("trouble.needs-length", got=shown(counted))) from None

    def keys_values(self, cache: Any) -> list[tuple[Logits, Logits]]:
        """(K, V) of each layer, (B, H, T, D); the two may differ in D."""
        pairs = self._call("keys_values", cache)
        try:
            found = [(to_array(keys)[0], to_array(values)[0]) for keys, values in pairs]
        except Exception as error:
            why = first_line(error) or type(error).__name__
            raise Trouble(Message("trouble.keys-values", why=why)) from None
        if not found or any(array.ndim != 4 or not array.size for pair in found for array in pair):
            raise Trouble(Message("trouble.keys-values-shape"))
        for layer, (keys, values) in enumerate(found):
            if keys.shape[:3] != values.shape[:3]:
                shapes = {"keys": str(keys.shape), "values": str(values.shape)}
                raise Trouble(Message("trouble.keys-values-differ", layer=layer, **shapes))
        return found

    def crop(self, cache: Any, length: int, may_refuse: bool = False) -> Any:
        """The cache cut to ``length`` tokens.

        Raises:
            Refused: it ``may_refuse``, as a window has let go of tokens that it would need, or
                nothing would be left, and says so with a ValueError or a RuntimeError.
        """
        return self._unless_refused("crop", cache, length, may_refuse=may_refuse)

    def _unless_refused(self, name: str, *args: Any, may_refuse: bool) -> Any:
        try:
            return self._call(name, *args)
        except Raised as raised:
            if not may_refuse or not raised.is_refusal:
                raise
            raise Refused(raised.message) from None

    def reorder(self, cache: Any, rows: Sequence[int], may_refuse: bool = False) -> Any:
        """The cache with these rows of the batch.

        Raises:
            Refused: it ``may_refuse``, as there would be another number of rows.
        """
        return self._unless_refused("reorder", cache, np.array(rows), may_refuse=may_refuse)

    def fork(self, cache: Any) -> Any:
        """A second cache with the same content."""
        return cache if not self.has("fork") and self.keeps_old else self._call("fork", cache)

    def reset(self) -> None:
        """Back to the first state, where the decoder can do that."""
        if self.has("reset"):
            with suppress(NotSupported):
                self._call("reset")

    def _with_tokens(
        self, name: str, tokens: NDArray[np.int64], extra: dict[str, Any], *more: Any
    ) -> Any:
        given = tokens.copy()
        answer = self._call(name, given, *more, **extra)
        if not np.array_equal(given, tokens):
            before, after = str(tokens.tolist()), str(given.tolist())
            raise Trouble(Message("trouble.tokens", member=name, before=before, after=after))
        return answer

    def _call(self, name: str, *args: Any, **extra: Any) -> Any:
        self._check_time()
        self.n_calls += 1
        self.calling, self.since = name, time.monotonic()
        try:
            return getattr(self._decoder, name)(*args, **extra)
        except NotImplementedError:
            self.unsupported.add(name)
            raise NotSupported(name) from None
        except (OutOfTime, Trouble, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # such as a panic in Rust, or SystemExit
            raise Raised(name, error) from error

    def _check_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise OutOfTime

    def _logits(self, name: str, value: Any, shape: tuple[int, ...]) -> Logits:
        wanted = (*shape, self.vocab_size)
        try:
            logits, dtype = to_array(value)
        except Exception as error:
            why = first_line(error) or type(error).__name__
            raise Trouble(
                Message(
                    "trouble.no-logits", member=name, got=what(value), wanted=str(wanted), why=why
                )
            ) from None
        if logits.shape != wanted:
            shapes = {"got": str(logits.shape), "tokens": str(shape), "wanted": str(wanted)}
            raise Trouble(Message("trouble.shape", member=name, size=self.vocab_size, **shapes))
        if EPS.get(dtype, 0.0) > EPS[self.dtype]:
            self.dtype = dtype
        self.returns_tensors |= hasattr(value, "detach")
        return compressed(logits, self.limit) if self.limit < math.inf else logits

    def _size(self, name: str) -> int:
        value = self._optional_size(name)
        if value is None:
            raise Trouble(Message("trouble.no-member", member=name))
        return value

    def _optional_size(self, name: str) -> int | None:
        value = self._member(name)
        if value is None:
            return None
        try:
            size = operator.index(value)
        except TypeError:
            size = 0
        if isinstance(value, bool) or size < 1:
            raise Trouble(Message("trouble.needs-size", member=name, got=shown(value)))
        return min(size, MOST_TOKENS)

    def _flag(self, name: str) -> bool:
        value = self._member(name)
        try:
            return bool(value)
        except Exception:
            raise Trouble(Message("trouble.needs-flag", member=name, got=shown(value))) from None

    def _noise(self) -> float | None:
        value = self._member("noise")
        if value is None:
            return None
        if not isinstance(value, numbers.Real) or not 0 < float(value) < math.inf:
            raise Trouble(Message("trouble.needs-noise", got=shown(value)))
        return float(value)

    def _declared_dtype(self) -> str | None:
        """The name of what ``dtype`` says, which may be a string or a type of NumPy or PyTorch."""
        value = self._member("dtype")
        if value is None:
            return None
        return str(getattr(value, "__name__", value)).rpartition(".")[2]

    def _member(self, name: str) -> Any:
        """An attribute, None where there is none; a property may raise."""
        try:
            return getattr(self._decoder, name, None)
        except NotImplementedError:
            return None
        except (Exception, SystemExit) as error:
            raise Raised(name, error) from error


def odd_logits(logits: Logits) -> str | None:
    """What no logits may be, as the last part of a message's ID; None if there is nothing of it.

    -inf is legal, for IDs that a model never gives, as long as a row has others.
    """
    if np.isnan(logits).any():
        return "nan"
    if np.isposinf(logits).any():
        return "inf"
    return "minus-inf" if np.isneginf(logits).all(axis=-1).any() else None
