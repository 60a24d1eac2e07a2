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

from kvproof.model.config import DecoderConfig
from kvproof.model.masks import check_integer

FloatArray = NDArray[np.floating]

# Dataclasses with arrays compare by identity (eq=False): `==` of arrays isn't a truth value.


@dataclass(frozen=True, eq=False)
class Norm:
    """LayerNorm with ``gain`` (width,) and ``bias`` (width,); RMSNorm has no bias."""

    gain: FloatArray
    bias: FloatArray | None


@dataclass(frozen=True, eq=False)
class Attention:
    """Projections into heads and back.

    ``w_qkv`` (width, (n_heads + 2 * n_kv_heads) * head_dim) holds the columns of the queries, the
    keys, the values; ``w_out`` (width, width).
    """

    w_qkv: FloatArray
    b_qkv: FloatArray | None
    w_out: FloatArray
    b_out: FloatArray | None


@dataclass(frozen=True, eq=False)
class Mlp:
    """``w_in`` (width, mlp_width), ``w_out`` (mlp_width, width).

    With SwiGLU ``w_in`` (width, 2 * mlp_width) holds the columns of the gate, then those that are
    gated.
    """

    w_in: FloatArray
    b_in: FloatArray | None
    w_out: FloatArray
    b_out: FloatArray | None


@dataclass(frozen=True, eq=False)
class Block:
    """One pre-norm block: attention residual, then MLP residual if the model has one."""

    norm1: Norm
    attention: Attention
    norm2: Norm | None
    mlp: Mlp | None


@dataclass(frozen=True, eq=False)
class Params:
    """All parameters of a decoder; None where a variant has no such array.

    ``token_embedding`` (vocab_size, width), ``position_embedding`` (max_positions, width),
    ``unembedding`` (width, vocab_size): untied and without a bias.
    """

    token_embedding: FloatArray | None
    position_embedding: FloatArray | None
    blocks: tuple[Block, ...]
    final_norm: Norm
    unembedding: FloatArray | None

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The one dtype of all parameters, and so of the logits."""
        return self.final_norm.gain.dtype


def parameter_shapes(config: DecoderConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of each parameter array, in the order in which they are drawn."""
    width = config.width
    vocab_size = config.vocab_size
    shapes: dict[str, tuple[int, ...]] = {}
    if vocab_size is not None:
        shapes["token_embedding"] = (vocab_size, width)
    if config.positions == "learned":
        shapes["position_embedding"] = (config.max_positions, width)
    for i in range(config.n_layers):
        shapes |= {f"block{i}.{name}": shape for name, shape in _block_shapes(config).items()}
    shapes |= {"final_norm.gain": (width,), "final_norm.bias": (width,)}
    if vocab_size is not None:
        shapes["unembedding"] = (width, vocab_size)
    if config.has_biases:
        return shapes
    return {name: shape for name, shape in shapes.items() if not _is_bias(name)}


def _block_shapes(config: DecoderConfig) -> dict[str, tuple[int, ...]]:
    width, mlp_width = config.width, config.mlp_width
    qkv_width = (config.n_heads + 2 * config.n_kv_heads) * config.head_dim
    shapes: dict[str, tuple[int, ...]] = {
        "norm1.gain": (width,),
        "norm1.bias": (width,),
        "attention.w_qkv": (width, qkv_width),
        "attention.b_qkv": (qkv_width,),
        "attention.w_out": (width, width),
        "attention.b_out": (width,),
    }
    if config.mlp == "none":
        return shapes
    in_width = 2 * mlp_width if config.mlp == "swiglu" else mlp_width
    return shapes | {
        "norm2.gain": (width,),
        "norm2.bias": (width,),
        "mlp.w_in": (width, in_width),
        "mlp.b_in": (in_width,),
        "mlp.w_out": (mlp_width, width),
        "mlp.b_out": (width,),
    }


def _is_bias(name: str) -> bool:
    last = name.rpartition(".")[2]
    return last == "bias" or last.startswith("b_")


