"""Measure a cached step of the core: NumPy beside PyTorch, on one thread, in one run.

A process of its own, because the number of threads is settled when the libraries are loaded.  Each
path takes the same 16 tokens one at a time after a prefix that is read before the clock starts.  A
round runs every path after every prefix once, in an order drawn anew, so that no path always finds
the processor's caches as the same other one left them; ratios are taken within a round, so that
what slows the machine for a while slows both.
"""

import argparse
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kvproof import REFERENCE, decode, example_tokens, forward, init_params, new_cache
from kvproof.model.cache import KVCache
from kvproof.model.fast_decoder import FastDecoder
from kvproof.model.masks import IntArray
from kvproof.model.params import FloatArray, Params, params_to_arrays
from kvsite.paths import PY, venv_python

PREFIXES = (16, 64, 128, 256, 480)
STEPS = 16
WARMUPS = 3
LARGEST_ERROR = 1e-5
"""Of logits around 3 in float32: the paths sum in different orders."""

Logits = list[FloatArray]
Step = Callable[[IntArray, KVCache], tuple[FloatArray, KVCache]]
Path = tuple[Callable[[], Any], Callable[[Any], Logits]]
"""What makes a path ready, and what is timed: 16 steps from there."""
Figures = dict[str, Any]

NAMES = {
    "fast_static": "tuned, static memory",
    "plain_static": "plain, static memory",
    "plain_concat": "plain, concatenation",
    "torch_concat": "PyTorch, concatenation",
    "full_recompute": "full recompute",
    "products": "bare matrix products",
}


def measure(rounds: int) -> Figures:
    """The figures of a child process: environment, protocol, all samples."""
    return with_one_thread("kvsite.bench_core", "--rounds", str(rounds))


def with_one_thread(module: str, *arguments: str) -> Figures:
    """What a module prints as JSON in a child process with one thread and without a network."""
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    child = subprocess.run(
        [venv_python(), "-m", module, *arguments],
        env=os.environ | one_thread | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(PY)},
        stdout=subprocess.PIPE,
        check=True,
    )
    figures: Figures = json.loads(child.stdout)
    return figures


def main(argv: Sequence[str]) -> int:
    """Check that all paths agree, time them, print the figures as JSON."""
    parser = argparse.ArgumentParser(prog="kvsite.bench_core")
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args(argv).rounds
    import torch

    torch.set_num_threads(1)
    params = init_params(REFERENCE)
    paths = {prefix: paths_behind(prefix, params) for prefix in PREFIXES}
    errors = [check(prefix, params, paths[prefix]) for prefix in PREFIXES]
    figures = {
        "environment": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": torch.__version__,
        },
        "protocol": {"steps": STEPS, "warmups": WARMUPS, "rounds": rounds, "dtype": "float32"},
        "largest_error": max(errors),
        "step_us": take_samples(paths, rounds),
    }
    print(json.dumps(figures))
    return 0


def take_samples(paths: dict[int, dict[str, Path]], rounds: int) -> dict[str, dict[str, Any]]:
    """Microseconds a step of each round: prefix -> path -> one number for each round."""
    runs = [(prefix, name) for prefix, by_name in paths.items() for name in by_name]
    samples: dict[str, dict[str, Any]] = {str(prefix): {} for prefix in paths}
    rng = np.random.default_rng(0)
    for i in range(WARMUPS + rounds):
        gc.collect()
        for prefix, name in rng.permutation(np.array(runs, object)):
            duration = _seconds(*paths[prefix][name])
            if i >= WARMUPS:
                samples[str(prefix)].setdefault(name, []).append(duration / STEPS * 1e6)
    return samples


def _seconds(prepare: Callable[[], Any], run: Callable[[Any], Logits]) -> float:
    ready = prepare()
    gc.disable()
    began = time.perf_counter()
    run(ready)
    duration = time.perf_counter() - began
    gc.enable()
    return duration


def paths_behind(prefix: int, params: Params) -> dict[str, Path]:
    """All paths that continue a prefix, ready to be timed."""
    tokens = example_tokens(prefix + STEPS)
    prompt = tokens[:, :prefix]
    pieces = [tokens[:, i : i + 1] for i in range(prefix, prefix + STEPS)]
    fast = FastDecoder(params, REFERENCE)

    def plain(new: IntArray, cache: KVCache) -> tuple[FloatArray, KVCache]:
        return decode(params, new, cache, REFERENCE)

    def stepping(step: Step, storage: str) -> Path:
        _, full = step(prompt, new_cache(REFERENCE, storage=storage))

        def run(cache: KVCache) -> Logits:
            nonlocal full
            logits = []
            for piece in pieces:
                new_logits, cache = step(piece, cache)
                logits.append(new_logits)
            full = cache  # in static memory the last handle is the only valid one
            return logits

        return lambda: full.crop(prefix), run

    def recompute(_: None) -> Logits:
        lengths = range(prefix + 1, prefix + STEPS + 1)
        return [forward(params, tokens[:, :length], REFERENCE)[:, -1:] for length in lengths]

    return {
        "fast_static": stepping(fast.decode, "static"),
        "plain_static": stepping(plain, "static"),
        "plain_concat": stepping(plain, "concat"),
        "torch_concat": torch_path(params, prompt, pieces),
        "full_recompute": (lambda: None, recompute),
        "products": products_path(fast, prompt),
    }


def check(prefix: int, params: Params, paths: dict[str, Path]) -> float:
    """The largest logit error of all paths against one plain pass.

    Raises:
        AssertionError: it is more than rounding.
    """
    expected = forward(params, example_tokens(prefix + STEPS), REFERENCE)[:, prefix:]
    largest = 0.0
    for name, (prepare, run) in paths.items():
        if name != "products":
            error = float(np.abs(np.concatenate(run(prepare()), axis=1) - expected).max())
            assert error <= LARGEST_ERROR, f"{name} after {prefix} tokens is off by {error}"
            largest = max(largest, error)
    return largest


