"""Set-up of Python, torch and Node. Fakes of pip, npm and apt-get write down their calls."""

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kvsite import bundle, debian, environment, wasm
from kvsite.paths import NODE_MODULES, REQUIREMENTS, ROOT
from kvsite.stages import Failure, Stage

NAME = "thing-1.0-py3-none-any.whl"
WHEEL = b"a wheel"
LOCK = f"thing==1.0 --hash=sha256:{hashlib.sha256(WHEEL).hexdigest()}\n"

Calls = list[str]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with locks for one package, and a `.venv` that counts as usable."""
    (tmp_path / "requirements").mkdir()
    (tmp_path / ".venv").mkdir()
    for name in ("site", "test"):
        (tmp_path / "requirements" / f"{name}.txt").write_text(LOCK + f"# {name}\n")
    monkeypatch.setattr(environment, "REQUIREMENTS", tmp_path / "requirements")
    monkeypatch.setattr(environment, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(environment, "_is_usable", lambda python: True)
    return tmp_path


@pytest.fixture
def pip_calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What pip is asked to do; a download brings the right wheel, an install wants just that."""
    calls: Calls = []

    def pip(stage: Stage, verb: str, *arguments: Any, **_: Any) -> None:
        calls.append(verb)
        if verb == "download":
            (arguments[-1] / NAME).write_bytes(WHEEL)
        else:
            folder = Path(arguments[arguments.index("--find-links") + 1])
            wheels = [path.read_bytes() for path in folder.glob("*.whl")]
            if wheels != [WHEEL]:
                raise Failure("no matching distribution, or one with another hash")

    monkeypatch.setattr(environment, "pip", pip)
    return calls


def unstamp(checkout: Path, _: pytest.MonkeyPatch) -> None:
    (checkout / ".venv" / ".installed-site").unlink()


def change_lock(checkout: Path, _: pytest.MonkeyPatch) -> None:
    (checkout / "requirements" / "site.txt").write_text(LOCK + "# changed\n")


