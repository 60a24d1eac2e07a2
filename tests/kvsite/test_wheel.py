"""kvproof as a package: its wheel is the same to the last byte, and works where only NumPy is."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from email.parser import BytesParser
from importlib.metadata import distribution
from pathlib import Path

import pytest

import kvproof
from kvsite.paths import PY, ROOT, RUNTIME
from kvsite.serve import start_server
from kvsite.wheel import SOURCES

DECODER = """
import kvproof

class Decoder:
    vocab_size, max_length = 97, 32
    params = kvproof.init_params(kvproof.REFERENCE)

    def full(self, tokens):
        return kvproof.forward(self.params, tokens, kvproof.REFERENCE)

    def step(self, tokens, cache):
        if cache is None:
            cache = kvproof.new_cache(kvproof.REFERENCE, len(tokens))
        return kvproof.decode(self.params, tokens, cache, kvproof.REFERENCE, kvproof.{mask})
"""
STORY = """
from kvproof import story
params, config = story.load_story_decoder()
logits = kvproof.forward(params, [story.example_story(48)], config)
print("the key is in the", story.render([logits[0, -1].argmax()]))
"""
TYPED = """
import kvproof
reveal_type(kvproof.check)
reveal_type(kvproof.offset_mask(4, 2))
kvproof.offset_mask("four", 2)
"""


def run(
    *command: str | Path, cwd: Path, code: int = 0, variables: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[str]:
    """Without the checkout on Python's path."""
    environment = {name: value for name, value in variables.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran


@pytest.fixture(scope="module")
def wheel(built_site: Path) -> Path:
    """What the site offers for download."""
    [wheel] = (built_site / "downloads").glob("*.whl")
    return wheel


def built(folder: Path, mtime: int, mode: int, **more: str) -> dict[str, bytes]:
    """What ``python -m build`` makes of a copy of the sources with such dates and permissions."""
    for source in SOURCES:
        copy = folder / source.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, copy)
    for file in (path for path in folder.rglob("*") if path.is_file()):
        os.utime(file, (mtime, mtime))
        file.chmod(mode)
    out = folder / "out"
    run(
        *(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, folder),
        cwd=folder.parent,
        variables={**os.environ, **more},
    )
    return {path.name: path.read_bytes() for path in out.iterdir()}


def test_two_builds_in_two_folders_at_two_times_give_the_same_bytes(
    wheel: Path, tmp_path: Path
) -> None:
    first = built(tmp_path / "a", 1_000_000_000, 0o644)
    second = built(tmp_path / "elsewhere" / "b", 1_700_000_000, 0o600)
    assert {Path(name).suffix for name in first} == {".whl", ".gz"}
    assert first == second
    assert first[wheel.name] == wheel.read_bytes(), "the site offers another one"
    dated = built(tmp_path / "c", 1_000_000_000, 0o644, SOURCE_DATE_EPOCH="1700000000")
    assert all(dated[name] != first[name] for name in first)  # a date would have been seen


def test_the_wheel_holds_the_whole_package_and_needs_numpy_only(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
        metadata = BytesParser().parsebytes(
            archive.read(f"kvproof-{kvproof.__version__}.dist-info/METADATA")
        )
    files = (path for path in (PY / "kvproof").rglob("*") if path.is_file())
    wanted = {path.relative_to(PY).as_posix() for path in files if "__pycache__" not in path.parts}
    assert inside == wanted
    assert "kvproof/py.typed" in inside
    assert metadata["Version"] == kvproof.__version__
    assert metadata.get_all("Requires-Dist") == ["numpy>=2"]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs of a new environment with the wheel; of all else it has only NumPy, linked."""
    place = tmp_path_factory.mktemp("environment")
    uv = (sys.executable, "-m", "uv", "--offline", "--no-config")
    run(*uv, "venv", "--python", sys.executable, place / "venv", cwd=place)
    [packages] = (place / "venv").glob("**/site-packages")
    numpy = distribution("numpy")
    for name in {file.parts[0] for file in numpy.files or [] if file.parts[0] != ".."}:
        there = Path(str(numpy.locate_file(name)))
        if name.endswith(".dist-info"):  # uv doesn't follow these
            shutil.copytree(there, packages / name)
        else:
            (packages / name).symlink_to(there)
    bin_folder = place / "venv" / ("Scripts" if os.name == "nt" else "bin")
    python = bin_folder / "python"
    run(*uv, "pip", "install", "--no-index", "--python", python, wheel, cwd=place)
    return bin_folder


def test_the_command_and_the_module_have_one_version(installed: Path, tmp_path: Path) -> None:
    expected = f"kvproof {kvproof.__version__}\n"
    assert run(installed / "kvproof", "--version", cwd=tmp_path).stdout == expected
    module = run(installed / "python", "-m", "kvproof", "--version", cwd=tmp_path)
    assert module.stdout == expected
    program = "from importlib.metadata import version; print('kvproof', version('kvproof'))"
    assert run(installed / "python", "-c", program, cwd=tmp_path).stdout == expected


@pytest.mark.parametrize(("mask", "code"), [("top_left_mask", 1), ("offset_mask", 0)])
def test_the_command_checks_a_decoder_of_the_current_folder(
    mask: str, code: int, installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "my_model.py").write_text(DECODER.format(mask=mask))
    ran = run(installed / "kvproof", "check", "my_model:Decoder", cwd=tmp_path, code=code)
    assert ("MASK-TOPLEFT" in ran.stdout) == (code == 1)


def test_mypy_sees_the_types_of_the_installed_package(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "typed.py").write_text(TYPED)
    mypy = (sys.executable, "-m", "mypy", "--config-file=", "--python-executable")
    ran = run(*mypy, installed / "python", "typed.py", cwd=tmp_path, code=1)
    revealed = [line for line in ran.stdout.splitlines() if "Revealed type" in line]
    assert len(revealed) == 2
    assert "Report" in revealed[0]
    assert "ndarray" in revealed[1]
    assert 'Argument 1 to "offset_mask" has incompatible type "str"' in ran.stdout


def test_micropip_installs_it_by_its_address_in_any_pyodide(wheel: Path, node: str) -> None:
    script = Path(__file__).with_name("install_wheel.mjs")
    with start_server(wheel.parent) as server:
        address = server.url + wheel.name
        ran = run(node, script, RUNTIME, address, DECODER.format(mask="top_left_mask"), cwd=ROOT)
    assert f"{kvproof.__version__} /lib/python" in ran.stdout
    assert "MASK-TOPLEFT" in ran.stdout


def test_the_trained_decoder_comes_with_it(wheel: Path, installed: Path, node: str) -> None:
    """Its weights are read where nothing but NumPy is, in CPython and in Pyodide."""
    said = "the key is in the cave."
    plain = run(installed / "python", "-c", f"import kvproof\n{STORY}", cwd=wheel.parent)
    assert plain.stdout.strip() == said
    script, decoder = (
        Path(__file__).with_name("install_wheel.mjs"),
        DECODER.format(mask="open_mask"),
    )
    with start_server(wheel.parent) as server:
        ran = run(node, script, RUNTIME, server.url + wheel.name, STORY + decoder, cwd=ROOT)
    assert said in ran.stdout.splitlines()
