"""The shape of a decoder, in one frozen dataclass."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes of a pre-norm decoder with learned absolute positions.

    All sizes are counts (no units): ``vocab_size`` tokens, ``max_positions`` positions,
    ``width`` and ``mlp_width`` features.

    Raises:
        ValueError: a size is not positive, or ``width`` is not a multiple of ``n_heads``.
    """

    n_layers: int = 2
    width: int = 64
    n_heads: int = 4
    vocab_size: int = 97
    mlp_width: int = 256
    max_positions: int = 512

    def __post_init__(self) -> None:
        for name, size in vars(self).items():
            if size < 1:
                raise ValueError(f"{name} must be at least 1, got {size}")
        if self.width % self.n_heads:
            raise ValueError(
                f"width must be a multiple of n_heads, got width {self.width} "
                f"and n_heads {self.n_heads}"
            )

    @property
    def head_dim(self) -> int:
        """Features of one attention head."""
        return self.width // self.n_heads


REFERENCE = DecoderConfig()
"""The two-layer decoder of the explainer: 145,280 parameters."""
