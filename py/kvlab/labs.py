"""The labs of the page, by name."""

from importlib import import_module

from kvlab.session import Lab, Session

LABS = (
    "mask",
    "blind",
    "causality",
    "stepper",
    "ladder",
    "storages",
    "window",
    "counts",
    "memory",
)
"""A lab ``x`` is the class ``XLab`` of the module ``kvlab.x_lab``."""


def lab_class(name: str) -> type[Lab]:
    """The class of a lab; its module is imported only now, since a page may never show it.

    Raises:
        ValueError: there is no lab of that name.
    """
    if name not in LABS:
        raise ValueError(f"no lab {name!r}; the labs are {', '.join(LABS)}")
    found: type[Lab] = getattr(import_module(f"kvlab.{name}_lab"), f"{name.capitalize()}Lab")
    return found


def new_session(name: str) -> Session:
    """A document with the lab of that name, at its initial state."""
    return Session(lab_class(name))
