"""Six tokens, one cache

Four tokens are prefilled, the last two are fed in one call. Look at the shapes, at what each
query reads, and at what the first row of logits is about.
"""

import numpy as np

import kvproof
from kvproof.model.layers import embed, layer_norm, project_qkv

config = kvproof.REFERENCE
params = kvproof.init_params(config, seed=0)
tokens = np.array([[12, 7, 31, 4, 9, 18]])  # (B, T)

empty = kvproof.new_cache(config)
_, past = kvproof.decode(params, tokens[:, :4], empty, config)
logits, cache = kvproof.decode(params, tokens[:, 4:], past, config)

# Layer 1 once more: queries of the two new tokens, keys and values of all six.
block = params.blocks[0]
x = embed(params, tokens[:, 4:], np.array([4, 5]))
x = layer_norm(x, block.norm1)
q, _, _ = project_qkv(x, block, config)
k, v = cache.keys_values()[0]
scores = q @ k.swapaxes(-1, -2)
print("Q      ", q.shape)
print("K and V", k.shape, v.shape)
print("scores ", scores.shape)
print("logits ", logits.shape)
for row, keys in enumerate(kvproof.offset_mask(n_past=4, n_new=2)):
    print(f"query {4 + row} reads keys", *np.flatnonzero(keys))

full = kvproof.forward(params, tokens, config)  # all six tokens, no cache
print(f"off the full recompute by {abs(logits - full[:, 4:]).max():.1e}")
print(f"compared one row too early: {abs(logits - full[:, 3:5]).max():.1e}")
print(f"logits[:, 0] come after reading ID {tokens[0, 4]} at position 4:")
print(f"they rate the token that follows, not ID {tokens[0, 4]} itself.")
