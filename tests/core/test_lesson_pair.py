"""The two decoders that people read side by side: each line of their loops says what shapes it has.

The comments are read from the files and run: behind each line stands an assertion made of it.
"""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kvproof import DecoderConfig, decode, example_tokens, forward, init_params, new_cache

CONFIG = DecoderConfig(
    width=24,
    n_heads=6,
    n_kv_heads=3,
    vocab_size=11,
    mlp_width=8,
    max_positions=12,
    positions="rope",
)
PARAMS = init_params(CONFIG)
TOKENS = example_tokens(12, batch_size=2) % 11
N_PAST, N_NEW = 5, 7
N_TOTAL = N_PAST + N_NEW
LETTERS = {"B": 2, "S": N_TOTAL, "H": 6, "H_kv": 3, "D": 4, "W": 24, "V": 11}
N_FED = {forward: N_TOTAL, decode: N_NEW}
"""C, the tokens of the call."""
SHAPE = re.compile(r"(?:(\d) x )?\(((?:\w+, )+\w+)\)")


def stated(comment: str, sizes: dict[str, int]) -> list[tuple[int, ...]]:
    """The shapes of a comment such as ``(B, H, C, D), 2 x (B, H_kv, C, D)``."""
    return [
        tuple(sizes[letter] for letter in letters.split(", "))
        for times, letters in SHAPE.findall(comment)
        for _ in range(int(times or 1))
    ]


class AssertShapes(ast.NodeTransformer):
    """Puts behind each line with shapes in its comment a call that compares them."""

    def __init__(self, lines: list[str], sizes: dict[str, int]) -> None:
        self.lines = lines
        self.sizes = sizes
        self.silent: list[str] = []
        """Lines that say nothing."""

    def visit_Assign(self, node: ast.Assign | ast.AnnAssign) -> list[ast.stmt]:
        line = self.lines[node.lineno - 1]
        wanted = stated(line.partition("#")[2], self.sizes)
        if not wanted:
            self.silent.append(line.strip())
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        check = f"check_shapes({wanted}, {ast.unparse(target)})"
        return [node, *(ast.parse(check).body if wanted else [])]

    visit_AnnAssign = visit_Assign  # noqa: N815 (ast calls it so)


def asserting(function: Callable[..., Any], source: str) -> tuple[Callable[..., Any], list[str]]:
    """The function with its comments as assertions, and the lines without shapes."""

    def check_shapes(wanted: list[tuple[int, ...]], found: Any) -> None:
        arrays = found if isinstance(found, tuple) else (found,)
        assert [array.shape for array in arrays] == wanted

    tree = AssertShapes(source.splitlines(), {**LETTERS, "C": N_FED[function]})
    module = ast.fix_missing_locations(tree.visit(ast.parse(source)))
    names = {**inspect.getmodule(function).__dict__, "check_shapes": check_shapes}
    exec(compile(module, "<with assertions>", "exec"), names)
    made: Callable[..., Any] = names[function.__name__]
    return made, tree.silent


def run(function: Callable[..., Any], edit: tuple[str, str] = ("", "")) -> NDArray[Any]:
    """Logits of one of the two, its comments asserted; ``edit`` changes its source before."""
    source = dedent(inspect.getsource(function))
    assert edit[0] in source
    made, _ = asserting(function, source.replace(*edit))
    if function is forward:
        logits: NDArray[Any] = made(PARAMS, TOKENS, CONFIG)
        return logits
    cache = decode(PARAMS, TOKENS[:, :N_PAST], new_cache(CONFIG, 2), CONFIG)[1]
    logits, _ = made(PARAMS, TOKENS[:, N_PAST:], cache, CONFIG)
    return logits


@pytest.mark.parametrize("function", [forward, decode])
def test_every_comment_is_true(function: Callable[..., Any]) -> None:
    expected = forward(PARAMS, TOKENS, CONFIG)
    np.testing.assert_allclose(run(function), expected[:, -run(function).shape[1] :], atol=1e-5)


@pytest.mark.parametrize("function", [forward, decode])
def test_every_line_of_the_loop_has_one(function: Callable[..., Any]) -> None:
    _, silent = asserting(function, dedent(inspect.getsource(function)))
    outside = ("call = prepare(", "cache = cache.begin(")
    assert [line for line in silent if not line.startswith(outside)] == []


def wrong_comments() -> Iterator[tuple[Callable[..., Any], str, str]]:
    """Each comment of the loops with its second letter in place of its third."""
    for function in (forward, decode):
        for comment in sorted(
            set(re.findall(r"# .*\(B, \w+, \w+.*\)", inspect.getsource(function)))
        ):
            yield function, comment, re.sub(r"\(B, (\w+), (\w+)", r"(B, \2, \1", comment)


@pytest.mark.parametrize(("function", "comment", "wrong"), [*wrong_comments()])
def test_a_comment_that_is_wrong_is_found(
    function: Callable[..., Any], comment: str, wrong: str
) -> None:
    with pytest.raises(AssertionError):
        run(function, (comment, wrong))
