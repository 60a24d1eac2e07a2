"""The numbers of the pages: computed here or read from stored results, never typed.

A page says ``{{ numbers.costs.recomputed | number }}``.  Values are raw; the filters of
``kvsite.formats`` write them the same way in every language.
"""

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np

import kvproof
from kvlab import exercise, story_lab
from kvlab.mask_lab import MAX_NEW, MAX_PAST
from kvlab.storages_lab import BRANCHES, MAX_PREFIX
from kvproof import LAB, REFERENCE, DecoderConfig, zoo
from kvproof.checking import KINDS
from kvproof.experiments import error_ladder, recall
from kvproof.experiments.compare_calls import compare_calls
from kvproof.experiments.costs import Costs
from kvproof.experiments.model_shapes import MODEL_SHAPES
from kvproof.experiments.proof import (
    CONTROLS,
    FIRST_PREFILL,
    N_TOKENS,
    PATHS,
    RAGGED,
    Proof,
)
from kvproof.model import layers
from kvproof.model.cache import STORAGES
from kvproof.model.feeding import WORKED_EXAMPLE
from kvproof.model.masks import BoolArray
from kvproof.model.precision import EPS
from kvproof.story import STORY, load_story_decoder
from kvsite.listings import constant
from kvsite.notebook import SOURCE
from kvsite.story import load_story_results
from kvsite.timing import load_results, timing_rows

Section = dict[str, Any]

N_PAST, N_NEW = 4, 2
"""The worked example: so many of its six tokens are prefilled, so many follow in one call."""
CONTEXT = 8192
"""Tokens for which the memory of published models is given."""
SPLIT_TOKENS = 8
"""A text short enough to be cut in every possible way."""

RESTART: Section = {"positions": kvproof.restarted_positions}
MISTAKES = ({"mask": kvproof.top_left_mask}, {"mask": kvproof.open_mask}, RESTART)
"""Arguments of ``decode``: a mask without offset, none at all, positions that restart."""


@cache
def numbers() -> dict[str, Section]:
    """All numbers by section, some seconds of work; a section's values by name."""
    results = load_results()
    proof, lab_proof = kvproof.prove(REFERENCE), kvproof.prove(LAB)
    return {
        "model": _model(),
        "example": _example(),
        "masks": _masks(),
        "future": _future(),
        "positions": _positions(),
        "proof": _proof(proof, results),
        "paths": _paths(lab_proof),
        "curve": _curve(results),
        "broken": _broken(lab_proof, results),
        "argmax": _argmax(),
        "zoo": _zoo(),
        "ladder": _ladder(),
        "costs": _costs(results),
        "lab_costs": _lab_costs(),
        "memory": _memory(),
        "heads": _heads(),
        "padding": _padding(results),
        "window": _window(results),
        "storages": _storages(),
        "exercises": _exercises(),
        "recall": _recall(load_story_results()),
        "precisions": _precisions(),
        "drowned": _drowned(),
    }


# ------------------------------------------------------------------ the decoder and one call


def _model() -> Section:
    """Sizes of the two decoders."""
    return {
        **{
            name: getattr(REFERENCE, name)
            for name in (
                "n_layers",
                "width",
                "n_heads",
                "head_dim",
                "vocab_size",
                "mlp_width",
                "max_positions",
            )
        },
        "parameters": kvproof.parameter_count(REFERENCE),
        "lab_width": LAB.width,
    }


