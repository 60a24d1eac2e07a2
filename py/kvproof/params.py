"""Parameters: made from one seed, the same arrays for NumPy and PyTorch.

The layout is a flat dictionary of arrays (what ``numpy.savez`` stores and what a PyTorch module
loads) next to frozen dataclasses (what the decoder reads).  Weights are ``(in, out)``: a linear
layer is ``x @ w + b``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kvproof.config import DecoderConfig

FloatArray = NDArray[np.floating]

# Dataclasses with arrays compare by identity (eq=False): `==` of arrays isn't a truth value.


@dataclass(frozen=True, eq=False)
class Norm:
    """LayerNorm: ``gain`` (width,) and ``bias`` (width,)."""

    gain: FloatArray
    bias: FloatArray


@dataclass(frozen=True, eq=False)
class Attention:
    """``w_qkv`` (width, 3 * width), ``b_qkv`` (3 * width,), ``w_out`` (width, width), ``b_out``."""

    w_qkv: FloatArray
    b_qkv: FloatArray
    w_out: FloatArray
    b_out: FloatArray


@dataclass(frozen=True, eq=False)
class Mlp:
    """``w_in`` (width, mlp_width), ``b_in``, ``w_out`` (mlp_width, width), ``b_out``."""

    w_in: FloatArray
    b_in: FloatArray
    w_out: FloatArray
    b_out: FloatArray


@dataclass(frozen=True, eq=False)
class Block:
    """One pre-norm block: attention residual, then MLP residual."""

    norm1: Norm
    attention: Attention
    norm2: Norm
    mlp: Mlp


@dataclass(frozen=True, eq=False)
class Params:
    """All parameters of a decoder.

    ``token_embedding`` (vocab_size, width), ``position_embedding`` (max_positions, width),
    ``unembedding`` (width, vocab_size): untied and without a bias.
    """

    token_embedding: FloatArray
    position_embedding: FloatArray
    blocks: tuple[Block, ...]
    final_norm: Norm
    unembedding: FloatArray

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The one dtype of all parameters, and so of the logits."""
        return self.unembedding.dtype


