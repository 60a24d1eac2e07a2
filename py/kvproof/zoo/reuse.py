"""Prompts that were read before: found under a key that says too little, or entered twice."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kvproof.kinds import Kind
from kvproof.model.params import FloatArray
from kvproof.zoo.right import BLOCK_SIZE, RightDecoder
from kvproof.zoo.slots import FRESH
from kvproof.zoo.specimen import broken


class PrefixStore(RightDecoder):
    """Keeps the cache of each first chunk; the same chunk again only computes its last token.

    As it stands it is right: the key is all that the cache depends on, and the last token is
    removed before it is fed again.
    """

    def reset(self) -> None:
        """Forget all prompts."""
        self._store: dict[object, tuple[FloatArray, Any]] = {}

    def key(self, tokens: NDArray[Any], lengths: NDArray[Any]) -> object:
        """What two requests must have in common to share a cache."""
        return tokens.shape, tokens.tobytes(), lengths.tobytes()

    def step(
        self, tokens: ArrayLike, cache: Any = None, lengths: ArrayLike | None = None
    ) -> tuple[FloatArray, Any]:
        """As ``RightDecoder.step``."""
        if cache is not None:
            return super().step(tokens, cache, lengths)
        chunk = np.asarray(tokens, np.int64)
        real = np.full(len(chunk), chunk.shape[1]) if lengths is None else np.asarray(lengths)
        key = self.key(chunk, real)
        if chunk.shape[1] > 1 and key in self._store:
            logits, past = self._store[key]
            last, cache = super().step(chunk[:, -1:], self.without_last(past))
            return np.concatenate([logits[:, :-1], last], axis=1), cache
        logits, cache = super().step(chunk, None, lengths)
        self._store[key] = logits, cache
        return logits, cache

    def without_last(self, cache: Any) -> Any:
        """The stored cache as the last token wants it."""
        return cache.crop(cache.length - 1)


@broken(
    "dup-append-exact-hit",
    Kind.DUP_APPEND,
    "raullenchai/Rapid-MLX#994, utensils/mold#1690",
    "the same prompt twice on one object",
    "same prompt again",
    FRESH,
)
class DupAppendExactHit(PrefixStore):
    """On an exact hit the last token of the prompt is fed again to get its logits, but the cache
    already holds it: it is there twice, and all that follows is one position too far.
    """

    def without_last(self, cache: Any) -> Any:
        return cache


@broken(
    "reuse-key-first-token",
    Kind.REUSE_KEY,
    "vllm-project/vllm#3264",
    "two prompts on one object that differ in the first token only",
    "another first token",
    FRESH,
)
class ReuseKeyFirstToken(PrefixStore):
    """The key is the text of the prompt without the token in front, which picks the adapter or the
    task: the second one gets what the first one computed.
    """

    def key(self, tokens: NDArray[Any], lengths: NDArray[Any]) -> object:
        return tokens.shape, tokens[:, 1:].tobytes(), lengths.tobytes()


@broken(
    "reuse-key-last-block",
    Kind.REUSE_KEY,
    "vllm-project/aibrix#2329, openvinotoolkit/openvino.genai#3722",
    "blocks of 4, two prompts of 8 tokens on one object with the same last block",
    "another beginning",
    FRESH,
)
class ReuseKeyLastBlock(PrefixStore):
    """Prompts are equal if they have as many blocks and the same last one: the hash of a block
    should have included those before it.
    """

    def key(self, tokens: NDArray[Any], lengths: NDArray[Any]) -> object:
        return tokens.shape, tokens[:, -BLOCK_SIZE:].tobytes(), lengths.tobytes()


@broken(
    "reuse-key-lengths",
    Kind.REUSE_KEY,
    "vllm-project/vllm#3264, InternLM/lmdeploy#4917",
    "the same batch of IDs on one object, without padding and with it",
    "other padding",
    FRESH,
)
class ReuseKeyLengths(PrefixStore):
    """The key is the array of IDs; that some of them are padding this time, which the cache depends
    on as well, isn't part of it.
    """

    def key(self, tokens: NDArray[Any], lengths: NDArray[Any]) -> object:
        return tokens.shape, tokens.tobytes()
