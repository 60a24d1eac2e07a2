"""Ways to use a decoder through the contract; each gives the logits that come of it.

A broken decoder and the right one go through the same scenario, and what they return is compared.
A scenario starts with a new decoder.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvproof.model.params import FloatArray
from kvproof.zoo.right import RightDecoder, random_text

N_TOKENS = 18
"""Longer than every window, buffer and block of the zoo, and no multiple of one."""
PREFILL = 6
PADDING = (0, 3, 5)

Logits = list[FloatArray]


@dataclass(frozen=True)
class Scenario:
    """What to do with a new decoder: ``run(decoder, seed, n_rows)``."""

    name: str
    n_rows: int
    n_requests: int
    """Requests that one object serves; a test that makes a new object each time has one."""
    run: Callable[[RightDecoder, int, int], Logits]


SCENARIOS: dict[str, Scenario] = {}

Run = Callable[[RightDecoder, int, int], Logits]


def scenario(name: str, n_rows: int = 1, n_requests: int = 1) -> Callable[[Run], Run]:
    """Enter a function under a name."""

    def entered(run: Run) -> Run:
        SCENARIOS[name] = Scenario(name, n_rows, n_requests, run)
        return run

    return entered


def feed(
    decoder: RightDecoder,
    text: NDArray[Any],
    sizes: Sequence[int],
    cache: Any = None,
    lengths: Sequence[int] | None = None,
) -> tuple[Logits, Any]:
    """Feed ``text`` (B, T) in chunks; ``lengths`` are the real tokens of the first one."""
    logits = []
    for end, size in zip(np.cumsum(sizes), sizes, strict=True):
        chunk = text[:, end - size : end]
        more = {} if lengths is None or end > size else {"lengths": np.array(lengths)}
        new, cache = decoder.step(chunk, cache, **more)
        logits.append(new)
    return logits, cache


CHUNKINGS: dict[str, tuple[int, ...]] = {
    "one shot": (N_TOKENS,),
    "ones": (1,) * N_TOKENS,
    "prefill, then ones": (PREFILL,) + (1,) * (N_TOKENS - PREFILL),
    "twos": (2,) * (N_TOKENS // 2),
    "ragged": (5, 1, 4, 2, 6),
}


def _chunked(sizes: Sequence[int]) -> Run:
    def run(decoder: RightDecoder, seed: int, n_rows: int) -> Logits:
        return feed(decoder, random_text(decoder, N_TOKENS, seed, n_rows), sizes)[0]

    return run


for _name, _sizes in CHUNKINGS.items():
    scenario(_name)(_chunked(_sizes))
scenario("batch of 3, ones", n_rows=3)(_chunked(CHUNKINGS["ones"]))


@scenario("full")
def full(decoder: RightDecoder, seed: int, n_rows: int) -> Logits:
    """No cache at all."""
    return [decoder.full(random_text(decoder, N_TOKENS, seed, n_rows))]


@scenario("padded", n_rows=3)
def padded(decoder: RightDecoder, seed: int, n_rows: int) -> Logits:
    """A left-padded prompt, then a few tokens one by one and some at once."""
    text = random_text(decoder, N_TOKENS, seed, n_rows)
    if n_rows == 1:
        return feed(decoder, text, (PREFILL, 1, 1, 4, 6))[0]
    if not decoder.supports_padding:
        raise NotImplementedError("no padding")
    lengths = [PREFILL - n for n in PADDING]
    logits, _ = feed(decoder, text, (PREFILL, 1, 1, 4, 6), None, lengths)
    real = [logits[0][row, n:] for row, n in enumerate(PADDING)]
    return real + logits[1:]


@scenario("crop")
def crop(decoder: RightDecoder, seed: int, n_rows: int) -> Logits:
    """A draft of which one token is accepted; then on."""
    text = random_text(decoder, N_TOKENS, seed, n_rows)
    first, cache = feed(decoder, text[:, :10], (PREFILL, 4))
    cache = decoder.crop(cache, PREFILL + 1)
    return first + feed(decoder, text[:, 10:15], (1, 1, 3), cache)[0]


@scenario("crop to 0")
def crop_to_0(decoder: RightDecoder, seed: int, n_rows: int) -> Logits:
    """Another text in the same cache."""
    text = random_text(decoder, N_TOKENS, seed, n_rows)
    first, cache = feed(decoder, text[:, :PREFILL], (PREFILL,))
    cache = decoder.crop(cache, 0)
    return first + feed(decoder, text[:, PREFILL : PREFILL + 5], (3, 1, 1), cache)[0]


@scenario("reorder", n_rows=3)
def reorder(decoder: RightDecoder, seed: int, n_rows: int) -> Logits:
    """Beams: two come from one row, then all change places."""
    text = random_text(decoder, N_TOKENS, seed, n_rows)
    first, cache = feed(decoder, text[:, :PREFILL], (PREFILL,))
    for start, rows in ((PREFILL, [2, 0, 0]), (PREFILL + 1, [1, 2, 0])):
        cache = decoder.reorder(cache, rows if n_rows == 3 else [0])
        more, cache = feed(decoder, text[:, start : start + 1], (1,), cache)
        first += more
    return first + feed(decoder, text[:, 8:11], (3,), cache)[0]


@scenario("fork")
def fork(decoder: RightDecoder, seed: int, n_rows: int) -> Logits:
    """Two continuations of one prefix, in turns."""
    text = random_text(decoder, N_TOKENS, seed, n_rows)
    first, cache = feed(decoder, text[:, :PREFILL], (PREFILL,))
    other = decoder.fork(cache)
    a, cache = feed(decoder, text[:, 6:8], (1, 1), cache)
    b, other = feed(decoder, text[:, 8:10], (1, 1), other)
    c, cache = feed(decoder, text[:, 10:13], (1, 2), cache)
    d, other = feed(decoder, text[:, 13:16], (1, 2), other)
    return first + a + b + c + d


@scenario("old cache")
def old_cache(decoder: RightDecoder, seed: int, n_rows: int) -> Logits:
    """The same cache goes on twice, where the decoder says that it can."""
    text = random_text(decoder, N_TOKENS, seed, n_rows)
    first, cache = feed(decoder, text[:, :PREFILL], (PREFILL,))
    a, _ = feed(decoder, text[:, 6:8], (1, 1), cache if decoder.keeps_old else decoder.fork(cache))
    return first + a + feed(decoder, text[:, 8:11], (1, 2), cache)[0]


@scenario("repeated fragment")
def repeated_fragment(decoder: RightDecoder, seed: int, n_rows: int) -> Logits:
    """A text in which a chunk of three tokens comes again."""
    text = random_text(decoder, 9, seed, n_rows)
    text[:, 6:9] = text[:, :3]
    return feed(decoder, text, (3, 3, 3))[0]


def _two_requests(second: Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]) -> Run:
    """A prompt of 8 with a continuation, then another one that ``second`` makes of it."""

    def run(decoder: RightDecoder, seed: int, n_rows: int) -> Logits:
        text, other = np.split(random_text(decoder, 2 * N_TOKENS, seed, n_rows), 2, axis=1)
        first, _ = feed(decoder, text, (8,) + (1,) * (N_TOKENS - 8))
        new = second(text.copy(), other)
        return first + feed(decoder, new, (min(8, new.shape[1]),) + (1,) * (new.shape[1] - 8))[0]

    return run


def _another_first_token(text: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:  # noqa: ARG001
    text[:, 0] = (text[:, 0] + 1) % 23
    return text


def _another_beginning(text: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    text[:, :4] = other[:, :4]
    return text


for _name, _second in {
    "next request": lambda _, other: other,
    "next request, short": lambda _, other: other[:, :11],
    "same prompt again": lambda text, _: text,
    "another first token": _another_first_token,
    "another beginning": _another_beginning,
}.items():
    scenario(_name, n_requests=2)(_two_requests(_second))


@scenario("other padding", n_rows=3, n_requests=2)
def other_padding(decoder: RightDecoder, seed: int, n_rows: int) -> Logits:
    """The same IDs twice, of which some are padding the second time."""
    text = random_text(decoder, N_TOKENS, seed, n_rows)
    first, _ = feed(decoder, text[:, : PREFILL + 1], (PREFILL, 1))
    return first + padded(decoder, seed, n_rows)


@scenario("in turns", n_requests=2)
def in_turns(decoder: RightDecoder, seed: int, n_rows: int) -> Logits:
    """Two requests at the same time."""
    text, other = np.split(random_text(decoder, 2 * N_TOKENS, seed, n_rows), 2, axis=1)
    caches: list[Any] = [None, None]
    logits: Logits = []
    for start, end in ((0, 5), (5, 6), (6, 10), (10, 11)):
        for i, tokens in enumerate((text, other)):
            new, caches[i] = feed(decoder, tokens[:, start:end], (end - start,), caches[i])
            logits += new
    return logits
