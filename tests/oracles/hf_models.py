"""transformers' own GPT-2, Llama, Mistral and BLOOM, made from sizes and filled with our arrays.

Nothing is downloaded: a model is built from a configuration object.  Its fields must say what ours
say; where transformers has a default of its own (dropout, tied embeddings, another eps), it is
set here.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch.overrides import TorchFunctionMode

from kvproof import DecoderConfig

os.environ["HF_HUB_OFFLINE"] = "1"  # read at the import: never ask a hub for anything

from transformers import (
    BloomConfig,
    BloomForCausalLM,
    DynamicCache,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    StaticCache,
)

Arrays = Mapping[str, NDArray[np.floating]]
Model = Any  # transformers' classes have no types to speak of


class AllDouble(TorchFunctionMode):
    """Every float32 asked for inside becomes float64.

    transformers computes RMSNorm and rotary angles in float32 whatever the weights are.  That
    is right for half precision, and leaves a float64 model with float32's rounding.  Inside this
    mode its code runs unchanged, in float64 throughout.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.Tensor.float:
            func = torch.Tensor.double
        args = tuple(torch.float64 if arg is torch.float32 else arg for arg in args)
        kwargs = {
            name: torch.float64 if arg is torch.float32 else arg
            for name, arg in (kwargs or {}).items()
        }
        return func(*args, **kwargs)


# --- Models -------------------------------------------------------------------------------------