def change_python(_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.python_version", lambda: "3.99.1")


@pytest.mark.parametrize(
    ("first", "change", "more"),
    [
        ("site", lambda *_: None, []),
        ("test", lambda *_: None, []),  # its requirements cover those of the site
        ("site", unstamp, ["install"]),  # as in a second checkout
        ("site", change_lock, ["download", "install"]),
        ("site", change_python, ["download", "install"]),
    ],
)
def test_what_is_installed_and_downloaded_after_a_change(
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    pip_calls: Calls,
    first: Any,
    change: Callable[[Path, pytest.MonkeyPatch], None],
    more: Calls,
) -> None:
    environment.set_up_python(first)
    change(checkout, monkeypatch)
    environment.set_up_python("site")
    assert pip_calls == ["download", "install", *more]


Damage = Callable[[Path], object]
damages = pytest.mark.parametrize(
    "damage", [Path.unlink, lambda wheel: wheel.write_bytes(WHEEL[:-1])], ids=["deleted", "cut off"]
)


@damages
def test_damaged_wheel_folder_is_downloaded_again_once(
    checkout: Path,
    cache: Path,
    pip_calls: Calls,
    capsys: pytest.CaptureFixture[str],
    damage: Damage,
) -> None:
    environment.set_up_python("site")
    (wheel,) = cache.rglob("*.whl")
    damage(wheel)
    (checkout / ".venv" / ".installed-site").unlink()
    capsys.readouterr()
    environment.set_up_python("site")
    assert pip_calls == ["download", "install", "install", "download", "install"]
    assert wheel.read_bytes() == WHEEL
    assert capsys.readouterr().err.count(" is incomplete or corrupt: ") == 1


def test_install_that_fails_after_a_new_download_is_not_tried_again(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Calls = []

    def pip(stage: Stage, verb: str, *_: Any, **__: Any) -> None:
        calls.append(verb)
        if verb == "install":
            raise Failure("disk full")

    monkeypatch.setattr(environment, "pip", pip)
    with pytest.raises(Failure, match="disk full"):
        environment.set_up_python("site")
    assert calls == ["download", "install"]


def test_failed_download_keeps_nothing_and_can_be_repeated(
    checkout: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, pip_calls: Calls
) -> None:
    def failing(stage: Stage, verb: str, *arguments: Any, **_: Any) -> None:
        (arguments[-1] / "half.whl").touch()
        raise Failure("no network")

    with monkeypatch.context() as patch:
        patch.setattr(environment, "pip", failing)
        with pytest.raises(Failure, match="no network"):
            environment.set_up_python("site")
    assert list((cache / "wheels").iterdir()) == []
    environment.set_up_python("site")
    assert pip_calls == ["download", "install"]


def test_failed_install_is_tried_again_next_time(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, pip_calls: Calls
) -> None:
    environment.set_up_python("site")
    (checkout / "requirements" / "site.txt").write_text(LOCK + "# changed\n")

    def failing(*_: Any, **__: Any) -> None:
        raise Failure("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(environment, "pip", failing)
        with pytest.raises(Failure, match="disk full"):
            environment.set_up_python("site")
    (checkout / "requirements" / "site.txt").write_text(LOCK + "# site\n")  # back to the first
    environment.set_up_python("site")
    assert pip_calls == ["download", "install", "install"]


@pytest.fixture
def without_ensurepip(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_is_usable", lambda python: False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


@pytest.mark.usefixtures("without_ensurepip")
def test_missing_venv_support_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "can_install", lambda: False)
    with pytest.raises(Failure, match=r"apt-get install python3\.\d+-venv"):
        environment.set_up_python("site")


@pytest.mark.usefixtures("without_ensurepip")
def test_missing_venv_support_is_installed_where_allowed(
    monkeypatch: pytest.MonkeyPatch, pip_calls: Calls
) -> None:
    installed: Calls = []
    commands: list[Any] = []
    monkeypatch.setattr(debian, "can_install", lambda: True)
    monkeypatch.setattr(debian, "install", lambda stage, *names: installed.extend(names))
    monkeypatch.setattr(environment, "run", lambda stage, command, **_: commands.append(command))
    environment.set_up_python("site")
    assert re.fullmatch(r"python3\.\d+-venv", " ".join(installed))
    assert commands[0][1:3] == ["-m", "venv"]


def test_apt_get_is_used_only_with_the_right_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert not debian.can_install()
    executable(tmp_path / "apt-get", "exit 0")
    assert debian.can_install()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not debian.can_install()
    executable(tmp_path / "sudo", "exit 1")
    assert not debian.can_install()
    executable(tmp_path / "sudo", "exit 0")
    assert debian.can_install()


@pytest.mark.parametrize(
    ("platform", "wanted"),
    [("linux", f"torch=={environment.TORCH}+cpu"), ("darwin", f"torch=={environment.TORCH}")],
)
def test_torch_is_the_cpu_build(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, platform: str, wanted: str
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr(environment, "pip", lambda stage, verb, what, *_, **__: asked.append(what))
    environment.set_up_torch()
    assert asked == [wanted, wanted]


def test_torch_is_kept(checkout: Path, cache: Path, pip_calls: Calls) -> None:
    environment.set_up_torch()
    environment.set_up_torch()
    (checkout / ".venv" / ".installed-torch").unlink()
    environment.set_up_torch()
    assert pip_calls == ["download", "install", "install"]
    (record,) = cache.rglob("*.sha256")
    assert record.read_text() == f"{hashlib.sha256(WHEEL).hexdigest()}  {NAME}\n"


@damages
def test_damaged_torch_is_downloaded_again(
    checkout: Path, cache: Path, pip_calls: Calls, damage: Damage
) -> None:
    environment.set_up_torch()
    (wheel,) = cache.rglob("*.whl")
    damage(wheel)
    (checkout / ".venv" / ".installed-torch").unlink()
    environment.set_up_torch()
    assert pip_calls == ["download", "install"] * 2
    assert wheel.read_bytes() == WHEEL


def test_torch_falls_back_to_uv_then_explains(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def failing_pip(*_: Any, **__: Any) -> None:
        raise Failure("pip knows no such version")

    def failing_run(stage: Stage, command: list[Any], **_: Any) -> None:
        commands.append([str(part) for part in command])
        raise Failure("uv can't reach its index")

    monkeypatch.setattr(environment, "pip", failing_pip)
    monkeypatch.setattr(environment, "run", failing_run)
    with pytest.raises(Failure) as failure:
        environment.set_up_torch()
    assert all("--torch-backend=cpu" in command for command in commands)
    assert ["--offline" in command for command in commands] == [True, False]
    for part in ("can't be installed", "pip knows no", "uv can't reach", "Install it by hand"):
        assert part in str(failure.value)
    assert not (checkout / ".venv" / ".installed-torch").exists()


def executable(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def only_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the whole PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_missing_node_is_explained(only_path: Path) -> None:
    with pytest.raises(
        Failure, match=r"node isn't on the PATH; version 20\.0 or newer.*\n.*nodejs"
    ):
        environment.node_tool("node")


@pytest.mark.parametrize("shown", ["v18.19.1", "v9.0.0", "nonsense", ""])
def test_unsuitable_node_is_explained(only_path: Path, shown: str) -> None:
    executable(only_path / "node", "echo v20.0.0")
    assert environment.node_tool("node") == str(only_path / "node")
    executable(only_path / "node", f"echo {shown}")
    with pytest.raises(Failure, match=rf"is version {shown or 'unknown'}; 20\.0 or newer"):
        environment.node_tool("node")


@pytest.mark.parametrize("shown", [None, "v18.19.1"])
@pytest.mark.parametrize("step", ["wasm", "bundle"])
def test_build_steps_check_node_by_themselves(
    only_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, shown: str | None
) -> None:
    """Set-up looks for Node only when something is to be installed."""
    monkeypatch.setattr(wasm, "LIBRARIES", tmp_path / "wasm")
    monkeypatch.setattr(wasm, "copy_sources", lambda target: None)
    if shown:
        executable(only_path / "node", f"echo {shown}")
    with pytest.raises(Failure, match=r"20\.0 or newer is needed\.\nInstall Node 20"):
        wasm.build_libraries() if step == "wasm" else bundle.bundle_scripts(ROOT, tmp_path)
    assert not (tmp_path / "wasm").exists()


@pytest.fixture
def fake_npm(
    only_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], None]:
    """Set what `npm ci` does; node is there and new enough."""
    monkeypatch.setattr(environment, "NODE_MODULES", tmp_path / "node_modules")
    executable(only_path / "node", "echo v20.0.0")

    def does(script: str) -> None:
        executable(only_path / "npm", f'[ "$1" = --version ] && echo 11.0.0 && exit\n{script}')

    return does


def test_npm_runs_once(tmp_path: Path, fake_npm: Callable[[str], None]) -> None:
    modules = tmp_path / "node_modules"
    fake_npm(f'PATH=/bin:/usr/bin; mkdir -p "{modules}"; echo "$@" >> "{tmp_path}/calls"')
    environment.set_up_node()
    environment.set_up_node()
    (call,) = (tmp_path / "calls").read_text().splitlines()
    assert call.startswith("ci ")
    assert "--ignore-scripts" in call


def test_failing_npm_is_explained_and_leaves_no_stamp(
    tmp_path: Path, fake_npm: Callable[[str], None]
) -> None:
    fake_npm(f'PATH=/bin:/usr/bin; mkdir -p "{tmp_path}/node_modules"; echo ENOTFOUND; exit 1')
    with pytest.raises(Failure, match="ENOTFOUND"):
        environment.set_up_node()
    assert list((tmp_path / "node_modules").iterdir()) == []


def locked(name: str) -> dict[str, str]:
    """Name and marker -> version of each requirement; asserts that each has a hash."""
    found = {}
    text = (REQUIREMENTS / f"{name}.txt").read_text().replace("\\\n", " ")
    for line in text.splitlines():
        requirement, *hashes = line.split("--hash=sha256:")
        assert hashes, f"{line} has no hash"
        package, version, marker = re.fullmatch(
            r"([\w.-]+)==([\w.]+)\s*(?:; (.*?))?\s*", requirement
        ).groups()  # type: ignore[union-attr]
        found[f"{package} {marker or ''}"] = version
    return found


def test_locks_agree_with_each_other_and_with_the_browser() -> None:
    site, test = locked("site"), locked("test")
    versions = [{(key.split()[0], found) for key, found in lock.items()} for lock in (site, test)]
    assert versions[0] <= versions[1]
    pyodide = json.loads((NODE_MODULES / "pyodide" / "pyodide-lock.json").read_text())
    assert site["numpy "] == pyodide["packages"]["numpy"]["version"]


def test_locks_hold_no_addresses() -> None:
    for name in ("site", "test"):
        assert "//" not in (REQUIREMENTS / f"{name}.txt").read_text()
    packages = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    assert len(packages) > 10
    for path, package in packages.items():
        assert "resolved" not in package, path
        assert path == "" or "integrity" in package, path


def test_lock_leaves_out_torch_and_nothing_that_is_needed() -> None:
    """pip is told to look for no dependencies, so that nobody else would notice a gap."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]
    requirements = [key.partition(" ") for key in locked("test")]
    names = {name for name, _, _ in requirements}
    assert not {name for name in names if re.match("torch$|nvidia|triton|cuda", name)}
    known = {*names, *settings["exclude-dependencies"]}
    for name, _, marker in requirements:
        if marker and not Marker(marker).evaluate():
            continue
        needed = [Requirement(text) for text in metadata.requires(name) or ()]
        here = {r.name for r in needed if not r.marker or r.marker.evaluate({"extra": ""})}
        assert {canonicalize_name(other) for other in here} <= known, name


def test_pip_looks_for_no_dependencies(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are all in the lock but for torch, which pip must not get from the common index."""
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(environment, "pip", lambda stage, *arguments, **_: asked.append(arguments))
    environment.set_up_python("test")
    assert [arguments[0] for arguments in asked] == ["download", "install"]
    assert all({"--no-deps", "--require-hashes"} <= set(arguments) for arguments in asked)


def test_npm_packages_are_pinned_exactly() -> None:
    manifest = json.loads((ROOT / "package.json").read_text())
    for version in {**manifest["dependencies"], **manifest["devDependencies"]}.values():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)
