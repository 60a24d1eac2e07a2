"""What a report says, by the IDs of its messages."""

from collections.abc import Iterable, Iterator
from typing import Any

from kvproof.checking import Finding, Report
from kvproof.checking.messages import Message


def ids(messages: Iterable[Message]) -> list[str]:
    return [message.id for message in messages]


def evidence(report: Report) -> list[str]:
    return [name for finding in report.findings for name in ids(finding.evidence)]


def all_said(report: Report) -> Iterator[Message]:
    yield from (*report.checked, *report.not_checked, *report.notes)
    for finding in report.findings:
        yield from finding.evidence
        yield from (other.why for other in finding.alternatives if other.why is not None)


def run_snippet(finding: Finding, decoder: Any, **names: Any) -> list[tuple[Any, ...]]:
    """What the lines to paste print, line by line."""
    printed: list[tuple[Any, ...]] = []
    shown = {"decoder": decoder, "print": lambda *words: printed.append(words)}
    exec(finding.snippet, shown | names)
    return printed
