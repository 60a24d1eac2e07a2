"""The starting cells, run exactly as the page shows them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kvlab.cells import Cell, load_cells
from kvproof import offset_mask, top_left_mask

if TYPE_CHECKING:
    from tests.cells.conftest import Notebook

FOLDER = Path(__file__).resolve().parents[2] / "site" / "cells"
CELLS = load_cells(FOLDER)
SIX_TOKENS, MASKS, TOKEN_BY_TOKEN, EXERCISE, REDRAW, _ = (cell.source for cell in CELLS)
RIGHT_ANSWERS = {
    "positions": "[10, 11, 12]",
    "score_shape": "[3, 13]",
    "keys_read": "[11, 12, 13]",
    "top_left_keys": "[1, 2, 3]",
}


def replaced(source: str, old: str, new: str) -> str:
    """``source`` after an edit that must hit exactly one place."""
    assert source.count(old) == 1
    return source.replace(old, new)


def number_after(words: str, text: str) -> float:
    found = re.search(re.escape(words) + r" ([-+.e\d]+)", text)
    assert found, f"{words!r} isn't in the output:\n{text}"
    return float(found[1])


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_a_cell_runs_alone(notebook: Notebook, cell: Cell) -> None:
    assert notebook.run(cell.source).error is None
    assert notebook.text("stdout") or cell.name in ("05_redraw", "06_check_yours")


def test_cells_run_in_order_and_again_from_the_top(notebook: Notebook) -> None:
    first, second = (
        [notebook.printed(cell.source, n) for n, cell in enumerate(CELLS, 1)] for _ in range(2)
    )
    assert first == second


def test_six_tokens_prints_the_shapes_of_the_worked_example(notebook: Notebook) -> None:
    printed = notebook.printed(SIX_TOKENS)
    assert printed.splitlines()[:6] == [
        "Q       (1, 4, 2, 16)",
        "K and V (1, 4, 6, 16) (1, 4, 6, 16)",
        "scores  (1, 4, 2, 6)",
        "logits  (1, 2, 97)",
        "query 4 reads keys 0 1 2 3 4",
        "query 5 reads keys 0 1 2 3 4 5",
    ]
    assert "come after reading ID 9 at position 4" in printed


def test_six_tokens_agrees_with_the_recompute_of_the_same_position_only(
    notebook: Notebook,
) -> None:
    printed = notebook.printed(SIX_TOKENS)
    assert number_after("off the full recompute by", printed) <= 2e-6
    assert number_after("compared one row too early:", printed) > 0.1


def test_six_tokens_scores_are_those_that_the_decoder_used(notebook: Notebook) -> None:
    """The cell projects Q by itself: with its scores, attention must give the decoder's output."""
    notebook.printed(SIX_TOKENS)
    source = (
        "from kvproof import scaled_dot_product_attention as attend\n"
        "from kvproof.model import layers\n"
        "n = layers.embed(params, tokens, np.arange(6))\n"
        "Q, K, V = layers.project_qkv(layers.layer_norm(n, block.norm1), block, config)\n"
        "bool(np.allclose(q, Q[:, :, 4:]) and np.allclose(k, K) and np.allclose(v, V))"
    )
    assert notebook.run(source).value == "True"


@pytest.mark.parametrize(("n_past", "n_new"), [(4, 2), (0, 3), (5, 3), (7, 1), (1, 16), (32, 16)])
def test_mask_cell_draws_both_masks(notebook: Notebook, n_past: int, n_new: int) -> None:
    source = replaced(MASKS, "P, C = 4, 2", f"P, C = {n_past}, {n_new}")
    printed = notebook.printed(source)
    rows = re.findall(r"^  query (\d+) +([1.x ]+)$", printed, re.MULTILINE)
    assert [int(position) for position, _ in rows] == [*range(n_past, n_past + n_new)] * 2
    drawn = np.array([marks.split() for _, marks in rows]).reshape(2, n_new, n_past + n_new)
    right, wrong = offset_mask(n_past, n_new), top_left_mask(n_past, n_new)
    assert np.array_equal(drawn[0] == "1", right)
    assert np.array_equal(drawn[1] == "1", wrong)
    assert np.array_equal(drawn[1] == "x", right & ~wrong)
    n_open, n_hidden = n_past * n_new + n_new * (n_new + 1) // 2, n_past * n_new
    assert f"offset opens {n_open} cells: P*C + C(C+1)/2 = {n_open}\n" in printed
    assert f"top-left hides {n_hidden} of them: P*C = {n_hidden}\n" in printed
    assert "top-left opens 0 others" in printed
    assert not (drawn[0] == "x").any()


