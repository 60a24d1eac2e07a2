"""Every public name says what it takes, gives and refuses, and shows an example that runs."""

import ast
import doctest
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kvproof
from kvsite.api import find_definition, split_docstring, split_items

Function = Callable[..., Any]

PUBLIC = {name: getattr(kvproof, name) for name in kvproof.__all__}
FUNCTIONS = [name for name, found in PUBLIC.items() if inspect.isfunction(found)]
WITH_EXAMPLE = [
    name
    for name, found in PUBLIC.items()
    if inspect.isfunction(found) or (inspect.isclass(found) and ">>>" in (found.__doc__ or ""))
]


# --- Examples -----------------------------------------------------------------------------------


def run_example(name: str, docstring: str) -> list[str]:
    """What is wrong with the example of a public name."""
    example = split_docstring(docstring).get("Example", "")
    names = {"kvproof": kvproof, "np": np}
    test = doctest.DocTestParser().get_doctest(example, names, name, None, 0)
    if not any(step.want for step in test.examples):
        return [f"{name} has no example that shows a result"]
    if inspect.isfunction(PUBLIC[name]) and f"kvproof.{name}(" not in example:
        return [f"the example of {name} doesn't call it"]
    problems: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=problems.append)
    return problems


@pytest.mark.parametrize("name", WITH_EXAMPLE)
def test_an_example_runs_and_gives_what_it_shows(name: str) -> None:
    assert not run_example(name, inspect.getdoc(PUBLIC[name]) or "")


@pytest.mark.parametrize(
    ("example", "problem"),
    [
        ("", "has no example"),
        (">>> mask = kvproof.offset_mask(0, 1)", "no example that shows a result"),
        (">>> 1 + 1\n2", "doesn't call it"),
        (">>> kvproof.offset_mask(0, 1)\narray([[False]])", r"Got:\s+array\(\[\[ True\]\]\)"),
        (">>> kvproof.offset_mask(0, 0)\narray([])", "ValueError"),
    ],
)
def test_a_wrong_example_is_noticed(example: str, problem: str) -> None:
    docstring = f"A mask.\n\nExample:\n{textwrap.indent(example, '    ')}\n"
    assert re.search(problem, "".join(run_example("offset_mask", docstring)))


# --- Sections -----------------------------------------------------------------------------------


def complaints(function: Function) -> list[str]:
    """What the docstring of a public function leaves out."""
    sections = split_docstring(inspect.getdoc(function) or "")
    signature = inspect.signature(function)
    found = []
    if not sections[""]:
        found.append("no description")
    if "Args" in sections and list(split_items(sections["Args"])) != list(signature.parameters):
        found.append("Args aren't the parameters")
    if len(signature.parameters) > 2 and "Args" not in sections:
        found.append("no Args")
    shape_is_said = re.search(r"\([^()]+,[^()]*\)", sections[""].split("\n\n")[0])
    if is_array(signature.return_annotation) and not shape_is_said and "Returns" not in sections:
        found.append("no Returns")
    if raises(function) and "Raises" not in sections:
        found.append("no Raises")
    return found


def is_array(annotation: object) -> bool:
    """True for arrays and for tuples of them."""
    return any(word in str(annotation) for word in ("ndarray", "tuple"))


def raises(function: Function) -> bool:
    """True if it raises, or calls something of ours that says it does."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return any(isinstance(node, ast.Raise) for node in ast.walk(tree)) or any(
        "Raises:" in (called.__doc__ or "") for called in calls(tree, function)
    )


def calls(tree: ast.AST, function: Function) -> Iterator[Any]:
    """The functions and classes of ours that a function calls by their names."""
    names = inspect.unwrap(function).__globals__
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)):
                called = names.get(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name)):
                called = getattr(names.get(module), name, None)
            case _:
                continue
        if (getattr(called, "__module__", None) or "").startswith(("kvproof", __name__)):
            yield called


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_docstring_says_all_that_a_caller_needs(name: str) -> None:
    assert not complaints(PUBLIC[name])


@pytest.mark.parametrize("name", kvproof.__all__)
def test_every_public_name_has_a_docstring_on_the_page(name: str) -> None:
    """Variables as well, which have none at run time."""
    assert find_definition(name)[2]


def nothing_said(n_past: int) -> None: ...


def wrong_args(n_past: int) -> int:
    """A number.

    Args:
        n_new: another one.
    """
    return n_past


def no_args(a: int, b: int, c: int) -> int:
    """Their sum."""
    return a + b + c


def no_shape(n: int) -> np.ndarray[Any, Any]:
    """Zeros (see NumPy)."""
    return np.zeros(n)


def no_raises(n: int) -> int:
    """A number."""
    if n < 0:
        raise ValueError(n)
    return n


def with_raises(n: int) -> int:
    """A number.

    Raises:
        ValueError: it is negative.
    """
    return no_raises(n)


def no_raises_of_a_callee(n: int) -> int:
    """A number."""
    return with_raises(n)


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (nothing_said, ["no description"]),
        (wrong_args, ["Args aren't the parameters"]),
        (no_args, ["no Args"]),
        (no_shape, ["no Returns"]),
        (no_raises, ["no Raises"]),
        (no_raises_of_a_callee, ["no Raises"]),
        (with_raises, []),
    ],
)
def test_what_a_docstring_leaves_out_is_noticed(function: Function, found: list[str]) -> None:
    assert complaints(function) == found
