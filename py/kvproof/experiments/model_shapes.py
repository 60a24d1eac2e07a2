"""The sizes of well-known open models that decide what a KV cache costs.

Read from the ``config.json`` that each publisher put beside the weights; ``repository`` says whose
it is and ``fields`` what was read there.  A model is here only if its configuration was seen.
"""

from dataclasses import dataclass

from kvproof.model.config import DecoderConfig
from kvproof.model.masks import check_integer


@dataclass(frozen=True)
class ModelShape:
    """What the costs of a cache depend on; all counts, no units.

    Raises:
        ValueError: a size is less than 1, ``n_heads`` isn't a multiple of ``n_kv_heads``, or the
            window has fewer or more layers than the model.
    """

    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    """Features of one key (and of one query)."""
    value_dim: int = 0
    """Features of one value; 0 stands for ``head_dim`` and is replaced by it."""
    window: int | None = None
    """Tokens that a query of a windowed layer sees, itself included; None: all."""
    n_windowed_layers: int = 0
    """Layers with the window; 0 stands for all of them if there is a window."""
    n_sinks: int = 0
    """First tokens that a windowed layer keeps although the window has left them behind."""
    latent_dim: int | None = None
    """MLA: features that are kept per token and layer, shared by all heads; None: no MLA."""
    repository: str = ""
    fields: str = ""

    def __post_init__(self) -> None:
        if self.value_dim == 0:
            object.__setattr__(self, "value_dim", self.head_dim)
        if self.window is not None and self.n_windowed_layers == 0:
            object.__setattr__(self, "n_windowed_layers", self.n_layers)
        sizes = ("n_layers", "n_heads", "n_kv_heads", "head_dim", "value_dim")
        optional = [name for name in ("window", "latent_dim") if getattr(self, name) is not None]
        for name in (*sizes, *optional):
            check_integer(name, getattr(self, name), least=1)
        if self.n_heads % self.n_kv_heads:
            raise ValueError(
                f"n_heads must be a multiple of n_kv_heads, got {self.n_heads} "
                f"and {self.n_kv_heads}"
            )
        if not 0 <= self.n_windowed_layers <= (self.n_layers if self.window else 0):
            raise ValueError(
                f"{self.n_windowed_layers} of {self.n_layers} layers have the window {self.window}"
            )

    @classmethod
    def of(cls, config: DecoderConfig) -> "ModelShape":
        """The shape of one of our own decoders."""
        return cls(
            n_layers=config.n_layers,
            n_heads=config.n_heads,
            n_kv_heads=config.n_kv_heads,
            head_dim=config.head_dim,
            window=config.window,
            n_sinks=config.n_sinks,
        )


_HF = "num_hidden_layers, num_attention_heads, num_key_value_heads, hidden_size / heads"
_MLA = (
    "num_hidden_layers, num_attention_heads, kv_lora_rank + qk_rope_head_dim; "
    "in full: qk_nope_head_dim + qk_rope_head_dim, v_head_dim"
)

MODEL_SHAPES: dict[str, ModelShape] = {
    "gpt2": ModelShape(
        12, 12, 12, 64, repository="openai-community/gpt2", fields="n_layer, n_head, n_embd / heads"
    ),
    "llama-2-7b": ModelShape(
        32, 32, 32, 128, repository="meta-llama/Llama-2-7b-hf", fields=_HF
    ),
    "llama-3-8b": ModelShape(
        32, 32, 8, 128, repository="meta-llama/Meta-Llama-3-8B", fields=_HF
    ),
    "llama-3-70b": ModelShape(
        80, 64, 8, 128, repository="meta-llama/Meta-Llama-3-70B", fields=_HF
    ),
    "llama-3.1-405b": ModelShape(
        # Older copies of the file say 16 K/V heads; arXiv 2505.09343, table 1, has it from 8.
        126, 128, 8, 128, repository="meta-llama/Llama-3.1-405B", fields=_HF
    ),
    "mistral-7b": ModelShape(
        32, 32, 8, 128,
        window=4096, repository="mistralai/Mistral-7B-v0.1", fields=f"{_HF}, sliding_window",
    ),
    "qwen2.5-7b": ModelShape(28, 28, 4, 128, repository="Qwen/Qwen2.5-7B", fields=_HF),
    "qwen2.5-72b": ModelShape(80, 64, 8, 128, repository="Qwen/Qwen2.5-72B", fields=_HF),
    "gemma-2-9b": ModelShape(
        # Layers 0, 2, 4, ... have the window, the others see everything.
        42, 16, 8, 256,
        window=4096, n_windowed_layers=21, repository="google/gemma-2-9b",
        fields="num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim, "
        "sliding_window",
    ),
    "olmo-2-7b": ModelShape(32, 32, 32, 128, repository="allenai/OLMo-2-1124-7B", fields=_HF),
    "falcon-7b": ModelShape(
        32, 71, 1, 64,
        repository="tiiuae/falcon-7b", fields="n_layer, n_head, multi_query, hidden_size / heads",
    ),
    "deepseek-v2": ModelShape(
        60, 128, 128, 192,
        value_dim=128, latent_dim=512 + 64, repository="deepseek-ai/DeepSeek-V2", fields=_MLA,
    ),
    "deepseek-v3": ModelShape(
        61, 128, 128, 192,
        value_dim=128, latent_dim=512 + 64, repository="deepseek-ai/DeepSeek-V3", fields=_MLA,
    ),
}  # fmt: skip
"""Name -> shape.  ``fields`` names what was read in the repository's ``config.json``."""
