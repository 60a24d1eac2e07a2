"""Set up `.venv` and `node_modules` from the lock files; downloads are kept in the user's cache."""

import hashlib
import importlib.util
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Literal

from kvsite import debian
from kvsite.paths import NODE_MODULES, REQUIREMENTS, ROOT, VENV, cache_folder, venv_python
from kvsite.stages import Command, Failure, Stage, folder_bytes, megabytes, run, stage
from kvsite.stamps import STAMP, digest, is_fresh, new_folder, sweep

Group = Literal["site", "test"]

TORCH = "2.13.0"
NODE_TOOLS = {"node": (20, 0), "npm": (9, 0)}
ADVICE = (
    "Is there a network connection? Behind a proxy or a mirror, {0} must be set up for it.\n"
    "Then run the same command again: what is complete is kept."
)


# --- Python -------------------------------------------------------------------------------------


def set_up_python(group: Group) -> None:
    """Create `.venv` if needed and install `requirements/<group>.txt` by hash.

    With nothing changed since the last time it only reads a stamp, as do the two below.

    Raises:
        Failure: something is missing that can't be installed from here, or a download failed.
    """
    if _is_installed(group):
        return
    with stage("python") as current:
        if not _is_usable(venv_python()):
            _create_venv(current)
        for stale in ("site", "test"):
            (VENV / f".installed-{stale}").unlink(missing_ok=True)
        lock = REQUIREMENTS / f"{group}.txt"
        _install_wheels(lock, current)
        for covered in {"site", group}:  # test.txt holds all of site.txt
            (VENV / f".installed-{covered}").write_text(_installed_from(covered))
        current.note(f"requirements/{lock.name} installed, .venv {megabytes(folder_bytes(VENV))}")


def _is_installed(group: str) -> bool:
    return is_fresh(VENV, _installed_from(group), f".installed-{group}")


def _installed_from(group: str) -> str:
    return digest([REQUIREMENTS / f"{group}.txt"], platform.python_version())


def _is_usable(python: Path) -> bool:
    """True if `python` starts and is the version that runs now."""
    show: Command = [python, "-c", "import pip, platform; print(platform.python_version())"]
    try:
        shown = subprocess.run(show, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return False
    return shown == platform.python_version()


def _create_venv(current: Stage) -> None:
    if importlib.util.find_spec("ensurepip") is None:  # Debian splits it off
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        if not debian.can_install():
            raise Failure(
                f"{sys.executable} can't create virtual environments: its module ensurepip is "
                f"missing.\nInstall it (Debian, Ubuntu: apt-get install {package}) and try again."
            )
        debian.install(current, package)
    base = getattr(sys, "_base_executable", sys.executable)
    run(current, [base, "-m", "venv", "--clear", VENV], watch=VENV)


def _install_wheels(lock: Path, current: Stage) -> None:
    """Install the wheels of `lock` from the cache folder; download those that aren't there."""
    kept = _wheel_folder(digest([lock])[:16])
    # A lock holds all that is needed, and pip must not look for torch, which isn't in it.
    safely: Command = ["--require-hashes", "--no-deps", "--only-binary=:all:"]
    wanted: Command = ["--requirement", lock, *safely]
    install: Command = [*wanted, "--no-index", "--find-links", kept]
    if kept.exists():
        try:
            return pip(current, "install", *install, watch=VENV)
        except Failure:  # pip has checked that all are there, with the right hashes
            current.note(f"{kept} is incomplete or corrupt: downloading its wheels again")
    current.note(f"downloading the wheels of requirements/{lock.name}")
    with new_folder(kept, "") as folder:
        pip(current, "download", *wanted, "--dest", folder, advice=ADVICE.format("pip"))
    current.note(f"downloaded {megabytes(folder_bytes(kept))}")
    return pip(current, "install", *install, watch=VENV)


def _wheel_folder(name: str) -> Path:
    # Down to the patch version, since markers such as `python_full_version < "3.11.5"` count.
    tag = f"{sys.implementation.name}-{platform.python_version()}-{sysconfig.get_platform()}"
    return cache_folder() / "wheels" / f"{name}-{tag}"


def pip(
    current: Stage,
    verb: str,
    *arguments: str | Path,
    watch: Path | None = None,
    advice: str = "",
) -> None:
    """Run the pip of `.venv`, showing how `watch` grows, else how much is downloaded.

    Raises:
        Failure: pip failed; holds what it says and `advice`.
    """
    common = ["-qq", "--disable-pip-version-check", "--no-input", "--no-cache-dir", "--retries=3"]
    command: Command = [venv_python(), "-m", "pip", verb, *common, *arguments]
    cache_folder().mkdir(parents=True, exist_ok=True)
    sweep(cache_folder(), ".pip-*")
    with tempfile.TemporaryDirectory(prefix=".pip-", dir=cache_folder()) as folder:
        env = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), folder)
        run(current, command, watch=watch or Path(folder), env=env, advice=advice)


# --- Torch --------------------------------------------------------------------------------------


