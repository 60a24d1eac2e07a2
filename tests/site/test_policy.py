"""The content security policy binds the workers, where Python and the cells run."""

from urllib.parse import urlsplit

from playwright.sync_api import Page, expect
from tests.site.lab_page import PYTHON_STARTS, Lab, OpenPage

# Not with fetch, which the workers guard by themselves, for hosts that send no header.
ASK_ANOTHER_HOST = """() => new Promise((resolve) => {
  self.addEventListener("securitypolicyviolation", (event) => resolve(event.effectiveDirective));
  const request = new XMLHttpRequest();
  request.addEventListener("error", () => setTimeout(resolve, 1000, "no violation"));
  request.open("GET", "http://another.invalid/");
  request.send();
})"""


def test_a_worker_asks_no_other_host(page: Page, site_url: str, expected_errors: list[str]) -> None:
    expected_errors.append(r"another\.invalid")
    with page.expect_event("worker") as started:
        page.goto(site_url)
    assert started.value.evaluate(ASK_ANOTHER_HOST) == "connect-src"


def test_a_whole_visit_asks_one_host_and_leaves_no_cookie(
    open_page: OpenPage, site_url: str
) -> None:
    page = open_page()
    asked: list[str] = []
    page.context.on("request", lambda request: asked.append(request.url))
    Lab(page).open(f"{site_url}en/").expect_runtime("live")
    for lab in page.locator("[data-lab]").all():
        lab.scroll_into_view_if_needed()
    page.get_by_role("button", name="Run cell 2").click()
    expect(page.locator("section.cell").nth(1)).to_have_attribute(
        "data-state", "done", timeout=PYTHON_STARTS
    )
    page.locator(".site-header a[hreflang='zh-Hans']").click()
    expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")
    Lab(page).expect_runtime("live")

    hosts = {urlsplit(url).netloc for url in asked if not url.startswith("data:")}
    assert len(asked) > 20
    assert hosts == {urlsplit(site_url).netloc}
    assert page.evaluate("() => document.cookie") == ""
    assert page.context.cookies() == []
