"""Decoders written by hand for the tests of the checker: right, odd and broken ones."""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvproof import DecoderConfig, decode, forward, init_params, new_cache, offset_mask

CONFIG = DecoderConfig(
    width=16, n_heads=2, vocab_size=11, mlp_width=16, max_positions=32, positions="rope"
)


class Plain:
    """A right decoder with the two methods that the contract asks for, and nothing else."""

    vocab_size = 11
    max_length = 32
    mask: Any = staticmethod(offset_mask)
    """Of ``step``; not a member that the contract knows."""

    def __init__(self) -> None:
        self.params = init_params(CONFIG, 0, "float64")

    def full(self, tokens: Any) -> Any:
        return forward(self.params, tokens, CONFIG)

    def step(self, tokens: Any, cache: Any) -> Any:
        if cache is None:
            cache = new_cache(CONFIG, len(tokens), self.params.dtype)
        return decode(self.params, tokens, cache, CONFIG, self.mask)


class Raises(Plain):
    def step(self, tokens: Any, cache: Any) -> Any:
        if tokens.shape[1] == 3:
            raise IndexError("index 7 is out of bounds\nfor axis 1")
        return super().step(tokens, cache)


class GivesNan(Plain):
    def step(self, tokens: Any, cache: Any) -> Any:
        logits, cache = super().step(tokens, cache)
        return logits * np.nan, cache


class FullGivesNan(Plain):
    def full(self, tokens: Any) -> Any:
        return super().full(tokens) * np.nan


class WrongShape(Plain):
    def step(self, tokens: Any, cache: Any) -> Any:
        logits, cache = super().step(tokens, cache)
        return logits[:, -1], cache


class WrongType(Plain):
    def step(self, tokens: Any, cache: Any) -> Any:
        return super().step(tokens, cache)[0]


class GivesText(Plain):
    def full(self, tokens: Any) -> Any:
        return "logits"


class IsRandom(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.default_rng(0)

    def full(self, tokens: Any) -> Any:
        logits = super().full(tokens)
        return logits + self.rng.normal(size=logits.shape)


class WritesTokens(Plain):
    def step(self, tokens: Any, cache: Any) -> Any:
        answer = super().step(tokens, cache)
        tokens[:, 0] = 0
        return answer


class Hangs(Plain):
    def step(self, tokens: Any, cache: Any) -> Any:
        time.sleep(600)


class HangsAndCatches(Plain):
    """The alarm must get past a decoder that catches every Exception."""

    def step(self, tokens: Any, cache: Any) -> Any:
        try:
            time.sleep(600)
        except Exception:
            return super().step(tokens, cache)


class IgnoresCache(Plain):
    def step(self, tokens: Any, cache: Any) -> Any:
        return super().full(tokens), "nothing"


class SeesTheFuture(Plain):
    """A wrong ``full``."""

    def full(self, tokens: Any) -> Any:
        logits = super().full(tokens)
        return logits + logits[:, -1:]


class DependsOnLength(Plain):
    """A ``full`` that isn't prefix-stable from 20 tokens on, as a switched rotation isn't."""

    def full(self, tokens: Any) -> Any:
        logits = super().full(tokens)
        return logits * (2.0 if tokens.shape[1] >= 20 else 1.0)


class MixesRows(Plain):
    def full(self, tokens: Any) -> Any:
        logits = super().full(tokens)
        return logits + logits.mean(axis=0)


class NotImplementedCrop(Plain):
    def crop(self, cache: Any, length: int) -> Any:
        raise NotImplementedError


class CropsAtMost(Plain):
    """A crop beyond the end changes nothing, as transformers has it."""

    def crop(self, cache: Any, length: int) -> Any:
        return cache.crop(min(length, cache.length))


class CropsBeyond(Plain):
    """It believes that there are tokens that were never fed."""

    def step(self, tokens: Any, cache: Any) -> Any:
        kept, counted = (None, 0) if cache is None else cache
        logits, kept = super().step(tokens, kept)
        return logits, (kept, counted + tokens.shape[1])

    def crop(self, cache: Any, length: int) -> Any:
        return cache[0].crop(min(length, cache[0].length)), length

    def length(self, cache: Any) -> int:
        return int(cache[1])


class NeverEmpties(CropsAtMost):
    def crop(self, cache: Any, length: int) -> Any:
        if length == 0:
            raise ValueError("length must be positive")
        return super().crop(cache, length)


class Miscounts(Plain):
    def length(self, cache: Any) -> int:
        return int(cache.length) + 1


class InFloat32(Plain):
    def __init__(self) -> None:
        self.params = init_params(CONFIG, 0, "float32")


class Faint(InFloat32):
    """float32 weights so small that positions hardly act beyond the noise."""

    def full(self, tokens: Any) -> Any:
        return np.float32(1.0) + super().full(tokens) * np.float32(1e-3)

    def step(self, tokens: Any, cache: Any) -> Any:
        logits, cache = super().step(tokens, cache)
        return np.float32(1.0) + logits * np.float32(1e-3), cache


class ForgetsAfterReorder(Plain):
    """Rows stay where they are."""

    def reorder(self, cache: Any, rows: NDArray[np.int64]) -> Any:
        return cache


class LosesTheThirdToken(Plain):
    """Wrong in one spot only, far from any start: what shrinking has to find."""

    def step(self, tokens: Any, cache: Any) -> Any:
        logits, longer = super().step(tokens, cache)
        start = 0 if cache is None else cache.length
        if start <= 8 < start + tokens.shape[1] and tokens.shape[1] == 2:
            logits = logits.copy()
            logits[:, 8 - start] += 0.5
        return logits, longer
