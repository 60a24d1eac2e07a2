"""The article's numbers: those of the sources, and each from another place than it is made in."""

import re
from typing import Any

import numpy as np
import pytest
from tests.lab.lab_states import move, value

import kvproof
from kvlab import exercise
from kvlab.causality_lab import N_TOTAL, CausalityLab
from kvlab.session import Session
from kvlab.window_lab import KEPT, SAME, WINDOWS, WindowLab
from kvproof.checking import KINDS
from kvproof.experiments import error_ladder
from kvproof.zoo import SPECIMENS
from kvsite.assets import SITE
from kvsite.numbers import _broken, _mistake, numbers
from kvsite.pages import in_words
from kvsite.timing import load_results
from kvsite.words import TEXTS, load_catalogue


@pytest.fixture(scope="module")
def n() -> dict[str, Any]:
    return numbers()


def test_the_counts_of_the_sources(n: dict[str, Any]) -> None:
    assert n["model"]["parameters"] == 145_280
    assert (n["costs"]["recomputed"], n["costs"]["cached"]) == (4_232, 16)
    assert n["costs"]["kv_bytes"] == 278_528
    lab = n["lab_costs"]
    assert (lab["recomputed_rows"], lab["cached_rows"]) == (1_800, 144)
    assert (lab["recomputed_scores"], lab["cached_scores"]) == (9_800, 600)
    assert lab["kv_bytes"] == 12_288
    assert lab["rows_ratio"] == 12.5


def test_the_worked_example(n: dict[str, Any]) -> None:
    example, masks = n["example"], n["masks"]
    assert masks["rows_5_3"] == ["11111100", "11111110", "11111111"]
    assert masks["positions_5_3"] == [5, 6, 7]
    assert example["shapes"] == {
        "q": (1, 4, 2, 16),
        "kv": (1, 4, 6, 16),
        "scores": (1, 4, 2, 6),
        "logits": (1, 2, 97),
    }
    assert (example["first_read"], example["second_read"]) == ("0–4", "0–5")
    assert example["aligned"] < 1e-14 < 0.1 < min(example["one_early"], example["layers_apart"])


def test_right_paths_are_right_and_mistakes_show(n: dict[str, Any]) -> None:
    assert n["proof"]["float32"] <= n["proof"]["bound_32"] == 2e-6
    assert n["proof"]["float64"] <= n["proof"]["bound_64"] == 1e-14
    assert (n["proof"]["tolerance_32"], n["proof"]["tolerance_64"]) == (1e-5, 1e-10)
    assert n["proof"]["n_splits"] == 128
    assert n["proof"]["splits"] <= 1e-14
    assert max(n["paths"][way] for way in ("prefix", "one_by_one", "chunked")) < 1e-12
    # Four mistakes in two cases on three seeds; one bit and an open mask in two precisions.
    assert n["proof"]["n_controls"] == 4 * 2 * 3 + 2 * 2
    assert n["proof"]["n_changes"] == 2 * 2  # recomputed and cached, in two precisions
    assert kvproof.prove().passed
    assert min(n["broken"]["positions"], n["broken"]["mask"]) > 0.1
    assert n["proof"]["prefills"] == [1, 4, 8]
    assert n["proof"]["prefill_error"] <= 1e-14
    assert min(n["broken"]["smallest"]) > 0.02
    assert n["paths"]["n_seeds"] == len(n["broken"]["mask_seeds"]) == 3
    assert min(n["broken"]["mask_seeds"]) > 0.1
    assert n["broken"]["mask_argmax"] == 1
    assert n["broken"]["mask"] == pytest.approx(kvproof.compare_masks(4, 2).top_left.max_abs_error)


def test_the_stored_proof_is_the_notebooks(n: dict[str, Any]) -> None:
    rows = load_results()["correctness"]["equivalence"]
    errors = [max(r["max_logit_error"], r["max_kv_error"]) for r in rows if r["dtype"] == "float32"]
    assert n["proof"]["float32"] == max(errors)
    assert n["proof"]["n_combinations"] == len(rows) == 12
    assert (n["proof"]["batches"], n["proof"]["chunks"]) == ([1, 2], [1, 2, 5])


