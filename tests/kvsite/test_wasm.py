"""What is taken out of the installed packages for the browser's Python."""

from importlib.metadata import files

import pytest

from kvsite import wasm


@pytest.mark.parametrize("name", wasm.DATA_FILES)
def test_data_files_are_in_the_installed_packages(name: str) -> None:
    installed = (str(file) for package in wasm.DISTRIBUTIONS for file in files(package) or [])
    assert any(file.endswith(name) for file in installed)
