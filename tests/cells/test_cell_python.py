"""The page's side of the cells' worker, tested in Node."""

import subprocess
from pathlib import Path

from kvsite.environment import node_tool


def test_cell_python_in_node() -> None:
    tests = Path(__file__).with_name("cell_python.test.mjs")
    command = [node_tool("node"), "--test", "--test-reporter=tap", str(tests)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "# pass 5" in result.stdout
