"""Decoders of other libraries in the form that ``kvproof.check`` reads.

Nothing but NumPy is imported until an adapter is made.
"""

import copy
import importlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from kvproof.checking.subject import UNLOCKS

OPTIONAL = (*UNLOCKS, "keeps_old", "quantized", "noise", "dtype")
"""What a decoder may have besides ``full``, ``step``, ``vocab_size`` and ``max_length``."""

LONGEST = 256
"""Where nobody asks for more: a static cache for all positions of a large model takes gigabytes."""


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
        vocab_size: token IDs are below it.
        max_length: the longest text that both take, in tokens.
        optional: whatever else the contract knows, such as ``fork=copy.deepcopy`` or ``window=8``.

    Returns:
        An object for ``kvproof.check``.

    Raises:
        ValueError: an optional name that the contract doesn't know.

    Example:
        >>> def full(tokens):  # how often each of two tokens was there so far
        ...     return np.eye(2)[tokens].cumsum(axis=1)
        >>> def step(tokens, cache):
        ...     logits = full(tokens) + (0 if cache is None else cache)
        ...     return logits, logits[:, -1:]
        >>> kvproof.check(functions(full, step, vocab_size=2, max_length=8)).ok
        True
    """
    for name in optional:
        if name not in OPTIONAL:
            raise ValueError(
                f"a decoder has no optional member {name!r}; there are {', '.join(OPTIONAL)}"
            )
    return SimpleNamespace(
        full=full, step=step, vocab_size=vocab_size, max_length=max_length, **optional
    )


def torch_module(
    module: Any,
    step: Callable[..., tuple[Any, Any]],
    *,
    vocab_size: int,
    max_length: int,
    full: Callable[..., Any] | None = None,
    **optional: Any,
) -> SimpleNamespace:
    """A PyTorch module and a function that does one cached call.

    Args:
        module: ``module(ids)``, int64 (B, T) -> logits (B, T, V); put into eval mode.
        step: ``step(ids, cache)`` -> (logits (B, C, V), cache), on tensors of the module's device.
        vocab_size: token IDs are below it.
        max_length: the longest text that both take, in tokens.
        full: called instead of ``module`` itself, as in ``full=lambda ids: module(ids)[0]``.
        optional: see ``functions``.  Where ``supports_padding=True``, ``full`` and ``step`` get
            ``lengths=``, an int64 tensor (B,), when there is padding.  ``dtype``, unless given, is
            the coarsest of the module's parameters.

    Returns:
        An object for ``kvproof.check``; its calls compute no gradients.

    Raises:
        ImportError: PyTorch isn't installed.
        ValueError: ``module`` isn't a ``torch.nn.Module``, or an optional name is unknown.

    Example:
        >>> table = torch.nn.Embedding(2, 2)  # logits of the next token from the last one alone
        >>> decoder = torch_module(
        ...     table, lambda ids, cache: (table(ids), "no past"), vocab_size=2, max_length=8
        ... )
        >>> kvproof.check(decoder).ok
        True
    """
    torch = _import("torch")
    if not isinstance(module, torch.nn.Module):
        raise ValueError(
            f"module must be a torch.nn.Module, got {type(module).__name__}; "
            "kvproof.adapters.functions takes plain functions"
        )
    module.eval()
    tensors = [*module.parameters(), *module.buffers()]
    device = tensors[0].device if tensors else "cpu"
    dtypes = {tensor.dtype for tensor in tensors if tensor.dtype.is_floating_point}
    if dtypes:
        optional.setdefault("dtype", max(dtypes, key=lambda dtype: torch.finfo(dtype).eps))

    def ids(numbers: ArrayLike) -> Any:
        return torch.as_tensor(np.asarray(numbers), dtype=torch.long, device=device)

    def on_tensors(call: Callable[..., Any]) -> Callable[..., Any]:
        def call_on_tensors(tokens: ArrayLike, *cache: Any, **lengths: ArrayLike) -> Any:
            told = {name: ids(value) for name, value in lengths.items()}
            with torch.no_grad():
                return call(ids(tokens), *cache, **told)

        return call_on_tensors

    return functions(
        on_tensors(module if full is None else full),
        on_tensors(step),
        vocab_size=vocab_size,
        max_length=max_length,
        **optional,
    )


# --- transformers -------------------------------------------------------------------------------

CacheName = Literal["dynamic", "recording", "static", "fp8"]
CACHES = ("dynamic", "recording", "static", "fp8")


def transformers(
    model: Any, cache: CacheName = "dynamic", max_length: int | None = None
) -> "TransformersDecoder":
    """A causal language model of Hugging Face transformers (5.x) with one of its caches.

    Args:
        model: such as a ``LlamaForCausalLM``, of any dtype and on any device; put into eval mode.
        cache: "dynamic"; "recording", a dynamic one that keeps what a window has left behind until
            it is cropped, as assisted decoding uses it; "static", preallocated for ``max_length``
            tokens; or "fp8", the quantized one that needs no further package.
        max_length: the longest text, in tokens; None: what the configuration says, but at most 256.

    Returns:
        An object for ``kvproof.check``.  It has a ``window`` if the model has one that is shorter
        than ``max_length``; layers without one may be mixed in.  What a cache can't do, such as a
        crop of a static one, is listed by the checker as not checked.

    Raises:
        ImportError: transformers, or PyTorch, isn't installed.
        ValueError: another cache, or one that the model can't have; a model that isn't a causal
            language model, or has states instead of keys and values; ``max_length`` beyond the
            model's positions.

    Example:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> config = GPT2Config(vocab_size=50, n_embd=16, n_layer=1, n_head=2, n_positions=32,
        ...                     bos_token_id=None, eos_token_id=None)
        >>> kvproof.check(kvproof.adapters.transformers(GPT2LMHeadModel(config), "static")).ok
        True
    """
    _import("transformers")
    if cache not in CACHES:
        raise ValueError(f"cache must be one of {', '.join(CACHES)}, got {cache!r}")
    config = _language_model_config(model)
    named = (getattr(config, name, None) for name in _LENGTH_NAMES)
    longest = next((number for number in named if isinstance(number, int) and number > 0), None)
    if max_length is None:
        max_length = min(longest or LONGEST, LONGEST)
    if max_length < 1 or (longest is not None and max_length > longest):
        raise ValueError(f"max_length must be 1 to {longest or 'any number'}, got {max_length}")
    decoder = TransformersDecoder(model, cache, max_length)
    decoder.new_cache()  # for fp8 it says whether the model can have one
    return decoder


_LENGTH_NAMES = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length")


@dataclass(frozen=True)
class _HandedOn:
    """A transformers cache and the attention mask of all that was put into it, (B, length)."""

    cache: Any
    mask: Any


class TransformersDecoder:
    """A causal language model of transformers; made by ``transformers``."""

    supports_padding = True

    def __init__(self, model: Any, cache: CacheName, max_length: int) -> None:
        self.model = model.eval()
        self.kind = cache
        self.config = model.config.get_text_config(decoder=True)
        self.vocab_size: int = self.config.vocab_size
        self.max_length = max_length
        self.quantized = cache == "fp8"
        self.dtype = getattr(model, "dtype", None)
        self.window = _window(self.config, max_length)

    def full(self, tokens: ArrayLike, lengths: ArrayLike | None = None) -> Any:
        """Logits (B, T, V) without a cache."""
        ids = self._ids(tokens)
        return self._call(ids, self._mask(ids, lengths), None)

    def step(
        self, tokens: ArrayLike, cache: _HandedOn | None, lengths: ArrayLike | None = None
    ) -> tuple[Any, _HandedOn]:
        """Logits (B, C, V) of the new tokens; the cache is used up: transformers writes into it."""
        ids = self._ids(tokens)
        mask = self._mask(ids, lengths)
        past = self.new_cache() if cache is None else cache.cache
        if cache is not None:
            mask = _import("torch").cat([cache.mask, mask], dim=1)
        return self._call(ids, mask, past), _HandedOn(past, mask)

    def length(self, cache: _HandedOn) -> int:
        """What the cache counts, pads included."""
        return int(cache.cache.get_seq_length())

    def keys_values(self, cache: _HandedOn) -> list[tuple[Any, Any]]:
        """(K, V) of each layer, (B, H, T, D), without slots that aren't filled yet.

        A dynamic layer with a window of W keeps the last W - 1, a static one the last W.

        Raises:
            NotImplementedError: they are kept rounded, or a layer holds something else.
        """
        layers = cache.cache.layers
        if self.quantized or not all(_holds_keys(layer) for layer in layers):
            raise NotImplementedError
        n = self.length(cache)
        return [(layer.keys[:, :, :n], layer.values[:, :, :n]) for layer in layers]

    def crop(self, cache: _HandedOn, length: int) -> _HandedOn:
        """Take the last tokens back.

        Raises:
            NotImplementedError: a static or quantized cache, or one that holds states as well.
            RuntimeError: a layer has let go of what its window would show again.
            ValueError: ``length`` is beyond what is there.
        """
        n = self.length(cache)
        if not 0 <= length <= n:
            raise ValueError(f"can't crop {n} tokens to {length}")
        if self.quantized or not cache.cache.is_croppable:
            raise NotImplementedError
        if length == 0:
            return _HandedOn(self.new_cache(), cache.mask[:, :0])
        cache.cache.crop(length - n)  # the number of tokens to remove, as a negative one
        return _HandedOn(cache.cache, cache.mask[:, :length])

    def reorder(self, cache: _HandedOn, rows: Sequence[int]) -> _HandedOn:
        """Pick rows, as beam search does; changes the cache in place."""
        index = self._ids(rows)
        cache.cache.reorder_cache(index)
        return replace(cache, mask=cache.mask[index])

    def fork(self, cache: _HandedOn) -> _HandedOn:
        """A deep copy: transformers has no cheaper one."""
        return copy.deepcopy(cache)

    def reset(self) -> None:
        """Nothing to do: every request makes a cache of its own."""

    def _ids(self, numbers: ArrayLike) -> Any:
        torch = _import("torch")
        return torch.as_tensor(np.asarray(numbers), dtype=torch.long, device=self.model.device)

    def _mask(self, ids: Any, lengths: ArrayLike | None) -> Any:
        """1 for a token, 0 for padding at the left, (B, T)."""
        torch = _import("torch")
        if lengths is None:
            return torch.ones_like(ids)
        columns = torch.arange(ids.shape[1], device=ids.device)
        return (columns >= ids.shape[1] - self._ids(lengths)[:, None]).long()

    def new_cache(self) -> Any:
        """An empty cache of transformers."""
        library = _import("transformers")
        if self.kind == "static":
            return library.StaticCache(self.config, max_cache_len=self.max_length)
        if self.kind == "fp8":
            return library.QuantizedCache("fp8", self.config)
        cache = library.DynamicCache(config=self.config)
        if self.kind == "recording":
            cache.activate_past_recording()
        return cache

    def _call(self, ids: Any, mask: Any, past: Any) -> Any:
        torch = _import("torch")
        # Models that have no argument position_ids (BLOOM, MPT) ignore it.
        positions = (mask.cumsum(dim=1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        if self.kind == "static" and past is not None and not any(past.is_linear):
            # BLOOM and Falcon make ALiBi's biases from the mask: it must be as long as the keys.
            mask = torch.nn.functional.pad(mask, (0, self.max_length - mask.shape[1]))
        with torch.no_grad():
            return self.model(
                input_ids=ids,
                attention_mask=mask,
                position_ids=positions,
                past_key_values=past,
                use_cache=past is not None,
            ).logits


def _window(config: Any, max_length: int) -> int | None:
    """The shortest window of all layers; None where none is shorter than ``max_length``."""
    kinds = getattr(config, "layer_types", None)
    names = {"sliding_attention": "sliding_window", "chunked_attention": "attention_chunk_size"}
    if kinds is None:
        used = [*names.values()] if getattr(config, "use_sliding_window", True) else []
    else:
        used = [name for kind, name in names.items() if kind in kinds]
    sizes = [getattr(config, name, None) for name in used]
    return min((size for size in sizes if size and size < max_length), default=None)


def _holds_keys(layer: Any) -> bool:
    return getattr(getattr(layer, "keys", None), "ndim", 0) == 4


def _language_model_config(model: Any) -> Any:
    """The configuration of the text model.

    Raises:
        ValueError: ``model`` isn't a causal language model.
    """
    name = type(model).__name__
    if not callable(getattr(model, "can_generate", None)) or not hasattr(model, "config"):
        raise ValueError(f"{name} isn't a model of transformers, such as LlamaForCausalLM")
    if model.config.is_encoder_decoder:
        raise ValueError(f"{name} has an encoder: only models that are decoders can be checked")
    if not model.can_generate():
        raise ValueError(f"{name} gives no next-token logits: take the class ...ForCausalLM")
    if "past_key_values" not in inspect.signature(model.forward).parameters:
        raise ValueError(f"{name} takes no past_key_values: what it hands on isn't a KV cache")
    return model.config.get_text_config(decoder=True)


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"this adapter needs {name}, which can't be imported ({error}); "
            f"install it with: python -m pip install torch{' transformers' * (name != 'torch')}"
        ) from error
