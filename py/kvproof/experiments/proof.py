"""The proof that a cache is right: claims that must hold, and controls that must fail.

Every claim compares all positions, all logits and every layer's keys and values with a full
recompute, in both precisions.  A claim holds when its error is within a few units of rounding.  A
control is a known mistake: it is seen when its error is beyond what a claim would forgive.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kvproof.experiments.receptive_field import another_token
from kvproof.model.cache import STORAGES, KVCache, StaleCacheError, new_cache
from kvproof.model.cached_decoder import decode
from kvproof.model.config import REFERENCE, DecoderConfig
from kvproof.model.decoder import forward
from kvproof.model.feeding import every_prefix, example_text, in_chunks
from kvproof.model.masks import open_mask, restarted_positions, top_left_mask
from kvproof.model.params import FloatArray, Params, init_params
from kvproof.model.rounding import rounding_floor

N_TOKENS = 24
RAGGED = (5, 3, 7, 9)
DTYPES = ("float32", "float64")

ROUNDING_UNITS = 2**8
"""A right cache sums the same numbers in another order: so many units of ``eps * max |logit|``
are allowed, in both precisions, as the checker allows them in float32 (``checking.rounding``).
Under six kernels of OpenBLAS the reference and its variants need 5, and 58 if LayerNorm has two
features to divide by their spread."""

Kind = Literal["claim", "control", "change"]
"""A claim must be within its bound.  Beyond it must be a control, a mistake put in on purpose, and
a change: of what the tokens say, which the logits are to follow."""


@dataclass(frozen=True)
class Claim:
    """One row of a proof: an error and what it is held against."""

    group: str
    """One of ``GROUPS``."""
    name: str
    """For people; programs ask for ``case``."""
    dtype: str
    error: float
    """Largest absolute difference; inf where shapes differ."""
    bound: float
    """What a claim's error may be at most, and what any other's must be more than."""
    kind: Kind = "claim"
    note: str = ""
    case: dict[str, Any] = field(default_factory=dict)
    """What tells it from the others of its group: lengths, seeds, keys of ``MISTAKES``."""

    @property
    def passed(self) -> bool:
        """Whether the error is on the right side of its bound; a NaN is beyond."""
        within = self.error <= self.bound  # False for a NaN
        return within == (self.kind == "claim")

    def __str__(self) -> str:
        verdict, note, side = "pass", self.note, "<=" if self.kind == "claim" else "> "
        if not self.passed:
            verdict = "FAIL" if self.kind == "claim" else "open"
            note = note if self.kind == "claim" else f"can't be seen here; {note}".rstrip("; ")
        comparison = f"{self.error:9.2e} {side} {self.bound:.1e}"
        return f"{verdict}  {self.dtype}  {self.name:<52}{comparison}  {note}".rstrip()


@dataclass(frozen=True)
class Proof:
    """All claims on one decoder; printed, it is a table."""

    config: DecoderConfig
    storage: str
    seed: int
    claims: tuple[Claim, ...]

    @property
    def passed(self) -> bool:
        """Whether every claim holds and every control was seen."""
        return not self.failures and not self.unseen

    @property
    def failures(self) -> tuple[Claim, ...]:
        """The claims that don't hold: the cache is wrong."""
        return tuple(c for c in self.claims if not c.passed and c.kind == "claim")

    @property
    def unseen(self) -> tuple[Claim, ...]:
        """The mistakes and changes that make no difference to this decoder.

        They say nothing against it, and the claims nothing about such a mistake: with a window of
        1 a token sees itself alone, wherever it stands.
        """
        return tuple(c for c in self.claims if not c.passed and c.kind != "claim")

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON has it; an error that is no finite number becomes a string."""
        claims = [
            {
                **asdict(claim),
                "error": claim.error if math.isfinite(claim.error) else str(claim.error),
                "passed": claim.passed,
            }
            for claim in self.claims
        ]
        return {
            "config": asdict(self.config),
            "storage": self.storage,
            "seed": self.seed,
            "passed": self.passed,
            "claims": claims,
        }

    def __str__(self) -> str:
        lines = [f"{self.config}, storage {self.storage}, seed {self.seed}"]
        group = ""
        for claim in self.claims:
            if claim.group != group:
                group = claim.group
                lines += ["", GROUPS[group]]
            lines.append(f"  {claim}")
        n_claims = sum(claim.kind == "claim" for claim in self.claims)
        n_others = len(self.claims) - n_claims
        lines += [
            "",
            f"{n_claims - len(self.failures)} of {n_claims} claims hold, "
            f"{n_others - len(self.unseen)} of {n_others} controls and changes are seen",
        ]
        return "\n".join(lines)


def prove(config: DecoderConfig = REFERENCE, seed: int = 0, storage: str = "concat") -> Proof:
    """Hold a cached decoder against a full recompute in every way that this package knows.

    24 tokens, float32 and float64: batches of 1 and 2 in chunks of 1, 2 and 5; a first prefill of
    1, 4 and 8 tokens, then one by one; keys and values per layer; three ways to feed a text on
    three seeds; left padding; causality; what a call does to the cache that it is given; crop,
    reorder and fork; and controls that must fail.

    Args:
        config: the decoder; at least 24 positions.
        seed: of the parameters; the two after it are used as well.
        storage: how keys and values are kept; not int8, which rounds them on purpose.

    Raises:
        ValueError: ``storage`` is int8 or unknown, or doesn't suit ``config``, or the decoder has
            fewer than 24 positions.

    Example:
        >>> proof = kvproof.prove(kvproof.LAB, storage="static")
        >>> proof.passed, proof.failures
        (True, ())
    """
    if storage in STORAGES and not STORAGES[storage].is_exact:
        raise ValueError(f"{storage} rounds keys and values on purpose: no bound of rounding fits")
    if config.max_positions < N_TOKENS:
        raise ValueError(
            f"a proof takes {N_TOKENS} positions, the decoder has {config.max_positions}"
        )
    claims: list[Claim] = []
    for dtype in DTYPES:
        model = _Model(config, storage, seed, dtype)
        for part in (_equivalence, _first_prefill, _padding, _causality, _lifetime, _operations):
            claims += part(model)
    models = [_Model(config, storage, seed + i, "float64") for i in range(3)]
    for part in (_paths, _controls):
        claims += [claim for model in models for claim in part(model)]
    order = list(GROUPS)
    claims.sort(key=lambda claim: order.index(claim.group))  # stable: else in the order above
    return Proof(config, storage, seed, tuple(claims))


EQUIVALENCE, KEYS_VALUES, FIRST_PREFILL = "equivalence", "keys-values", "first-prefill"
PATHS, PADDING, CAUSALITY = "paths", "padding", "causality"
LIFETIME, OPERATIONS, CONTROLS = "lifetime", "operations", "controls"
GROUPS = {
    EQUIVALENCE: f"Logits: {N_TOKENS} tokens in chunks, against a full recompute",
    KEYS_VALUES: "Keys and values: the same runs, against one call",
    FIRST_PREFILL: "A first prefill, then one by one",
    PATHS: "Three ways to feed a text, float64, three seeds",
    PADDING: "Left padding: each row against the row alone",
    CAUSALITY: "Causality: the last token changes, earlier logits don't",
    LIFETIME: "Lifetime: a call leaves the cache that it is given as it was",
    OPERATIONS: "Crop, pick rows, fork, and go on: against a recompute of what is left",
    CONTROLS: "Controls: mistakes that must be seen",
}
"""Key of a group -> its heading."""

MISTAKES: dict[str, tuple[str, dict[str, Any]]] = {
    "top-left-mask": ("mask without offset", {"mask": top_left_mask}),
    "open-mask": ("no mask", {"mask": open_mask}),
    "restarted-positions": ("positions restart", {"positions": restarted_positions}),
}
"""Key -> name, and the arguments of ``decode`` that inject it."""


class _Model:
    """A decoder with its parameters, and how to feed it."""

    def __init__(self, config: DecoderConfig, storage: str, seed: int, dtype: str) -> None:
        self.config = config
        self.storage = storage
        self.seed = seed
        self.dtype = dtype
        self.params: Params = init_params(config, seed, dtype)

    def text(self, batch_size: int = 1) -> NDArray[np.generic]:
        return example_text(self.config, N_TOKENS, batch_size)

    def changed_text(self) -> NDArray[np.generic]:
        """The text with another last token."""
        text = self.text(2)
        text[:, -1] = another_token(text[:, -1], self.config)
        return text

    def recompute(self, text: ArrayLike, lengths: ArrayLike | None = None) -> FloatArray:
        return forward(self.params, text, self.config, lengths)

    def feed(
        self, text: NDArray[np.generic], sizes: Sequence[int], **how: Any
    ) -> tuple[FloatArray, KVCache]:
        empty = new_cache(self.config, len(text), self.dtype, storage=self.storage)
        return in_chunks(self.params, text, self.config, sizes, empty, **how)

    def claim(
        self,
        group: str,
        name: str,
        actual: FloatArray,
        expected: FloatArray,
        kind: Kind = "claim",
        note: str = "",
        **case: Any,
    ) -> Claim:
        """The two are equal up to rounding; or, as a control or a change, they are not."""
        error = difference(actual, expected)
        return Claim(
            group,
            name,
            self.dtype,
            error,
            ROUNDING_UNITS * rounding_floor(expected),
            kind,
            note,
            case,
        )


def difference(actual: FloatArray, expected: FloatArray) -> float:
    """Largest absolute difference: NaN if any number is one, inf if shapes or dtypes differ."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return math.inf
    return float(np.abs(actual.astype(np.float64) - expected).max())


