"""The browser is found, installed where that is allowed, or asked for in plain words."""

from pathlib import Path

import pytest

from kvsite import browser, debian
from kvsite.stages import Failure


@pytest.fixture
def only_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the whole PATH, and no browser in any other place."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("KVPROOF_CHROMIUM", raising=False)
    monkeypatch.setattr(browser, "_standard_places", list)
    monkeypatch.setattr(debian, "can_install", lambda: False)
    return tmp_path


def program(path: Path) -> Path:
    path.touch(0o755)
    return path


def test_named_browser_wins(only_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(only_path / "chromium")
    named = program(only_path / "mine")
    monkeypatch.setenv("KVPROOF_CHROMIUM", str(named))
    assert browser.find_chromium() == named
    monkeypatch.setenv("KVPROOF_CHROMIUM", str(only_path / "gone"))
    with pytest.raises(Failure, match="KVPROOF_CHROMIUM names .*gone"):
        browser.find_chromium()


@pytest.mark.parametrize("name", ["chromium", "chromium-browser", "google-chrome-stable"])
def test_browser_on_the_path_is_found(only_path: Path, name: str) -> None:
    found = program(only_path / name)
    assert browser.ensure_chromium() == found
    options = browser.launch_options()
    assert options["executable_path"] == str(found)
    assert "--disable-background-networking" in options["args"]


def test_missing_browser_is_installed_where_allowed(
    only_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed: list[str] = []

    def install(stage: object, *packages: str) -> None:
        installed.extend(packages)
        program(only_path / "chromium")

    monkeypatch.setattr(debian, "can_install", lambda: True)
    monkeypatch.setattr(debian, "install", install)
    assert browser.ensure_chromium() == only_path / "chromium"
    assert installed == ["chromium", "fonts-noto-cjk"]


@pytest.mark.usefixtures("only_path")
def test_missing_browser_is_explained() -> None:
    with pytest.raises(Failure, match="apt-get install chromium.*KVPROOF_CHROMIUM"):
        browser.ensure_chromium()