def test_what_a_restart_does_depends_on_the_positions(n: dict[str, Any]) -> None:
    positions = n["positions"]
    assert positions["alibi"] < 1e-14 < 0.02 < positions["rope"] < positions["learned"]
    assert positions["learned"] == pytest.approx(n["broken"]["positions"])


def test_only_a_later_token_moves(n: dict[str, Any]) -> None:
    future = n["future"]
    assert future["earlier"] == 0 < min(future["later"], future["leaked"])
    lab = Session(CausalityLab)
    assert future["changed"] == lab.lab.initial["changed"]
    assert future["n_total"] == N_TOTAL
    causal, leaky = move(lab), move(lab, mask=1)
    assert future["earlier"] == float(value(causal, "earlier"))
    assert future["later"] == float(value(causal, "later"))
    assert future["leaked"] == float(value(leaky, "earlier"))


def test_the_zoo(n: dict[str, Any]) -> None:
    zoo, argmax = n["zoo"], n["argmax"]
    assert argmax["n_rows"] == sum(c for _ in range(1, 33) for c in range(1, 17))
    assert 0.5 < argmax["share"] < 1, "a weak test"
    assert (zoo["n_specimens"], zoo["n_kinds"]) == (len(SPECIMENS), len(KINDS))
    habits = ("one_shot", "C_1", "last_argmax", "B_1", "first_use", "argmax")
    counts = [zoo[habit] for habit in habits]
    assert counts[0] == max(counts) < zoo["n_specimens"]
    assert counts[-1] == min(counts) > 0


def test_memory(n: dict[str, Any]) -> None:
    memory = n["memory"]
    assert memory["llama_3_8b_token"] == 2 * 32 * 8 * 128 * 2
    assert memory["llama_3_8b"] == 2**30
    assert memory["llama_3_8b_every_head"] == memory["llama_2_7b"] == 4 * 2**30
    assert memory["mistral_7b_rolling"] * 2 == memory["mistral_7b"]
    assert memory["deepseek_v3_latent"] == 61 * 8192 * (512 + 64) * 2


def test_variants(n: dict[str, Any]) -> None:
    assert n["heads"]["kv_bytes"] == {4: 24_576, 2: 12_288, 1: 6_144}
    padding = n["padding"]
    assert max(padding["right"], padding["longest_row"]) <= 1e-14
    assert min(padding["one_position"], padding["visible"]) > 0.1
    assert n["storages"]["exact"].keys() == {"concat", "static", "rolling", "paged"}
    assert max(n["storages"]["exact"].values()) < 2e-6 < n["storages"]["int8"] < 0.1
    assert n["storages"]["int8_bytes"] == 24 * 2 * 2 * 4 * (16 + 4)


def test_a_trimmed_cache_isnt_the_end_fed_again(n: dict[str, Any]) -> None:
    window = n["window"]
    assert window["first_layer"] == 0
    assert min(window["second_layer"], window["next_output"], window["too_few"]) > 0.03
    assert window["reach"] == 3
    assert (window["ring_window"], window["ring_sinks"]) == (32, 4)
    assert window["rolling_bytes"] == 2 * (32 + 4) * 2 * 64 * 4


def test_the_article_and_the_window_lab_say_the_same(n: dict[str, Any]) -> None:
    """Number by number: at the lab's default, and with a window where the article names it."""
    window, lab = n["window"], Session(WindowLab)
    default = move(lab)
    assert (window["n_total"], window["kept"]) == (lab.lab.initial["tokens"], KEPT)
    for name, key in (
        ("first_layer", "keys-1"),
        ("second_layer", "keys-2"),
        ("next_output", "logits"),
    ):
        assert window[name] == float(value(default, key)), name
    chosen = list(WINDOWS.values()).index(window["window"])
    too_few = move(lab, window=chosen, extra=window["reach"] - 1)
    assert window["too_few"] == float(value(too_few, "keys-2"))
    enough = move(lab, window=chosen, extra=window["reach"])
    assert float(value(enough, "keys-2")) < SAME, "in the article: up to rounding"


