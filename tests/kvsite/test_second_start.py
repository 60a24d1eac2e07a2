"""A start with nothing changed makes nothing and asks nobody."""

import os
import subprocess
import sys
from pathlib import Path

from kvsite.paths import ROOT
from kvsite.stamps import STAMP

NOWHERE = "http://127.0.0.1:9"
UNREACHABLE = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), NOWHERE),
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_INDEX_URL": NOWHERE,
    "NPM_CONFIG_USERCONFIG": os.devnull,
    "NPM_CONFIG_REGISTRY": NOWHERE,
}


def test_second_start_does_no_network_and_no_work(built_site: Path, cache: Path) -> None:
    cache.mkdir()
    made = (built_site / STAMP).stat().st_mtime_ns
    settings = {k: v for k, v in os.environ.items() if not k.lower().startswith(("pip_", "npm_"))}
    done = subprocess.run(
        [sys.executable, ROOT / "build.py", "build"],
        env={**settings, **UNREACHABLE},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (built_site / STAMP).stat().st_mtime_ns == made
    assert list(cache.iterdir()) == []
