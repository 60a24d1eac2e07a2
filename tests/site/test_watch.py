"""``serve --watch``: what it sees, who builds, and all of it once in a copy of the checkout."""

import io
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from kvsite import watch
from kvsite.paths import BUILD, NODE_MODULES, ROOT, VENV
from kvsite.stages import Failure

# Writes a line for itself and for each that it is sent; ends when it is told to.
CHILD = """
import os, sys, time
def say(word):
    with open(sys.argv[1], "a") as log:
        log.write(f"{os.getpid()} {word}\\n")
say("born")
for line in sys.stdin:
    say(line.strip())
    if os.path.exists(sys.argv[1] + ".deaf"):
        sys.stdin.close()
        os.close(0)
        say("deaf")
        time.sleep(600)
    if os.path.exists(sys.argv[1] + ".end"):
        break
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def builder(log: Path) -> Iterator[watch.Builder]:
    builder = watch.Builder([sys.executable, "-c", CHILD, str(log)])
    yield builder
    builder.stop()


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    pytest.fail("that didn't happen within a minute")


def wait_for_lines(log: Path, n_lines: int) -> list[str]:
    wait_for(lambda: log.exists() and log.read_text().count("\n") == n_lines)
    return log.read_text().split()


def test_changes_are_files_written_made_and_removed(tmp_path: Path) -> None:
    for name in ("a.md", "b.md"):
        (tmp_path / name).touch()
    os.utime(tmp_path / "a.md", (0, 0))
    changes = watch.changes([tmp_path])
    assert next(changes) == set()
    (tmp_path / "a.md").write_text("more")
    (tmp_path / "b.md").unlink()
    (tmp_path / "__pycache__").mkdir()
    for name in ("c.md", ".c.md.swp", "__pycache__/c.pyc"):
        (tmp_path / name).touch()
    assert next(changes) == {tmp_path / name for name in ("a.md", "b.md", "c.md")}
    assert next(changes) == set()


def test_one_child_renders_again_and_another_takes_other_code(
    builder: watch.Builder, log: Path
) -> None:
    wait_for_lines(log, 1)
    builder.update({ROOT / "site" / "pages" / "en" / "index.md"})
    first, _, same, word = wait_for_lines(log, 2)
    assert (same, word) == (first, "again")
    builder.update({ROOT / "site" / "favicon.svg", ROOT / "py" / "kvlab" / "mask_lab.py"})
    *_, second, word = wait_for_lines(log, 3)
    assert second != first
    assert word == "born"


def test_a_child_that_has_ended_gets_a_successor(builder: watch.Builder, log: Path) -> None:
    page = {ROOT / "site" / "pages" / "en" / "index.md"}
    wait_for_lines(log, 1)
    log.with_name("log.end").touch()
    builder.update(page)
    wait_for(lambda: builder._child.poll() is not None)
    builder.update(page)
    first, *_, last, word = wait_for_lines(log, 3)
    assert last != first
    assert word == "born"


@pytest.mark.skipif(os.name == "nt", reason="there a pipe's end is noticed by the process's only")
def test_a_child_that_no_longer_listens_gets_a_successor(builder: watch.Builder, log: Path) -> None:
    page = {ROOT / "site" / "pages" / "en" / "index.md"}
    wait_for_lines(log, 1)
    log.with_name("log.deaf").touch()
    builder.update(page)
    first, *_ = wait_for_lines(log, 3)
    builder.update(page)
    *_, last, word = wait_for_lines(log, 4)
    assert last != first
    assert word == "born"


@pytest.mark.parametrize("error", [Failure("the font is damaged"), KeyError("P"), OSError("full")])
def test_after_any_error_the_next_change_is_built(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    built = []

    def build(where: Path) -> None:
        built.append(where)
        if len(built) == 1:
            raise error

    monkeypatch.setattr(watch, "fetch_runtime", lambda: None)
    monkeypatch.setattr(watch, "build_wasm", lambda: None)
    monkeypatch.setattr(watch, "build_site", build)
    monkeypatch.setattr(sys, "stdin", io.StringIO("again\n"))
    watch.main()
    assert built == [watch.WATCHED_SITE] * 2
    said = capsys.readouterr().err
    assert str(error) in said
    assert (Path(__file__).name in said) == (not isinstance(error, Failure))
    assert "Traceback" not in said


@pytest.fixture
def checkout(built_site: Path, tmp_path: Path) -> Path:
    """A copy with all that the last build has made."""
    root = tmp_path / "checkout"
    for name in ("py", "site", "notebooks", "docs", "requirements"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in (path for path in ROOT.iterdir() if path.is_file()):
        shutil.copyfile(file, root / file.name)
    shutil.copytree(BUILD, root / "build", copy_function=os.link)
    (root / ".venv").symlink_to(VENV)
    (root / "node_modules").symlink_to(NODE_MODULES)
    return root


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(os.name == "nt", reason="links, and a signal to one process")
def test_an_open_page_shows_a_changed_text_and_a_changed_lab(
    checkout: Path, browser: Browser, tmp_path: Path
) -> None:
    settings = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    output, errors = tmp_path / "output", tmp_path / "errors"
    with output.open("w") as stdout, errors.open("w") as stderr:
        serve = subprocess.Popen(
            [sys.executable, checkout / "build.py", "serve", "--watch", "--port=0"],
            cwd=checkout,
            env=settings,
            stdout=stdout,
            stderr=stderr,
        )
    try:
        wait_for(lambda: "http://" in output.read_text())
        [url] = re.findall(r"http://\S+", output.read_text())
        page = browser.new_context(service_workers="block").new_page()
        page.goto(f"{url}en/")
        text = checkout / "site" / "pages" / "en" / "index.md"
        text.write_text(f"{text.read_text()}\n\nWritten a moment ago.\n")
        expect(page.get_by_text("Written a moment ago.")).to_be_visible(timeout=60_000)
        lab = checkout / "py" / "kvlab" / "causality_lab.py"
        lab.write_text(f"{lab.read_text()}\nCAUSES = True\n")
        wait_for(lambda: "states of" in errors.read_text())
        assert "states of causality, archives" in errors.read_text()
    finally:
        serve.terminate()
        serve.wait(timeout=60)
    assert serve.returncode == 0, errors.read_text()
