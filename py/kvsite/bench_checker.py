"""Measure the checker: what it finds in the zoo and names, false alarms, seconds a check.

In a process of its own with one thread.  Its children, one a processor, count what is found;
seconds are taken after that, one check at a time, and once more in the browser's Python under Node.
"""

import itertools
import json
import multiprocessing
import statistics
import subprocess
import sys
import warnings
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kvproof import REFERENCE, check
from kvproof.experiments import scorecard
from kvproof.zoo import SPECIMENS, RightDecoder, all_variations
from kvsite.bench_core import Figures, with_one_thread
from kvsite.environment import node_tool
from kvsite.paths import PY, RUNTIME

ZOO_SEEDS = range(5)
RIGHT_SEEDS = range(20)
ROUNDS = 5
NODE_SCRIPT = Path(__file__).with_suffix(".mjs")


def measure() -> Figures:
    """The figures of a child process with one thread, and those of Node's Pyodide."""
    figures = with_one_thread("kvsite.bench_checker")
    node = subprocess.run(
        [node_tool("node"), NODE_SCRIPT, RUNTIME, PY, str(ROUNDS)],
        stdout=subprocess.PIPE,
        check=True,
    )
    figures["seconds"]["pyodide"] = json.loads(node.stdout.splitlines()[-1])
    return figures


def main() -> int:
    """Measure, and print the figures as JSON."""
    broken = [*itertools.product(SPECIMENS, ZOO_SEEDS)]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        zoo = [*pool.map(_score, *zip(*broken, strict=True))]
        hidden = [*pool.map(_score_hidden, *zip(*broken, strict=True))]
        varied = [*pool.map(_score, all_variations(), itertools.repeat(0))]
        right = [*itertools.product(scorecard.right_decoders(), RIGHT_SEEDS)]
        alarms = [*filter(None, pool.map(_alarm, *zip(*right, strict=True), chunksize=8))]
    slowest = max(zoo, key=lambda one: one.seconds)
    figures = {
        "zoo": _shares(zoo),
        "hidden": _shares(hidden),
        "variations": _shares(varied),
        "not_first": sorted({one.specimen for one in zoo if one.place != 1}),
        "n_right": len(right),
        "false_alarms": alarms,
        "seconds": {  # one at a time
            "slowest": _score(slowest.specimen, slowest.seed).seconds,
            "reference": seconds(RightDecoder(config=REFERENCE)),
            "llama": seconds(tiny_llama()),
        },
    }
    print(json.dumps(figures))
    return 0


def _score(name: str, seed: int) -> scorecard.Score:
    specimen = SPECIMENS[name] if name in SPECIMENS else all_variations()[name]
    return scorecard.score(specimen, seed)


def _score_hidden(name: str, seed: int) -> scorecard.Score:
    return scorecard.score(SPECIMENS[name], seed, ["keys_values"])


def _alarm(name: str, seed: int) -> str:
    """What the checker says against a right decoder; "" if nothing."""
    report = scorecard.right_report(name, seed)
    return "" if report.ok and report.complete else f"{name}, seed {seed}: {report}"


def _shares(scores: Iterable[scorecard.Score]) -> Figures:
    return asdict(scorecard.totals(scores))


def seconds(decoder: Any) -> list[float]:
    """Of each round's check.

    Raises:
        AssertionError: the decoder isn't right.
    """
    reports = [check(decoder, seed, budget_s=300) for seed in range(ROUNDS)]
    assert all(report.ok and report.complete for report in reports), reports[0]
    return [report.seconds for report in reports]


def tiny_llama() -> Any:
    """Two layers of width 64, random, with the dynamic cache of transformers."""
    import torch
    import transformers

    from kvproof import adapters

    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=97,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        bos_token_id=None,
        eos_token_id=None,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the library, about itself
        return adapters.transformers(transformers.LlamaForCausalLM(config))


def summary(figures: Figures) -> list[tuple[str, str, str]]:
    """What was measured, the figure, and its goal."""
    zoo, times = figures["zoo"], figures["seconds"]

    def median(name: str) -> str:
        return f"{statistics.median(times[name]):.2f} s"

    return [
        (f"checker: found, {zoo['n']} checks of broken ones", f"{zoo['detected']:.1%}", "100%"),
        ("checker: its kind named first", f"{zoo['first']:.1%}", ">= 85%"),
        ("checker: its kind among the first three", f"{zoo['among_three']:.1%}", ">= 95%"),
        ("checker: found / first / three, K and V hidden", _three(figures["hidden"]), ""),
        (
            f"checker: the same, {figures['variations']['n']} variations of the zoo",
            _three(figures["variations"]),
            "",
        ),
        (
            f"checker: false alarms, {figures['n_right']:,} checks of right ones",
            str(len(figures["false_alarms"])),
            "0",
        ),
        ("checker: a right REFERENCE", median("reference"), "<= 3 s"),
        ("checker: the same in Pyodide", median("pyodide"), ""),
        ("checker: a tiny Llama of transformers", median("llama"), "<= 20 s"),
        ("checker: the slowest broken decoder", f"{times['slowest']:.2f} s", ""),
    ]


def note(figures: Figures) -> str:
    """What the rows don't say: seeds, what was named otherwise."""
    others = ", ".join(figures["not_first"]) or "none"
    alarms = "".join(f" False alarm: {alarm.splitlines()[0]}." for alarm in figures["false_alarms"])
    n_broken = figures["zoo"]["n"] // len(ZOO_SEEDS)
    return (
        f"{n_broken} broken decoders with {len(ZOO_SEEDS)} seeds each, right ones with "
        f"{len(RIGHT_SEEDS)}; seconds are medians of {ROUNDS} checks. With some seed another kind "
        f"is named first for: {others}. The variations are the same mistakes in other "
        f"decoders.{alarms}"
    )


def _three(shares: Figures) -> str:
    return " / ".join(f"{shares[name]:.0%}" for name in ("detected", "first", "among_three"))


if __name__ == "__main__":
    sys.exit(main())