def gpt2(arrays: Arrays, config: DecoderConfig, **changes: Any) -> Model:
    """GPT-2: learned positions, LayerNorm, tanh GELU.  Its weights are (in, out), as ours are."""
    options: dict[str, Any] = {
        "vocab_size": config.vocab_size,
        "n_positions": config.max_positions,
        "n_embd": config.width,
        "n_layer": config.n_layers,
        "n_head": config.n_heads,
        "n_inner": config.mlp_width,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    state = {
        "transformer.wte.weight": arrays["token_embedding"],
        "transformer.wpe.weight": arrays["position_embedding"],
        **_norm(arrays, "transformer.ln_f", "final_norm"),
        "lm_head.weight": arrays["unembedding"].T,
    }
    for i in range(config.n_layers):
        theirs, ours = f"transformer.h.{i}", f"block{i}"
        state |= _norm(arrays, f"{theirs}.ln_1", f"{ours}.norm1")
        state |= _norm(arrays, f"{theirs}.ln_2", f"{ours}.norm2")
        for name, matrix in {
            "attn.c_attn": "attention.{}_qkv",
            "attn.c_proj": "attention.{}_out",
            "mlp.c_fc": "mlp.{}_in",
            "mlp.c_proj": "mlp.{}_out",
        }.items():
            state[f"{theirs}.{name}.weight"] = arrays[f"{ours}.{matrix.format('w')}"]
            state[f"{theirs}.{name}.bias"] = arrays[f"{ours}.{matrix.format('b')}"]
    return _filled(GPT2LMHeadModel, GPT2Config, options | changes, state)


def llama(arrays: Arrays, config: DecoderConfig, **changes: Any) -> Model:
    """Llama: rotary positions, RMSNorm, SwiGLU, grouped heads."""
    options = _llama_options(config) | changes
    return _filled(LlamaForCausalLM, LlamaConfig, options, _llama_state(arrays, config))


def mistral(arrays: Arrays, config: DecoderConfig, **changes: Any) -> Model:
    """Mistral: Llama with a window."""
    options = _llama_options(config) | {"sliding_window": config.window} | changes
    return _filled(MistralForCausalLM, MistralConfig, options, _llama_state(arrays, config))


def bloom(arrays: Arrays, config: DecoderConfig, **changes: Any) -> Model:
    """BLOOM without the norm after its embedding: ALiBi, LayerNorm, tanh GELU, MLP of 4 W."""
    options: dict[str, Any] = {
        "vocab_size": config.vocab_size,
        "hidden_size": config.width,
        "n_layer": config.n_layers,
        "n_head": config.n_heads,
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    state = {
        "transformer.word_embeddings.weight": arrays["token_embedding"],
        **_norm(arrays, "transformer.ln_f", "final_norm"),
        "lm_head.weight": arrays["unembedding"].T,
    }
    for i in range(config.n_layers):
        theirs, ours = f"transformer.h.{i}", f"block{i}"
        state |= _norm(arrays, f"{theirs}.input_layernorm", f"{ours}.norm1")
        state |= _norm(arrays, f"{theirs}.post_attention_layernorm", f"{ours}.norm2")
        for name, matrix in {
            "self_attention.query_key_value": "attention.{}_qkv",
            "self_attention.dense": "attention.{}_out",
            "mlp.dense_h_to_4h": "mlp.{}_in",
            "mlp.dense_4h_to_h": "mlp.{}_out",
        }.items():
            weight = arrays[f"{ours}.{matrix.format('w')}"].T
            bias = arrays[f"{ours}.{matrix.format('b')}"]
            if name.endswith("query_key_value"):  # theirs: q, k, v of head 0, of head 1, ...
                weight, bias = _by_head(weight, config), _by_head(bias, config)
            state[f"{theirs}.{name}.weight"], state[f"{theirs}.{name}.bias"] = weight, bias
    first = "transformer.word_embeddings_layernorm"
    unused = frozenset({f"{first}.weight", f"{first}.bias"})
    model = _filled(BloomForCausalLM, BloomConfig, options | changes, state, unused)
    model.transformer.word_embeddings_layernorm = torch.nn.Identity()
    return model


def _by_head(array: NDArray[np.floating], config: DecoderConfig) -> NDArray[np.floating]:
    parts = array.reshape(3, config.n_heads, config.head_dim, *array.shape[1:])
    return parts.swapaxes(0, 1).reshape(array.shape)


def _llama_options(config: DecoderConfig) -> dict[str, Any]:
    return {
        "vocab_size": config.vocab_size,
        "hidden_size": config.width,
        "intermediate_size": config.mlp_width,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.n_kv_heads,
        "head_dim": config.head_dim,
        "max_position_embeddings": config.max_positions,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0},
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": None,
    }


def _llama_state(arrays: Arrays, config: DecoderConfig) -> dict[str, NDArray[np.floating]]:
    state = {
        "model.embed_tokens.weight": arrays["token_embedding"],
        "model.norm.weight": arrays["final_norm.gain"],
        "lm_head.weight": arrays["unembedding"].T,
    }
    n_q, n_kv = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
    for i in range(config.n_layers):
        theirs, ours = f"model.layers.{i}", f"block{i}"
        q, k, v = np.split(arrays[f"{ours}.attention.w_qkv"].T, [n_q, n_q + n_kv])
        gate, up = np.split(arrays[f"{ours}.mlp.w_in"].T, 2)
        state |= {
            f"{theirs}.input_layernorm.weight": arrays[f"{ours}.norm1.gain"],
            f"{theirs}.self_attn.q_proj.weight": q,
            f"{theirs}.self_attn.k_proj.weight": k,
            f"{theirs}.self_attn.v_proj.weight": v,
            f"{theirs}.self_attn.o_proj.weight": arrays[f"{ours}.attention.w_out"].T,
            f"{theirs}.post_attention_layernorm.weight": arrays[f"{ours}.norm2.gain"],
            f"{theirs}.mlp.gate_proj.weight": gate,
            f"{theirs}.mlp.up_proj.weight": up,
            f"{theirs}.mlp.down_proj.weight": arrays[f"{ours}.mlp.w_out"].T,
        }
    return state


def _norm(arrays: Arrays, theirs: str, ours: str) -> dict[str, NDArray[np.floating]]:
    return {f"{theirs}.weight": arrays[f"{ours}.gain"], f"{theirs}.bias": arrays[f"{ours}.bias"]}


def _filled(
    model_class: Any,
    config_class: Any,
    options: dict[str, Any],
    arrays: Arrays,
    unused: frozenset[str] = frozenset(),
) -> Model:
    """A model in evaluation mode; every parameter of it comes from ours, and all of ours go in."""
    state = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    dtype = state["lm_head.weight"].dtype
    with AllDouble() if dtype == torch.float64 else nullcontext():  # for RoPE's frequencies
        model = model_class(config_class(**options)).to(dtype).eval()
    missing, unknown = model.load_state_dict(state, strict=False)
    assert set(missing) == unused, f"not filled: {missing}"
    assert not unknown, f"no place for: {unknown}"
    return model


# --- Calls --------------------------------------------------------------------------------------


@contextmanager
def _inference(model: Model) -> Iterator[None]:
    with torch.inference_mode(), AllDouble() if model.dtype == torch.float64 else nullcontext():
        yield


def full(model: Model, tokens: ArrayLike) -> NDArray[np.floating]:
    """Logits (B, T, V) of one plain pass."""
    with _inference(model):
        logits = model(input_ids=torch.from_numpy(np.array(tokens)), use_cache=False).logits
    return logits.numpy()  # type: ignore[no-any-return]


def dynamic(model: Model, capacity: int) -> DynamicCache:
    """A cache that concatenates, and cuts off what has left the window."""
    return DynamicCache(config=model.config)


def static(model: Model, capacity: int) -> StaticCache:
    """A preallocated cache, rolling where the model has a window."""
    return StaticCache(config=model.config, max_cache_len=capacity)


def real_tokens(n_total: int, lengths: Sequence[int]) -> torch.Tensor:
    """1 for a token, 0 for padding at the left: int64 (B, T), transformers' attention_mask."""
    return (torch.arange(n_total) >= n_total - torch.tensor(lengths)[:, None]).long()


def cached(
    model: Model,
    tokens: ArrayLike,
    sizes: Sequence[int],
    cache: Any,
    attention_mask: torch.Tensor | None = None,
    position_ids: torch.Tensor | None = None,
) -> NDArray[np.floating]:
    """Logits (B, T, V) of a text fed in calls of these sizes.

    ``attention_mask`` and ``position_ids``, both (B, T), are those of the whole text; each call
    gets its part.
    """
    ids = torch.from_numpy(np.array(tokens))
    assert sum(sizes) == ids.shape[1]
    logits, end = [], 0
    with _inference(model):
        for size in sizes:
            start, end = end, end + size
            told: dict[str, torch.Tensor] = {}
            if attention_mask is not None:
                told["attention_mask"] = attention_mask[:, :end]
            if position_ids is not None:
                told["position_ids"] = position_ids[:, start:end]
            piece = ids[:, start:end]
            output = model(input_ids=piece, past_key_values=cache, use_cache=True, **told)
            logits.append(output.logits)
    return torch.cat(logits, dim=1).numpy()
