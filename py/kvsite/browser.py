"""Find the Chrome or Chromium that tests and measurements drive."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from kvsite import debian
from kvsite.stages import Failure, stage

COMMANDS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MAC = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
WINDOWS = r"Google\Chrome\Application\chrome.exe"
WINDOWS_BASES = ("PROGRAMFILES", "PROGRAMFILES(X86)", "LOCALAPPDATA")
# Screenshots need a font with Chinese, Japanese and Korean glyphs.
DEBIAN_PACKAGES = ("chromium", "fonts-noto-cjk")

# No sandbox: it can't start as root or in most containers, and only our own pages are opened.
# The rest keeps the browser from calling its maker while we count requests.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find_chromium() -> Path | None:
    """The browser named by `KVPROOF_CHROMIUM`, else one in the usual places, else None.

    Raises:
        Failure: `KVPROOF_CHROMIUM` names a file that doesn't exist.
    """
    if chosen := os.environ.get("KVPROOF_CHROMIUM"):
        if not Path(chosen).is_file():
            raise Failure(f"KVPROOF_CHROMIUM names {chosen}, which isn't a file.")
        return Path(chosen)
    on_path = (shutil.which(command) for command in COMMANDS)
    return next((Path(path) for path in [*on_path, *_standard_places()] if path), None)


def _standard_places() -> list[str]:
    if sys.platform == "darwin":
        places = list(MAC)
    else:
        bases = [os.environ[name] for name in WINDOWS_BASES if name in os.environ]
        places = [str(Path(base) / WINDOWS) for base in bases]
    return [place for place in places if Path(place).is_file()]


def ensure_chromium() -> Path:
    """The browser; on Debian and Ubuntu it is installed if missing and if that is allowed.

    Raises:
        Failure: there is none and it can't be installed from here.
    """
    found = find_chromium()
    if found is None and debian.can_install():
        with stage("browser") as current:
            debian.install(current, *DEBIAN_PACKAGES)
            found = find_chromium()
            current.note(f"{found}")
    if found is None:
        raise Failure(
            "No Chrome or Chromium found.\nInstall one (Debian: apt-get install chromium; "
            "elsewhere: google.com/chrome), or set KVPROOF_CHROMIUM to its executable."
        )
    return found


def launch_options() -> dict[str, Any]:
    """Arguments for Playwright's `chromium.launch`."""
    return {"executable_path": str(ensure_chromium()), "headless": True, "args": FLAGS}
