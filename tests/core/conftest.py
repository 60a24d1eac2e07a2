"""What most tests of the core need: parameters in both precisions."""

from functools import cache

import pytest
import torch

from kvproof import REFERENCE, Params, init_params

# On arrays this small PyTorch's threads only wait for each other: 30 times slower with two.
torch.set_num_threads(1)


@pytest.fixture(params=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def params(dtype: str) -> Params:
    """The reference decoder's parameters of seed 0; never written to."""
    return _reference_params(dtype)


@pytest.fixture
def tolerance(dtype: str) -> float:
    """What a right cache may be off by: room for a few units of rounding, none for a mistake."""
    return {"float32": 2e-6, "float64": 1e-14}[dtype]


@cache
def _reference_params(dtype: str) -> Params:
    return init_params(REFERENCE, 0, dtype)
