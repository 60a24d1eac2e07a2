"""Train the story's decoder with PyTorch; write its weights and what it can do.

The recipe, and what is decisive in it:

- The position embedding starts as sinusoids, and the four heads of the first layer as rotations
  that look one, two, three and four words back.  The rest is learned.
- Key dropout: in a quarter of the texts keys are hidden at random.  Without it the answers under
  the right mask are as good; under a wrong one the decoder loses its grammar along with its facts.
- A text begins anywhere in a story, so that any end of a story can be read.
"""

import hashlib
import json
import math
import platform
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor, nn
from torch.nn import functional

from kvproof import parameter_count, params_from_arrays, params_to_arrays
from kvproof.experiments.recall import (
    CONTRAST,
    LENGTHS,
    N_STORIES,
    N_WRITTEN,
    SEED,
    Case,
    all_cases,
    chance,
    fresh_prompts,
    recall,
    to_row,
)
from kvproof.model.params import FloatArray
from kvproof.story import tell_story
from kvproof.story.decoder import STORY, WEIGHTS, load_story_decoder
from kvproof.story.words import ASKED, TOKENS
from kvsite.stages import Stage, stage
from kvsite.story import RESULTS

WIDTH, N_HEADS, HEAD_DIM = STORY.width, STORY.n_heads, STORY.head_dim
N_WORDS = len(TOKENS)


@dataclass(frozen=True)
class Recipe:
    """All numbers of the training."""

    seed: int = 0
    steps: int = 2600
    batch_size: int = 64
    learning_rate: float = 3e-3
    """Reached after ``warm_up`` steps, kept for half of all, then lowered linearly."""
    warm_up: int = 100
    last_rate: float = 0.02
    """What is left of the learning rate in the end."""
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.05
    """Of the matrices, but for embeddings and the last one's rows."""
    largest_gradient: float = 1.0
    first_length: int = 24
    last_length: int = STORY.max_positions
    lengthening_steps: int = 600
    """Texts grow from ``first_length`` words to ``last_length`` meanwhile."""
    latest_start: int = 12
    """Half of the texts begin at a word from 0 to this one of a story."""
    answer_weight: float = 10.0
    word_weight: float = 0.2
    """Of all other words in the loss, and of all words of a text whose keys are dropped."""
    dropout_from: int = 300
    dropout_texts: float = 0.25
    """Share of the texts of a batch in which keys are hidden, from step ``dropout_from`` on."""
    dropout_full: float = 0.4
    """Share of their queries that see key 0 alone; of the others each sees a share of its own,
    drawn evenly between none and all."""


RECIPE = Recipe()


# ------------------------------------------------------------------ the decoder in PyTorch


