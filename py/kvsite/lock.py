"""Write the lock files: Python's with uv, for every platform and with hashes; npm's with npm."""

from pathlib import Path

from kvsite.environment import node_tool
from kvsite.paths import REQUIREMENTS, ROOT, venv_python
from kvsite.stages import Command, Stage, run, stage

OPTIONS = (
    "--universal",
    "--python-version=3.11",
    "--generate-hashes",
    "--no-header",
    "--no-annotate",
    "--no-emit-index-url",  # any index may serve the files: the hashes pin them
)


def main(upgrade: bool) -> int:
    """Resolve the groups in `pyproject.toml`, to the newest versions if `upgrade`, and npm's."""
    with stage("lock") as current:
        site = REQUIREMENTS / "site.txt"
        extra = ["--upgrade"] if upgrade else []
        _compile(current, "site", *extra)
        _compile(current, "test", "--constraint", site, *extra)
        run(current, [node_tool("npm"), "install", "--package-lock-only"])
        current.note("requirements/site.txt, requirements/test.txt, package-lock.json written")
    return 0


def _compile(current: Stage, group: str, *extra: str | Path) -> None:
    wanted: Command = ["--group", f"{ROOT / 'pyproject.toml'}:{group}"]
    output: Command = ["--output-file", REQUIREMENTS / f"{group}.txt"]
    uv: Command = [venv_python(), "-m", "uv", "pip", "compile"]
    run(current, [*uv, *OPTIONS, *extra, *wanted, *output])
