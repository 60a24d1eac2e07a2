"""Colours that can be told apart and read, in both themes."""

import re

import pytest
from bokeh.models import Range1d, Span

from kvlab.controls import STYLE
from kvlab.mask_lab import CELL_MARKS, CELL_STATES, MARK_COLOURS
from kvlab.palette import DARK, LIGHT, themed

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


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
@pytest.mark.parametrize("ground", ["bg", "surface"])
@pytest.mark.parametrize("name", ["text", "muted", "accent", "error"])
def test_texts_can_be_read(theme: dict[str, str], ground: str, name: str) -> None:
    assert contrast(theme[name], theme[ground]) >= 4.5


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
@pytest.mark.parametrize(
    ("state", "mark"), list(zip(CELL_STATES, MARK_COLOURS, strict=True)), ids=CELL_STATES
)
def test_a_cells_mark_stands_out_from_it(theme: dict[str, str], state: str, mark: str) -> None:
    assert contrast(theme[mark], theme[state]) >= 3


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
@pytest.mark.parametrize("state", ["history", "chunk", "wrongly-hidden"])
def test_the_cells_that_matter_stand_out_from_the_page(theme: dict[str, str], state: str) -> None:
    assert contrast(theme[state], theme["surface"]) >= 3
    assert contrast(theme[state], theme["bg"]) >= 3


def test_the_controls_take_their_colours_from_the_page() -> None:
    used = set(re.findall(r"var\(--([a-z-]+)\)", STYLE)) - {"font"}
    assert used
    assert used <= LIGHT.keys()
    assert not re.search(r"#[0-9a-f]{3}|rgb|hsl", STYLE)


def test_no_meaning_rests_on_colour_alone() -> None:
    """Open, hidden by the future, hidden by mistake: three marks; both open states share one."""
    marks = dict(zip(CELL_STATES, CELL_MARKS, strict=True))
    assert marks["history"] == marks["chunk"]
    assert len({marks["chunk"], marks["hidden-future"], marks["wrongly-hidden"]}) == 3


def test_a_themed_model_has_the_light_colour_and_a_note_for_other_themes() -> None:
    span = Span(location=0)
    themed(span, line_color="text")
    assert span.line_color == LIGHT["text"]
    assert span.tags == [{"line_color": "text"}]


def test_an_unknown_concept_is_refused() -> None:
    with pytest.raises(KeyError, match="mauve"):
        themed(Span(location=0), line_color="mauve")


def test_an_unknown_property_is_refused() -> None:
    with pytest.raises(AttributeError, match="colour"):
        themed(Range1d(0, 1), colour="text")