class Block(nn.Module):
    """One pre-norm block, as ``kvproof.layers`` has it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp_in = nn.Linear(WIDTH, STORY.mlp_width)
        self.mlp_out = nn.Linear(STORY.mlp_width, WIDTH)

    def forward(self, x: Tensor, visible: Tensor) -> Tensor:
        """(B, T, W) -> the same; ``visible`` bool (B or 1, 1, T, T)."""
        batch_size, n_tokens, _ = x.shape
        heads = self.qkv(self.norm1(x)).view(batch_size, n_tokens, 3, N_HEADS, HEAD_DIM)
        q, k, v = heads.permute(2, 0, 3, 1, 4).unbind(0)
        y = functional.scaled_dot_product_attention(q, k, v, visible)
        x = x + self.out(y.transpose(1, 2).reshape(batch_size, n_tokens, WIDTH))
        hidden = functional.gelu(self.mlp_in(self.norm2(x)), approximate="tanh")
        after: Tensor = x + self.mlp_out(hidden)
        return after


class StoryDecoder(nn.Module):
    """The decoder of ``STORY`` with the start that the recipe asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(N_WORDS, WIDTH)
        self.positions = nn.Embedding(STORY.max_positions, WIDTH)
        self.first, self.second = Block(), Block()
        self.norm = nn.LayerNorm(WIDTH)
        self.unembedding = nn.Linear(WIDTH, N_WORDS, bias=False)
        with torch.no_grad():
            self._start()

    def forward(self, tokens: Tensor, visible: Tensor) -> Tensor:
        """Logits (B, T, V) of tokens (B, T)."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in (self.first, self.second):
            x = block(x, visible)
        logits: Tensor = self.unembedding(self.norm(x))
        return logits

    def _start(self, spread: float = 0.15, amplitude: float = 0.5, gain: float = 2.0) -> None:
        self.tokens.weight.normal_(std=spread)
        for word, asked in ASKED.items():
            of_word = self.tokens.weight[TOKENS[word]]
            self.tokens.weight[TOKENS[asked]] = of_word + 0.2 * spread * torch.randn(WIDTH)
        frequencies = 3 * (1 / 60) ** (torch.arange(WIDTH // 2) / (WIDTH // 2 - 1))
        angles = torch.arange(STORY.max_positions)[:, None] * frequencies
        self.positions.weight.copy_(amplitude * torch.cat([angles.sin(), angles.cos()], 1))
        weight = self.first.qkv.weight
        weight[: 2 * WIDTH] = 0
        for head in range(N_HEADS):
            # Key: (sin, cos) of the angle f t. Query: the same at t - back.
            back = head + 1
            for pair in range(HEAD_DIM // 2):
                sin = head + N_HEADS * pair  # this head's share of the frequencies
                cos = WIDTH // 2 + sin
                row = head * HEAD_DIM + 2 * pair
                turn = float(frequencies[sin]) * back
                c, s = gain * math.cos(turn), gain * math.sin(turn)
                weight[row, sin], weight[row, cos] = c, -s
                weight[row + 1, sin], weight[row + 1, cos] = s, c
                weight[WIDTH + row, sin] = weight[WIDTH + row + 1, cos] = gain

    def arrays(self) -> dict[str, FloatArray]:
        """The parameters by the names of ``kvproof.params_to_arrays``, float32."""
        found: dict[str, Tensor] = {
            "token_embedding": self.tokens.weight,
            "position_embedding": self.positions.weight,
            "final_norm.gain": self.norm.weight,
            "final_norm.bias": self.norm.bias,
            "unembedding": self.unembedding.weight.T,
        }
        for i, block in enumerate((self.first, self.second)):
            for name in ("norm1", "norm2"):
                norm = getattr(block, name)
                found |= {f"block{i}.{name}.gain": norm.weight, f"block{i}.{name}.bias": norm.bias}
            for name, linear in (
                *(("attention.{}_qkv", block.qkv), ("attention.{}_out", block.out)),
                *(("mlp.{}_in", block.mlp_in), ("mlp.{}_out", block.mlp_out)),
            ):
                found[f"block{i}.{name.format('w')}"] = linear.weight.T
                found[f"block{i}.{name.format('b')}"] = linear.bias
        return {
            name: np.ascontiguousarray(weight.detach().numpy()) for name, weight in found.items()
        }


# ------------------------------------------------------------------ what it reads


@dataclass(frozen=True, eq=False)
class Batch:
    """Texts (B, T + 1), the weight (B, T) of each next word, and what sees what (B, 1, T, T)."""

    tokens: Tensor
    weights: Tensor
    visible: Tensor


def batches(recipe: Recipe) -> Iterator[Batch]:
    """One for each step."""
    random = Random(recipe.seed)
    generator = torch.Generator().manual_seed(recipe.seed)
    for step in range(recipe.steps):
        grown = min(1.0, step / recipe.lengthening_steps)
        length = round(recipe.first_length + grown * (recipe.last_length - recipe.first_length))
        tokens, weights = texts(recipe, random, length)
        visible = torch.ones(length, length, dtype=torch.bool).tril()
        visible = visible.expand(len(tokens), 1, length, length).clone()
        if step >= recipe.dropout_from:
            n_dropped = round(recipe.dropout_texts * recipe.batch_size)
            visible[:n_dropped] &= kept_keys(recipe, n_dropped, length, generator)
            weights[:n_dropped] = recipe.word_weight
        yield Batch(tokens, weights, visible)


def texts(recipe: Recipe, random: Random, length: int) -> tuple[Tensor, Tensor]:
    """Fresh texts (B, T + 1) of stories, and the weights (B, T) of their next words."""
    tokens, weights = [], torch.full((recipe.batch_size, length), recipe.word_weight)
    for row in range(recipe.batch_size):
        start = random.choice([0, random.randint(0, recipe.latest_start)])
        story = tell_story(random, start + length + 1).after(start)
        tokens.append(story.tokens)
        for question in story.questions:
            weights[row, question.answer_at - 1] = recipe.answer_weight
    return torch.tensor(tokens), weights


def kept_keys(recipe: Recipe, n_texts: int, length: int, generator: torch.Generator) -> Tensor:
    """Key dropout: which keys each query keeps, bool (B, 1, T, T); key 0 always."""
    of_query = n_texts, 1, length, 1
    share = torch.rand(of_query, generator=generator)
    share = share * (torch.rand(of_query, generator=generator) >= recipe.dropout_full)
    kept = torch.rand(n_texts, 1, length, length, generator=generator) < share
    kept[..., 0] = True
    return kept


# ------------------------------------------------------------------ training


def train(recipe: Recipe, current: Stage) -> StoryDecoder:
    """A decoder trained by the recipe, on one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(recipe.seed)
    decoder = StoryDecoder()
    optimizer = torch.optim.AdamW(_groups(recipe, decoder), betas=recipe.betas)
    started, right = time.monotonic(), 0.0
    for step, batch in enumerate(batches(recipe)):
        for group in optimizer.param_groups:
            group["lr"] = recipe.learning_rate * schedule(recipe, step)
        optimizer.zero_grad()
        logits = decoder(batch.tokens[:, :-1], batch.visible)
        wanted = batch.tokens[:, 1:]
        losses = functional.cross_entropy(logits.transpose(1, 2), wanted, reduction="none")
        loss = (losses * batch.weights).sum() / batch.weights.sum()
        loss.backward()
        nn.utils.clip_grad_norm_(decoder.parameters(), recipe.largest_gradient)
        optimizer.step()
        answers = batch.weights == recipe.answer_weight
        share = float((logits.argmax(-1) == wanted)[answers].float().mean())
        right += (share - right) / min(step + 1, 50)
        left = (time.monotonic() - started) / (step + 1) * (recipe.steps - step - 1)
        current.show(
            f"step {step + 1} of {recipe.steps}, {100 * right:.1f} % of answers right, "
            f"{left:.0f} s left,"
        )
    return decoder


