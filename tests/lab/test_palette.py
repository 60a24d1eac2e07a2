"""Colours that can be told apart and read, in both themes."""

import re
from colorsys import rgb_to_hsv
from itertools import combinations

import pytest
from bokeh.models import Range1d, Span

from kvlab.controls import STYLE
from kvlab.marks import MARKS
from kvlab.palette import DARK, LIGHT, note, themed
from kvsite.timing import STYLE as TIMING_STYLE

THEMES = {"light": LIGHT, "dark": DARK}


def luminance(colour: str) -> float:
    """Relative luminance of an sRGB colour (WCAG 2.2, definition)."""
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(colour: str, ground: str) -> float:
    """Contrast ratio, 1 to 21 (WCAG 2.2, definition)."""
    darker, lighter = sorted((luminance(colour), luminance(ground)))
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_has_the_known_values() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#ffffff", "#ffffff") == 1
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)  # just fails AA
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)  # just passes


def test_both_themes_name_the_same_concepts_in_full() -> None:
    assert list(LIGHT) == list(DARK)
    for theme in THEMES.values():
        assert all(re.fullmatch(r"#[0-9a-f]{6}", colour) for colour in theme.values())
    assert [name for name in LIGHT if LIGHT[name] == DARK[name]] == []


READABLE = dict.fromkeys(["text", "muted", "accent", "error"], 4.5)
STATES = ["history", "chunk", "wrongly-hidden", "wrongly-seen", "recompute", "cached", "difference"]


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
@pytest.mark.parametrize("ground", ["bg", "surface"])
@pytest.mark.parametrize(("name", "least"), {**dict.fromkeys(STATES, 3), **READABLE}.items())
def test_texts_can_be_read_and_what_matters_stands_out(
    theme: dict[str, str], ground: str, name: str, least: float
) -> None:
    assert contrast(theme[name], theme[ground]) >= least


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
@pytest.mark.parametrize("state", MARKS)
def test_a_mark_stands_out_from_its_cell_in_every_lab(theme: dict[str, str], state: str) -> None:
    assert contrast(theme[MARKS[state].ink], theme[state]) >= 3


def hue(colour: str) -> float:
    """Degrees on the colour circle."""
    r, g, b = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return 360 * rgb_to_hsv(r, g, b)[0]


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
def test_no_concept_looks_like_another(theme: dict[str, str]) -> None:
    """The hidden future is grey, and an error in the text's red isn't drawn beside the others."""
    names = ["history", "chunk", "wrongly-hidden", "wrongly-seen"]
    names += ["recompute", "cached", "shared", "difference"]
    hues = {name: hue(theme[name]) for name in names}
    for one, other in combinations(hues, 2):
        distance = abs(hues[one] - hues[other])
        assert min(distance, 360 - distance) > 20, (one, other)


@pytest.mark.parametrize("style", [STYLE, TIMING_STYLE], ids=["controls", "times"])
def test_colours_come_from_the_page(style: str) -> None:
    used = set(re.findall(r"var\(--([a-z-]+)\)", style)) - {"font"}
    assert used
    assert used <= LIGHT.keys()
    assert style.count("var(") == len(re.findall(r"var\(--[a-z-]+\)", style)), "a fallback"
    assert not re.search(r"#[0-9a-f]{3}|rgb|hsl|currentColor", style)


def test_no_meaning_rests_on_colour_alone() -> None:
    """Open, hidden by the future, hidden by mistake: three marks; both open states share one."""
    assert MARKS["history"] == MARKS["chunk"]
    told_apart = ["chunk", "hidden-future", "wrongly-hidden", "wrongly-seen", "shared"]
    for part in (0, 1):
        assert len({MARKS[state][part] for state in told_apart}) == len(told_apart)


def test_a_themed_model_has_the_light_colour_and_a_note_for_other_themes() -> None:
    span = Span(location=0)
    themed(span, line_color="text")
    note(span, worded={"name": "axis.key-position"})
    assert span.line_color == LIGHT["text"]
    notes = {"themed": {"line_color": "text"}}, {"worded": {"name": "axis.key-position"}}
    assert span.tags == list(notes)


def test_an_unknown_concept_is_refused() -> None:
    with pytest.raises(KeyError, match="mauve"):
        themed(Span(location=0), line_color="mauve")


def test_an_unknown_property_is_refused() -> None:
    with pytest.raises(AttributeError, match="colour"):
        themed(Range1d(0, 1), colour="text")
