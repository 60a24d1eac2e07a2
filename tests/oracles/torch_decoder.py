"""The decoder a second time, in PyTorch: every variant, a plain pass over whole texts, no cache.

It shares no line with kvproof, only the names of the arrays and of the configuration's fields.
Where PyTorch has a function of its own (LayerNorm, RMSNorm, GELU, SiLU, attention with grouped
heads), that function is used.  Padding isn't implemented at all: a row of a left-padded batch
must equal the row alone, so ``alone`` runs each row by itself.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from kvproof import DecoderConfig

KeysValues = list[tuple[NDArray[np.floating], NDArray[np.floating]]]
"""K and V of each layer, each (B, Hkv, T, D); keys are turned if positions are rotary."""


class TorchDecoder:
    """Whole texts in, logits (or hidden states) and keys and values out.

    Each choice that a decoder can get wrong is a method of its own, so that a test's control
    replaces one and leaves the rest.
    """

    eps = 1e-5

    def __init__(self, arrays: Mapping[str, NDArray[np.floating]], config: DecoderConfig) -> None:
        self.config = config
        self.arrays = {name: torch.from_numpy(array) for name, array in arrays.items()}
        self.dtype = self.arrays["final_norm.gain"].dtype

    # --- Choices --------------------------------------------------------------------------------

    def positions(self, n_total: int) -> Tensor:
        """Where the tokens stand: (T,)."""
        return torch.arange(n_total)

    def visible(self, n_total: int) -> Tensor:
        """Bool (T, T): a triangle, less what has left the window, plus the sinks."""
        past = torch.ones(n_total, n_total, dtype=torch.bool).tril()
        if self.config.window is None:
            return past
        seen = past.triu(1 - self.config.window)
        seen[:, : self.config.n_sinks] = True
        return seen & past

    def kv_head_of(self) -> Tensor:
        """Which K/V head each query head reads: (H,), 0 0 1 1 for four over two."""
        return torch.arange(self.config.n_heads) * self.config.n_kv_heads // self.config.n_heads

    def slopes(self) -> Tensor:
        """ALiBi's slope of each head (H,): 1/2**(8/H) and its powers (Press et al. 2022)."""
        ratio = torch.tensor(2.0 ** (-8 / self.config.n_heads), dtype=self.dtype)
        return ratio.repeat(self.config.n_heads).cumprod(0)

    def turn(self, x: Tensor, n_total: int) -> Tensor:
        """RoPE (Su et al. 2021) as a product of complex numbers: (B, H, T, D) -> the same.

        Feature d of the first half and of the second half are real and imaginary part.
        """
        half = self.config.head_dim // 2
        speeds = 10_000.0 ** -(torch.arange(half, dtype=self.dtype) / half)
        angles = torch.outer(self.positions(n_total).to(self.dtype), speeds)  # (T, D/2)
        turned = torch.complex(*x.split(half, dim=-1)) * torch.exp(1j * angles)
        return torch.cat([turned.real, turned.imag], dim=-1)

    def gelu(self, x: Tensor) -> Tensor:
        """The tanh form."""
        return F.gelu(x, approximate="tanh")

    def gate(self, x: Tensor) -> Tensor:
        """SwiGLU (Shazeer 2020), gate first: (..., 2M) -> (..., M)."""
        gate, up = x.chunk(2, dim=-1)
        return F.silu(gate) * up

    def norm(self, x: Tensor, name: str) -> Tensor:
        """LayerNorm, or RMSNorm where there is no bias."""
        gain, shape = self.arrays[f"{name}.gain"], (self.config.width,)
        if self.config.norm == "rmsnorm":
            return F.rms_norm(x, shape, gain, self.eps)
        return F.layer_norm(x, shape, gain, self.arrays[f"{name}.bias"], self.eps)

    # --- The pass -------------------------------------------------------------------------------

    def __call__(self, tokens: ArrayLike) -> tuple[NDArray[np.floating], KeysValues]:
        """Read int (B, T), or vectors (B, T, W) if the decoder has no vocabulary."""
        x = torch.from_numpy(np.array(tokens))
        n_total = x.shape[1]
        if self.config.vocab_size is not None:
            x = F.embedding(x, self.arrays["token_embedding"])
        if self.config.positions == "learned":
            x = x + self.arrays["position_embedding"][self.positions(n_total)]
        keys_values = []
        for i in range(self.config.n_layers):
            attended, k, v = self._attention(self.norm(x, f"block{i}.norm1"), f"block{i}.attention")
            keys_values.append((k.numpy(), v.numpy()))
            x = x + attended
            if self.config.mlp != "none":
                x = x + self._mlp(self.norm(x, f"block{i}.norm2"), f"block{i}.mlp")
        x = self.norm(x, "final_norm")
        if self.config.vocab_size is not None:
            x = x @ self.arrays["unembedding"]
        return x.numpy(), keys_values

    def _attention(self, x: Tensor, name: str) -> tuple[Tensor, Tensor, Tensor]:
        config, n_total = self.config, x.shape[1]
        heads = (config.n_heads, config.n_kv_heads, config.n_kv_heads)
        sizes = [n * config.head_dim for n in heads]
        q, k, v = (
            part.unflatten(-1, (n, config.head_dim)).transpose(1, 2)
            for part, n in zip(
                self._linear(x, name, "qkv").split(sizes, dim=-1), heads, strict=True
            )
        )
        if config.positions == "rope":
            q, k = self.turn(q, n_total), self.turn(k, n_total)
        bias = torch.zeros(config.n_heads, n_total, n_total, dtype=self.dtype)
        if config.positions == "alibi":
            positions = self.positions(n_total)
            distance = (positions[:, None] - positions).to(self.dtype)
            bias = bias - self.slopes()[:, None, None] * distance
        bias = bias.masked_fill(~self.visible(n_total), -torch.inf)
        of = self.kv_head_of()
        attended = F.scaled_dot_product_attention(q, k[:, of], v[:, of], attn_mask=bias)
        return self._linear(attended.transpose(1, 2).flatten(2), name, "out"), k, v

    def _mlp(self, x: Tensor, name: str) -> Tensor:
        hidden = self._linear(x, name, "in")
        hidden = self.gate(hidden) if self.config.mlp == "swiglu" else self.gelu(hidden)
        return self._linear(hidden, name, "out")

    def _linear(self, x: Tensor, name: str, suffix: str) -> Tensor:
        return F.linear(
            x, self.arrays[f"{name}.w_{suffix}"].T, self.arrays.get(f"{name}.b_{suffix}")
        )


def alone(
    decoder: TorchDecoder, tokens: NDArray[np.generic], lengths: Sequence[int]
) -> list[NDArray[np.floating]]:
    """Logits (length, V) of each row of a left-padded batch, read by itself without its pads."""
    rows = zip(tokens, lengths, strict=True)
    return [decoder(row[None, len(row) - length :])[0][0] for row, length in rows]
