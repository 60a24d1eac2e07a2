"""Decoders that share nothing with the package or the zoo: a PyTorch class with buffers, functions.

Each is right, or has one of the mistakes of its list: name -> the kind that it is.
"""

import copy
import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from kvproof.adapters import functions

VOCAB, LONGEST, N_LAYERS, N_HEADS, HEAD_DIM = 19, 40, 2, 2, 8
WIDTH = N_HEADS * HEAD_DIM

# ------------------------------------------------------------------ PyTorch, in place, RoPE


@dataclass
class Buffers:
    """Memory for all tokens from the start; ``step`` writes into it and hands it back."""

    keys: torch.Tensor  # (layer, B, H, LONGEST, D)
    values: torch.Tensor
    length: int = 0


def rotated(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Neighbouring numbers are a pair, as in the paper; x (B, H, T, D)."""
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    speeds = 10_000.0 ** (-torch.arange(HEAD_DIM // 2) / (HEAD_DIM // 2))
    turns = torch.polar(torch.ones(len(places), HEAD_DIM // 2), places[:, None] * speeds)
    return torch.view_as_real(pairs * turns).flatten(-2)


TORCH_MISTAKES = {
    "positions restart": "POS-RESET",
    "positions one ahead": "POS-DRIFT",
    "mask top left": "MASK-TOPLEFT",
    "no mask with a cache": "MASK-SKIPPED",
    "one slot early": "SLOT-WRITE",
    "all slots visible": "SLOT-STALE",
    "reorder forgotten": "ROW-PERM",
    "crop leaves one": "ROLLBACK",
    "fork shares": "ALIAS",
}


class TorchDecoder(nn.Module):
    """Post-norm, ReLU, tied embedding; knows its cache only as buffers and a number."""

    vocab_size, max_length = VOCAB, LONGEST

    def __init__(self, mistake: str = "", seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.mistake = mistake
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        self.qkv = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(N_LAYERS))
        self.up = nn.ModuleList(nn.Linear(WIDTH, 2 * WIDTH) for _ in range(N_LAYERS))
        self.down = nn.ModuleList(nn.Linear(2 * WIDTH, WIDTH) for _ in range(N_LAYERS))
        self.norm = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2 * N_LAYERS))
        for parameter in self.qkv.parameters():
            parameter.data *= 3

    @torch.inference_mode()
    def full(self, tokens: Any) -> torch.Tensor:
        chunk = torch.as_tensor(tokens)
        mask = torch.ones(chunk.shape[1], chunk.shape[1], dtype=torch.bool).tril()
        return self._layers(chunk, torch.arange(chunk.shape[1]), mask, None)

    @torch.inference_mode()
    def step(self, tokens: Any, cache: Buffers | None) -> tuple[torch.Tensor, Buffers]:
        chunk = torch.as_tensor(tokens)
        n_rows, n_new = chunk.shape
        if cache is None:
            shape = (N_LAYERS, n_rows, N_HEADS, LONGEST, HEAD_DIM)
            cache = Buffers(torch.zeros(shape), torch.zeros(shape))
        start = cache.length
        places = torch.arange(start, start + n_new)
        if self.mistake == "positions restart":
            places = torch.arange(n_new)
        if self.mistake == "positions one ahead" and start:
            places = places + 1
        logits = self._layers(chunk, places, self._mask(start, n_new), cache)
        cache.length += n_new
        return logits, cache

    def _mask(self, start: int, n_new: int) -> torch.Tensor:
        everywhere = torch.ones(n_new, start + n_new, dtype=torch.bool)
        if self.mistake == "mask top left":
            return everywhere.tril()
        if self.mistake == "no mask with a cache" and start:
            return everywhere
        if self.mistake == "all slots visible":
            return torch.ones(n_new, LONGEST, dtype=torch.bool).index_fill(
                1, torch.arange(start, start + n_new), False
            ) | torch.ones(n_new, LONGEST, dtype=torch.bool).tril(start)
        return everywhere.tril(start)

    def _layers(
        self, chunk: torch.Tensor, places: torch.Tensor, mask: torch.Tensor, cache: Buffers | None
    ) -> torch.Tensor:
        x = self.embedding(chunk)
        for i in range(N_LAYERS):
            heads = self.qkv[i](x).unflatten(-1, (3, N_HEADS, HEAD_DIM))
            q, k, v = heads.permute(2, 0, 3, 1, 4)  # (B, H, C, D) each
            q, k = rotated(q, places), rotated(k, places)
            if cache is not None:
                k, v = self._stored(i, k, v, cache)
            scores = (q @ k.transpose(-1, -2) / math.sqrt(HEAD_DIM)).masked_fill(~mask, -math.inf)
            mixed = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
            x = self.norm[2 * i](x + mixed)
            x = self.norm[2 * i + 1](x + self.down[i](self.up[i](x).relu()))
        logits: torch.Tensor = x @ self.embedding.weight.T
        return logits

    def _stored(
        self, layer: int, k: torch.Tensor, v: torch.Tensor, cache: Buffers
    ) -> tuple[torch.Tensor, torch.Tensor]:
        start, end = cache.length, cache.length + k.shape[2]
        first = max(start - 1, 0) if self.mistake == "one slot early" else start
        for buffer, new in ((cache.keys, k), (cache.values, v)):
            buffer[layer, :, :, first : first + k.shape[2]] = new
        read = LONGEST if self.mistake == "all slots visible" else end
        return cache.keys[layer, :, :, :read], cache.values[layer, :, :, :read]

    def length(self, cache: Buffers) -> int:
        return cache.length

    def crop(self, cache: Buffers, length: int) -> Buffers:
        if not 0 <= length <= cache.length:
            raise ValueError(f"{length} of {cache.length} tokens")
        one_left = self.mistake == "crop leaves one" and length < cache.length
        cache.length = length + one_left
        return cache

    def reorder(self, cache: Buffers, rows: Any) -> Buffers:
        index = torch.as_tensor(rows)
        if self.mistake == "reorder forgotten":
            return cache
        return Buffers(cache.keys[:, index], cache.values[:, index], cache.length)

    def fork(self, cache: Buffers) -> Buffers:
        return copy.copy(cache) if self.mistake == "fork shares" else copy.deepcopy(cache)


# ------------------------------------------------------------------ functions, (B, T, H, D)

Array = NDArray[np.float64]
Cache = tuple[tuple[Array, Array], ...]
FUNCTION_MISTAKES = {
    "positions restart": "POS-RESET",
    "mask top left": "MASK-TOPLEFT",
    "no mask with a cache": "MASK-SKIPPED",
    "first slot again": "SLOT-WRITE",
    "without itself": "SELF-READ",
    "strides": "KV-LAYOUT",
    "first layer's": "LAYER-MIX",
    "reorder forgotten": "ROW-PERM",
    "crop leaves one": "ROLLBACK",
    "last token again": "DUP-APPEND",
    "one logit back": "LOGIT-SHIFT",
}
WINDOW_MISTAKES = {"window one short": "WINDOW-OBO", "window ignored": "WINDOW-PHASE"}
WINDOW = 5


def weights(seed: int) -> dict[str, Array]:
    """Learned positions, no biases, no norms before attention: as plain as can be."""
    rng = np.random.default_rng(seed)
    shapes = {"tokens": (VOCAB, WIDTH), "places": (LONGEST, WIDTH), "out": (WIDTH, VOCAB)}
    for layer in range(N_LAYERS):
        shapes |= {f"{name}{layer}": (WIDTH, WIDTH) for name in ("q", "k", "v", "o", "m")}
    return {name: rng.normal(size=shape) / math.sqrt(shape[0]) for name, shape in shapes.items()}


def attention(
    w: dict[str, Array],
    layer: int,
    x: Array,
    past: tuple[Array, Array] | None,
    mistake: str,
    window: int | None,
) -> tuple[Array, tuple[Array, Array]]:
    """``x`` (B, C, W); past keys and values (B, P, H, D), or None in ``full``."""
    q, k, v = ((x @ w[f"{name}{layer}"]).reshape(*x.shape[:2], N_HEADS, HEAD_DIM) for name in "qkv")
    n_new, n_past = x.shape[1], 0 if past is None else past[0].shape[1]
    if past is not None:
        k, v = (np.concatenate([old, new], axis=1) for old, new in zip(past, (k, v), strict=True))
        if mistake == "first slot again" and n_past:
            for array in (k, v):
                array[:, 0] = array[:, n_past]
        if mistake == "strides" and n_past and x.shape[1] == 1:
            v = v.reshape(len(v), N_HEADS, -1, HEAD_DIM).swapaxes(1, 2)
    distance = n_past + np.arange(n_new)[:, None] - np.arange(n_past + n_new)  # (C, T)
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(HEAD_DIM)
    visible = seen(distance, n_past if past is not None else -1, mistake, window)
    scores = np.where(visible, scores, -np.inf)
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed = np.einsum("bhqk,bkhd->bqhd", scores / scores.sum(axis=-1, keepdims=True), v)
    return mixed.reshape(x.shape) @ w[f"o{layer}"], (k, v)


def seen(distance: NDArray[Any], n_past: int, mistake: str, window: int | None) -> NDArray[Any]:
    """Which keys; ``n_past`` is -1 in ``full``, 0 in the first chunk."""
    if mistake == "mask top left" and n_past > 0:
        distance = distance - n_past
    if mistake == "no mask with a cache" and n_past > 0:
        distance = np.maximum(distance, 0)
    if mistake == "window ignored" and n_past > 0:
        window = None
    if window is not None and mistake == "window one short" and n_past >= 0:
        window -= 1
    least = 1 if mistake == "without itself" and n_past > 0 else 0
    visible: NDArray[Any] = distance >= least
    return visible if window is None else visible & (distance < window)


def function_decoder(mistake: str = "", seed: int = 0, window: int | None = None) -> Any:
    """Functions without a class; a cache is a tuple and never written to."""
    w = weights(seed)

    def through(tokens: NDArray[Any], start: int, cache: Cache | None) -> tuple[Array, Cache]:
        x = w["tokens"][tokens] + w["places"][start : start + tokens.shape[1]]
        longer: list[tuple[Array, Array]] = []
        for layer in range(N_LAYERS):
            past = None if cache is None else cache[layer]
            if mistake == "first layer's" and cache is not None:
                past = cache[0]
            mixed, pair = attention(w, layer, x, past, mistake, window)
            x = x + mixed
            x = x / np.sqrt((x**2).mean(axis=-1, keepdims=True))
            x = x + np.tanh(x @ w[f"m{layer}"])
            longer.append(pair)
        return 3 * x @ w["out"], tuple(longer)

    def full(tokens: NDArray[Any]) -> Array:
        return through(tokens, 0, None)[0]

    def step(tokens: NDArray[Any], cache: Cache | None) -> tuple[Array, Cache]:
        if cache is None:
            nothing = np.zeros((len(tokens), 0, N_HEADS, HEAD_DIM))
            cache = ((nothing, nothing),) * N_LAYERS
        n_past = cache[0][0].shape[1]
        start = 0 if mistake == "positions restart" else n_past
        logits, longer = through(tokens, start, cache)
        if mistake == "one logit back":
            logits = np.concatenate([logits[:, :1], logits[:, :-1]], axis=1)
        if mistake == "last token again" and tokens.shape[1] > 1:
            longer = through(tokens[:, -1:], n_past + tokens.shape[1], longer)[1]
        return logits, longer

    def crop(cache: Cache, length: int) -> Cache:
        if not 0 <= length <= cache[0][0].shape[1]:
            raise ValueError(length)
        end = length + (mistake == "crop leaves one")
        return tuple((k[:, :end], v[:, :end]) for k, v in cache)

    def reorder(cache: Cache, rows: Any) -> Cache:
        if mistake == "reorder forgotten":
            return cache
        return tuple((k[rows], v[rows]) for k, v in cache)

    def keys_values(cache: Cache) -> list[tuple[Array, Array]]:
        return [(k.swapaxes(1, 2), v.swapaxes(1, 2)) for k, v in cache]

    optional: dict[str, Any] = {"keys_values": keys_values, "crop": crop, "reorder": reorder}
    if window is not None:
        optional |= {"window": window}
    decoder: SimpleNamespace = functions(
        full, step, vocab_size=VOCAB, max_length=LONGEST, keeps_old=True, **optional
    )
    return decoder
