"""What all tests share: what they need is made when the first of them asks for it.

The marks ``site``, ``browser`` and ``node`` follow from the fixtures that a test uses.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings

from kvsite.environment import node_tool, set_up_node
from kvsite.paths import BUILD, DIST, ROOT

# On arrays this small a second thread of OpenBLAS only waits: 11 times the processor's time for
# grouped heads. It is read when NumPy is loaded, here and in the workers.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The same examples each time, however slow the machine is.
settings.register_profile(
    "kvproof",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("kvproof")

MARKS = {"built_site": "site", "browser": "browser", "node": "node"}
"""A fixture -> the mark of the tests that use it."""


def pytest_itemcollected(item: pytest.Item) -> None:
    for fixture in MARKS.keys() & getattr(item, "fixturenames", ()):
        item.add_marker(MARKS[fixture])


LONG_FIRST = ("site", "notebook", "story", "zoo", "oracles", "kvsite", "check", "lab", "cells")
"""Folders whose files take long: at the end only short ones are left, for all processes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {name: rank for rank, name in enumerate(LONG_FIRST)}
    items.sort(key=lambda item: ranks.get(item.path.parent.name, len(ranks)))


@pytest.fixture(scope="session")
def built_site(request: pytest.FixtureRequest) -> Path:
    """The folder of the built site, made current; of several processes the others wait."""
    progress = request.config.pluginmanager.getplugin("capturemanager")
    BUILD.mkdir(exist_ok=True)
    with FileLock(BUILD / ".tests.lock"), progress.global_and_fixture_disabled():
        done = subprocess.run([sys.executable, ROOT / "build.py", "build"], stdout=sys.stderr)
    if done.returncode:
        pytest.fail("the site can't be built; the reason stands above", pytrace=False)
    return DIST


@pytest.fixture(scope="session")
def node() -> str:
    """The path of ``node``, with our packages installed."""
    BUILD.mkdir(exist_ok=True)
    with FileLock(BUILD / ".tests.lock"):
        set_up_node()
    return node_tool("node")
