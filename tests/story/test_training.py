"""The training's own decoder computes what the NumPy one computes; its start looks back."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from kvproof import REFERENCE, DecoderConfig, forward, params_from_arrays
from kvproof.model import layers
from kvproof.story import STORY
from kvsite.story import load_story_results
from kvsite.train import RECIPE, Batch, StoryDecoder, batches, schedule

SHORT = replace(RECIPE, steps=4, batch_size=8, dropout_from=2, lengthening_steps=3)


@pytest.fixture(scope="module")
def decoder() -> StoryDecoder:
    torch.set_num_threads(1)
    torch.manual_seed(3)
    return StoryDecoder()


@pytest.fixture(scope="module")
def first_batches() -> list[Batch]:
    return list(batches(SHORT))


def test_the_story_is_told_by_the_reference_with_other_words_and_fewer_positions() -> None:
    same = replace(STORY, vocab_size=REFERENCE.vocab_size, max_positions=REFERENCE.max_positions)
    assert same == REFERENCE
    assert isinstance(STORY, DecoderConfig)


def test_pytorch_and_numpy_compute_the_same_logits(
    decoder: StoryDecoder, first_batches: list[Batch]
) -> None:
    batch = first_batches[0]
    tokens = batch.tokens[:, :-1]
    with torch.no_grad():
        logits = decoder(tokens, batch.visible).numpy()
    params = params_from_arrays(decoder.arrays(), STORY)
    expected = forward(params, tokens.numpy(), STORY)
    assert np.abs(logits - expected).max() < 1e-5 < np.abs(expected).max()


def test_each_head_of_the_first_layer_starts_by_looking_back_its_own_number_of_words(
    decoder: StoryDecoder, first_batches: list[Batch]
) -> None:
    params = params_from_arrays(decoder.arrays(), STORY)
    tokens, block = first_batches[-1].tokens[:, :-1].numpy(), params.blocks[0]
    x = layers.embed(params, tokens, np.arange(tokens.shape[1]))
    q, k, _ = layers.project_qkv(layers.layer_norm(x, block.norm1), block, STORY)
    seen = np.tril(np.ones((tokens.shape[1],) * 2, bool))
    scores = np.where(seen, q @ k.swapaxes(-1, -2), -np.inf)  # (B, H, T, T)
    back = np.arange(tokens.shape[1]) - scores.argmax(-1)  # (B, H, T)
    for head in range(STORY.n_heads):
        assert np.median(back[:, head, STORY.n_heads :]) == head + 1


def test_texts_grow_and_their_answers_weigh_more(first_batches: list[Batch]) -> None:
    lengths = [batch.weights.shape[1] for batch in first_batches]
    assert lengths == sorted(lengths)
    assert (lengths[0], lengths[-1]) == (RECIPE.first_length, RECIPE.last_length)
    for batch in first_batches:
        assert batch.tokens.shape == (SHORT.batch_size, batch.weights.shape[1] + 1)
        weights = batch.weights.unique().tolist()
        assert weights == pytest.approx([RECIPE.word_weight, RECIPE.answer_weight])


def test_key_dropout_hides_the_past_only_and_in_a_quarter_of_the_texts(
    first_batches: list[Batch],
) -> None:
    for step, batch in enumerate(first_batches):
        length = batch.visible.shape[-1]
        causal = torch.ones(length, length, dtype=torch.bool).tril()
        is_whole = (batch.visible == causal).all(dim=(1, 2, 3))
        n_dropped = 2 if step >= SHORT.dropout_from else 0
        assert is_whole.tolist() == [False] * n_dropped + [True] * (8 - n_dropped)
        assert not (batch.visible & ~causal).any()
        assert batch.visible[..., 0].all()
        assert (batch.weights[:n_dropped] == RECIPE.word_weight).all()


def test_the_learning_rate_warms_up_stays_and_falls() -> None:
    rates = [schedule(RECIPE, step) for step in range(RECIPE.steps)]
    top = rates.index(1.0)
    assert top == RECIPE.warm_up - 1
    assert rates[:top] == sorted(rates[:top])
    assert set(rates[top : RECIPE.steps // 2]) == {1.0}
    assert rates[RECIPE.steps // 2 :] == sorted(rates[RECIPE.steps // 2 :], reverse=True)
    assert rates[-1] == RECIPE.last_rate


def test_the_stored_results_are_of_this_recipe() -> None:
    assert load_story_results()["recipe"] == json.loads(json.dumps(asdict(RECIPE)))
