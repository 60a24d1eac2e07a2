"""Take the README's picture of the live mask lab, from the built site."""

from playwright.sync_api import ViewportSize, sync_playwright

from kvsite.browser import launch_options
from kvsite.paths import DIST, ROOT
from kvsite.serve import start_server

PICTURE = ROOT / "docs" / "mask-lab.png"
SIZE: ViewportSize = {"width": 1120, "height": 900}
HISTORY, CHUNK = 10, 5
LIVE_WITHIN_MS = 120_000


def main() -> int:
    """Write ``docs/mask-lab.png``."""
    with start_server(DIST) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(**launch_options())
        page = browser.new_page(viewport=SIZE)
        page.goto(server.url)
        page.wait_for_selector("html[data-runtime-state=live]", timeout=LIVE_WITHIN_MS)
        for place, moves in (("#mask-n_past", HISTORY - 4), ("#mask-n_new", CHUNK - 2)):
            page.locator(place).get_by_role("slider").focus()
            for _ in range(moves):
                page.keyboard.press("ArrowRight")
        page.wait_for_selector(f"text=P = {HISTORY}, C = {CHUNK}, float64")
        page.evaluate("document.activeElement.blur()")
        page.locator(".masks").scroll_into_view_if_needed()
        page.screenshot(path=PICTURE)
        browser.close()
    print(f"Written: {PICTURE}")
    return 0
