"""What a static host gets: a page for lost visitors, and the list of what may be kept."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvsite.languages import ENGLISH
from kvsite.offline import NAME, contents, write_service_worker
from kvsite.pages import Pages


def not_found(folder: Path) -> str:
    assets: Any = SimpleNamespace(urls={})
    Pages(folder, assets, ENGLISH).write_not_found()
    return (folder / "404.html").read_text("utf-8")


def test_404_is_in_both_languages_and_needs_no_file(tmp_path: Path) -> None:
    page = not_found(tmp_path)
    assert '<h1 lang="en">Not here</h1>' in page
    assert '<h2 lang="zh-Hans">' in page
    assert "assets/" not in page
    assert "<base" not in page


def test_its_links_start_from_where_the_site_will_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVPROOF_BASE_PATH", "/kvproof/")
    page = not_found(tmp_path)
    assert page.index('<base href="/kvproof/">') < page.index("href=")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for path, text in {
        "404.html": "lost",
        "en/index.html": "page",
        "assets/main.0123.js": "script",
        "assets/labs.0123.tar": "archive",
        "runtime/0123/pyodide.mjs": "python",
        "downloads/notebook.ipynb": "{}",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_the_worker_lists_pages_and_files_but_no_downloads(site: Path) -> None:
    found = contents(site)
    assert found["files"] == {"assets/main.0123.js": len("script")}
    assert found["python"] == {"assets/labs.0123.tar": 7, "runtime/0123/pyodide.mjs": 6}
    assert found["pages"].keys() == {"en/index.html"}
    (site / "en" / "index.html").write_text("other")
    assert contents(site)["pages"] != found["pages"]


def test_the_worker_begins_with_that_list(site: Path) -> None:
    listed = contents(site)
    write_service_worker(site, "0123")
    first_line = (site / NAME).read_text("utf-8").splitlines()[0]
    written = json.loads(first_line.removeprefix("self.SITE = ").removesuffix(";"))
    assert written == {"build": "0123", **listed}
