"""Decoders of other libraries in the form that ``kvproof.check`` reads.

Nothing but NumPy is imported until an adapter is made.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike


def functions(
    full: Callable[..., Any],
    step: Callable[..., Any],
    *,
    vocab_size: int,
    max_length: int,
    **optional: Any,
) -> SimpleNamespace:
    """Two plain functions as a decoder.

    Args:
        full: ``full(tokens)``, int (B, T) -> logits (B, T, V).
        step: ``step(tokens, cache)``, int (B, C) and a cache or None -> (logits (B, C, V), cache).
        vocab_size: IDs are below it.
        max_length: the longest text that both take.
        optional: whatever else the contract knows, such as ``fork=copy.deepcopy`` or ``window=8``.

    Returns:
        An object for ``kvproof.check``.
    """
    return SimpleNamespace(
        full=full, step=step, vocab_size=vocab_size, max_length=max_length, **optional
    )


def torch_module(
    module: Any,
    step: Callable[[Any, Any], tuple[Any, Any]],
    *,
    vocab_size: int,
    max_length: int,
    full: Callable[[Any], Any] | None = None,
    **optional: Any,
) -> SimpleNamespace:
    """A PyTorch module and a function that does one cached call.

    Args:
        module: ``module(ids)`` gives logits (B, T, V); put into eval mode.
        step: ``step(ids, cache)`` -> (logits, cache), on tensors of the module's device.
        vocab_size: IDs are below it.
        max_length: the longest text that both take.
        full: instead of calling ``module`` itself.
        optional: see ``functions``.
    """
    import torch

    module.eval()
    parameter = next(iter(module.parameters()), None)
    device = "cpu" if parameter is None else parameter.device

    def ids(tokens: ArrayLike) -> Any:
        return torch.as_tensor(np.asarray(tokens), dtype=torch.long, device=device)

    def call_full(tokens: ArrayLike) -> Any:
        with torch.inference_mode():
            return (module if full is None else full)(ids(tokens))

    def call_step(tokens: ArrayLike, cache: Any) -> tuple[Any, Any]:
        with torch.inference_mode():
            return step(ids(tokens), cache)

    return functions(call_full, call_step, vocab_size=vocab_size, max_length=max_length, **optional)


@dataclass(frozen=True)
class _HandedOn:
    """A transformers cache and the attention mask of all that is in it, (B, length)."""

    cache: Any
    mask: Any


class TransformersDecoder:
    """A causal language model of transformers; made by ``transformers``."""

    supports_padding = True

    def __init__(self, model: Any, cache: Literal["dynamic", "static"], max_length: int) -> None:
        config = model.config.get_text_config()
        self.model = model.eval()
        self.kind = cache
        self.vocab_size: int = config.vocab_size
        self.max_length = max_length
        window = getattr(config, "sliding_window", None)
        self.window: int | None = window if getattr(config, "use_sliding_window", True) else None

    def full(self, tokens: ArrayLike, lengths: ArrayLike | None = None) -> Any:
        """Logits without a cache."""
        ids = self._ids(tokens)
        return self._call(ids, self._mask(ids, lengths), None)

    def step(
        self, tokens: ArrayLike, cache: _HandedOn | None, lengths: ArrayLike | None = None
    ) -> tuple[Any, _HandedOn]:
        """Logits of the new tokens; the cache is used up, as transformers writes into it."""
        import torch

        ids = self._ids(tokens)
        mask = self._mask(ids, lengths)
        past = self._new_cache() if cache is None else cache.cache
        if cache is not None:
            mask = torch.cat([cache.mask, mask], dim=1)
        return self._call(ids, mask, past), _HandedOn(past, mask)

    def length(self, cache: _HandedOn) -> int:
        """What the cache counts."""
        return int(cache.cache.get_seq_length())

    def keys_values(self, cache: _HandedOn) -> list[tuple[Any, Any]]:
        """The layers' tensors, without slots that a static cache hasn't filled yet."""
        n = int(cache.cache.get_seq_length())
        return [(layer.keys[:, :, :n], layer.values[:, :, :n]) for layer in cache.cache.layers]

    def crop(self, cache: _HandedOn, length: int) -> _HandedOn:
        """Take the last tokens back."""
        n = self.length(cache)
        if not 0 <= length <= n:
            raise ValueError(f"can't crop {n} tokens to {length}")
        if self.kind == "static":
            raise NotImplementedError
        if length == 0:
            return _HandedOn(self._new_cache(), cache.mask[:, :0])
        cache.cache.crop(length - n)
        return _HandedOn(cache.cache, cache.mask[:, :length])

    def reorder(self, cache: _HandedOn, rows: Sequence[int]) -> _HandedOn:
        """Pick rows, as beam search does."""
        import torch

        index = torch.as_tensor(np.asarray(rows), device=cache.mask.device)
        cache.cache.reorder_cache(index)
        return replace(cache, mask=cache.mask[index])

    def fork(self, cache: _HandedOn) -> _HandedOn:
        """A deep copy: transformers has no cheaper one."""
        return copy.deepcopy(cache)

    def reset(self) -> None:
        """Nothing to do: every request makes a cache of its own."""

    def _ids(self, tokens: ArrayLike) -> Any:
        import torch

        return torch.as_tensor(np.asarray(tokens), dtype=torch.long, device=self.model.device)

    def _mask(self, ids: Any, lengths: ArrayLike | None) -> Any:
        import torch

        mask = torch.ones_like(ids)
        if lengths is not None:
            for row, length in enumerate(np.asarray(lengths)):
                mask[row, : ids.shape[1] - int(length)] = 0
        return mask

    def _new_cache(self) -> Any:
        import transformers

        if self.kind == "static":
            return transformers.StaticCache(self.model.config, max_cache_len=self.max_length)
        return transformers.DynamicCache(config=self.model.config)

    def _call(self, ids: Any, mask: Any, past: Any) -> Any:
        import torch

        positions = (mask.cumsum(dim=1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        with torch.inference_mode():
            return self.model(
                input_ids=ids,
                attention_mask=mask,
                position_ids=positions,
                past_key_values=past,
                use_cache=past is not None,
            ).logits


def transformers(
    model: Any, cache: Literal["dynamic", "static"] = "dynamic", max_length: int | None = None
) -> TransformersDecoder:
    """A causal language model of Hugging Face transformers with one of its caches.

    Args:
        model: such as ``LlamaForCausalLM``; put into eval mode.
        cache: "dynamic" or "static".
        max_length: the longest text; None: the model's ``max_position_embeddings``, 128
            where it has none.

    Raises:
        ValueError: another cache.
    """
    if cache not in ("dynamic", "static"):
        raise ValueError(f"cache must be dynamic or static, got {cache!r}")
    config = model.config.get_text_config()
    longest: int = getattr(config, "max_position_embeddings", 128)
    return TransformersDecoder(model, cache, max_length or longest)
