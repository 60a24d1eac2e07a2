"""What the checker found, for people and for programs."""

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvproof.checking.cases import Case, Op
from kvproof.checking.messages import LANGUAGES, Message, catalogue
from kvproof.checking.names import Check
from kvproof.kinds import Kind


def meaning(kind: Kind) -> Message:
    """What a kind of mistake is, in a sentence."""
    return Message(f"kind.{kind}")


@dataclass(frozen=True)
class Alternative:
    """A kind that would explain what was seen, and how well."""

    kind: Kind
    confidence: float
    """0 to 1, comparable within one finding."""
    why: Message | None = None

    @property
    def message(self) -> Message:
        """All of it."""
        if self.why is None:
            return Message("report.alternative", kind=self.kind, confidence=self.confidence)
        return Message(
            "report.alternative-why", kind=self.kind, confidence=self.confidence, why=self.why
        )

    def __str__(self) -> str:
        return str(self.message)


@dataclass(frozen=True)
class Influence:
    """Which tokens move which rows of a chunk: with the cache, and in ``full``.

    A token also acts through later ones that have read it, so a row may be moved by a token that it
    does not see itself.
    """

    n_past: int
    n_new: int
    seen: tuple[tuple[bool, ...], ...]
    """(C, P + C): with the cache."""
    expected: tuple[tuple[bool, ...], ...]
    """(C, P + C): in ``full``."""

    def text(self, language: str = "en") -> str:
        """Drawn, below a line that says what the signs mean."""
        signs = {(True, True): "1", (False, False): ".", (False, True): "x", (True, False): "!"}
        rows = [
            "  " + " ".join(signs[pair] for pair in zip(seen, expected, strict=True))
            for seen, expected in zip(self.seen, self.expected, strict=True)
        ]
        head = Message("report.influence", past=self.n_past, new=self.n_new)
        return "\n".join([head.text(language), *rows])

    def __str__(self) -> str:
        return self.text()


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, in its smallest form."""

    kind: Kind
    """Equal to its name, as in ``finding.kind == "ALIAS"``."""
    check: Check
    """What it was found by."""
    case: Case | None
    """The smallest input that fails."""
    max_abs_error: float
    """Of the logits in that case; inf where they aren't finite."""
    tolerance: float
    """What the error was held against: above all noise that a right cache makes."""
    first_bad: Mapping[str, int] = field(default_factory=dict)
    """Where it starts: operation, row, position, and layer where that is known."""
    alternatives: tuple[Alternative, ...] = ()
    evidence: tuple[Message, ...] = ()
    snippet: str = ""
    confidence: float = 0.0
    influence: Influence | None = None
    """Drawn for one sequence in chunks, where it shows something."""
    doubtful: bool = False
    """It may be rounding; the last piece of evidence says how to tell."""

    def text(self, language: str = "en") -> str:
        """As plain text, in one of ``messages.LANGUAGES``."""
        words = catalogue(language)
        say = words.say
        parts = [words.written(message) for message in self._facts()]
        parts += [f"- {words.written(sentence)}" for sentence in self.evidence]
        if self.influence is not None:
            parts.append(self.influence.text(language))
        if self.alternatives:
            others = (f"  {words.written(other.message)}" for other in self.alternatives)
            parts.append("\n".join([say("report.alternatives"), *others]))
        if self.snippet:
            parts.append(f"{say('report.snippet')}\n{_indented(self.snippet)}")
        return f"{say('report.finding', kind=self.kind, meaning=meaning(self.kind))}\n" + (
            _indented("\n".join(parts))
        )

    def _facts(self) -> Iterator[Message]:
        if self.case is not None:
            yield Message("report.case", check=self.check, case=self.case.message)
        if self.max_abs_error > 0:
            yield Message("report.error", error=self.max_abs_error, tolerance=self.tolerance)
        if self.first_bad:
            places = [Message(f"place.{name}", n=n) for name, n in self.first_bad.items()]
            yield Message("report.first-bad", places=places)

    def __str__(self) -> str:
        return self.text()


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


MIME_TYPE = "application/vnd.kvproof.report+json"
"""Of a report as data, for a notebook that can draw one."""
LANGUAGE = "KVPROOF_LANGUAGE"
"""The environment variable with the language in which a notebook shows reports; unset: English."""


