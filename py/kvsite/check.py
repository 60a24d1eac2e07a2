"""Run every checker, all of them even when one fails, and print a line for each."""

import subprocess
import time

from kvsite.environment import node_tool
from kvsite.paths import NODE_MODULES, ROOT, venv_python
from kvsite.stages import Command


def commands() -> dict[str, Command]:
    """The checkers by name."""
    python: Command = [venv_python(), "-m"]
    node: Command = [node_tool("node")]
    return {
        "ruff format": [*python, "ruff", "format", "--check", "."],
        "ruff check": [*python, "ruff", "check", "."],
        "mypy": [*python, "mypy"],
        "biome": [*node, NODE_MODULES / "@biomejs/biome/bin/biome", "ci", "--colors=off"],
        "tsc": [*node, NODE_MODULES / "typescript/bin/tsc", "--noEmit"],
    }


def main() -> int:
    """Return 0 if every checker is content, else 1; what the others say is printed."""
    failed = [name for name, command in commands().items() if not _passes(name, command)]
    print(f"check failed: {', '.join(failed)}" if failed else "all checks passed")
    return 1 if failed else 0


def _passes(name: str, command: Command) -> bool:
    started = time.monotonic()
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    verdict = "ok    " if done.returncode == 0 else "FAILED"
    print(f"{verdict} {name:<12} {time.monotonic() - started:.1f} s", flush=True)
    if done.returncode:
        print(done.stdout)
    return done.returncode == 0
