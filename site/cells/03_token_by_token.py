"""Keys and values, reused token by token

One attention head in plain NumPy. Each step projects one new token and keeps its key and value;
the rows must equal those of one pass over the whole text.
"""

import math

import numpy as np

T, D = 8, 16  # tokens, head dim
rng = np.random.default_rng(0)
x = rng.standard_normal((T, D))
w_q, w_k, w_v = rng.standard_normal((3, D, D)) / math.sqrt(D)


def attend(q, k, v, visible):
    scores = np.where(visible, q @ k.T / math.sqrt(D), -math.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


full = attend(x @ w_q, x @ w_k, x @ w_v, np.tri(T, dtype=bool))

keys, values = np.empty((0, D)), np.empty((0, D))
errors = []
for t in range(T):
    new = x[t : t + 1]  # the only row that is projected
    keys = np.vstack([keys, new @ w_k])
    values = np.vstack([values, new @ w_v])
    row = attend(new @ w_q, keys, values, visible=True)  # nothing to hide
    errors.append(abs(row - full[t]).max())
    print(f"token {t}: K and V {keys.shape}, error {errors[-1]:.1e}")

floor = np.finfo(full.dtype).eps * abs(full).max()
print(f"largest error {max(errors):.1e}, rounding floor {floor:.1e}")
print(f"rows projected: {T} with reuse, {T * (T + 1) // 2} without")
