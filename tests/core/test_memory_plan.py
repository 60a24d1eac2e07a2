"""Bytes of published models: the formula written out, and what each way saves."""

import pytest

from kvproof import plan_memory
from kvproof.experiments.costs import SCALE_BYTES
from kvproof.experiments.model_shapes import MODEL_SHAPES


@pytest.mark.parametrize("model", MODEL_SHAPES)
@pytest.mark.parametrize(("context", "batch_size"), [(1, 1), (1024, 2), (8192, 1), (131072, 64)])
@pytest.mark.parametrize(("dtype", "size", "scale"), [("float32", 4, 0), ("int8", 1, SCALE_BYTES)])
def test_bytes_are_layers_times_tokens_times_heads(
    model: str, context: int, batch_size: int, dtype: str, size: int, scale: int
) -> None:
    shape, kept = MODEL_SHAPES[model], plan_memory(model, context, batch_size, dtype)

    def layers(n_layers: int, tokens: int, heads: int) -> int:
        head = (shape.head_dim + shape.value_dim) * size + 2 * scale
        return batch_size * n_layers * tokens * heads * head

    assert kept.cached == layers(shape.n_layers, context, shape.n_kv_heads)
    if shape.n_kv_heads == shape.n_heads:
        assert kept.heads is None
    else:
        assert kept.heads == layers(shape.n_layers, context, shape.n_heads)
    if shape.window is not None and shape.window < context:
        n_full = shape.n_layers - shape.n_windowed_layers
        ring = layers(shape.n_windowed_layers, shape.window, shape.n_kv_heads)
        assert kept.rolling == layers(n_full, context, shape.n_kv_heads) + ring
    else:
        assert kept.rolling is None
    if shape.latent_dim is None:
        assert kept.latent is None
    else:
        vector = shape.latent_dim * size + scale
        assert kept.latent == batch_size * shape.n_layers * context * vector


def test_what_is_saved_is_against_heads_that_share_nothing() -> None:
    kept = plan_memory("mistral-7b", context=8192)
    assert kept.rolling == kept.least == kept.cached // 2
    assert kept.saved == 8.0, "4 query heads a key, and half the tokens"
    assert plan_memory("llama-2-7b", context=8192).saved == 1.0
    mla = plan_memory("deepseek-v3", context=100)
    assert mla.least == mla.latent
    assert mla.saved == pytest.approx(128 * (192 + 128) / 576)


def test_other_heads_than_the_published_ones() -> None:
    published = plan_memory("llama-3-8b", context=8192)
    one = plan_memory("llama-3-8b", context=8192, kv_heads=1)
    each = plan_memory("llama-3-8b", context=8192, kv_heads=32)
    assert (one.cached, each.cached) == (published.cached // 8, published.heads)
    assert (one.heads, each.heads) == (published.heads, None)
    assert (one.saved, each.saved) == (32.0, 1.0)
    ring = plan_memory("mistral-7b", context=8192, kv_heads=1)
    assert ring.rolling == ring.cached // 2


def test_a_compressed_vector_stands_for_the_published_heads_only() -> None:
    one = plan_memory("deepseek-v3", context=100, kv_heads=1)
    assert one.latent is None
    assert one.least == one.cached == 61 * 100 * (192 + 128) * 2
    assert plan_memory("deepseek-v3", context=100, kv_heads=128).saved == 1.0