def in_chunks_of(size: int, n_total: int = N_TOKENS) -> list[int]:
    """A text cut into chunks of one size; the last may be short."""
    return [min(size, n_total - start) for start in range(0, n_total, size)]


def _equivalence(model: _Model) -> Iterator[Claim]:
    keys_values: dict[str, list[tuple[FloatArray, FloatArray]]] = {}
    for batch_size in (1, 2):
        text = model.text(batch_size)
        expected = model.recompute(text)
        _, whole = model.feed(text, [N_TOKENS])
        for size in (1, 2, 5):
            name = f"batch {batch_size}, chunks of {size}"
            logits, cache = model.feed(text, in_chunks_of(size))
            yield model.claim(EQUIVALENCE, name, logits, expected)
            for layer, (pair, other) in enumerate(
                zip(cache.keys_values(), whole.keys_values(), strict=True), start=1
            ):
                for kind, actual, wanted in zip(("keys", "values"), pair, other, strict=True):
                    keys_values.setdefault(f"{kind} of layer {layer}", []).append((actual, wanted))
    for name, pairs in keys_values.items():
        claims = [model.claim(KEYS_VALUES, name, *pair) for pair in pairs]
        yield max(claims, key=lambda claim: (not claim.passed, claim.error))


def _first_prefill(model: _Model) -> Iterator[Claim]:
    text = model.text()
    expected = model.recompute(text)
    for n_first in (1, 4, 8):
        logits, _ = model.feed(text, [n_first, *[1] * (N_TOKENS - n_first)])
        yield model.claim(FIRST_PREFILL, f"{n_first} at once", logits, expected, n_first=n_first)


