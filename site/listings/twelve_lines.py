import numpy as np


def test_cache():
    tokens = np.array([[3, 1, 4]])  # PyTorch: torch.tensor([[3, 1, 4]])
    expected = np.array(full(tokens)[0].tolist())  # (3, V), no cache
    first, cache = step(tokens[:, :1], None)  # a prefill of 1 ...
    rest, cache = step(tokens[:, 1:], cache)  # ... then a chunk of 2
    cached = np.array(first[0].tolist() + rest[0].tolist())
    error = np.abs(cached - expected).max()
    floor = 2.0**-23 * np.abs(expected).max()  # eps of float32
    assert error <= 256 * floor, f"off by {error:.2g}, floor {floor:.2g}"