def products_path(fast: FastDecoder, prompt: IntArray) -> Path:
    """The matrix products of the tuned steps and nothing else: the floor.

    The very calls of ``FastDecoder`` on its own weights and buffers and on a static cache.  The
    views of the cache, one of the right length for each step, are made before the clock starts.
    """
    prefix = prompt.shape[1]
    workspace = fast._workspace(1, 1)
    _, cache = fast.decode(prompt, new_cache(REFERENCE, storage="static"))
    steps = []
    for n_total in range(prefix + 1, prefix + STEPS + 1):
        _, cache = fast.decode([[1]], cache)
        weights = np.ones((1, REFERENCE.n_heads, 1, n_total), np.float32)
        steps.append([(k.swapaxes(-1, -2), v, weights) for k, v in cache.keys_values()])

    def run(_: None) -> Logits:
        for step in steps:
            for block, (keys, values, weights) in zip(fast._blocks, step, strict=True):
                assert block.w_up is not None
                assert block.w_down is not None
                np.dot(workspace.normed_input, block.w_qkv, workspace.qkv)
                np.matmul(workspace.queries, keys)
                np.matmul(weights, values)
                workspace.merged.dot(block.w_out)
                workspace.normed_input.dot(block.w_up)
                workspace.mlp_input.dot(block.w_down)
            workspace.normed_input.dot(fast._unembedding)
        return []

    return lambda: None, run


def torch_path(params: Params, prompt: IntArray, pieces: list[IntArray]) -> Path:
    """The notebook's PyTorch decoder with concatenation, in functions instead of modules."""
    import torch
    from torch.nn import functional

    config = REFERENCE
    arrays = {name: torch.tensor(array) for name, array in params_to_arrays(params).items()}
    for name in arrays:
        if ".w_" in name or name == "unembedding":  # (out, in), as PyTorch's models keep them
            arrays[name] = arrays[name].T.contiguous()

    def norm(x: Any, name: str) -> Any:
        gain, bias = arrays[f"{name}.gain"], arrays[f"{name}.bias"]
        return functional.layer_norm(x, (config.width,), gain, bias, 1e-5)

    def linear(x: Any, name: str, suffix: str) -> Any:
        return functional.linear(x, arrays[f"{name}.w_{suffix}"], arrays[f"{name}.b_{suffix}"])

    def step(tokens: Any, pairs: list[Any]) -> tuple[Any, list[Any]]:
        n_past = pairs[0][0].shape[2] if pairs else 0
        positions = torch.arange(n_past, n_past + tokens.shape[1])
        x = functional.embedding(tokens, arrays["token_embedding"])
        x = x + functional.embedding(positions, arrays["position_embedding"])
        longer = []
        for i in range(config.n_layers):
            qkv = linear(norm(x, f"block{i}.norm1"), f"block{i}.attention", "qkv")
            q, k, v = qkv.unflatten(-1, (3, config.n_heads, -1)).permute(2, 0, 3, 1, 4)
            if pairs:
                k, v = (torch.cat(both, dim=2) for both in zip(pairs[i], (k, v), strict=True))
            longer.append((k, v))
            # Either nothing is cached or one token is new: the triangle, or no mask at all.
            attended = functional.scaled_dot_product_attention(q, k, v, is_causal=not pairs)
            x = x + linear(attended.transpose(1, 2).flatten(2), f"block{i}.attention", "out")
            hidden = linear(norm(x, f"block{i}.norm2"), f"block{i}.mlp", "in")
            x = x + linear(functional.gelu(hidden, approximate="tanh"), f"block{i}.mlp", "out")
        return functional.linear(norm(x, "final_norm"), arrays["unembedding"]), longer

    tensors = [torch.tensor(piece) for piece in pieces]
    with torch.inference_mode():
        _, start = step(torch.tensor(prompt), [])

    def run(pairs: list[Any]) -> Logits:
        logits = []
        with torch.inference_mode():
            for tokens in tensors:
                new_logits, pairs = step(tokens, pairs)
                logits.append(new_logits)
        return [tensor.numpy() for tensor in logits]

    return lambda: start, run


def ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """Median over the rounds of one path's time divided by another's in the same round."""
    return float(statistics.median(a / b for a, b in zip(above, below, strict=True)))


def summary(figures: Figures) -> list[tuple[str, str, str]]:
    """What was measured, the figure, and its budget."""
    after = {prefix: figures["step_us"][str(prefix)] for prefix in PREFIXES}

    def worst(below: str) -> float:
        return max(ratio(after[p]["fast_static"], after[p][below]) for p in PREFIXES)

    grown = ratio(after[480]["fast_static"], after[16]["fast_static"])
    recompute = ratio(after[256]["full_recompute"], after[256]["fast_static"])
    return [
        ("cached step / PyTorch's, worst prefix", f"{worst('torch_concat'):.2f}", "<= 0.4"),
        ("cached step, after 480 tokens / after 16", f"{grown:.2f}", "<= 1.5"),
        ("full recompute / cached step, after 256 tokens", f"{recompute:.0f}", ">= 20"),
        ("cached step / its matrix products, worst prefix", f"{worst('products'):.2f}", "<= 2"),
    ]


def step_table(figures: Figures) -> list[list[str]]:
    """Median microseconds of a step: a header, then a row for each path."""
    rows = [["microseconds a step after", *map(str, PREFIXES)]]
    for name, label in NAMES.items():
        medians = [statistics.median(figures["step_us"][str(p)][name]) for p in PREFIXES]
        rows.append([label, *(f"{median:,.0f}" for median in medians)])
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
