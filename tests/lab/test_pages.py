"""The first page's numbers come from the lab and from the stored results, not from its prose."""

import copy
import re
from typing import Any

import pytest

from kvlab.labs import new_session
from kvsite.labs import default_state
from kvsite.languages import ENGLISH, page_source, words_of
from kvsite.pages import article_context, environment, in_words, render
from kvsite.timing import load_results


def lab_data(n_past: int, n_new: int) -> dict[str, Any]:
    """What ``mask_lab.json`` holds, with a single state."""
    session = new_session("mask")
    initial = {"n_past": n_past, "n_new": n_new, "dtype": 1}
    session.set(initial)
    pool = session.state()
    return {
        "description": session.description(),
        "initial": initial,
        "marks": session.lab.marks,
        "page": session.lab.page,
        "table": {"states": {f"{n_past},{n_new},1": list(range(len(pool)))}, "pool": pool},
    }


def text_of_the_page(results: dict[str, Any], lab: dict[str, Any]) -> str:
    context = {
        **article_context(ENGLISH, results),
        "labs": {
            "mask": default_state("mask", lab, words_of(ENGLISH)),
            "story": {"initial": {"n_new": 5}},
        },
        "download": "kv_cache_cpu.ipynb",
        "wheel": "kvproof.whl",
        "evidence": [],
        "wheels": [],
        "root": "",
        "pages": "",
    }
    others = re.compile(r"<!-- part: (lab_(?!mask)\w+|cell_\w+|rooms) -->")
    sources = [others.sub("", page_source(ENGLISH, f"{page}.md")) for page in ("index", "costs")]
    pages = [render(environment(ENGLISH), source, context)[1] for source in sources]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", " ".join(pages)))


@pytest.mark.parametrize(
    ("count", "words"), [(0, "zero"), (1, "one"), (2, "two"), (12, "twelve"), (13, "13")]
)
def test_counts_in_words(count: int, words: str) -> None:
    assert in_words(count) == words


def test_other_results_and_another_start_change_each_number() -> None:
    results = copy.deepcopy(load_results())
    results["protocol"] |= {"continuation_steps": 9, "samples": 7, "warmups": 5}
    results["correctness"]["equivalence"].pop()
    results["correctness"]["broken"] *= 2
    text = text_of_the_page(results, lab_data(10, 3))
    for part in (
        "At P = 10 and C = 3 the wrong mask moves a logit by 0.624, and yet 67% of the query rows",
        "9 more tokens after",
        "Milliseconds for 9 continuation tokens, p50 / p95 of 7 samples",
        "CPU times of 9 continuation tokens",
        "With 7 samples the 95th percentile",
        "7 samples a path after 5 warm-ups",
        "eleven equivalence checks, four broken variants",
    ):
        assert part in text
    assert "P = 4" not in text
    assert "C = 2," not in text
