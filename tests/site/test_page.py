"""The built pages as visitors find them: no scripts, a file, a phone, a path below a host."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.site.conftest import check_errors, record_errors
from tests.site.lab_page import (
    DEFAULT,
    LAB_FILES,
    PYTHON_STARTS,
    SAVE_DATA,
    Lab,
    OpenPage,
    State,
    open_fold,
)

from kvlab.formats import number
from kvlab.labs import LABS
from kvproof import offset_mask, top_left_mask
from kvsite.pages import EMBEDDED, HOME, MORE_PAGES, PAGES
from kvsite.paths import DIST, NODE_MODULES
from kvsite.serve import Handler, start_server

FOLDERS = ["en", "zh", "zh-hant"]
NAMES = [f"{name}.html" for name in (*PAGES, *MORE_PAGES)]
NAMES += [f"{EMBEDDED}/{name}.html" for name in LABS]
ALL_PAGES = [f"{folder}/{name}" for folder in FOLDERS for name in NAMES]
ALL_PAGES += ["index.html", "404.html"]

pages = pytest.mark.parametrize("name", ALL_PAGES)
LANGUAGE_CODES = {"zh": "zh-Hans", "zh-hant": "zh-Hant"}


# --- Without scripts, and without a server ------------------------------------------------------


def expect_static_lab(page: Page) -> None:
    """The default state is readable: both masks, the numbers, the sentences."""
    for name, mask in (("offset", offset_mask(4, 2)), ("top-left", top_left_mask(4, 2))):
        figure = page.locator(f"#mask-{name}-mask")
        expect(figure).to_be_visible()
        shown = [[mark == "●" for mark in row[1:]] for row in table_texts(figure)]
        assert shown == mask.tolist()
    expected = DEFAULT.report()
    lab = Lab(page)
    expect(lab.state).to_have_text(DEFAULT.label)
    assert lab.value("hidden-keys") == 8
    for name, error in (
        ("offset", expected.offset.max_abs_error),
        ("top-left", expected.top_left.max_abs_error),
    ):
        readout = lab.readout(f"{name}-error")
        expect(readout).to_be_visible()
        assert lab.value(f"{name}-error") == pytest.approx(
            error, rel=0, abs=10 * expected.rounding_floor
        )
        expect(lab.readout(f"{name}-summary")).to_contain_text("P = 4")
    expect(lab.readout("top-left-error")).to_have_text("0.699")


def table_texts(place: Any) -> list[list[str]]:
    """Texts of a table's body; asked cell by cell, since without scripts nothing is evaluated."""
    rows = place.locator("tbody tr").all()
    return [row.locator("th, td").all_inner_texts() for row in rows]


def test_without_scripts_masks_and_numbers_are_there(open_page: OpenPage, site_url: str) -> None:
    page = open_page(java_script_enabled=False)
    page.goto(site_url)
    expect_static_lab(page)
    expect(page.get_by_text("Reading without scripts")).to_be_visible()
    expect(page.get_by_text("Opened as a file")).to_be_hidden()
    expect(page.locator("button:visible")).to_have_count(0)
    expect(page.locator(".cell-source").first).to_contain_text("from kvlab.candidate import draw")
    page.get_by_text("Show these errors as a table").click()
    errors = table_texts(page.locator('details [data-twin="mask.errors.rows"]'))
    assert [row[0] for row in errors] == ["4", "5"]
    expected = DEFAULT.report().top_left.row_errors.tolist()
    assert [row[2] for row in errors] == [number(error) for error in expected]


def test_opened_as_a_file_it_says_why_nothing_moves(
    open_page: OpenPage, expected_errors: list[str]
) -> None:
    expected_errors += ["blocked by CORS policy", r"net::ERR_FAILED"]
    page = open_page()
    page.goto((DIST / "index.html").as_uri())
    expect(page.get_by_text("Opened as a file")).to_be_visible()
    expect(page.get_by_text("python build.py serve", exact=True)).to_be_visible()
    expect(page.get_by_text("Reading without scripts")).to_be_hidden()
    expect_static_lab(page)
    background = page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
    assert background != "rgba(0, 0, 0, 0)", "the style sheet must work from a file, too"


# --- Own origin, any path -----------------------------------------------------------------------


class PlainHandler(Handler):
    """Sends none of our headers, as hosts for static pages do."""

    def end_headers(self) -> None:
        BaseHTTPRequestHandler.end_headers(self)


