"""Decoders of x-transformers and litgpt in the form that the checker reads, tiny and random."""

import copy
import dataclasses
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from numpy.typing import ArrayLike
from tests.check.tiny_models import VOCABULARY, Model, with_contrast

os.environ["HF_HUB_OFFLINE"] = "1"

with warnings.catch_warnings():
    # Of their own making: torch.jit.script, and what else newer libraries advise against.
    warnings.simplefilter("ignore")
    import litgpt.model
    from loguru import logger
    from x_transformers import Decoder, TransformerWrapper

logger.disable("x_transformers")  # it advises larger heads
LENGTH = 64


def ids(numbers: ArrayLike) -> torch.Tensor:
    return torch.as_tensor(numbers, dtype=torch.long)


# --- x-transformers -----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class XCache:
    """What x-transformers hands on, with the text so far, which the next call is given again."""

    text: torch.Tensor
    starts: torch.Tensor | None
    """First real slot of each row, where there is padding."""
    intermediates: Any = None
    """None: nothing is kept."""


class XTransformers:
    """``TransformerWrapper`` around a ``Decoder``, called as its ``generate`` does.

    That passes the whole text in each call, and the layers cut off all but the last ``cache_age``
    tokens; with ``input_not_include_cache`` only the new tokens are passed.  Nothing is written in
    place.  ``crop`` and ``reorder`` aren't the library's: they cut and pick the arrays of its
    cache, as a beam search of one's own would.
    """

    vocab_size = VOCABULARY
    max_length = LENGTH
    keeps_old = True
    supports_padding = True

    def __init__(self, model: Model, only_new: bool = False) -> None:
        self.model = model
        self.only_new = only_new

    def full(self, tokens: ArrayLike, lengths: ArrayLike | None = None) -> Any:
        text = ids(tokens)
        with torch.no_grad():
            return self.model(text, seq_start_pos=_starts(text, lengths))

    def step(
        self, tokens: ArrayLike, cache: XCache | None, lengths: ArrayLike | None = None
    ) -> tuple[Any, XCache]:
        new = ids(tokens)
        if cache is None:
            cache = XCache(new[:, :0], _starts(new, lengths))
        text = torch.cat([cache.text, new], dim=1)
        told = {} if cache.intermediates is None else {"cache_age": new.shape[1]}
        passed = new if self.only_new else text
        with torch.no_grad():
            logits, intermediates = self.model(
                passed,
                cache=cache.intermediates,
                return_intermediates=True,
                seq_start_pos=cache.starts,
                input_not_include_cache=self.only_new,
                **told,
            )
        return logits[:, -new.shape[1] :], XCache(text, cache.starts, intermediates)

    def length(self, cache: XCache) -> int:
        return 0 if cache.intermediates is None else int(cache.intermediates.cache_length)

    def keys_values(self, cache: XCache) -> list[Any]:
        """Not rotated: x-transformers rotates all keys in each call."""
        return [layer.cached_kv for layer in cache.intermediates.attn_intermediates]

    def crop(self, cache: XCache, length: int) -> XCache:
        if length > cache.text.shape[1]:
            raise ValueError(f"can't crop {cache.text.shape[1]} tokens to {length}")
        if length == 0:
            return XCache(cache.text[:, :0], cache.starts)
        kept = _changed(cache.intermediates, lambda array: array[..., :length, :], length)
        return XCache(cache.text[:, :length], cache.starts, kept)

    def reorder(self, cache: XCache, rows: Sequence[int]) -> XCache:
        index = ids(rows)
        kept = _changed(cache.intermediates, lambda array: array[index], self.length(cache))
        starts = None if cache.starts is None else cache.starts[index]
        return XCache(cache.text[index], starts, kept)


def _starts(text: torch.Tensor, lengths: ArrayLike | None) -> torch.Tensor | None:
    return None if lengths is None else text.shape[1] - ids(lengths)


def _changed(intermediates: Any, change: Callable[[Any], Any], length: int) -> Any:
    changed = copy.copy(intermediates)
    changed.cache_length = length
    changed.attn_intermediates = [
        dataclasses.replace(layer, cached_kv=tuple(change(array) for array in layer.cached_kv))
        for layer in intermediates.attn_intermediates
    ]
    return changed