def _example() -> Section:
    """The worked example: shapes, who reads what, and which row belongs to which."""
    params = kvproof.init_params(REFERENCE, dtype="float64")
    tokens = kvproof.example_tokens(N_PAST + N_NEW)
    _, past = kvproof.decode(
        params, tokens[:, :N_PAST], kvproof.new_cache(REFERENCE, dtype="float64"), REFERENCE
    )
    logits, longer = kvproof.decode(params, tokens[:, N_PAST:], past, REFERENCE)
    expected = kvproof.forward(params, tokens, REFERENCE)
    (first_keys, _), (second_keys, _) = longer.keys_values()
    first = params.blocks[0]
    places = kvproof.offset_positions(N_PAST, N_NEW)
    normed = layers.layer_norm(layers.embed(params, tokens[:, N_PAST:], places), first.norm1)
    q, _, _ = layers.project_qkv(normed, first, REFERENCE)
    reads = [np.flatnonzero(row) for row in kvproof.offset_mask(N_PAST, N_NEW)]
    return {
        "tokens": list(WORKED_EXAMPLE),
        "n_past": N_PAST,
        "n_new": N_NEW,
        "shapes": {
            "q": q.shape,
            "kv": first_keys.shape,
            "scores": (q @ first_keys.swapaxes(-1, -2)).shape,
            "logits": logits.shape,
        },
        "first_read": f"{reads[0][0]}–{reads[0][-1]}",
        "second_read": f"{reads[1][0]}–{reads[1][-1]}",
        "aligned": _error(logits, expected[:, N_PAST:]),
        "one_early": _error(logits, expected[:, N_PAST - 1 : -1]),
        "layers_apart": _error(first_keys, second_keys),
    }


def _masks() -> Section:
    """The rows of a right mask as 1 and 0; the largest logit where the mask lab begins."""
    case = 5, 3
    floor = kvproof.compare_masks(N_PAST, N_NEW).rounding_floor
    return {
        "largest_logit": floor / EPS["float64"],
        "rows_5_3": ["".join(map(str, row)) for row in kvproof.offset_mask(*case).astype(int)],
        "positions_5_3": kvproof.offset_positions(*case).tolist(),
    }


def _future(changed: int = 12) -> Section:
    """Another token at one position: how far the logits move, with a mask and without."""
    moved = kvproof.perturb_future(changed, N_TOKENS, REFERENCE)
    leaked = kvproof.perturb_future(changed, N_TOKENS, REFERENCE, mask=kvproof.open_mask)
    return {
        "changed": changed,
        "n_total": N_TOKENS,
        "earlier": float(moved[:changed].max()),
        "later": float(moved[changed:].max()),
        "leaked": float(leaked[:changed].max()),
    }


def _positions() -> Section:
    """Largest logit errors of positions that restart, by kind of positions."""
    configs = [
        REFERENCE,
        replace(REFERENCE, positions="rope"),
        replace(REFERENCE, positions="alibi"),
    ]
    return {config.positions: _mistake(N_PAST, N_NEW, config, **RESTART) for config in configs}


def _mistake(n_past: int, n_new: int, config: DecoderConfig = REFERENCE, **wrong: Any) -> float:
    """Largest logit error of one call after a history that was read without the mistake."""
    params = kvproof.init_params(config, dtype="float64")
    text = kvproof.example_tokens(n_past + n_new)
    empty = kvproof.new_cache(config, dtype="float64")
    _, past = kvproof.decode(params, text[:, :n_past], empty, config)
    logits, _ = kvproof.decode(params, text[:, n_past:], past, config, **wrong)
    return _error(logits, kvproof.forward(params, text, config)[:, n_past:])


# ------------------------------------------------------------------ the proof, and what breaks it