def test_a_plain_host_and_a_path_below_it_are_enough(page: Page) -> None:
    """A whole visit, in two languages: relative URLs only, no other host, and no cookie."""
    with start_server(DIST, prefix="/sub/path/") as server:
        server.RequestHandlerClass = PlainHandler
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        lab = Lab(page).open(server.url)
        lab.expect_runtime("live")
        assert any("/assets/snapshot." in url for url in requests), "a start takes the short way"
        assert not any(url.endswith("/python_stdlib.zip") for url in requests), "and no other"
        assert page.evaluate("() => crossOriginIsolated") is False
        lab.move_to(State(7, 2))
        open_fold(page)
        page.get_by_role("button", name="Run cell 1").click()
        cell = page.locator("section.cell").first
        expect(cell).to_have_attribute("data-state", "done", timeout=PYTHON_STARTS)
        for one in page.locator("[data-lab]").all():
            one.scroll_into_view_if_needed()
        page.locator(".site-header a[hreflang='zh-Hans']").click()
        expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")
        page.locator("#mask-lab").scroll_into_view_if_needed()
        expect(lab.slider("n_past")).to_be_visible()
        assert page.context.cookies() == []
    names = [url.rsplit("/", 1)[-1] for url in requests]
    for part in (
        "lab-worker",
        "cells-worker",
        "pyodide.asm.wasm",
        "numpy-",
        "story_lab",
        "mask_lab",
    ):
        assert any(name.startswith(part) for name in names), f"{part} was not requested: {names}"
    inside = [url for url in requests if url.startswith(server.url)]
    assert inside == requests, "requests outside the prefix"


