"""The stored weights: small, the same numbers in both precisions, and refused when damaged."""

import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from random import Random

import numpy as np
import pytest

import kvproof
from kvproof import forward, params_to_arrays
from kvproof.story import STORY, encode, load_story_decoder, render, tell_story
from kvproof.story.decoder import WEIGHTS


def test_the_weights_are_small_and_need_nothing_but_numpy() -> None:
    assert WEIGHTS.stat().st_size <= 300_000
    with np.load(WEIGHTS, allow_pickle=False) as stored:
        assert {stored[name].dtype for name in stored.files} == {np.dtype(np.float16)}
        assert sum(stored[name].size for name in stored.files) == kvproof.parameter_count(STORY)


def test_both_precisions_hold_the_same_numbers() -> None:
    single, double = (
        params_to_arrays(load_story_decoder(dtype)[0]) for dtype in ("float32", "float64")
    )
    for name, array in single.items():
        assert array.dtype == np.float32
        assert double[name].dtype == np.float64
        assert np.array_equal(array, double[name])


@pytest.mark.parametrize("precision", ["float64", "float32", "float16", "bfloat16"])
def test_it_answers_a_question_in_all_languages_and_precisions(precision: str) -> None:
    params, config = load_story_decoder(precision)
    text = "The key is in the box. Leo is in the jar. The key fell in the cave. Where's my key?"
    tokens = encode(text)
    for _ in range(3):
        tokens.append(int(forward(params, [tokens], config)[0, -1].argmax()))
    assert render(tokens).endswith("Where's my key? In the cave.")
    assert render(tokens, "zh-hans").endswith("咦，我的钥匙呢？在那个山洞里。")
    assert render(tokens, "zh-hant").endswith("咦，我的鑰匙呢？在那個山洞裡。")


def test_a_text_beyond_the_trained_positions_is_refused() -> None:
    params, config = load_story_decoder()
    story = tell_story(Random(1), config.max_positions + 1)
    assert forward(params, [story.tokens[:-1]], config).shape[1] == config.max_positions
    with pytest.raises(ValueError, match="80"):
        forward(params, [story.tokens], config)


def changed(path: Path, change: Callable[[dict[str, np.ndarray]], object]) -> None:
    with np.load(WEIGHTS) as stored:
        arrays = dict(stored)
    change(arrays)
    np.savez(path, **arrays)


def one_array() -> bytes:
    file = BytesIO()
    np.save(file, np.zeros(3))
    return file.getvalue()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "is missing": lambda path: path.unlink(missing_ok=True),
    "is empty": lambda path: path.write_bytes(b""),
    "is something else": lambda path: path.write_text("weights"),
    "is cut off": lambda path: path.write_bytes(WEIGHTS.read_bytes()[:100_000]),
    "is one array": lambda path: path.write_bytes(one_array()),
    "is another archive": lambda path: zipfile.ZipFile(path, "w").writestr("a.txt", "weights"),
    "lacks one": lambda path: changed(path, lambda arrays: arrays.pop("unembedding")),
    "has one more": lambda path: changed(path, lambda arrays: arrays.update(more=np.zeros(3))),
    "has another shape": lambda path: changed(
        path, lambda arrays: arrays.update(unembedding=arrays["unembedding"].T)
    ),
    "has pickles": lambda path: np.savez(path, token_embedding=np.array([{}], dtype=object)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_weights_that_cannot_be_read_are_refused_with_what_to_do(
    damage: str, tmp_path: Path
) -> None:
    path = tmp_path / "weights.npz"
    DAMAGE[damage](path)
    with pytest.raises(ValueError, match=r"weights.npz: .*\. Install kvproof anew, or let"):
        load_story_decoder(path=path)


def test_another_precision_is_refused() -> None:
    with pytest.raises(ValueError, match="must be one of float64, float32, .* got 'int8'"):
        load_story_decoder("int8")
