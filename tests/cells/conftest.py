"""A notebook without a page: runs cells and keeps what they wrote."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from kvlab.cell_runner import CellResult, CellRunner


class Notebook:
    """A runner and ``written``: the (kind, text) pairs of its cells, in the order of writing."""

    def __init__(self) -> None:
        self.written: list[tuple[str, str]] = []
        self.runner = CellRunner(lambda kind, text: self.written.append((kind, text)))

    def run(self, source: str, number: int = 1) -> CellResult:
        # In a thread of its own: Playwright keeps a loop running in the main one.
        with ThreadPoolExecutor(max_workers=1) as thread:
            return thread.submit(asyncio.run, self.runner.run(source, number)).result()

    def error(self, source: str, number: int = 1) -> str:
        """The traceback of a cell that must fail."""
        result = self.run(source, number)
        assert result.error is not None
        assert result.value is None
        return result.error

    def printed(self, source: str, number: int = 1) -> str:
        """The standard output of a cell that must not fail."""
        self.written.clear()
        result = self.run(source, number)
        assert result.error is None, result.error
        return self.text("stdout")

    def text(self, kind: str) -> str:
        return "".join(text for of_kind, text in self.written if of_kind == kind)


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()