class Links(HTMLParser):
    """Everything that a page points to, and the anchors that it offers."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.targets: list[str] = []
        self.ids: list[str] = []
        self.feed((DIST / name).read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value is not None:
                self.targets.append(value)
            elif name == "id" and value is not None:
                self.ids.append(value)


@pages
def test_links_lead_somewhere(name: str) -> None:
    links = Links(name)
    assert links.targets
    broken = [target for target in links.targets if not leads_somewhere(name, target)]
    assert not broken


@cache
def ids_of(name: str) -> frozenset[str]:
    return frozenset(Links(name).ids)


@cache
def leads_somewhere(page: str, target: str) -> bool:
    """True for a file in the site, with its anchor, and for anything that is no relative URL."""
    url = urlsplit(urljoin(f"http://site/{page}", target))
    if url.hostname != "site":
        return url.scheme in ("https", "data")
    if target.startswith("/"):
        return False  # breaks below a prefix
    path = unquote(url.path).lstrip("/")
    path = f"{path}index.html" if path == "" or path.endswith("/") else path
    section = url.fragment.split("~")[0]  # after it a cell's text may follow (site/js/address.js)
    return (DIST / path).is_file() and (not section or section in ids_of(path))


@pages
def test_ids_are_unique(name: str) -> None:
    ids = Links(name).ids
    assert sorted(ids) == sorted(set(ids))


@pytest.mark.parametrize("folder", FOLDERS)
def test_next_and_previous_lead_through_all_pages_in_their_order(folder: str) -> None:
    def turns(name: str) -> dict[str, str]:
        html = (DIST / folder / f"{name}.html").read_text()
        found = re.findall(r'<a rel="(prev|next)" href="([^"]*)">', html)
        return {rel: Path(href).stem if href != "./" else HOME for rel, href in found}

    order = list(PAGES)
    for before, after in pairwise(order):
        assert turns(before)["next"] == after
        assert turns(after)["prev"] == before
    assert turns(order[0]).keys() == {"next"}
    assert turns(order[-1]).keys() == {"prev"}
    assert turns("notices") == {}


# --- What a policy, a phone and a screen reader ask for ----------------------------------------


@dataclass
class Visit:
    """A page that is opened once, without Python, for several tests.

    The start page isn't: it is the English article again (see test_languages). The pages in
    Traditional Chinese aren't: they are those in Simplified Chinese in other letters.
    """

    name: str
    page: Page
    errors: list[str] = field(default_factory=list)


VISITED = [
    name
    for name in ALL_PAGES
    if EMBEDDED not in name and name != "index.html" and not name.startswith("zh-hant/")
]


@pytest.fixture(scope="module", params=VISITED)
def visit(request: pytest.FixtureRequest, browser: Browser, site_url: str) -> Iterator[Visit]:
    with browser.new_context(service_workers="block") as context:
        context.add_init_script(SAVE_DATA)
        visit = Visit(request.param, context.new_page())
        record_errors(context, visit.errors)
        visit.page.goto(site_url + visit.name)
        yield visit
        check_errors(visit.errors, [])


def test_language_title_and_headings(visit: Visit) -> None:
    page = visit.page
    language = LANGUAGE_CODES.get(visit.name.split("/")[0], "en")
    assert page.locator("html").get_attribute("lang") == language
    assert page.title()
    headings = page.locator("h1, h2, h3, h4, h5, h6")
    levels = headings.evaluate_all("all => all.map((heading) => Number(heading.tagName[1]))")
    assert levels.count(1) == 1
    assert levels[0] == 1
    jumps = [(a, b) for a, b in pairwise(levels) if b > a + 1]
    assert not jumps


def test_every_page_is_accessible_in_light_and_dark(visit: Visit) -> None:
    """In dark only what can be another there: the contrast, and one language has all colours."""
    visit.page.emulate_media(color_scheme="light")
    expect_accessible(visit.page)
    if visit.name.startswith("en/") or "/" not in visit.name:
        visit.page.emulate_media(color_scheme="dark")
        expect_accessible(visit.page, CONTRAST)


def test_every_page_fits_a_phone(visit: Visit) -> None:
    """At 320 px, with every lab drawn and every fold open."""
    page = visit.page
    page.set_viewport_size({"width": 320, "height": 640})
    for lab in page.locator("[data-lab]").all():
        lab.scroll_into_view_if_needed()
        expect(lab.locator(DRAWN).first).to_be_attached()
    page.locator("main details").evaluate_all(
        "all => all.forEach((details) => { details.open = true; })"
    )
    expect_no_sideways_scrolling(page)
    expect_accessible(page, ["scrollable-region-focusable"])  # here boxes scroll


DRAWN = ".plot > .bk-Figure, #stepper-step > *"
"""What Bokeh has drawn in its place: a figure, or the controls of the lab that has none."""


def test_every_page_has_a_strict_policy_that_works(visit: Visit) -> None:
    """The live page keeps to it (a violation is a console error); here it must also bite."""
    page = visit.page
    policy = page.locator('meta[http-equiv="Content-Security-Policy"]').get_attribute("content")
    assert policy
    rules = {rule.split()[0]: rule.split()[1:] for rule in policy.split(";")}
    assert rules["default-src"] == ["'none'"]
    assert rules["script-src"] == ["'self'", "'wasm-unsafe-eval'"]
    assert rules["connect-src"] == ["'self'"]
    check_errors(visit.errors, [])
    ran = page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "window.ranInline = true";
          document.body.append(script);
          return window.ranInline ?? false;
        }"""
    )
    assert ran is False
    expect_noticed(page, visit.errors, "Content Security Policy")
    visit.errors.clear()


def expect_noticed(page: Page, errors: list[str], *signs: str) -> None:
    """Wait until errors with all these signs are recorded: they come by a way of their own."""
    for _ in range(300):
        missing = [sign for sign in signs if not any(sign in error for error in errors)]
        if not missing:
            return
        page.wait_for_timeout(100)
    pytest.fail(f"not noticed: {missing}")


def test_errors_of_pages_and_workers_are_noticed(
    page: Page, site_url: str, page_errors: list[str]
) -> None:
    """The negative control of the check at the end of every test here."""
    lab = Lab(page).open(site_url)
    lab.expect_runtime("live")
    page.workers[0].evaluate(
        '() => { console.error("logged, worker"); Promise.reject(new Error("rejected, worker")); }'
    )
    page.evaluate(
        """() => {
          console.error("logged, page");
          Promise.reject(new Error("rejected, page"));
          setTimeout(() => { throw new Error("thrown, page"); });
        }"""
    )
    kinds = ("logged, page", "rejected, page", "thrown, page", "logged, worker", "rejected, worker")
    expect_noticed(page, page_errors, *kinds)
    page.route("http://other.invalid/", lambda route: route.fulfill(body=""))
    page.goto("http://other.invalid/")
    expect_noticed(page, page_errors, "another host")
    page_errors.clear()


