"""What the page "Is mine right?" shows: its listings run, and the checker's verdicts, measured."""

import inspect
import tomllib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

import kvproof
from kvlab.cells import load_cells
from kvproof import REFERENCE, check
from kvproof.checking.battery import LONGEST
from kvproof.checking.messages import Message
from kvproof.checking.report import Report
from kvproof.checking.rounding import NOISE_FACTOR, UNITS
from kvproof.model.precision import EPS
from kvproof.zoo import SPECIMENS
from kvsite.cell_texts import translated
from kvsite.languages import ENGLISH, Language
from kvsite.listings import highlight_python
from kvsite.paths import ROOT
from kvsite.words import TEXTS

LISTINGS = ROOT / "site" / "listings"
CELLS = ROOT / "site" / "cells"
ON_HOME = "mask-topleft"
"""The specimen whose report stands on the home page."""

MISTAKES: dict[str, dict[str, Any]] = {
    "none": {},
    "top-left": {"mask": kvproof.top_left_mask},
    "open": {"mask": kvproof.open_mask},
    "restarted": {"positions": kvproof.restarted_positions},
}
"""Arguments of ``decode``."""
EIGHT_BITS = "int8"
"""A cache that rounds on purpose, of a decoder in float32."""


class Reference:
    """The reference decoder in the checker's form, in a precision and with a mistake."""

    vocab_size, max_length = REFERENCE.vocab_size, REFERENCE.max_positions

    def __init__(self, precision: str = "float32", **mistake: Any) -> None:
        wide = "float64" if precision == "float64" else "float32"
        self.params = kvproof.init_params(REFERENCE, dtype=wide)
        if precision in ("float16", "bfloat16"):
            self.params = kvproof.round_params(self.params, REFERENCE, precision)
        self.quantized = precision == EIGHT_BITS
        self.dtype = wide if self.quantized else precision
        self._wide, self._storage = wide, EIGHT_BITS if self.quantized else "concat"
        self._mistake = mistake

    def full(self, tokens: Any) -> Any:
        """Logits (B, T, V) without a cache."""
        return kvproof.forward(self.params, tokens, REFERENCE)

    def step(self, tokens: Any, cache: Any) -> tuple[Any, Any]:
        """Logits (B, C, V) of the new tokens, and the next cache."""
        if cache is None:
            cache = kvproof.new_cache(REFERENCE, len(tokens), self._wide, self._storage)
        return kvproof.decode(self.params, tokens, cache, REFERENCE, **self._mistake)

    def keys_values(self, cache: Any) -> Any:
        """(K, V) of each layer."""
        return cache.keys_values()


# --- The twelve lines -----------------------------------------------------------------------------


class Tried(NamedTuple):
    """What the twelve lines say of a decoder."""

    passed: bool
    error: float
    floor: float

    @property
    def floors(self) -> float:
        """So many of them the error is, to two digits."""
        return float(f"{self.error / self.floor:.2g}")


def tried(full: Callable[..., Any], step: Callable[..., Any]) -> Tried:
    """Run the listing as a reader would, over two functions, and measure the same beside it."""
    names: dict[str, Any] = {"full": full, "step": step}
    exec((LISTINGS / "twelve_lines.py").read_text("utf-8"), names)
    tokens = np.array([[3, 1, 4]])
    expected = np.asarray(full(tokens), np.float64)
    first, cache = step(tokens[:, :1], None)
    rest, _ = step(tokens[:, 1:], cache)
    error = float(np.abs(np.concatenate([first, rest], axis=1) - expected).max())
    try:
        names["test_cache"]()
    except AssertionError:
        passed = False
    else:
        passed = True
    return Tried(passed, error, EPS["float32"] * float(np.abs(expected).max()))


# --- Precisions -----------------------------------------------------------------------------------


class Verdict(NamedTuple):
    """What the checker says of a decoder; ``error`` of its smallest failing case, 0 for none."""

    message: Message
    error: float


class Precision(NamedTuple):
    """A line of the table."""

    name: str
    eps: float | None
    floor: float | None
    """``eps`` times the largest logit; None for a cache of 8 bits, whose budget is measured."""
    allowed: float
    verdicts: dict[str, Verdict]
    """By mistake."""


def precision(name: str) -> Precision:
    """The right and the broken decoders in it."""
    reports = {
        mistake: check(Reference(name, **arguments)) for mistake, arguments in MISTAKES.items()
    }
    allowed, eps = reports["none"].tolerance, EPS.get(name)
    return Precision(
        name,
        eps,
        None if eps is None else allowed / UNITS[name],
        allowed,
        {mistake: _verdict(report) for mistake, report in reports.items()},
    )


def _verdict(report: Report) -> Verdict:
    error = report.findings[0].max_abs_error if report.findings else 0.0
    return Verdict(report.verdict, error)


# --- The whole page -------------------------------------------------------------------------------


class Measured(NamedTuple):
    """What is kept from build to build, if nothing has changed that it was made of."""

    twelve: dict[str, Tried]
    precisions: list[Precision]
    of_cell: Report
    """Of the cell's decoder as it stands."""
    on_home: Report


def measured() -> Measured:
    """Some seconds of work."""
    return Measured(
        {name: _tried(arguments) for name, arguments in MISTAKES.items()},
        [precision(name) for name in (*EPS, EIGHT_BITS)],
        check_of_cell(),
        check(SPECIMENS[ON_HOME].make(seed=0)),
    )


def _tried(mistake: Mapping[str, Any]) -> Tried:
    decoder = Reference(**mistake)
    return tried(decoder.full, decoder.step)


def check_of_cell() -> Report:
    """The report that the cell ends with."""
    source = load_cells(CELLS)[-1].source
    before, last = source.rstrip("\n").rsplit("\n", 1)
    names: dict[str, Any] = {}
    exec(before, names)
    report = eval(last, names)
    assert isinstance(report, Report), f"the cell ends with {last}"
    return report


def listings(language: Language) -> dict[str, Markup]:
    """Name -> highlighted code, with comments in a language."""
    sources = {file.stem: file.read_text("utf-8") for file in sorted(LISTINGS.glob("*.py"))}
    if language != ENGLISH:
        comments = tomllib.loads((TEXTS / f"listings_{language.source}.toml").read_text("utf-8"))
        for name, source in sources.items():
            written = {text: language.from_source(new) for text, new in comments[name].items()}
            sources[name] = translated(source, written)
    return {name: Markup(highlight_python(source)) for name, source in sources.items()}


def limits() -> dict[str, Any]:
    """The rule that errors are held against (``kvproof.checking.rounding``), for the prose."""
    return {
        "units": UNITS,
        "noise_factor": NOISE_FACTOR,
        "ratio": EPS["bfloat16"] / EPS["float32"],
        "longest": LONGEST,
        "budget_s": round(inspect.signature(check).parameters["budget_s"].default),
    }