def parameter_shapes(config: DecoderConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of each parameter array, in the order in which they are drawn."""
    width, mlp_width = config.width, config.mlp_width
    shapes: dict[str, tuple[int, ...]] = {
        "token_embedding": (config.vocab_size, width),
        "position_embedding": (config.max_positions, width),
    }
    for i in range(config.n_layers):
        shapes |= {
            f"block{i}.norm1.gain": (width,),
            f"block{i}.norm1.bias": (width,),
            f"block{i}.attention.w_qkv": (width, 3 * width),
            f"block{i}.attention.b_qkv": (3 * width,),
            f"block{i}.attention.w_out": (width, width),
            f"block{i}.attention.b_out": (width,),
            f"block{i}.norm2.gain": (width,),
            f"block{i}.norm2.bias": (width,),
            f"block{i}.mlp.w_in": (width, mlp_width),
            f"block{i}.mlp.b_in": (mlp_width,),
            f"block{i}.mlp.w_out": (mlp_width, width),
            f"block{i}.mlp.b_out": (width,),
        }
    return shapes | {
        "final_norm.gain": (width,),
        "final_norm.bias": (width,),
        "unembedding": (width, config.vocab_size),
    }


def parameter_count(config: DecoderConfig) -> int:
    """Number of scalar parameters; 145,280 for ``REFERENCE``."""
    return sum(math.prod(shape) for shape in parameter_shapes(config).values())


def init_params(config: DecoderConfig, seed: int = 0, dtype: DTypeLike = "float32") -> Params:
    """Random parameters with enough contrast that a wrong position or mask shows in the logits.

    Embeddings are standard normal.  Weights are uniform in ``+-1 / sqrt(fan_in)``, the default of
    ``torch.nn.Linear``; biases in ``+-1 / sqrt(n)``, n their own length.  Norms are drawn around
    the identity, so that a forgotten gain or bias can't pass unseen.

    Args:
        config: sizes.
        seed: non-negative seed of ``numpy.random.default_rng`` (PCG64).
        dtype: "float32" or "float64".  float64 parameters are the float32 values converted, so
            that the two precisions differ in rounding only, never in the model.

    Raises:
        ValueError: another dtype.
    """
    rng = np.random.default_rng(seed)
    arrays = {
        name: _draw(rng, name, shape).astype(np.float32).astype(float_dtype(dtype))
        for name, shape in parameter_shapes(config).items()
    }
    return params_from_arrays(arrays, config)


def _draw(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    if name in ("token_embedding", "position_embedding"):
        return rng.standard_normal(shape)
    if name.endswith(".gain"):
        return 1.0 + 0.1 * rng.standard_normal(shape)
    if "norm" in name:
        return 0.1 * rng.standard_normal(shape)
    bound = 1.0 / math.sqrt(shape[0])
    return rng.uniform(-bound, bound, shape)


def float_dtype(dtype: DTypeLike) -> np.dtype[np.floating]:
    """``dtype`` as float32 or float64.

    Raises:
        ValueError: anything else.
    """
    try:
        found = np.dtype(dtype)
    except TypeError:
        raise ValueError(f"dtype must be float32 or float64, got {dtype!r}") from None
    for supported in (np.dtype(np.float32), np.dtype(np.float64)):
        if found == supported:
            return supported
    raise ValueError(f"dtype must be float32 or float64, got {found}")


def params_from_arrays(arrays: Mapping[str, FloatArray], config: DecoderConfig) -> Params:
    """Build ``Params`` from a flat dictionary, such as a loaded ``.npz``.

    Raises:
        ValueError: a name is missing or unknown, or a shape or dtype doesn't fit.
    """
    _check_arrays(arrays, config)

    def norm(prefix: str) -> Norm:
        return Norm(arrays[f"{prefix}.gain"], arrays[f"{prefix}.bias"])

    def block(i: int) -> Block:
        attention = (
            arrays[f"block{i}.attention.{n}"] for n in ("w_qkv", "b_qkv", "w_out", "b_out")
        )
        mlp = (arrays[f"block{i}.mlp.{n}"] for n in ("w_in", "b_in", "w_out", "b_out"))
        return Block(
            norm(f"block{i}.norm1"), Attention(*attention), norm(f"block{i}.norm2"), Mlp(*mlp)
        )

    return Params(
        arrays["token_embedding"],
        arrays["position_embedding"],
        tuple(block(i) for i in range(config.n_layers)),
        norm("final_norm"),
        arrays["unembedding"],
    )


def params_to_arrays(params: Params) -> dict[str, FloatArray]:
    """The flat dictionary of ``params``: the inverse of ``params_from_arrays``, without copies."""
    arrays = {
        "token_embedding": params.token_embedding,
        "position_embedding": params.position_embedding,
    }
    for i, block in enumerate(params.blocks):
        for part_name, part in vars(block).items():
            arrays |= {f"block{i}.{part_name}.{name}": a for name, a in vars(part).items()}
    return arrays | {
        "final_norm.gain": params.final_norm.gain,
        "final_norm.bias": params.final_norm.bias,
        "unembedding": params.unembedding,
    }


def _check_arrays(arrays: Mapping[str, FloatArray], config: DecoderConfig) -> None:
    shapes = parameter_shapes(config)
    if missing := sorted(shapes.keys() - arrays.keys()):
        raise ValueError(f"parameters are missing: {', '.join(missing)}")
    if unknown := sorted(arrays.keys() - shapes.keys()):
        raise ValueError(f"unknown parameters: {', '.join(unknown)}")
    dtype = float_dtype(arrays["unembedding"].dtype)
    for name, shape in shapes.items():
        if arrays[name].shape != shape or arrays[name].dtype != dtype:
            raise ValueError(
                f"{name} must be {shape} {dtype}, got {arrays[name].shape} {arrays[name].dtype}"
            )
