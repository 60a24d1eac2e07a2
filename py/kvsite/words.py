"""The page's words: a catalogue of messages for each language (``site/texts``)."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvsite.paths import ROOT

TEXTS = ROOT / "site" / "texts"
PLACE = re.compile(r"\{(\w+)\}")


class Catalogue(dict[str, str]):
    """Message ID -> text with ``{name}`` for each place that is filled in."""

    def say(self, message: str, **args: object) -> str:
        """The text of a message with its places filled in.

        Raises:
            ValueError: there is no such message, or the arguments aren't its places.
        """
        if message not in self:
            raise ValueError(f"no message {message!r}")
        text = self[message]
        if places(text) != args.keys():
            needs = ", ".join(sorted(places(text)))
            given = ", ".join(sorted(args))
            raise ValueError(f"message {message!r} needs ({needs}), got ({given})")
        return PLACE.sub(lambda place: str(args[place[1]]), text)

    def paragraph(self, sentences: list[str]) -> str:
        """Sentences of one paragraph, joined as the language does."""
        return self["sentence-gap"].join(sentences)


def load_catalogue(file: Path) -> Catalogue:
    """The messages of a TOML file; tables give the first parts of an ID."""
    return Catalogue(_flat("", tomllib.loads(file.read_text(encoding="utf-8"))))


def _flat(prefix: str, table: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{key}.", value)
        else:
            yield f"{prefix}{key}", value


def places(text: str) -> set[str]:
    """Names of the places in a message."""
    return set(PLACE.findall(text))