def _proof(proof: Proof, results: dict[str, Any]) -> Section:
    """What ``prove`` claims, and what the notebook stored of the same twelve combinations."""
    rows, others = (results["correctness"][name] for name in ("equivalence", "transformers"))
    prefills = [claim for claim in proof.claims if claim.group == FIRST_PREFILL]
    passed = Counter(claim.kind for claim in proof.claims if claim.passed)

    def worst(rows: list[dict[str, Any]], dtype: str) -> float:
        errors = ("max_logit_error", "max_kv_error")
        return max(float(row[name]) for row in rows if row["dtype"] == dtype for name in errors)

    return {
        "n_tokens": N_TOKENS,
        "n_claims": passed["claim"],
        "n_controls": passed["control"],
        "n_changes": passed["change"],
        "n_combinations": len(rows),
        "batches": sorted({row["batch_size"] for row in rows}),
        "chunks": sorted({row["chunk"] for row in rows}),
        "prefills": sorted({claim.case["n_first"] for claim in prefills}),
        "prefill_error": max(claim.error for claim in prefills if claim.dtype == "float64"),
        **{dtype: worst(rows, dtype) for dtype in ("float32", "float64")},
        **{
            f"{limit.lower()}_{dtype[5:]}": value
            for limit in ("BOUND", "TOLERANCE")
            for dtype, value in constant(SOURCE, limit).items()
        },
        **{
            f"floor_{dtype[5:]}": kvproof.compare_masks(0, N_TOKENS, dtype).rounding_floor
            for dtype in ("float32", "float64")
        },
        **{f"others_{dtype[5:]}": worst(others, dtype) for dtype in ("float32", "float64")},
        "split_tokens": SPLIT_TOKENS,
        "n_splits": 2 ** (SPLIT_TOKENS - 1),
        "splits": _every_split(),
    }


def _every_split() -> float:
    """Largest logit error over every way to cut a short text into chunks."""
    params = kvproof.init_params(REFERENCE, dtype="float64")
    text = kvproof.example_tokens(SPLIT_TOKENS)
    expected = kvproof.forward(params, text, REFERENCE)
    errors = []
    for cuts in product((False, True), repeat=SPLIT_TOKENS - 1):
        ends = [i for i, cut in enumerate(cuts, start=1) if cut] + [SPLIT_TOKENS]
        sizes = np.diff([0, *ends]).tolist()
        errors.append(_error(kvproof.in_chunks(params, text, REFERENCE, sizes)[0], expected))
    return max(errors)


def _paths(proof: Proof) -> Section:
    """Ways to feed the attention-only decoder, with some seeds: largest error of each."""
    errors: dict[str, list[float]] = {}
    for claim in proof.claims:
        if claim.group == PATHS:
            errors.setdefault(claim.case["path"], []).append(claim.error)
    [n_seeds] = {len(of_way) for of_way in errors.values()}
    ways = {"prefix": "every-prefix", "one_by_one": "one-by-one", "chunked": "chunked"}
    return {
        "n_seeds": n_seeds,
        "chunks": list(RAGGED),
        **{name: max(errors[way]) for name, way in ways.items()},
    }


def _curve(results: dict[str, Any]) -> Section:
    """The float32 error of each position of a long text."""
    curve = results["correctness"]["error_curve"]
    errors = np.array(curve["max_logit_error"])
    first, second = (float(half.mean()) for half in np.array_split(errors, 2))
    return {
        "n_total": curve["n_total"],
        "units": float(errors.max()) / curve["rounding_unit"],
        "first_half": first,
        "second_half": second,
    }


def _broken(lab_proof: Proof, results: dict[str, Any]) -> Section:
    """The two classic mistakes in the notebook; the mask with some seeds of the other decoder."""
    rows = {row["name"]: row for row in results["correctness"]["broken"]}
    positions, mask = rows["positions restart"], rows["mask without offset"]
    flags = results["correctness"]["sdpa"]
    return {
        "positions": positions["max_logit_error"],
        "mask": mask["max_logit_error"],
        "mask_argmax": mask["argmax_agreement"],
        "n_nan": positions["n_nan"] + mask["n_nan"],
        "smallest": [_mistake(1, 2, **wrong) for wrong in MISTAKES],
        "mask_seeds": [
            claim.error
            for claim in lab_proof.claims
            if claim.group == CONTROLS
            and claim.case.get("mistake") == "top-left-mask"
            and claim.case["n_past"] == 5
        ],
        "flag_from_top_left": max(row["flag_from_top_left"] for row in flags),
        "flag_from_offset": min(row["flag_from_offset"] for row in flags if row["n_past"]),
    }


