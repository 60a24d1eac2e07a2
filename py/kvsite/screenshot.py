"""Take the README's picture, the live first screen, from the built site."""

from playwright.sync_api import ViewportSize, sync_playwright

from kvsite.browser import launch_options
from kvsite.paths import DIST, ROOT
from kvsite.serve import start_server

PICTURE = ROOT / "docs" / "first-screen.png"
SIZE: ViewportSize = {"width": 1280, "height": 720}
LIVE_WITHIN_MS = 120_000


def main() -> int:
    """Write ``docs/first-screen.png``."""
    with start_server(DIST) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(**launch_options())
        page = browser.new_page(viewport=SIZE)
        page.goto(server.url)
        page.wait_for_selector("html[data-runtime-state=live]", timeout=LIVE_WITHIN_MS)
        page.screenshot(path=PICTURE)
        browser.close()
    print(f"Written: {PICTURE}")
    return 0