def test_the_cells_words_have_the_exercises_numbers() -> None:
    english, chinese = (load_catalogue(TEXTS / f"{name}.toml") for name in ("en", "zh"))
    past, new = (in_words(count) for count in (exercise.N_PAST, exercise.N_NEW))
    assert english["cells.exercise.title"].endswith(f"{past} cached, {new} new")
    assert english["cells.exercise.intro"].startswith(f"{past.capitalize()} tokens")
    assert f" {new} new " in english["cells.exercise.intro"]
    digits = dict(enumerate("零一二三四五六七八九十"))
    title = chinese["cells.exercise.title"]
    assert title.endswith(f"缓存{digits[exercise.N_PAST]}个，新来{digits[exercise.N_NEW]}个")


def test_the_exercises(n: dict[str, Any]) -> None:
    answers = n["exercises"]
    assert answers["positions"] == [10, 11, 12]
    assert answers["score_shape"] == [3, 13]
    assert answers["keys_read"] == [11, 12, 13]
    assert answers["top_left_keys"] == [1, 2, 3]
    assert (answers["lost_cached"], answers["lost_own"]) == ([9, 8, 7], [1, 2, 3])
    assert (answers["open"], answers["cells"], answers["lost"]) == (36, 39, 30)
    assert (answers["n_calls"], answers["last_past"]) == (4, 768)
    assert answers["last_scores"] == (232, 1000)
    assert answers["chunked_scores"] == 256 * (256 + 512 + 768) + 232 * 1000
    assert answers["no_mask_one"] < 1e-14 < 0.02 < answers["no_mask_two"]


@pytest.mark.parametrize("n_past", [1, 4, 8])
def test_single_tokens_show_a_forgotten_p_and_not_a_missing_mask(n_past: int) -> None:
    """What the box at the top of the page says of the usual tests."""
    assert _mistake(n_past, 1, mask=kvproof.top_left_mask) > 0.1
    assert _mistake(n_past, 1, mask=kvproof.open_mask) < 1e-13
    assert kvproof.compare_masks(0, n_past, "float64").top_left.max_abs_error < 1e-13


def test_multiplications_of_a_token_are_the_weights_of_a_layer(n: dict[str, Any]) -> None:
    block = kvproof.init_params(kvproof.REFERENCE).blocks[0]
    assert block.mlp is not None
    weights = (block.attention.w_qkv, block.attention.w_out, block.mlp.w_in, block.mlp.w_out)
    assert n["costs"]["linear"] == sum(array.size for array in weights)
    keys = np.zeros((n["costs"]["n_total"], kvproof.REFERENCE.width))
    assert n["costs"]["attention"] == keys.size + np.zeros_like(keys).size  # scores, then values


def test_the_ladder_has_a_gap(n: dict[str, Any]) -> None:
    right = max(rung.error for rung in error_ladder.right_rungs() if rung.group == "float64")
    least = min(rung.error for rung in error_ladder.broken_rungs())
    assert n["ladder"]["gap"] == least / right > 1e9
    assert 1 < n["ladder"]["floors"] < 20


def test_stored_rows_are_found_by_their_names() -> None:
    """The control: in another order they are the same."""
    results = load_results()
    before = _broken(kvproof.prove(kvproof.LAB), results)
    results["correctness"]["broken"].reverse()
    assert _broken(kvproof.prove(kvproof.LAB), results) == before


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_number_is_on_a_page(n: dict[str, Any], language: str) -> None:
    pages = "".join(page.read_text() for page in (SITE / "pages" / language).glob("*.md"))
    for section, values in n.items():
        for name in values:
            assert re.search(rf"\bn\.{section}\.{name}\b", pages), f"{section}.{name}"