def _paths(model: _Model) -> Iterator[Claim]:
    text = model.text()
    expected = model.recompute(text)
    chunks = f"chunks of {', '.join(map(str, RAGGED))}"
    paths = {
        "every-prefix": ("every prefix recomputed", every_prefix(model.params, text, model.config)),
        "one-by-one": ("one by one", model.feed(text, [1] * N_TOKENS)[0]),
        "chunked": (chunks, model.feed(text, RAGGED)[0]),
    }
    for path, (name, logits) in paths.items():
        name = f"seed {model.seed}, {name}"
        yield model.claim(PATHS, name, logits, expected, path=path, seed=model.seed)


def _padding(model: _Model) -> Iterator[Claim]:
    text = model.text(2)
    lengths = (N_TOKENS, N_TOKENS - 9)
    logits, _ = model.feed(text, RAGGED, lengths=lengths)
    for name, padded in (("recomputed", model.recompute(text, lengths)), ("cached", logits)):
        for row, length in enumerate(lengths):
            alone = model.recompute(text[row : row + 1, -length:])
            name_of_row = f"{name}, {length} tokens after {N_TOKENS - length} of padding"
            yield model.claim(PADDING, name_of_row, padded[row : row + 1, -length:], alone)


def _causality(model: _Model) -> Iterator[Claim]:
    text, changed = model.text(2), model.changed_text()
    sizes = (10, N_TOKENS - 10)
    for name, before, after in (
        ("recomputed", model.recompute(text), model.recompute(changed)),
        ("cached", model.feed(text, sizes)[0], model.feed(changed, sizes)[0]),
    ):
        moved = difference(after[:, :-1], before[:, :-1])
        yield Claim(CAUSALITY, f"{name}: earlier logits", model.dtype, moved, 0.0)
        own = f"{name}: its own logits do change"
        yield model.claim(CAUSALITY, own, after[:, -1], before[:, -1], "change")
    open_before, _ = model.feed(text, sizes, mask=open_mask)
    open_after, _ = model.feed(changed, sizes, mask=open_mask)
    name = "without a mask: earlier logits change"
    yield model.claim(CAUSALITY, name, open_after[:, :-1], open_before[:, :-1], "control")


def _lifetime(model: _Model) -> Iterator[Claim]:
    text = model.text()
    _, past = model.feed(text[:, :10], [10])
    kept = past.fork()
    before = _contents(kept)
    decode(model.params, text[:, 10:], past, model.config)
    name, note = "numbers changed in the cache that was given", ""
    try:
        changed = _changed_numbers(before, _contents(past))
    except StaleCacheError:  # a storage that writes in place: what is used up can't mislead
        changed, note = 0.0, "refuses further use"
    yield Claim(LIFETIME, name, model.dtype, changed, 0.0, note=note)
    name = "numbers changed in a fork of it"
    yield Claim(LIFETIME, name, model.dtype, _changed_numbers(before, _contents(kept)), 0.0)
    before[0].flat[0] = np.nextafter(before[0].flat[0], np.inf)
    name = "one number moved by one bit is seen"
    changed = _changed_numbers(before, _contents(kept))
    yield Claim(LIFETIME, name, model.dtype, changed, 0.0, "control")


