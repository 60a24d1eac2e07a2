"""Tiny models of transformers, made from their configurations; nothing is downloaded.

Weights are drawn ten times as wide as before training: otherwise attention is nearly even, and
wrong positions don't show.
"""

import os
from typing import Any

import torch

os.environ["HF_HUB_OFFLINE"] = "1"  # read at the import: never ask a hub for anything

import transformers
from transformers.utils import logging

logging.set_verbosity_error()  # it explains defaults that we don't need
torch.set_num_threads(1)

Model = Any
VOCABULARY = 31
SPREAD = 0.3


def with_contrast(model: Model) -> Model:
    """All weights drawn anew from one seed, biases and norms kept."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=SPREAD)
    return model.eval()


NO_SPECIAL_TOKENS = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
ALIKE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    **NO_SPECIAL_TOKENS,
}
GPT_ALIKE = {
    "vocab_size": VOCABULARY,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    **NO_SPECIAL_TOKENS,
}


def model(name: str, **changes: Any) -> Model:
    """``LlamaForCausalLM`` and its like, two layers of width 32."""
    config = getattr(transformers, _CONFIGS[name][0])(**(_CONFIGS[name][1] | changes))
    return with_contrast(getattr(transformers, name)(config))


_BLOOM = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "n_layer": 2,
    "n_head": 4,
    **NO_SPECIAL_TOKENS,
}
_CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "LlamaForCausalLM": ("LlamaConfig", ALIKE),
    "LlamaModel": ("LlamaConfig", ALIKE),
    "GPT2LMHeadModel": ("GPT2Config", GPT_ALIKE),
    "BloomForCausalLM": ("BloomConfig", _BLOOM),
    "MistralForCausalLM": ("MistralConfig", ALIKE | {"sliding_window": 6}),
    "Gemma3ForCausalLM": (
        "Gemma3TextConfig",
        ALIKE
        | {
            "head_dim": 8,
            "query_pre_attn_scalar": 8,
            "sliding_window": 6,
            "layer_types": ["sliding_attention", "full_attention"],
        },
    ),
    "Qwen2ForCausalLM": (
        "Qwen2Config",
        ALIKE | {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1},
    ),
    "Phi3ForCausalLM": (
        "Phi3Config",
        ALIKE
        | {
            "original_max_position_embeddings": 16,
            "rope_parameters": {
                "rope_type": "longrope",
                "rope_theta": 10_000.0,
                "short_factor": [1.0] * 4,
                "long_factor": [4.0] * 4,
            },
        },
    ),
    "GPTNeoForCausalLM": (
        "GPTNeoConfig",
        {
            "vocab_size": VOCABULARY,
            "hidden_size": 32,
            "num_layers": 2,
            "num_heads": 4,
            "max_position_embeddings": 64,
            "attention_types": [[["global", "local"], 1]],
            "window_size": 6,
            "intermediate_size": 64,
            **NO_SPECIAL_TOKENS,
        },
    ),
    "JambaForCausalLM": (
        "JambaConfig",
        ALIKE
        | {
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "expert_layer_period": 2,
            "num_experts": 2,
            "use_mamba_kernels": False,
            "mamba_d_state": 8,
            "mamba_dt_rank": 8,
        },
    ),
    "T5ForConditionalGeneration": (
        "T5Config",
        {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 32, "num_layers": 1},
    ),
    "MambaForCausalLM": (
        "MambaConfig",
        {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2},
    ),
}
