"""The error ladder: how far off right and broken decoders are, beside the floors of rounding."""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from kvproof.zoo import CONTROLS, RIGHT, SPECIMENS, RightDecoder, blind
from kvproof.zoo import specimen as find_specimen
from kvproof.zoo.right import random_text
from kvproof.zoo.scenarios import CHUNKINGS, N_TOKENS, feed

Group = Literal["float64", "float32", "int8", "broken"]
GROUPS: tuple[Group, ...] = get_args(Group)
CHUNKING = "ragged"
UNITS = {**{name: float(np.finfo(name).eps) for name in ("float64", "float32")}, "int8": 1 / 127}
"""One unit of rounding at a number of size 1; int8 has 127 steps up to the largest."""


@dataclass(frozen=True)
class Rung:
    """One decoder: the largest error of its logits, inf where one isn't a number."""

    group: Group
    """What a right one computes or keeps in; or "broken"."""
    name: str
    error: float


def right_rungs(seed: int = 0) -> Iterator[Rung]:
    """Every right decoder of the zoo, cached against its own full recompute, in chunks of 5, 1, 4,
    2 and 6 tokens: in float64 and float32, or, where the cache is int8, in float64.

    Args:
        seed: of the parameters and the text.
    """
    makers: dict[str, Callable[..., RightDecoder]] = RIGHT | {
        name: control.make for name, control in CONTROLS.items()
    }
    for name, make in makers.items():
        decoder = make(seed)
        if decoder.quantized:
            yield Rung("int8", name, _error(decoder, seed))
            continue
        yield Rung("float64", name, _error(decoder, seed))
        yield Rung("float32", name, _error(make(seed, dtype="float32"), seed))


def _error(decoder: RightDecoder, seed: int) -> float:
    text = random_text(decoder, N_TOKENS, seed)
    logits, _ = feed(decoder, text, CHUNKINGS[CHUNKING])
    return float(np.abs(np.concatenate(logits, axis=1) - decoder.full(text)).max())


def broken_rungs(seed: int = 0) -> Iterator[Rung]:
    """Every specimen of the zoo, in float64 and used in the way that shows its mistake.

    Args:
        seed: of the parameters and the text.
    """
    for name, specimen in SPECIMENS.items():
        yield Rung("broken", name, blind.outcome(specimen, specimen.trigger, seed).error)


def to_json(seed: int = 0) -> str:
    """All rungs as a list of group, name and error, strict JSON; an infinite error is null.

    Args:
        seed: of the parameters and the text.
    """
    rungs = [*right_rungs(seed), *broken_rungs(seed)]
    rows = [(rung.group, rung.name, _finite(rung.error)) for rung in rungs]
    return json.dumps(rows, allow_nan=False)


def from_json(text: str) -> list[Rung]:
    """The rungs that ``to_json`` has written."""
    rows = json.loads(text)
    return [Rung(group, name, math.inf if e is None else e) for group, name, e in rows]


def _finite(error: float) -> float | None:
    return error if math.isfinite(error) else None


def specimen_errors(name: str, seed: int = 0) -> dict[str, float]:
    """A specimen's error by the way that its text is fed: four chunkings, and its own trigger.

    Args:
        name: of ``kvproof.zoo.SPECIMENS``.
        seed: of the parameters and the text.

    Raises:
        ValueError: there is no such specimen.
    """
    specimen = find_specimen(name)
    ways = {way: way for way in blind.COLUMNS} | {"trigger": specimen.trigger}
    errors = {way: blind.outcome(specimen, way, seed).error for way in set(ways.values())}
    return {label: errors[way] for label, way in ways.items()}


def rounding_floors(seed: int = 0) -> dict[str, float]:
    """One unit of rounding at the largest logit of the zoo's plainest decoder, by what rounds.

    Args:
        seed: of the parameters and the text.
    """
    decoder = RightDecoder(seed)
    largest = float(np.abs(decoder.full(random_text(decoder, N_TOKENS, seed))).max())
    return {name: unit * largest for name, unit in UNITS.items()}