def test_token_by_token_equals_the_full_pass(notebook: Notebook) -> None:
    printed = notebook.printed(TOKEN_BY_TOKEN)
    assert [f"token {t}: K and V ({t + 1}, 16)" in printed for t in range(8)] == [True] * 8
    floor = number_after("rounding floor", printed)
    assert 1e-17 < floor < 1e-14
    assert number_after("largest error", printed) <= 8 * floor
    assert "rows projected: 8 with reuse, 36 without" in printed


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("values = np.vstack([values, new @ w_v])", "values = np.vstack([new @ w_v, values])"),
        ("np.tri(T, dtype=bool)", "True"),
    ],
    ids=["values in the wrong order", "full pass without a mask"],
)
def test_token_by_token_shows_a_broken_cache(notebook: Notebook, old: str, new: str) -> None:
    printed = notebook.printed(replaced(TOKEN_BY_TOKEN, old, new))
    assert number_after("largest error", printed) > 0.1


def answered(answers: dict[str, str]) -> str:
    source = EXERCISE
    for name, value in answers.items():
        source = replaced(source, f"{name} = ...", f"{name} = {value}")
    return source


def verdicts(printed: str) -> dict[str, str]:
    lines = [line.split(maxsplit=1) for line in printed.splitlines()]
    return {name: verdict.partition(":")[0] for name, verdict in lines}


def test_exercise_waits_for_answers(notebook: Notebook) -> None:
    printed = notebook.printed(EXERCISE)
    assert verdicts(printed) == dict.fromkeys(RIGHT_ANSWERS, "no answer yet")
    assert not re.search(r"\b1[0-3]\b", printed), "gives an answer away"


@pytest.mark.parametrize("name", RIGHT_ANSWERS)
@pytest.mark.parametrize("value", ["[0, 1, 2]", "[3, 3]", "[13, 3]", "13", "'ten'", "[[1], 2]"])
def test_exercise_says_which_answer_is_wrong(notebook: Notebook, name: str, value: str) -> None:
    printed = notebook.printed(answered(RIGHT_ANSWERS | {name: value}))
    assert verdicts(printed) == dict.fromkeys(RIGHT_ANSWERS, "right") | {name: "wrong"}


@pytest.mark.parametrize(
    "value", ["(10, 11, 12)", "range(10, 13)", "__import__('numpy').r_[10:13]"]
)
def test_exercise_accepts_any_sequence(notebook: Notebook, value: str) -> None:
    printed = notebook.printed(answered({"positions": value}))
    assert verdicts(printed)["positions"] == "right"


def test_exercise_reveals_the_answers_on_demand(notebook: Notebook) -> None:
    printed = notebook.printed(replaced(EXERCISE, "# exercise.answer()", "exercise.answer()"))
    for name, value in RIGHT_ANSWERS.items():
        assert re.search(rf"^{name} +{re.escape(value)}: ", printed, re.MULTILINE)


def test_exercise_names_its_questions(notebook: Notebook) -> None:
    error = notebook.error("from kvlab.exercise import check\ncheck(position=[10, 11, 12])")
    assert error.endswith(
        "ValueError: no question 'position'; the questions are "
        "positions, score_shape, keys_read, top_left_keys"
    )


@pytest.mark.parametrize(
    "text", ["", "x = 1\n", '"""Title only"""\nx = 1\n', '"""Title\n\nIntro."""\n']
)
def test_a_cell_file_without_title_intro_or_code_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "01_bad.py").write_text(text)
    with pytest.raises(ValueError, match=r"01_bad\.py: a cell starts with a docstring"):
        load_cells(tmp_path)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no cells"):
        load_cells(tmp_path)


def test_a_cell_file_is_read_verbatim(tmp_path: Path) -> None:
    text = '"""A title\n\nAn intro\non two lines.\n"""\n\nx = 1  # kept\n\n\ny = "é"\n'
    (tmp_path / "01_it.py").write_text(text, encoding="utf-8")
    expected = Cell("01_it", "A title", "An intro on two lines.", 'x = 1  # kept\n\n\ny = "é"\n')
    assert load_cells(tmp_path) == [expected]


def test_a_mask_is_checked_and_drawn(notebook: Notebook) -> None:
    """A window hides tokens, but cached calls agree with one pass under the same mask."""
    result = notebook.run(REDRAW)
    assert result.candidate == "mask"
    assert result.value is not None
    assert result.value.startswith("Masked: right")
    answer = json.loads(
        notebook.runner.answer_candidate("mask", '{"n_past": 4, "n_new": 2, "dtype": 1}')
    )
    assert answer["mask"] == [[0, 0, 1, 1, 1, 0], [0, 0, 0, 1, 1, 1]]
    wrong = replaced(REDRAW, "query = n_past + np", "query = np")
    result = notebook.run(wrong)
    assert result.value is not None
    assert result.value.startswith("Masked: wrong")
