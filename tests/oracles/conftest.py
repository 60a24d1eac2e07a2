"""What the oracles' tests share: both precisions, and what counts as the same result in each."""

import pytest
import torch

# On arrays this small PyTorch's threads only wait for each other.
torch.set_num_threads(1)


@pytest.fixture(params=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def tolerance(dtype: str) -> float:
    """Two right programs that add in another order differ by this much and no more."""
    return {"float32": 3e-6, "float64": 1e-14}[dtype]
