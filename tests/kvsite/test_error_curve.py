"""The figure of the error of each position shows the stored numbers."""

import re

import pytest

from kvsite.error_curve import BOTTOM, LEFT, RIGHT, TOP, Y_STEP, error_curve_figure
from kvsite.timing import Results, load_results


def say(message: str, **args: object) -> str:
    return f"{message} {args}"


def dots(svg: str) -> list[tuple[float, float]]:
    match = re.search(r'class="dots" d="([^"]+)"', svg)
    assert match
    return [(float(x), float(y)) for x, y in re.findall(r"M([\d.]+),([\d.]+)h0", match[1])]


@pytest.fixture
def results() -> Results:
    return load_results()


def test_every_dot_stands_at_its_error(results: Results) -> None:
    errors = results["correctness"]["error_curve"]["max_logit_error"]
    svg = error_curve_figure(results, say)
    assert "&#x27;positions&#x27;: 272" in svg, "its words, escaped"
    drawn = dots(svg)
    assert len(drawn) == len(errors) == 272
    top = -(-max(errors) // Y_STEP) * Y_STEP
    for i, ((x, y), error) in enumerate(zip(drawn, errors, strict=True)):
        assert (x - LEFT) / (RIGHT - LEFT) * len(errors) == pytest.approx(i, abs=0.05)
        assert (BOTTOM - y) / (BOTTOM - TOP) * top == pytest.approx(error, abs=1e-9)


def test_the_floor_and_all_dots_are_inside(results: Results) -> None:
    results["correctness"]["error_curve"]["rounding_unit"] = 1.3e-6
    svg = error_curve_figure(results, say)
    assert all(TOP <= y <= BOTTOM for _, y in dots(svg))
    floor = re.search(r'class="floor" d="M\d+,([\d.]+)H', svg)
    assert floor
    assert (BOTTOM - float(floor[1])) / (BOTTOM - TOP) * 1.4e-6 == pytest.approx(1.3e-6, abs=1e-8)
