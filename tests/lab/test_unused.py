"""Panel without the modules that the labs never use: in a process of its own, as in the browser."""

import json
import subprocess
import sys

from kvlab.labs import LABS, new_session
from kvlab.unused import UNUSED

ANSWER = """
import json, sys
from kvlab.unused import UNUSED, leave_out
leave_out()
from kvlab.labs import new_session
sessions = {name: new_session(name) for name in sys.argv[1:]}
print(json.dumps({name: s.answer(json.dumps(s.lab.initial)) for name, s in sessions.items()}))
loaded = [name for name in UNUSED if getattr(sys.modules[name], "__file__", None)]
assert not loaded, loaded
"""


def run(script: str, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *args]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_labs_answer_the_same_without_them() -> None:
    done = run(ANSWER, *LABS)
    assert done.returncode == 0, done.stderr
    for name, answer in json.loads(done.stdout).items():
        session = new_session(name)
        assert json.loads(answer) == json.loads(session.answer(json.dumps(session.lab.initial)))


def test_each_of_them_would_be_imported_otherwise() -> None:
    script = "import panel, sys, json; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(run(script).stdout)
    browser_only = {"pyodide_http"}
    assert set(UNUSED) - browser_only <= set(loaded)


def test_a_lab_that_needs_one_of_them_fails() -> None:
    needing = (
        "from kvlab.unused import leave_out; leave_out(); import panel; panel.widgets.Tqdm().max"
    )
    assert "AttributeError" in run(needing).stderr
