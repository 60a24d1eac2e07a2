"""Take the README's picture, the live first screen, from the built site; and the link previews."""

from playwright.sync_api import Browser, ViewportSize, sync_playwright

from kvsite.browser import launch_options
from kvsite.languages import LANGUAGES
from kvsite.pages import environment
from kvsite.paths import DIST, ROOT
from kvsite.previews import HEIGHT, WIDTH, note_what_was_taken, picture_file, picture_html
from kvsite.serve import start_server

PICTURE = ROOT / "docs" / "first-screen.png"
SIZE: ViewportSize = {"width": 1280, "height": 720}
LIVE_WITHIN_MS = 120_000


def main() -> int:
    """Write ``docs/first-screen.png`` and ``site/previews``."""
    with start_server(DIST) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(**launch_options())
        page = browser.new_page(viewport=SIZE)
        page.goto(server.url)
        page.wait_for_selector("html[data-runtime-state=live]", timeout=LIVE_WITHIN_MS)
        page.screenshot(path=PICTURE)
        print(f"Written: {PICTURE}")
        take_previews(browser)
        browser.close()
    return 0


def take_previews(browser: Browser) -> None:
    """Write the pictures that shared links show."""
    pages = {language: picture_html(environment(language)) for language in LANGUAGES}
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
    for language, html in pages.items():
        page.set_content(html)
        page.screenshot(path=picture_file(language))
        print(f"Written: {picture_file(language)}")
    note_what_was_taken({language.folder: html for language, html in pages.items()})