def x_transformers(
    only_new: bool = False, wrapper: dict[str, Any] | None = None, **decoder: Any
) -> XTransformers:
    """Two layers of width 32; ``decoder`` and ``wrapper`` are x-transformers' own options."""
    layers = Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, **decoder)
    model = TransformerWrapper(
        num_tokens=VOCABULARY, max_seq_len=LENGTH, attn_layers=layers, **(wrapper or {})
    )
    return XTransformers(with_contrast(model), only_new)


# --- litgpt -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class LitRequest:
    """The number of a request, and how many tokens it has put into the module."""

    number: int
    length: int = 0


class LitGPT:
    """litgpt's ``GPT``, called as its ``generate`` does: the keys and values are in the module.

    So only the latest request can go on, and what is handed on is just its length.  A new request
    with as many rows starts again at position 0 without clearing anything.  Taking tokens back is
    a smaller length; with a window they would be overwritten already.
    """

    vocab_size = VOCABULARY
    max_length = LENGTH

    def __init__(self, model: Model, tell_end: bool = True) -> None:
        self.model = model
        self.tell_end = tell_end
        """Whether to pass ``input_pos_maxp1``, which spares it the slots after the last token."""
        self.n_rows = self.n_requests = 0
        self.window: int | None = model.config.sliding_window_size

    def full(self, tokens: ArrayLike) -> Any:
        with torch.no_grad():
            return self.model(ids(tokens))

    def step(self, tokens: ArrayLike, request: LitRequest | None) -> tuple[Any, LitRequest]:
        """Raises NotImplementedError beyond the window: litgpt refuses that and says why."""
        new = ids(tokens)
        if request is None:
            request = self._start(len(new))
        too_long = self.window is not None and new.shape[1] > self.window
        if too_long or request.number != self.n_requests:
            raise NotImplementedError
        end = request.length + new.shape[1]
        told = {"input_pos_maxp1": end} if self.tell_end else {}
        with torch.no_grad():
            logits = self.model(new, torch.arange(request.length, end), **told)
        return logits, LitRequest(request.number, end)

    def _start(self, n_rows: int) -> LitRequest:
        if self.n_rows != n_rows:
            self.n_rows = n_rows
            self.model.set_kv_cache(batch_size=n_rows, max_seq_length=LENGTH)
        self.n_requests += 1
        return LitRequest(self.n_requests)

    def length(self, request: LitRequest) -> int:
        return request.length

    def crop(self, request: LitRequest, length: int) -> LitRequest:
        if self.window is not None:
            raise NotImplementedError
        if length > request.length:
            raise ValueError(f"can't crop {request.length} tokens to {length}")
        return LitRequest(request.number, length)

    def keys_values(self, request: LitRequest) -> list[Any]:
        """A ring's rows are put in order, the newest last."""
        found = []
        for block in self.model.transformer.h:
            cache = block.attn.kv_cache
            n_slots = min(cache.k.shape[2], request.length)
            order = torch.arange(request.length - n_slots, request.length) % cache.k.shape[2]
            found.append((cache.k[:, :, order], cache.v[:, :, order]))
        return found

    def reset(self) -> None:
        self.model.clear_kv_cache()
        self.n_rows = 0


LLAMA: dict[str, Any] = {
    "n_query_groups": 2,
    "bias": False,
    "norm_class_name": "RMSNorm",
    "mlp_class_name": "LLaMAMLP",
    "intermediate_size": 64,
    "parallel_residual": False,
}


def lit_gpt(tell_end: bool = True, **config: Any) -> LitGPT:
    """Two layers of width 32; ``config`` are litgpt's own options."""
    sizes = {
        "block_size": LENGTH,
        "vocab_size": VOCABULARY,
        "padded_vocab_size": VOCABULARY,
        "n_layer": 2,
        "n_head": 4,
        "n_embd": 32,
        "rotary_percentage": 1.0,
    }
    return LitGPT(
        with_contrast(litgpt.model.GPT(litgpt.model.Config(**(sizes | config)))), tell_end
    )
