"""Is ``dist`` up to date?  Asked at every start, so nothing heavy is imported before the answer."""

import os
from pathlib import Path

from kvsite.paths import CHECKED, DIST, PY, REQUIREMENTS, ROOT, RUNTIME
from kvsite.stages import folder_bytes, megabytes, stage
from kvsite.stamps import STAMP, digest, is_fresh, new_folder
from kvsite.wasm import LAB_FILES
from kvsite.wheel import SOURCES

# Of a build; each changes pages or the service worker. KVPROOF_WATCH: pages reload themselves.
SETTINGS = (
    "KVPROOF_BASE_PATH",
    "KVPROOF_OFFLINE",
    "KVPROOF_PACKED",
    "KVPROOF_REPOSITORY",
    "KVPROOF_SITE_URL",
    "KVPROOF_WATCH",
)
SITE_SOURCES = (ROOT / "site", PY, ROOT / "notebooks", CHECKED, *SOURCES)


def build_site(target: Path = DIST) -> None:
    """Make the site in ``target`` complete and current.

    Raises:
        Failure: the scripts can't be bundled, or the notebook is missing.
    """
    locks = [REQUIREMENTS / "site.txt", ROOT / "package-lock.json"]
    made_from = digest(
        [*SITE_SOURCES, *locks, RUNTIME / STAMP, LAB_FILES / STAMP],
        *(os.environ.get(name, "") for name in SETTINGS),
    )
    if is_fresh(target, made_from):
        return
    from kvsite.offline import write_service_worker
    from kvsite.pages import build_pages

    with stage("pages") as current:
        with new_folder(target, made_from) as folder:
            build_pages(folder, made_from)
            write_service_worker(folder, made_from)
            n_bytes = folder_bytes(folder)
        current.note(f"rendered, {megabytes(n_bytes)}")
