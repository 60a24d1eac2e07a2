"""The labs of the page: a lab ``x`` is the class ``XLab`` of the module ``kvlab.x_lab``."""

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

import kvlab

if TYPE_CHECKING:  # the builder asks for the names at every start
    from kvlab.lab import Lab
    from kvlab.session import Session

SUFFIX = "_lab"
LABS = sorted(
    module.name.removesuffix(SUFFIX)
    for module in iter_modules(kvlab.__path__)
    if module.name.endswith(SUFFIX)
)


def lab_class(name: str) -> "Callable[[], Lab]":
    """The class of a lab; its module is imported only now, since a page may never show it.

    Raises:
        ValueError: there is no lab of that name.
    """
    if name not in LABS:
        raise ValueError(f"no lab {name!r}; the labs are {', '.join(LABS)}")
    found: Callable[[], Lab] = getattr(
        import_module(f"kvlab.{name}_lab"), f"{name.capitalize()}Lab"
    )
    return found


def new_session(name: str) -> "Session":
    """A document with the lab of that name, at its initial state."""
    from kvlab.session import Session

    return Session(lab_class(name))
