"""The page's scripts that need no page, tested in Node."""

import subprocess
from pathlib import Path

import pytest

SCRIPTS = sorted(Path(__file__).parent.glob("*.test.mjs"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name.split(".")[0])
def test_script_in_node(script: Path, node: str) -> None:
    command = [node, "--test", "--test-reporter=tap", str(script)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "# tests 0" not in result.stdout