@dataclass(frozen=True)
class Report:
    """The verdict on a decoder."""

    decoder: str
    ok: bool
    """Nothing is wrong with what was checked, and at least ``full`` itself and one sequence in
    every chunking were; ``complete`` says whether that was all that can be checked here."""
    findings: tuple[Finding, ...]
    """Those beyond doubt first, and of them the most certain."""
    checked: tuple[Message, ...]
    not_checked: tuple[Message, ...]
    """What was left out, and what would unlock it."""
    notes: tuple[Message, ...]
    """What limits the verdict."""
    noise: float
    tolerance: float
    dtype: str
    n_calls: int
    seconds: float
    complete: bool = True
    """The budget was enough for all that is checked."""

    def text(self, language: str = "en") -> str:
        """As plain text; ``str()`` of it is English.

        Raises:
            ValueError: ``language`` isn't one of "en", "zh-hans" and "zh-hant".
        """
        words = catalogue(language)
        say = words.say
        lines = [
            say("report.head", decoder=self.decoder, verdict=self.verdict),
            say(
                "report.facts",
                calls=self.n_calls,
                seconds=self.seconds,
                dtype=self.dtype,
                noise=self.noise,
                tolerance=self.tolerance,
            ),
        ]
        for finding in self.findings:
            lines += ["", finding.text(language)]
        for title, said in (
            ("report.checked", self.checked),
            ("report.not-checked", self.not_checked),
            ("report.notes", self.notes),
        ):
            if said:
                lines += ["", say(title), *(f"  - {words.written(message)}" for message in said)]
        return "\n".join(lines)

    @property
    def in_doubt(self) -> bool:
        """All that was found may be rounding."""
        return bool(self.findings) and all(finding.doubtful for finding in self.findings)

    @property
    def verdict(self) -> Message:
        """In a few words."""
        if self.in_doubt:
            return Message("report.in-doubt")
        if self.findings:
            return Message("report.wrong")
        if not self.ok:
            return Message("report.not-known")
        return Message("report.right" if self.complete else "report.right-so-far")

    def __str__(self) -> str:
        return self.text()

    def to_dict(self, language: str = "en") -> dict[str, Any]:
        """All of it as JSON has it; numbers that aren't finite become strings.

        A message is its ``id``, its ``args``, and its ``text`` in a language, such as the
        ``verdict``; ``meanings`` are those of all kinds that are named.
        """
        content: dict[str, Any] = plain(self, language)
        kinds = [one.kind for one in self.findings]
        kinds += [other.kind for one in self.findings for other in one.alternatives]
        meanings = {kind: meaning(kind).text(language) for kind in kinds}
        return content | {"verdict": plain(self.verdict, language), "meanings": meanings}

    def to_json(self, language: str = "en") -> str:
        """``to_dict`` as strict JSON, indented."""
        return json.dumps(self.to_dict(language), indent=2, ensure_ascii=False, allow_nan=False)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """What a notebook shows: the text, or what it draws itself from the data.

        In English, where the environment asks for a language that there isn't.
        """
        language = os.environ.get(LANGUAGE, "")
        language = language if language in LANGUAGES else "en"
        return {"text/plain": self.text(language), MIME_TYPE: self.to_dict(language)}


def plain(value: Any, language: str = "en") -> Any:
    """As JSON has it: dataclasses become objects, numbers that aren't finite strings."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return str(value)  # an enum's name
    if isinstance(value, int) or value is None:
        return value
    if isinstance(value, Op):
        text = value.message.text(language)
        return {"action": value.action, "argument": plain(value.argument), "text": text}
    if isinstance(value, Mapping):
        return {key: plain(item, language) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [plain(item, language) for item in value]
    said = {"text": value.text(language)} if isinstance(value, Message) else {}
    return {name: plain(item, language) for name, item in vars(value).items()} | said


def unknown(check: Check, sentence: Message) -> Finding:
    """A finding that says what the decoder did instead of naming a bug."""
    return Finding(
        kind=Kind.UNKNOWN,
        check=check,
        case=None,
        max_abs_error=0.0,
        tolerance=0.0,
        evidence=(sentence,),
        confidence=0.5,
    )
