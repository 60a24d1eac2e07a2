"""Run the numerical tests under every kernel of OpenBLAS that this machine can run.

NumPy's OpenBLAS carries kernels for many processors; ``OPENBLAS_CORETYPE`` picks one.  They add in
different orders, so what holds under one may fail under another.  A name that the build or the
processor hasn't got falls back silently; so a child process is asked what it really computes.
"""

import hashlib
import json
import multiprocessing
import os
import platform
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product

from kvsite.paths import PY, ROOT, venv_python

X86 = ("Prescott", "Nehalem", "Sandybridge", "Haswell", "Zen", "SkylakeX", "Cooperlake")
ARM = ("ARMV8", "CORTEXA57", "NEOVERSEN1", "NEOVERSEV1", "NEOVERSEN2", "VORTEX")
THREADS = (1, 2)
ALL = [f"tests/{folder}" for folder in ("core", "story", "zoo", "check", "api", "oracles", "lab")]
QUICK = [
    f"tests/{file}.py"
    for file in ("check/test_rounding", "check/test_tolerance", "check/test_other_styles")
]
"""The tests that decide what is right and what is wrong."""
CONTRASTS = (1.0, 3.0, 10.0, 40.0)
DTYPES = ("float32", "float64")


def main(quick: bool, right_seeds: int | None, pytest_arguments: Sequence[str]) -> int:
    """Print a table; 0 if nothing failed under any kernel, else 1.

    Args:
        quick: one thread, and only the tests that decide verdicts.
        right_seeds: instead of tests, check the zoo's right decoders with so many seeds each.
        pytest_arguments: handed on.
    """
    kernels, left_out = distinct(asked(ARM if _is_arm() else X86))
    print("\n".join(left_out))
    print(f"{'kernel':<14}{'threads':>8}{'seconds':>9}  result", flush=True)
    fine = True
    for kernel, threads in product(kernels, THREADS[:1] if quick else THREADS):
        start = time.monotonic()
        if right_seeds:
            passed, said, details = _right(kernel, threads, right_seeds)
        else:
            passed, said, details = _tests(
                kernel, threads, QUICK if quick else ALL, pytest_arguments
            )
        seconds = time.monotonic() - start
        print(f"{kernel:<14}{threads:>8}{seconds:>9.0f}  {said}", flush=True)
        if not passed:
            print(details, flush=True)
        fine = fine and passed
    if not kernels:
        print("no kernel could be asked what it computes: nothing was run")
    return 0 if fine and kernels else 1


def _is_arm() -> bool:
    return platform.machine().lower() in ("arm64", "aarch64")


def asked(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each name with what a child process computes under it; "" if it crashes."""
    for name in names:
        done = _child(name, 1, ["-m", "kvsite.kernels"])
        yield name, done.stdout.strip() if done.returncode == 0 else ""


def distinct(answers: Iterator[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """The kernels that differ, and a line for each name that is left out."""
    first: dict[str, str] = {}
    left_out = []
    for name, answer in answers:
        if not answer:
            left_out.append(f"left out: {name}, which this processor can't run")
        elif answer in first:
            left_out.append(f"left out: {name}, which computes as {first[answer]} does here")
        else:
            first[answer] = name
    return list(first.values()), left_out


def fingerprint() -> str:
    """Of the rounding of some products, matrix by matrix and matrix by vector."""
    import numpy as np

    rng = np.random.default_rng(0)
    digest = hashlib.sha256()
    for dtype in DTYPES:
        for rows, inner, columns in ((1, 32, 32), (12, 32, 64), (12, 12, 8), (100, 64, 97)):
            one = rng.normal(size=(rows, inner)).astype(dtype)
            digest.update((one @ rng.normal(size=(inner, columns)).astype(dtype)).tobytes())
    return digest.hexdigest()


def _child(kernel: str, threads: int, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    number = str(threads)
    settings = {
        "OPENBLAS_CORETYPE": kernel,
        "OPENBLAS_NUM_THREADS": number,
        "OMP_NUM_THREADS": number,
        "MKL_NUM_THREADS": number,
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": str(PY),
    }
    return subprocess.run(
        [venv_python(), *arguments],
        cwd=ROOT,
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _tests(
    kernel: str, threads: int, tests: Sequence[str], more: Sequence[str]
) -> tuple[bool, str, str]:
    """Whether all passed, the counts, and what pytest said."""
    parallel = ["--numprocesses=auto", "--maxprocesses=4", "--dist=loadfile"]
    chosen = ["-m", "not (site or browser or node)", "-q", *parallel]
    done = _child(kernel, threads, ["-m", "pytest", *chosen, *tests, *more])
    counts = re.findall(r"\d+ (?:passed|failed|errors?|skipped)", done.stdout[-1000:])
    return done.returncode == 0, ", ".join(counts) or "no tests", done.stdout[-8000:]


def _right(kernel: str, threads: int, seeds: int) -> tuple[bool, str, str]:
    """Whether no right decoder is condemned, the counts, and what was said of those that are."""
    done = _child(kernel, threads, ["-m", "kvsite.kernels", str(seeds)])
    if done.returncode:
        return False, "crashed", done.stdout[-8000:]
    figures = json.loads(done.stdout.splitlines()[-1])
    counts = "; ".join(f"{case}: {said}" for case, said in figures["counts"].items())
    return not figures["alarms"], counts, "\n".join(figures["alarms"])


def _verdicts(seeds: int) -> str:
    """JSON: what the checker says of all right decoders, under the kernel of this process."""
    from kvproof.experiments import scorecard

    cases = [*product(scorecard.right_decoders(), range(seeds), DTYPES, CONTRASTS)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(mp_context=context) as pool:
        said = [*pool.map(_verdict, *zip(*cases, strict=True), chunksize=16)]
    counts: dict[str, Counter[str]] = {}
    alarms = []
    for (name, seed, dtype, contrast), (verdict, report) in zip(cases, said, strict=True):
        counts.setdefault(f"{dtype} x{contrast:g}", Counter())[verdict] += 1
        if verdict == "wrong":
            alarms.append(f"{name}, seed {seed}, {dtype} x{contrast:g}: {report}")
    rows = {case: ", ".join(f"{n} {v}" for v, n in row.items()) for case, row in counts.items()}
    return json.dumps({"counts": rows, "alarms": alarms})


def _verdict(name: str, seed: int, dtype: str, contrast: float) -> tuple[str, str]:
    from kvproof import check
    from kvproof.experiments import scorecard

    decoder = scorecard.right_decoders()[name](seed, dtype=dtype, contrast=contrast)
    report = check(decoder, seed, scorecard.BUDGET_S)
    if report.ok and report.complete:
        return "right", ""
    return "in doubt" if report.in_doubt else "wrong", str(report)


if __name__ == "__main__":
    print(_verdicts(int(sys.argv[1])) if sys.argv[1:] else fingerprint())
