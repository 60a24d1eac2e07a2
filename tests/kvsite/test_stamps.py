"""A folder is fresh exactly as long as what it was made from stays the same."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kvsite.stamps import digest, is_fresh, new_folder, write_atomically


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    folder = tmp_path / "inputs"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    (folder / "deep" / "b.txt").write_text("b")
    return folder


def test_digest_depends_on_contents_names_and_extras(inputs: Path) -> None:
    seen = [digest([inputs]), digest([inputs], "extra")]
    (inputs / "a.txt").write_text("A")
    seen.append(digest([inputs]))
    (inputs / "a.txt").rename(inputs / "c.txt")
    seen.append(digest([inputs]))
    (inputs / "new.txt").touch()
    seen.append(digest([inputs]))
    assert len(set(seen)) == len(seen)


def test_digest_ignores_order_times_and_compiled_python(inputs: Path) -> None:
    before = digest([inputs, inputs / "a.txt"])
    (inputs / "a.txt").touch()
    (inputs / "__pycache__").mkdir()
    (inputs / "__pycache__" / "a.pyc").write_text("compiled")
    assert digest([inputs / "a.txt", inputs]) == before


def test_digest_tells_missing_from_empty(tmp_path: Path) -> None:
    missing = digest([tmp_path / "file"])
    (tmp_path / "file").touch()
    assert digest([tmp_path / "file"]) != missing


def test_new_folder_replaces_the_old_and_is_stamped(tmp_path: Path) -> None:
    target = tmp_path / "target"
    for content in ("old", "new"):
        with new_folder(target, content) as folder:
            (folder / content).touch()
    assert is_fresh(target, "new")
    assert not is_fresh(target, "old")
    assert (target / "new").exists()
    assert not (target / "old").exists()
    assert list(tmp_path.iterdir()) == [target]


def test_failure_in_the_middle_keeps_the_old_folder(tmp_path: Path) -> None:
    target = tmp_path / "target"
    with new_folder(target, "old"):
        pass
    with pytest.raises(KeyboardInterrupt), new_folder(target, "new") as folder:
        (folder / "half").touch()
        raise KeyboardInterrupt
    assert is_fresh(target, "old")
    assert list(tmp_path.iterdir()) == [target]


def test_what_a_killed_build_left_is_removed_an_hour_later(tmp_path: Path) -> None:
    old, new = tmp_path / ".target-old", tmp_path / ".target-new"
    for left in (old, new):
        left.mkdir()
        (left / "half").touch()
    os.utime(old, (0, 0))
    with new_folder(tmp_path / "target", ""):
        pass
    assert not old.exists()
    assert new.exists()


def test_atomic_write_replaces_and_leaves_no_part(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    write_atomically(path, b"one")
    first = path.stat().st_ino
    write_atomically(path, b"two")
    assert path.stat().st_ino != first  # put in place, not written over
    assert path.read_bytes() == b"two"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("harm", [Path.unlink, lambda file: file.write_bytes(b"shorter")])
def test_a_folder_that_lost_something_is_not_fresh(
    tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    target = tmp_path / "target"
    with new_folder(target, "digest") as folder:
        (folder / "sub").mkdir()
        (folder / "sub" / "a file.bin").write_bytes(b"longer than that")
    assert is_fresh(target, "digest")
    harm(target / "sub" / "a file.bin")
    assert not is_fresh(target, "digest")
