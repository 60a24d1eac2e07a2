"""The content security policy binds the workers, where Python and the cells run."""

from playwright.sync_api import Page

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
