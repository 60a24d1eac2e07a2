"""What a static host gets: a page for lost visitors, and the list of what may be kept."""

import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvsite.assets import GZIP, LIBRARY_FILES, Assets
from kvsite.languages import ENGLISH
from kvsite.offline import NAME, contents, write_service_worker
from kvsite.pages import Pages
from kvsite.paths import RUNTIME
from kvsite.wasm import LAB_FILES, LIBRARIES


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


# --- Large files for hosts that compress only text ------------------------------------------------


def test_large_files_lie_there_packed_and_unpack_to_what_was_built(built_site: Path) -> None:
    packed = {path.name.split(".")[0]: path for path in built_site.rglob(f"*{GZIP}")}
    assert packed.keys() == {"snapshot", "stdlib", "libraries", "labs", "kvproof", "pyodide"}
    sources = [LIBRARIES / name for name in LIBRARY_FILES]
    sources += [LAB_FILES / "labs.tar", LAB_FILES / "kvproof.tar", RUNTIME / "pyodide.asm.wasm"]
    for source in sources:
        path = packed[source.name.split(".")[0]]
        assert gzip.decompress(path.read_bytes()) == source.read_bytes()
        assert path.stat().st_size < source.stat().st_size / 2
        assert not path.with_suffix("").exists(), "nobody needs it twice"


def test_packing_twice_gives_the_same_bytes_and_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No time is in them; with ``KVPROOF_PACKED=0`` they lie as they are, under the same names."""

    def assets(name: str) -> dict[str, bytes]:
        folder = tmp_path / name
        folder.mkdir()
        config = Assets(folder, "build").config(["mask"], has_cells=True)
        assert config["labs"]["python"]["archives"][0]["bytes"] > 0
        files = (path for path in folder.rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}

    once, again = assets("once"), assets("again")
    assert once == again
    monkeypatch.setenv("KVPROOF_PACKED", "0")
    plain = assets("plain")
    assert not [name for name in plain if name.endswith(GZIP)]
    assert {name.removesuffix(GZIP) for name in once} == plain.keys()
