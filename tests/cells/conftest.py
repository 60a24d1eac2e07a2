"""A fresh notebook for each test."""

import pytest
from cell_notebook import Notebook


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()
