"""What the experiments can't do is refused with the value and what it should have been."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from kvproof import (
    LAB,
    MODERN,
    REFERENCE,
    blind_spots,
    compare_masks,
    compare_storages,
    count_costs,
    example_tokens,
    example_vectors,
    in_chunks,
    init_params,
    perturb_future,
    plan_memory,
    prove,
    receptive_field,
    trim_or_refeed,
)
from kvproof.experiments.costs import measure_costs
from kvproof.experiments.error_ladder import specimen_errors

LENGTHS = "needs 1 <= kept <= refed <= n_total < 64, got"
REFUSED: list[tuple[Callable[[], object], str]] = [
    # Texts.
    (lambda: example_tokens(513), "n_total must be 1..512, got 513"),
    (lambda: example_tokens(0), "n_total must be 1..512, got 0"),
    (lambda: example_vectors(0, config=LAB), "n_total must be 1..64, got 0"),
    (lambda: example_vectors(4, 0), "batch_size must be at least 1, got 0"),
    (lambda: example_tokens(4, config=LAB), "reads vectors, not token IDs"),
    *[
        (
            lambda sizes=sizes: in_chunks(
                init_params(REFERENCE), example_tokens(9), REFERENCE, sizes
            ),
            r"chunks of \[.*\] don't cut a text of 9 tokens",
        )
        for sizes in ([4, 4], [5, 5], [9, 0], [10, -1], [])
    ],
    # Two masks.
    (lambda: compare_masks(-1, 2), "n_past must be at least 0, got -1"),
    (lambda: compare_masks(4, 0), "n_new must be at least 1, got 0"),
    (lambda: compare_masks(500, 13), "n_total must be 1..512, got 513"),
    (lambda: compare_masks(4, 2.5), "n_new must be an integer, got 2.5"),  # type: ignore[arg-type]
    (lambda: compare_masks(4, 2, "int8"), "dtype must be one of float64, .*, got 'int8'"),
    (lambda: compare_masks(4, 2, "flaot32"), "dtype must be one of .*, got 'flaot32'"),
    (lambda: compare_masks(4, 2, seed=-1), "seed must be at least 0, got -1"),
    # All storages.
    (lambda: compare_storages(0), "prefix must be 1..29, got 0"),
    (lambda: compare_storages(30), "prefix must be 1..29, got 30"),
    (lambda: compare_storages(4, 0), "branches must be at least 1, got 0"),
    (lambda: compare_storages(4.5), "prefix must be an integer, got 4.5"),  # type: ignore[arg-type]
    (lambda: compare_storages(4, 2, "float16"), "float16"),
    # Calls, reach and blind spots.
    (lambda: perturb_future(-1), "changed must be 0..23, got -1"),
    (lambda: perturb_future(24), "changed must be 0..23, got 24"),
    (lambda: trim_or_refeed(24, 0), LENGTHS),
    (lambda: trim_or_refeed(24, 4, 3), LENGTHS),
    (lambda: trim_or_refeed(24, 25), LENGTHS),
    (lambda: trim_or_refeed(64, 4), LENGTHS),
    (lambda: receptive_field(0), "n_new must be at least 1, got 0"),
    (lambda: blind_spots("no-such"), "the zoo has no specimen 'no-such'"),
    *[
        (lambda name=name: blind_spots(name), f"{name!r} isn't in one call")
        for name in (
            *("page-map-contiguous", "pos-reset-query", "rope-frame-memo", "quant-scale-layer"),
        )
    ],
    (lambda: blind_spots(lambda _, c: np.ones((c, c), np.bool_), [1], [1]), "mask must be bool"),
    (
        lambda: blind_spots("mask-topleft", positions="sine"),  # type: ignore[arg-type]
        "positions must be one of learned, .*, got 'sine'",
    ),
    (lambda: blind_spots("mask-topleft", [-1], [1]), "n_past must be at least 0, got -1"),
    (lambda: blind_spots("mask-topleft", [1], [0]), "n_new must be at least 1, got 0"),
    (lambda: blind_spots("mask-topleft", [1], []), r"needs .* sizes, got \[1\] and \[\]"),
    (lambda: blind_spots("mask-topleft", [510], [5]), "n_total must be 1..512, got 515"),
    (lambda: blind_spots("mask-topleft", [1], [1], dtype="float16"), "float16"),
    (lambda: specimen_errors("no-such"), "the zoo has no specimen 'no-such'"),
    # Costs and bytes.
    (lambda: count_costs(REFERENCE, -1, 1), "prefix must be at least 0, got -1"),
    (lambda: count_costs(REFERENCE, 0, 0), "steps must be at least 1, got 0"),
    (lambda: count_costs(REFERENCE, 0, 1, 0), "batch_size must be at least 1, got 0"),
    (lambda: count_costs(REFERENCE, 1.5, 1), "prefix must be an integer"),  # type: ignore[arg-type]
    (lambda: count_costs(REFERENCE, 0, 1, 1, "int4"), "dtype must be one of .* got 'int4'"),
    (lambda: measure_costs(REFERENCE, 600, 1), "601 tokens don't fit: the decoder has 512 pos"),
    (lambda: plan_memory("no-such", 1), "model must be one of gpt2, .*, got 'no-such'"),
    (lambda: plan_memory("gpt2", 0), "context must be at least 1, got 0"),
    (lambda: plan_memory("gpt2", 1.5), "context must be an integer, got 1.5"),  # type: ignore[arg-type]
    (lambda: plan_memory("gpt2", 1, 0), "batch_size must be at least 1, got 0"),
    (lambda: plan_memory("gpt2", 1, 1, "int3"), "dtype must be one of .*, got 'int3'"),
    (lambda: plan_memory("gpt2", 1, kv_heads=0), "n_kv_heads must be at least 1, got 0"),
    (lambda: plan_memory("gpt2", 1, kv_heads=5), "multiple of n_kv_heads, got 12 and 5"),
    (
        lambda: plan_memory("gpt2", 1, kv_heads=1.5),  # type: ignore[arg-type]
        "kv_heads must be an integer, got 1.5",
    ),
    # Proofs.
    (lambda: prove(storage="int8"), "int8 rounds keys and values on purpose"),
    (lambda: prove(MODERN, storage="rolling"), "the decoder has no window"),
    (lambda: prove(replace(REFERENCE, max_positions=20)), "takes 24 positions, the decoder has 20"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_makes_no_sense_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