def set_up_torch() -> None:
    """Install torch's CPU build into `.venv`.

    It isn't in the lock: on the common index, torch for Linux is the build that needs gigabytes of
    CUDA, and the CPU build lives on an index of its own. So it is pinned by its version and not by
    hash: the lock, which names no index, can't list the files of this build, and mirrors may carry
    one of their own making. It serves the tests and the notebook only, never the site. What is
    kept in the cache is held against the hash it had when it was downloaded.
    """
    made_from = digest([], TORCH, platform.python_version())
    if is_fresh(VENV, made_from, ".installed-torch"):
        return
    with stage("torch") as current:
        problems = []
        for way in (_torch_by_pip, _torch_by_uv):
            try:
                way(current)
                break
            except Failure as error:
                problems.append(str(error))
        else:
            raise Failure(
                f"torch {TORCH} (CPU build) can't be installed.\n" + "\n".join(problems) + "\n"
                f"Install it by hand (`{venv_python()} -m pip install --no-deps <wheel>`) or put "
                f"the folder of its wheel into pip's setting `find-links`, and try again."
            )
        (VENV / ".installed-torch").write_text(made_from)
        current.note(f"torch {TORCH} installed")


def _torch_by_pip(current: Stage) -> None:
    """From wherever pip is configured to look; only the CPU build ends in `+cpu` on Linux."""
    requirement = f"torch=={TORCH}+cpu" if sys.platform == "linux" else f"torch=={TORCH}"
    kept = _wheel_folder(f"torch-{TORCH}")
    if not _is_as_downloaded(kept):
        with new_folder(kept, "") as folder:
            options: Command = ["--no-deps", "--only-binary=:all:", "--dest", folder]
            pip(current, "download", requirement, *options)
            for wheel in folder.glob("*.whl"):
                _record_of(wheel).write_text(_checksum_line(wheel))
    offline: Command = ["--no-deps", "--no-index", "--find-links", kept]
    pip(current, "install", requirement, *offline, watch=VENV)


def _is_as_downloaded(folder: Path) -> bool:
    """True if `folder` holds wheels, and each still has the checksum recorded beside it."""
    wheels = list(folder.glob("*.whl"))
    return bool(wheels) and all(
        _record_of(wheel).is_file() and _record_of(wheel).read_text() == _checksum_line(wheel)
        for wheel in wheels
    )


def _record_of(wheel: Path) -> Path:
    return wheel.with_name(f"{wheel.name}.sha256")


def _checksum_line(wheel: Path) -> str:
    """As `sha256sum` writes it and checks it."""
    with wheel.open("rb") as content:
        return f"{hashlib.file_digest(content, 'sha256').hexdigest()}  {wheel.name}\n"


def _torch_by_uv(current: Stage) -> None:
    """From PyTorch's own index, which uv knows; first from what uv keeps in the cache."""
    options: Command = ["--no-deps", "--torch-backend=cpu", "--cache-dir", cache_folder() / "uv"]
    command: Command = [
        venv_python(),
        "-m",
        "uv",
        "pip",
        "install",
        "--python",
        venv_python(),
        *options,
    ]
    try:
        run(current, [*command, "--offline", f"torch=={TORCH}"], watch=VENV)
    except Failure:
        run(current, [*command, f"torch=={TORCH}"], watch=VENV)


# --- Node ---------------------------------------------------------------------------------------


def set_up_node() -> None:
    """Install `package-lock.json` into `node_modules`; npm verifies each package's integrity."""
    made_from = digest([ROOT / "package-lock.json"], sysconfig.get_platform())
    if is_fresh(NODE_MODULES, made_from):
        return
    with stage("npm") as current:
        node_tool("node")
        options = ["--loglevel=error", "--ignore-scripts", "--prefer-offline"]
        patience = ["--fetch-retries=2", "--fetch-retry-maxtimeout=10000"]  # else over a minute
        cache: Command = ["--cache", cache_folder() / "npm"]
        command = [node_tool("npm"), "ci", *options, *patience, *cache]
        run(current, command, watch=NODE_MODULES, advice=ADVICE.format("npm"))
        (NODE_MODULES / STAMP).write_text(made_from)
        current.note(f"node_modules {megabytes(folder_bytes(NODE_MODULES))}")


def node_tool(name: Literal["node", "npm"]) -> str:
    """The path of `node` or `npm`, after a check of its version.

    Raises:
        Failure: it is missing or too old.
    """
    wanted = NODE_TOOLS[name]
    advice = "Install Node 20 or newer with its npm (nodejs.org, or your system's packages)."
    path = shutil.which(name)
    if path is None:
        raise Failure(
            f"{name} isn't on the PATH; version {_dotted(wanted)} or newer is needed.\n{advice}"
        )
    shown = subprocess.run([path, "--version"], capture_output=True, text=True).stdout.strip()
    found = re.match(r"v?(\d+)\.(\d+)", shown)
    if found is None or (int(found[1]), int(found[2])) < wanted:
        raise Failure(
            f"{path} is version {shown or 'unknown'}; {_dotted(wanted)} or newer is needed.\n"
            f"{advice}"
        )
    return path


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
