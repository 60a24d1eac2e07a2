# model(ids, cache) -> logits (B, C, V), next cache
mine = kvproof.adapters.torch_module(
    model,
    step=model,
    full=lambda ids: model(ids, None)[0],
    vocab_size=32000,
    max_length=2048,
)
print(kvproof.check(mine))