def _argmax() -> Section:
    """How often the top token stays although the mask is wrong, over the lab's whole grid."""
    agreeing = rows = 0
    for n_past, n_new in product(range(1, MAX_PAST + 1), range(1, MAX_NEW + 1)):
        share = kvproof.compare_masks(n_past, n_new).top_left.argmax_agreement
        agreeing += round(share * n_new)
        rows += n_new
    return {"n_rows": rows, "share": agreeing / rows}


def _ladder() -> Section:
    """How far right decoders are from their floors, and broken ones from them."""
    floors, worst = error_ladder.rounding_floors(), dict.fromkeys(error_ladder.GROUPS, 0.0)
    for rung in error_ladder.right_rungs():
        worst[rung.group] = max(worst[rung.group], rung.error)
    return {
        "floors": max(worst[dtype] / floors[dtype] for dtype in ("float32", "float64")),
        "gap": min(rung.error for rung in error_ladder.broken_rungs()) / worst["float64"],
    }


def _zoo() -> Section:
    """How many broken decoders each habit of testing doesn't see."""
    rows = [zoo.facts(specimen, seeds=(0,)) for specimen in zoo.SPECIMENS.values()]
    blind = Counter(habit for row in rows for habit in row.blind)
    return {
        "n_specimens": len(rows),
        "n_kinds": len(KINDS),
        **{habit.replace(" = ", "_").replace(" ", "_"): blind[habit] for habit in zoo.blind.HABITS},
    }


# ------------------------------------------------------------------ what is saved and what is left


def _costs(results: dict[str, Any]) -> Section:
    """Counts after the longest measured prefix, beside the ratio of the measured times."""
    steps, last = results["protocol"]["continuation_steps"], timing_rows(results)[-1]
    costs = kvproof.count_costs(REFERENCE, last.prefix, steps)
    return {
        "prefix": last.prefix,
        "steps": steps,
        "n_total": last.prefix + steps,
        "recomputed": costs.recomputed.positions,
        "cached": costs.cached.positions,
        "ratio": costs.recomputed.positions / costs.cached.positions,
        "kv_bytes": costs.cached.kv_bytes,
        "linear": 4 * REFERENCE.width**2 + 2 * REFERENCE.width * REFERENCE.mlp_width,
        "attention": 2 * (last.prefix + steps) * REFERENCE.width,
        "time_ratio": last.last_only_over_cached,
    }


def _lab_costs() -> Section:
    """Counts of the attention-only decoder: a whole text, token by token, float64."""
    costs = kvproof.count_costs(LAB, 0, N_TOKENS, dtype="float64")
    return {
        "n_tokens": N_TOKENS,
        **{f"{way}_rows": work.qkv_rows for way, work in costs.ways().items()},
        **{f"{way}_scores": work.scores for way, work in costs.ways().items()},
        "kv_bytes": costs.cached.kv_bytes,
        "rows_ratio": costs.recomputed.qkv_rows / costs.cached.qkv_rows,
        "scores_ratio": costs.recomputed.scores / costs.cached.scores,
    }


def _memory() -> Section:
    """K/V bytes of published models for one row, bfloat16."""
    grouped = MODEL_SHAPES["llama-3-8b"]
    every_head = replace(grouped, n_kv_heads=grouped.n_heads)
    mistral, latent = (_held(MODEL_SHAPES[name]) for name in ("mistral-7b", "deepseek-v3"))
    assert mistral.rolling  # a window, and a latent vector: they have such ways
    assert latent.latent
    return {
        "context": CONTEXT,
        "llama_2_7b": _held(MODEL_SHAPES["llama-2-7b"]).cached.kv_bytes,
        "llama_3_8b": _held(grouped).cached.kv_bytes,
        "llama_3_8b_every_head": _held(every_head).cached.kv_bytes,
        "llama_3_8b_shape": vars(grouped),
        "llama_3_8b_token": _held(grouped).cached.kv_bytes // CONTEXT,
        "mistral_7b": mistral.cached.kv_bytes,
        "mistral_7b_window": MODEL_SHAPES["mistral-7b"].window,
        "mistral_7b_rolling": mistral.rolling.kv_bytes,
        "deepseek_v3": latent.cached.kv_bytes,
        "deepseek_v3_latent": latent.latent.kv_bytes,
    }