def test_a_phone_asks_before_it_loads_python(open_page: OpenPage, site_url: str) -> None:
    page = open_page(viewport={"width": 320, "height": 640}, has_touch=True, is_mobile=True)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    lab = Lab(page).open(site_url)
    expect(lab.button).to_be_visible()
    lab.expect_runtime("prebuilt")
    open_tables(page)
    expect_no_sideways_scrolling(page)
    lab.move_to(State(32, 16))
    expect_no_sideways_scrolling(page)
    small = page.locator("button:visible, summary:visible").evaluate_all(
        "targets => targets.filter((t) => t.getBoundingClientRect().height < 44)"
        ".map((t) => t.textContent)"
    )
    assert not small, "touch targets below 44 px"
    assert not page.workers
    assert not [url for url in requests if re.search(r"worker|\.wasm|\.whl|snapshot", url)]
    lab.button.click()
    lab.expect_runtime("live")
    lab.move_to(State(8, 4))
    expect_no_sideways_scrolling(page)


def open_tables(page: Page) -> None:
    page.locator("details.twin").evaluate_all(
        "tables => tables.forEach((details) => { details.open = true; })"
    )


def expect_no_sideways_scrolling(page: Page) -> None:
    width = page.evaluate("() => document.documentElement.scrollWidth")
    assert width <= 320, f"the page is {width} px wide"


CONTRAST = ["color-contrast", "link-in-text-block"]
"""The rules that look at colours."""


