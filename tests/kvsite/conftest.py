"""Every test gets a cache folder of its own, so that the user's is neither used nor changed."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("KVPROOF_CACHE", str(folder))
    return folder
