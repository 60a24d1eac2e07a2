"""The same mistakes in other decoders: a set to test a diagnosis on that wasn't made on it."""

from dataclasses import replace
from functools import partial
from typing import Any

from kvproof.kinds import KINDS, Kind
from kvproof.zoo.specimen import REGISTRY, Specimen

IN_ANY_DECODER: dict[str, dict[str, Any]] = {
    "modern": {"norm": "rmsnorm", "mlp": "swiglu"},
    "attention": {"mlp": "none"},
}
"""Changes of the configuration under which every mistake stays one."""

OTHER_POSITIONS = ("learned", "rope", "alibi")
POSITIONAL = (
    Kind.POS_RESET,
    Kind.POS_DRIFT,
    Kind.POS_PERROW,
    Kind.ROPE_FRAME,
    Kind.ROPE_LEN,
    Kind.BIAS_LEN,
)
"""Kinds that belong to one way to tell positions."""
BY_POSITION = ("slot-stale-pointer", "rollback-positions")
"""Specimens of other kinds that do, too: ALiBi doesn't see a shift of all positions."""


def variations(specimen: Specimen) -> dict[str, Specimen]:
    """The specimen in other decoders, such as ``mask-topleft+rope``.

    One for each entry of ``IN_ANY_DECODER``; and each other way to tell positions, if the mistake
    doesn't depend on that.
    """
    config = specimen.make(0).config
    changes = dict(IN_ANY_DECODER)
    if specimen.kind not in POSITIONAL and specimen.name not in BY_POSITION:
        others = [name for name in OTHER_POSITIONS if name != config.positions]
        changes |= {name: {"positions": name} for name in others}
    varied = {}
    for label, change in changes.items():
        new, name = replace(config, **change), f"{specimen.name}+{label}"
        make, right = partial(specimen.make, config=new), partial(specimen.right, config=new)
        varied[name] = replace(specimen, name=name, make=make, right=right)
    return varied


def all_variations() -> dict[str, Specimen]:
    """``variations`` of all specimens, in the order of the taxonomy: name -> specimen."""
    ordered = sorted(REGISTRY.values(), key=lambda specimen: KINDS.index(specimen.kind))
    return {name: one for specimen in ordered for name, one in variations(specimen).items()}