def expect_accessible(page: Page, rules: list[str] | None = None) -> None:
    """No finding of axe-core that it calls serious or critical; ``rules``: of these only."""
    page.evaluate((NODE_MODULES / "axe-core" / "axe.min.js").read_text())
    # What has passed isn't described: that takes most of the time.
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = {"type": "rule", "values": rules}
    results = page.evaluate("(options) => axe.run(options)", options)
    looked = len(results["passes"]) + len(results["inapplicable"])
    looked += len(results["violations"])
    assert looked >= (len(rules) if rules else 50), "axe must have looked at the page"
    findings = [
        f"{violation['id']}: {violation['help']}: {node['html'][:200]} {node['failureSummary']}"
        for violation in results["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]
    assert not findings, "\n".join(findings)


def test_a_failed_lab_is_accessible_in_light_and_dark(open_page: OpenPage, site_url: str) -> None:
    page = open_page(color_scheme="light")
    page.route("**/lab-worker.*.js", lambda route: route.abort())
    lab = Lab(page).open(site_url)
    lab.expect_runtime("failed")
    expect_accessible(page)
    page.emulate_media(color_scheme="dark")
    expect_accessible(page, CONTRAST)


def test_axe_finds_what_is_wrong(prebuilt_lab: Lab) -> None:
    """The negative control of the tests above."""
    page = prebuilt_lab.page
    page.evaluate(
        """() => {
          const wrong = document.createElement("p");
          wrong.id = "wrong";
          wrong.append("pale", new Image());
          wrong.style = "color: #bbb; background: #fff";
          document.querySelector("main").prepend(wrong); // at the end, buttons may lie over it
        }"""
    )
    with pytest.raises(AssertionError, match="image-alt"):
        expect_accessible(page, ["image-alt"])
    with pytest.raises(AssertionError, match="color-contrast"):
        expect_accessible(page, CONTRAST)
    page.evaluate("() => document.getElementById('wrong').remove()")


# --- The keyboard, and the table of contents -----------------------------------------------------

FOCUSED = """
() => {
  let focused = document.activeElement;
  while (focused.shadowRoot?.activeElement) focused = focused.shadowRoot.activeElement;
  if (focused === document.body) return null;
  const box = focused.getBoundingClientRect();
  const seen = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  focused.reached = true;
  return [focused.outerHTML.slice(0, 120), seen || box.width * box.height === 0];
}
"""
MISSED = """
() => {
  const all = (root) => [...root.querySelectorAll("*")].flatMap(
    (element) => element.shadowRoot ? [element, ...all(element.shadowRoot)] : [element]);
  const controls = "a[href], button, select, summary, input, [tabindex='0'], [contenteditable]";
  const groups = new Set();
  const once = (radio) => !groups.has(radio.name) && groups.add(radio.name);
  return all(document)
    .filter((element) => element.matches(controls) && element.checkVisibility())
    .filter((element) => element.type !== "radio" || (element.checked && once(element)))
    .filter((element) => !element.reached && !element.disabled)
    .map((element) => element.outerHTML.slice(0, 120));
}
"""


@pytest.mark.parametrize("file", LAB_FILES)
def test_tab_walks_through_a_whole_page(open_page: OpenPage, site_url: str, file: str) -> None:
    """Each control once, from top to bottom, in sight while it has the focus; and out again."""
    page = open_page()
    page.add_init_script(SAVE_DATA)
    page.goto(f"{site_url}en/{file}")
    for lab in page.locator("[data-lab]").all():
        lab.scroll_into_view_if_needed()
        expect(lab.locator(DRAWN).first).to_be_attached()
    expect(page.locator(".cm-editor")).to_have_count(page.locator("section.cell").count())
    page.locator("a.skip").focus()
    stops: list[Any] = []
    while (stop := page.evaluate(FOCUSED)) and (len(stops) < 2 or stop != stops[0]):
        stops.append(stop)
        assert len(stops) < 500, f"no end: {stops[-5:]}"
        in_editor = "cm-content" in stop[0]
        page.keyboard.press("Tab")
        assert not in_editor or page.evaluate(FOCUSED) != stop, "caught in an editor"
    assert len(stops) > 40
    assert [text for text, seen in stops if not seen] == []
    assert page.evaluate(MISSED) == []


def test_the_contents_lead_to_every_section_and_lab(prebuilt_lab: Lab) -> None:
    page = prebuilt_lab.page
    contents = page.get_by_role("navigation", name="Contents")
    summary = contents.locator("summary")
    summary.press("Enter")
    anchors = contents.get_by_role("link").evaluate_all(
        "links => links.map((link) => link.hash.slice(1))"
    )
    headings = page.locator("main h2[id]").evaluate_all(
        "all => all.map((heading) => (heading.closest('[data-lab]') ?? heading).id)"
    )
    labs = page.locator("[data-lab]").evaluate_all("labs => labs.map((lab) => lab.id)")
    assert set(anchors) == {*headings, *labs}
    assert len(anchors) == len(set(anchors)) > 12
    expect_accessible(page, ["color-contrast", "list", "link-name", "target-size"])
    page.keyboard.press("Escape")
    expect(contents.get_by_role("list")).to_be_hidden()
    expect(summary).to_be_focused()
    summary.press("Enter")
    contents.get_by_role("link", name="What to test").click()
    expect(page.locator("#summary")).to_be_in_viewport()
    expect(contents.get_by_role("list")).to_be_hidden()


def test_on_a_phone_the_contents_fit(open_page: OpenPage, site_url: str) -> None:
    page = open_page(viewport={"width": 320, "height": 640}, java_script_enabled=False)
    page.goto(f"{site_url}en/storages.html")
    page.locator("#contents summary").click()
    listed = page.locator("#contents ul")
    box = listed.bounding_box()
    assert box
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 320
    assert box["y"] >= 0
    page.locator("#contents").get_by_role("link", name="Windows").click()
    expect(page.locator("#windows")).to_be_in_viewport()


# --- The code that a cache changes --------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_removed_and_added_lines_look_different(page: Page, site_url: str, scheme: Any) -> None:
    page.goto(f"{site_url}en/proof.html")
    new = page.locator("figure.diff ins.line", has_text="k, v = cache.append(layer, k, v)")
    expect(new).to_have_count(1)
    page.emulate_media(color_scheme=scheme)
    looks = [
        page.locator(f"figure.diff {tag}.line").first.evaluate(
            "line => [getComputedStyle(line)].map("
            "(s) => [s.backgroundColor, s.borderLeftColor, s.textDecorationLine])[0]"
        )
        for tag in ("del", "ins", "span")
    ]
    for kind in (0, 1):
        assert len({look[kind] for look in looks}) == 3
    assert {look[2] for look in looks} == {"none"}, "struck-out code is hard to read"


def test_the_notebook_can_be_downloaded(page: Page, site_url: str) -> None:
    page.goto(f"{site_url}en/notebook.html")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the notebook").click()
    name = download.value.suggested_filename
    assert name == "kv_cache_cpu.ipynb"
    assert Path(download.value.path()).read_bytes() == (DIST / "downloads" / name).read_bytes()
