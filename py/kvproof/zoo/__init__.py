"""A zoo of broken decoders: what goes wrong with caches in public, each in its smallest form.

The zoo is what the checker is tested on.  The two know nothing of each other: no module here
imports ``kvproof.checking``, and the checker imports nothing from here.
"""

from kvproof.kinds import KINDS
from kvproof.zoo import (  # noqa: F401 (each module enters its specimens)
    heads,
    masks,
    numbers,
    operations,
    positions,
    reuse,
    slots,
    windows,
)
from kvproof.zoo.blind import Facts, facts, lines, table
from kvproof.zoo.controls import CONTROLS, RIGHT, Control
from kvproof.zoo.right import RightDecoder
from kvproof.zoo.specimen import REGISTRY, Specimen
from kvproof.zoo.variations import all_variations, variations

__all__ = [
    "CONTROLS",
    "KINDS",
    "RIGHT",
    "SPECIMENS",
    "Control",
    "Facts",
    "RightDecoder",
    "Specimen",
    "all_variations",
    "facts",
    "lines",
    "specimen",
    "table",
    "variations",
]

SPECIMENS: dict[str, Specimen] = dict(
    sorted(REGISTRY.items(), key=lambda item: KINDS.index(item[1].kind))
)
"""Name -> specimen, in the order of the taxonomy."""


def specimen(name: str) -> Specimen:
    """The specimen of this name.

    Raises:
        ValueError: there is none; names those of the same kind, or all kinds.
    """
    if name in SPECIMENS:
        return SPECIMENS[name]
    alike = [known for known in SPECIMENS if known.startswith(name.lower())]
    kinds = ", ".join(kind.lower() for kind in KINDS)
    hint = f"did you mean {', '.join(alike)}" if alike else f"names begin with a kind: {kinds}"
    raise ValueError(f"the zoo has no specimen {name!r}; {hint}")
