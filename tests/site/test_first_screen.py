"""The first screen: a story, two sliders, two masks and what each call says, without scrolling."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.site.lab_page import SAVE_DATA, OpenPage
from tests.site.test_labs_on_the_page import FIRST, MOVE, lab_data, states_of
from tests.site.test_page import expect_accessible, table_texts

from kvlab.story_lab import STORY
from kvproof import offset_mask, top_left_mask
from kvproof.experiments.compare_calls import compare_calls
from kvproof.story import labels, load_story_decoder, render
from kvsite.labs import readouts
from kvsite.languages import LANGUAGES, Language, words_of

SIZES = {"desktop": (1280, 720), "phone": (390, 844)}
FIGURES = {"right": 0, "wrong": 1}
LONGEST = {"n_past": 13, "n_new": 5, "mistake": "open", "dtype": "float64"}
"""The state whose verdicts are the longest sentences."""

languages = pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.code)
sizes = pytest.mark.parametrize("size", SIZES)


def open_first(open_page: OpenPage, url: str, size: str, language: Language) -> Page:
    """The page as it comes, with nothing but its prebuilt states."""
    width, height = SIZES[size]
    is_phone = size == "phone"
    page = open_page(
        viewport={"width": width, "height": height}, is_mobile=is_phone, has_touch=is_phone
    )
    page.add_init_script(SAVE_DATA)
    page.goto(f"{url}{language.folder}/")
    expect(page.locator(f"#{FIRST}-wrong-mask .bk-Figure")).to_be_attached()
    return page


def verdict(page: Page, name: str) -> Any:
    return page.locator(f"#{FIRST}-lab figure").nth(FIGURES[name]).locator(".verdict")


def outputs_of(values: dict[str, Any]) -> dict[str, Any]:
    wanted = {name: str(value) for name, value in values.items()}
    [found] = [outputs for state, outputs in states_of(lab_data(FIRST)) if state == wanted]
    return found


def expect_state(page: Page, values: dict[str, Any], language: Language) -> None:
    said = readouts(outputs_of(values)["texts"], words_of(language))
    for name in FIGURES:
        for key in ("word", "summary"):
            place = page.locator(f'[data-readout="{FIRST}.{name}-{key}"]')
            expect(place).to_have_text(said[f"{name}-{key}"]["text"])


SEEN = """
(selectors) => selectors.filter((selector) => {
  const places = [...document.querySelectorAll(selector)];
  return places.length === 0 || places.some((place) => {
    const { left, top, right, bottom } = place.getBoundingClientRect();
    const inside = left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight;
    const points = [[left + 3, top + 3], [(left + right) / 2, (top + bottom) / 2],
      [right - 3, bottom - 3]];
    const lies = ([x, y]) => place.getRootNode().elementsFromPoint(x, y)[0];
    const covers = points.map(lies).some((one) => one?.closest(".link-notice"));
    return !inside || covers || right - left < 10;
  });
})
"""
"""Those of which one isn't there, isn't wholly inside the window, or lies under what floats."""
WANTED = [
    "h1",
    ".lead",
    f"#{FIRST}-n_past",
    f"#{FIRST}-n_new",
    f"#{FIRST}-mistake",
    f"#{FIRST}-dtype",
    "#story-lab .passage",
    f"#{FIRST}-lab .verdict strong",
    f"#{FIRST}-right-summary",
    f"#{FIRST}-wrong-summary",
    f"#{FIRST}-right-mask",
    f"#{FIRST}-wrong-mask",
]


@languages
@sizes
def test_the_whole_picture_is_there_without_scrolling(
    open_page: OpenPage, site_url: str, size: str, language: Language
) -> None:
    page = open_first(open_page, site_url, size, language)
    assert page.evaluate(SEEN, WANTED) == []
    page.evaluate(MOVE, [lab_data(FIRST)["description"]["widgets"], LONGEST])
    expect_state(page, LONGEST, language)
    assert page.evaluate(SEEN, WANTED) == []
    assert page.evaluate("() => scrollY") == 0


def test_what_is_not_there_is_noticed(open_page: OpenPage, site_url: str) -> None:
    """The negative control: in a lower window, and below something that floats."""
    page = open_first(open_page, site_url, "desktop", LANGUAGES[0])
    page.set_viewport_size({"width": 1280, "height": 500})
    masks = [f"#{FIRST}-right-mask", f"#{FIRST}-wrong-mask"]
    assert page.evaluate(SEEN, [*masks, ".no-such", "h1"]) == [*masks, ".no-such"]
    page.set_viewport_size({"width": 1280, "height": 720})
    page.locator(".link-notice").evaluate(
        "one => { one.hidden = false; one.style = 'position: fixed; inset: 0'; }"
    )
    assert page.evaluate(SEEN, masks) == masks


@languages
def test_the_story_stands_there_in_the_pages_language(
    open_page: OpenPage, site_url: str, language: Language
) -> None:
    """Word by word, in the passage and at the axes; what the text hasn't isn't seen."""
    page = open_first(open_page, site_url, "desktop", language)
    names = labels(STORY, language.code.lower())
    words = page.locator("#story-lab .passage > span:not(.next)")
    assert [text.strip() for text in words.all_inner_texts()[5:]] == names[5:]
    expect(words.nth(4)).to_be_hidden()
    expect(words.nth(5)).to_be_visible()
    axes = page.evaluate(
        """() => {
          const { right, below } = Bokeh.documents[0].get_model_by_name("right-mask");
          const labels = ([axis]) => [...axis.major_label_overrides.values()];
          return [labels(right), labels(below), below[0].major_label_orientation];
        }"""
    )
    turned = language.code == "en"
    assert axes[0] == names
    assert [label.replace("\n", "") for label in axes[1]] == [
        name if turned else name.rstrip("，。？") for name in names
    ]
    assert axes[2] == ("vertical" if turned else "horizontal")


@languages
@sizes
def test_keys_change_the_verdict_before_any_python(
    open_page: OpenPage, site_url: str, size: str, language: Language
) -> None:
    page = open_first(open_page, site_url, size, language)
    places = page.locator("#story-lab .passage > span").evaluate_all(
        "words => words.map((word) => [word.offsetLeft, word.offsetTop])"
    )
    past = page.locator(f"#{FIRST}-n_past").get_by_role("slider")
    past.press("Home")
    state = {"n_past": 0, "n_new": 5, "mistake": "top-left", "dtype": "float64"}
    expect_state(page, state, language)
    past.press("PageUp")
    page.locator(f"#{FIRST}-n_new").get_by_role("slider").press("ArrowRight")
    value = int(float(past.get_attribute("aria-valuenow") or "missing"))
    state |= {"n_past": value, "n_new": 6}
    expect_state(page, state, language)
    page.locator(f"#{FIRST}-mistake select").select_option(index=2)
    page.locator(f"#{FIRST}-dtype select").select_option(index=1)
    expect_state(page, state | {"mistake": "restarted", "dtype": "float32"}, language)
    assert not page.workers
    expect(page.locator("html")).to_have_attribute("data-runtime-state", "prebuilt")
    shown = page.locator("#story-lab .passage > span").evaluate_all(
        "words => words.map((word) => [word.offsetLeft, word.offsetTop])"
    )
    assert shown[:-1] == places[:-1], "words keep their places"
    states = outputs_of(state)["story.rows"]["state"]
    words = page.locator("#story-lab .passage > span:not(.next)")
    classes = words.evaluate_all("all => all.map((word) => word.className)")
    assert classes == states


def test_a_verdict_is_spoken_as_a_whole_and_a_mask_can_be_read(
    open_page: OpenPage, site_url: str
) -> None:
    page = open_first(open_page, site_url, "desktop", LANGUAGES[0])
    for name in FIGURES:
        place = verdict(page, name)
        expect(place).to_have_attribute("aria-live", "polite")
        expect(place).to_have_attribute("aria-atomic", "true")
    spoken = " ".join(verdict(page, "wrong").inner_text().split())
    assert spoken.startswith("Top-left mask says tent. It forgot what it had read.")
    picture = page.get_by_role("img", name="Right cache")
    expect(picture).to_have_attribute("aria-describedby", f"{FIRST}-right-summary")
    page.get_by_text("Show the other mask as a table").click()
    rows = table_texts(page.locator(f'details [data-twin="{FIRST}.wrong-mask.cells"]'))
    assert [row[0] for row in rows] == labels(STORY[-5:])
    assert [[mark == "●" for mark in row[1:]] for row in rows] == top_left_mask(13, 5).tolist()
    head = page.locator(f'details [data-twin="{FIRST}.wrong-mask.cells"] thead th')
    assert head.all_inner_texts()[1:] == labels(STORY[-18:])
    expect_accessible(page)


def test_without_scripts_the_verdicts_and_the_masks_are_there(
    open_page: OpenPage, site_url: str
) -> None:
    page = open_page(java_script_enabled=False)
    page.goto(site_url)
    params, config = load_story_decoder("float64")
    report = compare_calls(params, config, STORY[-18:], 13, mask=top_left_mask)
    for name, call, mask in (
        ("right", report.right, offset_mask(13, 5)),
        ("wrong", report.wrong, top_left_mask(13, 5)),
    ):
        expect(verdict(page, name).locator("strong")).to_have_text(render([call.next_token]))
        rows = table_texts(page.locator(f"#{FIRST}-{name}-mask"))
        assert [row[0] for row in rows] == labels(STORY[-5:])
        assert [[mark == "●" for mark in row[1:]] for row in rows] == mask.tolist()
    expect(page.locator("#story-lab .passage .next")).to_contain_text("cave.")
    expect(page.locator(f"#{FIRST}-lab .controls")).to_be_hidden()


@pytest.mark.parametrize("width", [320, 390, 768, 1920])
def test_the_picture_fits_every_width(open_page: OpenPage, site_url: str, width: int) -> None:
    page = open_first(open_page, site_url, "desktop", LANGUAGES[0])
    page.set_viewport_size({"width": width, "height": 800})
    page.wait_for_timeout(300)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    heights = page.locator(f"#{FIRST}-lab .plot").evaluate_all(
        "all => all.map((plot) => plot.getBoundingClientRect().height)"
    )
    assert min(heights) > 100
