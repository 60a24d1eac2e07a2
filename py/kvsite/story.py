"""What the story's decoder can do, as ``python build.py train`` has measured and stored it."""

import json
from typing import Any

from kvsite.paths import ROOT

RESULTS = ROOT / "notebooks" / "results" / "story.json"


def load_story_results() -> dict[str, Any]:
    """The content of ``story.json``; ``kvproof.experiments.recall.find`` looks a row up."""
    found: dict[str, Any] = json.loads(RESULTS.read_text("utf-8"))
    return found