def _held(shape: Any) -> Costs:
    """The costs of a published model with a full context; the bytes are what matters."""
    return kvproof.count_costs(shape, CONTEXT - 1, 1, dtype="bfloat16")


# ------------------------------------------------------------------ variants


def _heads() -> Section:
    """K/V bytes of the reference decoder for the example's text, by K/V heads."""
    by_heads = {
        n: kvproof.count_costs(replace(REFERENCE, n_kv_heads=n), 0, N_TOKENS).cached.kv_bytes
        for n in (4, 2, 1)
    }
    return {"kv_bytes": by_heads}


def _padding(results: dict[str, Any]) -> Section:
    """Left-padded rows against the row alone: done right, and with one of two things forgotten."""
    ragged = results["correctness"]["ragged"]
    errors = {row["variant"]: row["row_errors"] for row in ragged if row["dtype"] == "float64"}
    one_position, visible = errors["one position vector for all rows"], errors["padding visible"]
    return {
        "right": max(errors["right"]),
        "one_position": max(one_position),
        "visible": max(visible),
        "longest_row": max(min(one_position), min(visible)),
    }


def _window(results: dict[str, Any], n_total: int = 16, kept: int = 4, window: int = 4) -> Section:
    """The last slots of a cache, beside the same tokens fed again: the window lab's default."""
    trimmed = kvproof.trim_or_refeed(n_total, kept, kept, REFERENCE)
    windowed = replace(REFERENCE, window=window)
    reach = (REFERENCE.n_layers - 1) * (window - 1)
    too_few = kvproof.trim_or_refeed(n_total, kept, kept + reach - 1, windowed)
    ring = replace(REFERENCE, window=32, n_sinks=4)
    protocol = results["protocol"]
    last, steps = protocol["prefixes"][-1], protocol["continuation_steps"]
    rolled = kvproof.count_costs(ring, last, steps)
    assert rolled.rolling
    return {
        "n_total": n_total,
        "kept": kept,
        "window": window,
        "first_layer": float(trimmed.key_errors[0]),
        "second_layer": float(trimmed.key_errors[1]),
        "next_output": trimmed.next_error,
        "reach": reach,
        "too_few": float(too_few.key_errors[1]),
        "ring_window": ring.window,
        "ring_sinks": ring.n_sinks,
        "rolling_bytes": rolled.rolling.kv_bytes,
        "all_bytes": rolled.cached.kv_bytes,
    }


def _storages() -> Section:
    """Each storage's largest logit error in any setting of the lab; what int8 saves in bytes."""
    reports = [
        report
        for prefix in range(1, MAX_PREFIX + 1)
        for n_branches in map(int, BRANCHES)
        for report in kvproof.compare_storages(prefix, n_branches).values()
    ]
    errors = {
        name: max(report.max_abs_error for report in reports if report.storage == name)
        for name in STORAGES
    }
    float_bytes, int8_bytes = (
        kvproof.count_costs(REFERENCE, 0, N_TOKENS, dtype=dtype).cached.kv_bytes
        for dtype in ("float32", "int8")
    )
    return {
        "n_settings": MAX_PREFIX * len(BRANCHES),
        "exact": {name: errors[name] for name, storage in STORAGES.items() if storage.is_exact},
        "int8": errors["int8"],
        "int8_bytes": int8_bytes,
        "float32_bytes": float_bytes,
        "bytes_ratio": float_bytes / int8_bytes,
        "floor": max(report.rounding_floor for report in reports),
    }


# ------------------------------------------------------------------ exercises