def _contents(cache: KVCache) -> list[NDArray[Any]]:
    """Copies of all that a cache says of itself."""
    pairs = [array.copy() for pair in cache.keys_values() for array in pair]
    return [*pairs, cache.padding.copy(), np.array(cache.length)]


def _changed_numbers(before: list[NDArray[Any]], after: list[NDArray[Any]]) -> float:
    if [array.shape for array in after] != [array.shape for array in before]:
        return math.inf
    return float(sum((a != b).sum() for a, b in zip(after, before, strict=True)))


def _operations(model: _Model) -> Iterator[Claim]:
    text, n_fed = model.text(2), 10
    _, cache = model.feed(text[:, :n_fed], [n_fed])
    # What a ring has let go of can't come back.
    n_kept = next(length for length in range(7, n_fed + 1) if cache.can_crop(length))
    logits, _ = decode(model.params, text[:, 10:15], cache.crop(n_kept), model.config)
    left = np.concatenate([text[:, :n_kept], text[:, 10:15]], axis=1)
    name = f"{n_fed} tokens cropped to {n_kept}, then 5 others"
    yield model.claim(OPERATIONS, name, logits, model.recompute(left)[:, n_kept:])

    lengths, rows = (10, 6), (1, 0, 0)
    _, cache = model.feed(text[:, :10], [10], lengths=lengths)
    new = model.text(3)[:, 10:13]
    logits, _ = decode(model.params, new, cache.reorder(rows), model.config)
    for i, row in enumerate(rows):
        alone = np.concatenate(
            [text[row : row + 1, 10 - lengths[row] : 10], new[i : i + 1]], axis=1
        )
        name = f"rows {list(rows)} of a padded batch: number {i}"
        yield model.claim(OPERATIONS, name, logits[i : i + 1], model.recompute(alone)[:, -3:])
    yield from _branches(model)


def _branches(model: _Model) -> Iterator[Claim]:
    """Two caches with one beginning, fed in turns with different tokens."""
    endings = model.text(2)[:, 10:14]
    beginning = model.text()[:, :10]
    _, past = model.feed(beginning, [10])
    caches = [past.fork(), past]
    logits: list[list[FloatArray]] = [[], []]
    for turn in (slice(0, 1), slice(1, 4)):
        for branch in (0, 1):
            ending = endings[branch : branch + 1, turn]
            new, caches[branch] = decode(model.params, ending, caches[branch], model.config)
            logits[branch].append(new)
    for branch, name in enumerate(("fork", "cache that it came from")):
        whole = np.concatenate([beginning, endings[branch : branch + 1]], axis=1)
        expected = model.recompute(whole)[:, 10:]
        actual = np.concatenate(logits[branch], axis=1)
        yield model.claim(OPERATIONS, f"in turns: the {name}", actual, expected)


def _controls(model: _Model) -> Iterator[Claim]:
    for n_past, n_new in ((4, 2), (5, 3)):
        text = model.text()[:, : n_past + n_new]
        expected = model.recompute(text)[:, n_past:]
        _, past = model.feed(text[:, :n_past], [n_past])
        case: dict[str, Any] = {"seed": model.seed, "n_past": n_past, "n_new": n_new}
        named = f"seed {model.seed}, {n_past} + {n_new} tokens: "
        for mistake in _mistakes(model.config):
            name, wrong = MISTAKES[mistake]
            with np.errstate(invalid="ignore"):  # after a window a query may see no key at all
                logits, _ = decode(
                    model.params, text[:, n_past:], past.fork(), model.config, **wrong
                )
            agreement = (logits.argmax(-1) == expected.argmax(-1)).mean()
            note, of = f"argmax agrees on {agreement:.0%}", {**case, "mistake": mistake}
            yield model.claim(CONTROLS, named + name, logits, expected, "control", note, **of)
        right, _ = decode(model.params, text[:, n_past:], past, model.config)
        name = named + "held against the next position"
        yield model.claim(CONTROLS, name, right[:, :-1], expected[:, 1:], "control", **case)


def _mistakes(config: DecoderConfig) -> list[str]:
    """Those that are mistakes in this decoder.

    Positions that restart are none without positions, and none with ALiBi: its bias moves by the
    same amount for all keys of a query, which softmax doesn't see.
    """
    turned = config.positions in ("learned", "rope")
    return [key for key in MISTAKES if turned or key != "restarted-positions"]
