"""A decoder with one mistake

One attention layer in plain NumPy, written twice: with a cache and without. Run it and read the
report. Then mend the marked line, break another, or put your own decoder in its place.
"""

import numpy as np

import kvproof

VOCAB, LONGEST, D = 19, 24, 16  # tokens, positions, width


class MyDecoder:
    vocab_size, max_length = VOCAB, LONGEST

    def step(self, tokens, cache):  # (B, C), cache -> logits (B, C, V), cache
        n_past = 0 if cache is None else cache[0].shape[1]
        n_new = tokens.shape[1]
        rows, keys = np.arange(n_new)[:, None], np.arange(n_past + n_new)
        seen = keys <= rows  # the mistake: row i stands at n_past + i
        x = embedding[tokens] + place[n_past : n_past + n_new]
        k, v = x @ w_k, x @ w_v
        if cache is not None:
            k = np.concatenate([cache[0], k], axis=1)
            v = np.concatenate([cache[1], v], axis=1)
        x = x + attend(x @ w_q, k, v, seen)
        return x @ unembedding.T, (k, v)

    def full(self, tokens):  # (B, T) -> logits (B, T, V), no cache
        n = tokens.shape[1]
        x = embedding[tokens] + place[:n]
        seen = np.tri(n, dtype=bool)
        x = x + attend(x @ w_q, x @ w_k, x @ w_v, seen)
        return x @ unembedding.T

    # Optional, as are crop, fork and more: what is there gets checked, too.
    def length(self, cache):
        return cache[0].shape[1]

    def keys_values(self, cache):  # of each layer, (B, heads, T, head dim)
        return [(cache[0][:, None], cache[1][:, None])]


def attend(q, k, v, visible):
    scores = np.where(visible, q @ k.swapaxes(1, 2) / D**0.5, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


rng = np.random.default_rng(0)
embedding, unembedding = rng.normal(size=(2, VOCAB, D))
place = rng.normal(size=(LONGEST, D))
w_q, w_k, w_v = rng.normal(size=(3, D, D)) / D**0.5

kvproof.check(MyDecoder())
