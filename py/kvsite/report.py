"""Checker's reports as the page draws them, ready when the page is loaded.

They are drawn by the page's own script under Node, so that what is prebuilt and what a run puts in
its place can't differ.
"""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from kvlab.cell_runner import written
from kvproof.checking.report import Report
from kvsite.environment import node_tool
from kvsite.languages import Language, words_of
from kvsite.stages import Failure

SCRIPT = Path(__file__).with_suffix(".mjs")


class Shown(NamedTuple):
    """A report for a page; ``in_short``: without what was checked and what was not."""

    report: Report
    in_short: bool = False


def drawn_reports(language: Language, shown: Mapping[str, Shown]) -> dict[str, Markup]:
    """Name -> HTML, as site/js/cell-report.js draws it.

    Raises:
        Failure: the script can't be run, or ends with an error.
    """
    code = language.code.lower()
    question = {
        "messages": words_of(language),
        "lang": language.code,
        "reports": {name: _data(one, code) for name, one in shown.items()},
    }
    done = subprocess.run(
        [node_tool("node"), str(SCRIPT)],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    if done.returncode:
        raise Failure(f"The reports can't be drawn:\n{done.stderr.strip()}")
    return {name: Markup(html) for name, html in json.loads(done.stdout).items()}


def _data(shown: Shown, language: str) -> dict[str, Any]:
    report = shown.report
    return {
        "report": written(report.to_dict(language)),
        "text": report.text(language),
        "inShort": shown.in_short,
    }
