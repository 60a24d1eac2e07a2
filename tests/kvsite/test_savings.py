"""The figures of what a cache saves: linear, and by numbers from elsewhere."""

import copy
import re
from xml.etree import ElementTree as ET

import pytest

from kvsite.languages import LANGUAGES, Language, words_of
from kvsite.savings import BOTTOM, TOKENS, TOP, savings
from kvsite.timing import load_results

RESULTS = load_results()
ENGLISH, *_ = (words_of(language) for language in LANGUAGES)


def heights(svg: str, css_class: str) -> list[float]:
    """Of a curve's points above the axis, as shares of the figure's height."""
    [line] = re.findall(rf'<path class="line {css_class}" d="M([^"]*)"', svg)
    places = [float(point.split(",")[1]) for point in line.split("L")]
    return [(BOTTOM - y) / (BOTTOM - TOP) for y in places]


def test_the_work_is_a_parabola_over_a_line() -> None:
    svg = savings(RESULTS, ENGLISH)["work"]
    without, cached = heights(svg, "recompute"), heights(svg, "cached")
    entries = sum(range(1, TOKENS + 1))  # of a text that is read anew for each of its tokens
    assert without[-1] == 1
    assert cached[-1] == pytest.approx(TOKENS / entries, abs=1e-3)
    middle = len(without) // 2
    assert without[middle] == pytest.approx(((middle / (len(without) - 1)) ** 2), abs=5e-3)
    assert "without a cache: 500,500" in svg
    assert "with a cache: 1,000" in svg


def test_the_times_are_the_stored_medians_on_a_linear_axis() -> None:
    svg = savings(RESULTS, ENGLISH)["times"]
    stored = {
        path: [row["p50_ms"] for row in RESULTS["rows"] if row["path"] == path]
        for path in ("full_recompute_last_only", "cached_concat")
    }
    largest = max(stored["full_recompute_last_only"])
    for css_class, path in (("recompute", "full_recompute_last_only"), ("cached", "cached_concat")):
        assert heights(svg, css_class) == pytest.approx(
            [ms / largest for ms in stored[path]], abs=1e-3
        )


def test_other_results_draw_another_figure() -> None:
    others = copy.deepcopy(RESULTS)
    for row in others["rows"]:
        row["p50_ms"] *= 3 if row["path"] == "cached_concat" else 1
    before, after = (savings(results, ENGLISH)["times"] for results in (RESULTS, others))
    assert heights(after, "cached")[-1] == pytest.approx(
        3 * heights(before, "cached")[-1], abs=1e-2
    )
    assert savings(others, ENGLISH)["work"] == savings(RESULTS, ENGLISH)["work"]


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.code)
@pytest.mark.parametrize("name", ["work", "times"])
def test_each_is_named_and_described(language: Language, name: str) -> None:
    figure = ET.fromstring(savings(RESULTS, words_of(language))[name])
    title, description = figure[0].text or "", figure[1].text or ""
    assert title
    assert re.search(r"\d", description)
    assert figure.get("aria-labelledby") == f"{figure[0].get('id')} {figure[1].get('id')}"
