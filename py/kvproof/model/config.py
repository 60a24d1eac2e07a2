"""The shape of a decoder, in one frozen dataclass."""

from dataclasses import dataclass
from typing import Literal, get_args

from kvproof.model.masks import check_integer

Positions = Literal["learned", "rope", "alibi", "none"]
Norm = Literal["layernorm", "rmsnorm"]
Mlp = Literal["gelu", "swiglu", "none"]


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes and variants of a pre-norm decoder.

    All sizes are counts (no units).  Linear layers have biases with ``layernorm`` and none with
    ``rmsnorm``, as in GPT-2 and Llama.

    Raises:
        ValueError: a size is not positive, ``width`` isn't a multiple of ``n_heads`` or
            ``n_heads`` of ``n_kv_heads``, an unknown variant, an odd head dim with ``rope``, or
            sinks without a window.

    Example:
        >>> config = kvproof.DecoderConfig(n_heads=8, n_kv_heads=2, window=32, n_sinks=4)
        >>> config.head_dim, kvproof.parameter_count(config)
        (8, 132800)
    """

    n_layers: int = 2
    width: int = 64
    """Features of the residual stream."""
    n_heads: int = 4
    n_kv_heads: int = 0
    """Heads of keys and values: fewer than ``n_heads`` is GQA, one is MQA.  0 stands for
    ``n_heads`` and is replaced by it."""
    vocab_size: int | None = 97
    """None: the decoder reads and returns vectors of ``width`` features instead of token IDs."""
    mlp_width: int = 256
    max_positions: int = 512
    positions: Positions = "learned"
    norm: Norm = "layernorm"
    mlp: Mlp = "gelu"
    window: int | None = None
    """A query sees the last ``window`` tokens, itself included; None: all."""
    n_sinks: int = 0
    """So many first tokens of a text stay visible although the window has left them behind."""

    def __post_init__(self) -> None:
        if self.n_kv_heads == 0:
            object.__setattr__(self, "n_kv_heads", self.n_heads)
        self._check_sizes()
        for name, allowed in (("positions", Positions), ("norm", Norm), ("mlp", Mlp)):
            if getattr(self, name) not in get_args(allowed):
                raise ValueError(
                    f"{name} must be one of {', '.join(get_args(allowed))}, "
                    f"got {getattr(self, name)!r}"
                )
        if self.positions == "rope" and self.head_dim % 2:
            raise ValueError(f"rope turns pairs of features, got head dim {self.head_dim}")
        if self.n_sinks and self.window is None:
            raise ValueError(f"n_sinks {self.n_sinks} needs a window: without one all tokens stay")

    def _check_sizes(self) -> None:
        sizes = ("n_layers", "width", "n_heads", "n_kv_heads", "mlp_width", "max_positions")
        optional = [name for name in ("vocab_size", "window") if getattr(self, name) is not None]
        for name in (*sizes, *optional, "n_sinks"):
            size, least = getattr(self, name), 0 if name == "n_sinks" else 1
            if isinstance(size, bool):
                raise ValueError(f"{name} must be an integer, got {size}")
            # Python's own: NumPy's narrow integers would wrap around in a product.
            object.__setattr__(self, name, check_integer(name, size, least))
        for whole, part in (("width", "n_heads"), ("n_heads", "n_kv_heads")):
            if getattr(self, whole) % getattr(self, part):
                raise ValueError(
                    f"{whole} must be a multiple of {part}, got {whole} {getattr(self, whole)} "
                    f"and {part} {getattr(self, part)}"
                )

    @property
    def head_dim(self) -> int:
        """Features of one attention head."""
        return self.width // self.n_heads

    @property
    def has_biases(self) -> bool:
        """Whether norms and linear layers add a bias."""
        return self.norm == "layernorm"


REFERENCE = DecoderConfig()
"""The two-layer decoder of the explainer: 145,280 parameters."""

LAB = DecoderConfig(width=16, n_heads=1, vocab_size=None, max_positions=64, mlp="none")
"""Two layers of attention alone, 16 features, one head: vectors in, hidden states out."""

MODERN = DecoderConfig(n_kv_heads=2, positions="rope", norm="rmsnorm", mlp="swiglu")
"""The parts of today's open models at the reference's size: RoPE, RMSNorm, SwiGLU, GQA."""
