"""What the KV cache of a published model takes, by each way of keeping it."""

from dataclasses import dataclass, replace

from kvproof.experiments.costs import count_costs
from kvproof.experiments.model_shapes import MODEL_SHAPES
from kvproof.model.masks import check_integer


@dataclass(frozen=True)
class KeptBytes:
    """Bytes of keys and values by way of keeping them; None where the model has no such way."""

    model: str
    cached: int
    """All tokens, with the asked number of key and value heads."""
    heads: int | None
    """The same with a key and a value head for each query head."""
    rolling: int | None
    """Layers with a window keep a ring of it: only if the text is longer."""
    latent: int | None
    """MLA as published: the compressed vector of each token alone."""

    @property
    def least(self) -> int:
        """What the model has to keep: the smallest of the ways that it has."""
        return min(n for n in (self.cached, self.rolling, self.latent) if n is not None)

    @property
    def saved(self) -> float:
        """How many times as much keys and values for each query head would take."""
        return (self.heads or self.cached) / self.least


def plan_memory(
    model: str,
    context: int,
    batch_size: int = 1,
    dtype: str = "bfloat16",
    kv_heads: int | None = None,
) -> KeptBytes:
    """Count the bytes of a published model's KV cache, by formula; weights aren't in it.

    Args:
        model: a name of ``kvproof.experiments.model_shapes.MODEL_SHAPES``.
        context: tokens of each sequence, at least 1; whether the model can read so many isn't
            asked.
        batch_size: sequences of equal length, at least 1.
        dtype: of the kept numbers, as for ``count_costs``.
        kv_heads: key and value heads of each layer in place of the published number, a divisor of
            the query heads; None: as published.

    Raises:
        ValueError: the model or the dtype is unknown, or a number is out of range.

    Example:
        >>> kept = kvproof.plan_memory("llama-3-8b", context=8192)
        >>> kept.cached == 2**30, kept.saved
        (True, 4.0)
        >>> kvproof.plan_memory("llama-3-8b", context=8192, kv_heads=1).cached == 2**27
        True
    """
    if model not in MODEL_SHAPES:
        raise ValueError(f"model must be one of {', '.join(MODEL_SHAPES)}, got {model!r}")
    check_integer("context", context, least=1)
    shape = MODEL_SHAPES[model]
    if kv_heads is not None:
        check_integer("kv_heads", kv_heads)
        # A model with another number of heads has no compressed vector, since that stands for all.
        shape = replace(shape, n_kv_heads=kv_heads, latent_dim=None)
    case = context - 1, 1, batch_size, dtype  # the last token is the one that is read now
    costs = count_costs(shape, *case)
    heads = None
    if shape.n_kv_heads < shape.n_heads:
        unshared = replace(shape, n_kv_heads=shape.n_heads)
        heads = count_costs(unshared, *case).cached.kv_bytes
    rolling = None if costs.rolling is None else costs.rolling.kv_bytes
    latent = None if costs.latent is None else costs.latent.kv_bytes
    return KeptBytes(model, costs.cached.kv_bytes, heads, rolling, latent)