def parameter_count(config: DecoderConfig) -> int:
    """Number of scalar parameters; 145,280 for ``REFERENCE``.

    Example:
        >>> kvproof.parameter_count(kvproof.REFERENCE)
        145280
    """
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
        ValueError: another dtype, or a seed that isn't a non-negative integer.

    Example:
        >>> params = kvproof.init_params(kvproof.REFERENCE, seed=1, dtype="float64")
        >>> params.dtype, params.blocks[0].attention.w_qkv.shape
        (dtype('float64'), (64, 192))
    """
    rng = np.random.default_rng(check_integer("seed", seed, least=0))
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
        found = np.dtype(dtype if dtype else "none")  # to NumPy, None means float64
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

    Example:
        >>> arrays = kvproof.params_to_arrays(kvproof.init_params(kvproof.REFERENCE))
        >>> params = kvproof.params_from_arrays(arrays, kvproof.REFERENCE)
        >>> params.unembedding.shape
        (64, 97)
    """
    _check_arrays(arrays, config)

    def norm(prefix: str) -> Norm:
        return Norm(arrays[f"{prefix}.gain"], arrays.get(f"{prefix}.bias"))

    def linear(prefix: str, name: str) -> tuple[FloatArray, FloatArray | None]:
        return arrays[f"{prefix}.w_{name}"], arrays.get(f"{prefix}.b_{name}")

    def block(prefix: str) -> Block:
        attention = f"{prefix}.attention"
        norm1 = norm(f"{prefix}.norm1")
        attend = Attention(*linear(attention, "qkv"), *linear(attention, "out"))
        if config.mlp == "none":
            return Block(norm1, attend, None, None)
        mlp = Mlp(*linear(f"{prefix}.mlp", "in"), *linear(f"{prefix}.mlp", "out"))
        return Block(norm1, attend, norm(f"{prefix}.norm2"), mlp)

    return Params(
        arrays.get("token_embedding"),
        arrays.get("position_embedding"),
        tuple(block(f"block{i}") for i in range(config.n_layers)),
        norm("final_norm"),
        arrays.get("unembedding"),
    )


def params_to_arrays(params: Params) -> dict[str, FloatArray]:
    """The flat dictionary of ``params``: the inverse of ``params_from_arrays``, without copies.

    Returns:
        name -> array, as ``numpy.savez`` takes it; the names are those of ``Params``' attributes,
        such as ``block0.attention.w_qkv``.

    Example:
        >>> arrays = kvproof.params_to_arrays(kvproof.init_params(kvproof.LAB))
        >>> list(arrays)[:3]
        ['position_embedding', 'block0.norm1.gain', 'block0.norm1.bias']
    """
    arrays = {
        "token_embedding": params.token_embedding,
        "position_embedding": params.position_embedding,
    }
    for i, block in enumerate(params.blocks):
        for part_name, part in vars(block).items():
            if part is not None:
                arrays |= {f"block{i}.{part_name}.{name}": a for name, a in vars(part).items()}
    arrays |= {
        "final_norm.gain": params.final_norm.gain,
        "final_norm.bias": params.final_norm.bias,
        "unembedding": params.unembedding,
    }
    return {name: array for name, array in arrays.items() if array is not None}


def _check_arrays(arrays: Mapping[str, FloatArray], config: DecoderConfig) -> None:
    shapes = parameter_shapes(config)
    if missing := sorted(shapes.keys() - arrays.keys()):
        raise ValueError(f"parameters are missing: {', '.join(missing)}")
    if unknown := sorted(arrays.keys() - shapes.keys()):
        raise ValueError(f"unknown parameters: {', '.join(unknown)}")
    dtype = float_dtype(arrays["final_norm.gain"].dtype)
    for name, shape in shapes.items():
        if arrays[name].shape != shape or arrays[name].dtype != dtype:
            raise ValueError(
                f"{name} must be {shape} {dtype}, got {arrays[name].shape} {arrays[name].dtype}"
            )
