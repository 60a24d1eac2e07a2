"""Light and dark: as the system or as chosen, kept, in figures too; paper is always light."""

import pytest
from playwright.sync_api import Page, expect
from tests.site.lab_page import SAVE_DATA, Lab, OpenPage

from kvlab.palette import DARK, LIGHT

GROUND = "() => getComputedStyle(document.body).backgroundColor"
PIXEL = """concept => {
  const view = Bokeh.index.find_one_by_id(maskDocument().get_model_by_name("errors").id);
  const { data } = view.canvas_view.primary.ctx.getImageData(2, 2, 1, 1);
  return [...data].slice(0, 3);
}"""
"""A pixel of the error figure's border."""


def rgb(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def css(colour: str) -> str:
    return f"rgb({', '.join(map(str, rgb(colour)))})"


@pytest.fixture
def lab(page: Page, site_url: str) -> Lab:
    page.add_init_script(SAVE_DATA)
    return Lab(page).open(site_url)


def choose(page: Page, theme: str) -> None:
    page.get_by_label("Colours").select_option(theme)


def expect_drawn_on(page: Page, colour: str) -> None:
    page.wait_for_function(
        f"wanted => ({PIXEL})().every((channel, i) => Math.abs(channel - wanted[i]) <= 2)",
        arg=rgb(colour),
    )


@pytest.mark.parametrize(("theme", "other"), [("dark", "light"), ("light", "dark")])
def test_a_chosen_theme_overrules_the_system_in_page_and_figures(
    open_page: OpenPage, site_url: str, theme: str, other: str
) -> None:
    colours = {"light": LIGHT, "dark": DARK}
    page = open_page(color_scheme=other)
    page.add_init_script(SAVE_DATA)
    Lab(page).open(site_url)
    expect_drawn_on(page, colours[other]["surface"])
    choose(page, theme)
    assert page.evaluate(GROUND) == css(colours[theme]["bg"])
    expect_drawn_on(page, colours[theme]["surface"])
    choose(page, "system")
    assert page.evaluate(GROUND) == css(colours[other]["bg"])
    expect_drawn_on(page, colours[other]["surface"])


def test_the_choice_is_kept_on_all_pages_and_there_before_anything_is_drawn(
    lab: Lab, site_url: str
) -> None:
    choose(lab.page, "dark")
    lab.page.route("**/header.*.js", lambda route: None)  # for ever loading
    for path in ("zh/", "en/api.html"):
        lab.page.goto(site_url + path, wait_until="commit")
        expect(lab.html).to_have_attribute("data-theme", "dark")
        lab.page.wait_for_function(f"wanted => ({GROUND})() === wanted", arg=css(DARK["bg"]))


def test_a_kept_value_that_is_no_theme_is_ignored(lab: Lab) -> None:
    lab.page.evaluate("() => localStorage.setItem('kvproof.theme', 'mauve')")
    lab.page.reload()
    expect(lab.page.get_by_label("Colours")).to_have_value("")
    assert lab.html.get_attribute("data-theme") is None


def test_a_browser_that_keeps_nothing_can_still_switch(page: Page, site_url: str) -> None:
    page.add_init_script(SAVE_DATA)
    page.add_init_script(
        "Object.defineProperty(window, 'localStorage', { get() { throw new Error('no'); } });"
    )
    Lab(page).open(site_url)
    choose(page, "dark")
    assert page.evaluate(GROUND) == css(DARK["bg"])


def test_paper_is_light_and_so_are_the_figures_on_it(lab: Lab) -> None:
    choose(lab.page, "dark")
    expect_drawn_on(lab.page, DARK["surface"])
    before, after = lab.page.evaluate(
        f"""() => {{
          const look = () => [({GROUND})(), ({PIXEL})()];
          dispatchEvent(new Event("beforeprint"));
          const printed = look(); // at once: a printer doesn't wait for a frame
          dispatchEvent(new Event("afterprint"));
          return [printed, look()];
        }}"""
    )
    assert before == [css(LIGHT["bg"]), rgb(LIGHT["surface"])]
    assert after == [css(DARK["bg"]), rgb(DARK["surface"])]
    lab.page.emulate_media(media="print")
    assert lab.page.evaluate(GROUND) == css(LIGHT["bg"])
