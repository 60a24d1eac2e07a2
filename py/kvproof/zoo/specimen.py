"""What a specimen of the zoo is, and the list that all of them are entered in."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TypeVar

from kvproof.kinds import KINDS, Kind
from kvproof.model.config import DecoderConfig
from kvproof.zoo.right import RightDecoder


@dataclass(frozen=True)
class Specimen:
    """A decoder that is broken in one place, in a way that somebody has published."""

    name: str
    kind: Kind
    story: str
    """What the code does wrong, and why people write it."""
    report: str
    """The public reports it stands for, as owner/repository#number."""
    smallest: str
    """The smallest way to use it that shows the bug."""
    make: Callable[..., RightDecoder]
    """``make(seed=0)``: a new decoder of that seed's parameters."""
    trigger: str
    """The scenario (a name of ``scenarios.SCENARIOS``) that shows it."""
    harmless: tuple[str, ...]
    """Scenarios in which it computes what the right decoder computes."""
    right: Callable[..., RightDecoder]
    """``right(seed=0)``: what it should have been, with the same parameters."""
    gold: str = ""
    """What no comparison of ``full`` with ``step`` can tell, where there is such a thing."""

    @property
    def links(self) -> tuple[str, ...]:
        """Addresses of the reports."""
        numbered = (report.split("#") for report in self.report.split(", "))
        return tuple(f"https://github.com/{where}/issues/{n}" for where, n in numbered)

    def __str__(self) -> str:
        lines = [f"{self.name} ({self.kind})", self.story, f"Shows with: {self.smallest}."]
        lines += [f"Not told by full and step: {self.gold}."] if self.gold else []
        return "\n".join([*lines, "Reports of this kind:", *self.links])


REGISTRY: dict[str, Specimen] = {}
"""All specimens, in the order in which their modules are imported."""

D = TypeVar("D", bound=type[RightDecoder])


@lru_cache
def right_of(config: DecoderConfig, storage: str) -> Callable[..., RightDecoder]:
    """``make`` of the right decoder; one function for all specimens of this configuration."""
    return partial(RightDecoder, config=config, storage=storage)


def broken(
    name: str,
    kind: Kind,
    report: str,
    smallest: str,
    trigger: str,
    harmless: tuple[str, ...] = (),
    right: Callable[..., RightDecoder] | None = None,
    gold: str = "",
) -> Callable[[D], D]:
    """Enter a class of decoders in the zoo; its docstring is the story."""
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is no kind of the taxonomy: {', '.join(KINDS)}")
    if name in REGISTRY:
        raise ValueError(f"the name {name!r} is taken")

    def entered(decoder: D) -> D:
        plain = right_of(decoder.config, decoder.storage)
        story = " ".join(inspect.cleandoc(decoder.__doc__ or "").split())
        REGISTRY[name] = Specimen(
            name, kind, story, report, smallest, decoder, trigger, harmless, right or plain, gold
        )
        return decoder

    return entered