def schedule(recipe: Recipe, step: int) -> float:
    """What part of the learning rate a step takes."""
    warm = min(1.0, (step + 1) / recipe.warm_up)
    half = recipe.steps / 2
    return warm * (1.0 if step < half else max(recipe.last_rate, 2 - step / half))


def _groups(recipe: Recipe, decoder: StoryDecoder) -> list[dict[str, Any]]:
    """Matrices with weight decay; embeddings, norms and biases without."""
    embeddings = decoder.tokens.weight, decoder.positions.weight
    matrices: list[Tensor] = []
    others: list[Tensor] = []
    for weight in decoder.parameters():
        is_matrix = weight.ndim == 2 and all(weight is not table for table in embeddings)
        (matrices if is_matrix else others).append(weight)
    return [
        {"params": matrices, "weight_decay": recipe.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]


def write_weights(decoder: StoryDecoder, path: Path = WEIGHTS) -> None:
    """Store the weights as float16; the same weights give the same bytes."""
    params = params_from_arrays(decoder.arrays(), STORY)  # complete, and of the right shapes
    stored: dict[str, NDArray[np.float16]] = {
        name: array.astype(np.float16) for name, array in params_to_arrays(params).items()
    }
    np.savez_compressed(path, **stored)  # type: ignore[arg-type]


# ------------------------------------------------------------------ what it can do


def measure(cases: Sequence[Case], path: Path, current: Stage) -> list[dict[str, Any]]:
    """A row of the results for each precision and case of ``recall``, from stored weights."""
    prompts, rows = fresh_prompts(N_STORIES, SEED), []
    for number, (dtype, case) in enumerate(cases, start=1):
        current.show(f"case {number} of {len(cases)}")
        params, config = load_story_decoder(dtype, path)
        with threadpool_limits(1, user_api="blas"):  # more only wait for each other
            found = recall(params, config, prompts, **case)
        rows.append({"dtype": dtype, **to_row(case, found)})
    return rows


def write_results(found: dict[str, Any], contrast: dict[str, Any]) -> None:
    """Store what was measured, and how.

    Args:
        found: of the stored weights, from ``train_and_measure``.
        contrast: of a decoder that was trained without key dropout.
    """
    results = {
        "recipe": asdict(RECIPE),
        "environment": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
            "threads": torch.get_num_threads(),
        },
        "parameters": parameter_count(STORY),
        "weights_bytes": WEIGHTS.stat().st_size,
        "weights_sha256": hashlib.sha256(WEIGHTS.read_bytes()).hexdigest(),
        "prompts": {
            "stories": N_STORIES,
            "seed": SEED,
            "lengths": LENGTHS,
            "written": N_WRITTEN,
            "chance": chance(fresh_prompts(N_STORIES, SEED)),
        },
        **found,
        "without_key_dropout": contrast,
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")


def main() -> int:
    """Train and measure, then again without key dropout; write the weights and the results."""
    found = train_and_measure("training", RECIPE, WEIGHTS, all_cases())
    with tempfile.TemporaryDirectory() as folder:
        without = replace(RECIPE, dropout_texts=0.0)
        contrast = train_and_measure("contrast", without, Path(folder, "weights.npz"), CONTRAST)
    write_results(found, contrast)
    return 0


def train_and_measure(
    name: str, recipe: Recipe, path: Path, measured: Sequence[Case]
) -> dict[str, Any]:
    """Weights in ``path``, and the results' rows of them.

    Args:
        name: for the line of progress.
        recipe: of the training.
        path: the file of weights to write.
        measured: the cases of the rows.
    """
    with stage(name) as current:
        started = time.process_time()
        write_weights(train(recipe, current), path)
        seconds = time.process_time() - started
        current.note(f"{recipe.steps} steps, {path.stat().st_size / 1000:.0f} kB of weights")
    with stage("measuring") as current:
        rows = measure(measured, path, current)
        current.note(f"{len(rows)} cases over {N_STORIES} fresh stories each")
    return {"cpu_seconds": round(seconds), "rows": rows}