def _exercises() -> Section:
    """The answers; the first one's are those that the cell checks."""
    n_past, n_new = exercise.N_PAST, exercise.N_NEW
    right = kvproof.offset_mask(n_past, n_new)
    lost = right & ~kvproof.top_left_mask(n_past, n_new)
    prompt, chunk = 1000, 256
    sizes = [min(chunk, prompt - start) for start in range(0, prompt, chunk)]
    starts = np.cumsum([0, *sizes])
    return {
        **exercise.right_answers(),
        "n_past": n_past,
        "n_new": n_new,
        "open": int(right.sum()),
        "cells": right.size,
        "lost": n_past * n_new,
        "lost_cached": [int(row[:n_past].sum()) for row in lost],
        "lost_own": [int(row[n_past:].sum()) for row in lost],
        "prompt": prompt,
        "chunk": chunk,
        "n_calls": len(sizes),
        "last_scores": (sizes[-1], prompt),
        "last_past": int(starts[-2]),
        "chunked_scores": int(sum(n * end for n, end in zip(sizes, starts[1:], strict=True))),
        "whole_scores": prompt**2,
        "no_mask_one": _mistake(N_PAST, 1, mask=kvproof.open_mask),
        "no_mask_two": _mistake(N_PAST, 2, mask=kvproof.open_mask),
    }


def _error(actual: Any, expected: Any) -> float:
    return float(np.abs(actual.astype(np.float64) - expected).max())


def _precisions() -> Section:
    """What one key of many that a call doesn't see comes to in each precision."""
    n_past, n_new = 500, 4

    def first_hidden(n_past: int, n_new: int) -> BoolArray:
        return kvproof.offset_mask(n_past, n_new) & (np.arange(n_past + n_new) > 0)

    rows = []
    for precision in EPS:
        report = kvproof.compare_masks(n_past, n_new, precision)
        hidden = kvproof.mask_result(first_hidden, n_past, n_new, precision).max_abs_error
        rows.append(
            {
                "precision": precision,
                "floor": report.rounding_floor,
                "right": report.offset.max_abs_error,
                "hidden": hidden,
                "floors": hidden / report.rounding_floor,
                "top_left": report.top_left.max_abs_error,
            }
        )
    return {"n_past": n_past, "n_new": n_new, "rows": rows}


# ------------------------------------------------------------------ the story's decoder


def _recall(results: dict[str, Any]) -> Section:
    """What it still knows, right and with each mistake, in calls of eight words."""
    rows, undropped = results["rows"], results["without_key_dropout"]["rows"]

    return {
        "layers": STORY.n_layers,
        "words": STORY.vocab_size,
        "parameters": results["parameters"],
        "stories": results["prompts"]["stories"],
        "chance": results["prompts"]["chance"],
        "rows": {mistake: recall.find(rows, "of-8", mistake) for mistake in recall.MISTAKES},
        "right": [recall.find(rows, calls) for calls in recall.CALLS],
        "right_float32": [recall.find(rows, calls, dtype="float32") for calls in recall.CALLS],
        "last_call": recall.find(rows, "last-8", "top-left"),
        "dropout_texts": results["recipe"]["dropout_texts"],
        "dropout_from": results["recipe"]["dropout_from"],
        "undropped": {
            "right": recall.find(undropped, "of-8"),
            "top_left": recall.find(undropped, "of-8", "top-left"),
        },
    }


def _drowned() -> Section:
    """A call of the first lab without a mask that bfloat16 hides best and float64 shows."""
    found = {}
    for n_past, n_new in product(range(1, story_lab.MAX_PAST + 1), range(2, story_lab.MAX_NEW + 1)):
        text = story_lab.STORY[-(n_past + n_new) :]
        rounded, exact = (
            compare_calls(*load_story_decoder(dtype), text, n_past, mask=kvproof.open_mask)
            for dtype in ("bfloat16", "float64")
        )
        if story_lab.is_drowned(rounded) and exact.wrong.next_token == exact.next_token:
            floors = rounded.wrong.max_abs_error / rounded.rounding_floor
            found[floors] = {"P": n_past, "C": n_new, "error": exact.wrong.max_abs_error}
    return found[min(found)]
