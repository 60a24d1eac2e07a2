"""What the checker says: messages with arguments, and a catalogue of their texts for each language.

The texts are in ``texts``, a TOML file a language; ``{name}`` in one is a place for an argument.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

LANGUAGES = ("en", "zh-hans", "zh-hant")
"""English, Chinese in simplified characters, and in the traditional ones of Taiwan."""
TEXTS = Path(__file__).with_name("texts")
PLACE = re.compile(r"\{(\w+)\}")


class Catalogue(dict[str, str]):
    """Message ID -> text with ``{name}`` for each place that is filled in."""

    def say(self, message: str, **args: object) -> str:
        """The text of a message with its places filled in.

        Raises:
            ValueError: there is no such message, or the arguments aren't its places.
        """
        self.expect(message, args)
        return PLACE.sub(lambda place: self.written(args[place[1]]), self[message])

    def expect(self, message: str, args: dict[str, Any]) -> None:
        """Raise a ValueError, as ``say`` does, if it couldn't be said."""
        if message not in self:
            raise ValueError(f"no message {message!r}")
        wanted = places(self[message])
        if wanted != args.keys():
            needs, given = ", ".join(sorted(wanted)), ", ".join(sorted(args))
            raise ValueError(f"message {message!r} needs ({needs}), got ({given})")

    def written(self, value: object) -> str:
        """An argument as it stands in a text: the only place where numbers are formatted."""
        if isinstance(value, Message):
            return self.say(value.id, **value.args)
        if isinstance(value, (list, tuple)):
            items = [self.written(item) for item in value]
            have_commas = any("," in item or "，" in item for item in items)
            return self["semicolon" if have_commas else "comma"].join(items)
        return f"{value:.3g}" if isinstance(value, float) else str(value)


class Message:
    """A sentence, or a part of one, before it is put into words.

    Args:
        name: its ID in the catalogues.
        args: what goes into its places: numbers, names, texts of others (such as what an exception
            says), further messages, or lists of these.

    Raises:
        ValueError: there is no such message, or the arguments aren't its places.

    ``str()`` of it is English.
    """

    def __init__(self, name: str, /, **args: Any) -> None:
        catalogue("en").expect(name, args)
        self.id = name
        self.args = args

    def text(self, language: str = "en") -> str:
        """In one of ``LANGUAGES``.

        Raises:
            ValueError: there is no such language.
        """
        return catalogue(language).written(self)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return (
            f"Message({', '.join([repr(self.id), *(f'{k}={v!r}' for k, v in self.args.items())])})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and (self.id, self.args) == (other.id, other.args)

    def __hash__(self) -> int:
        return hash(self.id)


def catalogue(language: str) -> Catalogue:
    """The checker's texts in a language, read once.

    Raises:
        ValueError: it isn't one of ``LANGUAGES``.
    """
    if language not in LANGUAGES:
        raise ValueError(f"no language {language!r}: choose one of {', '.join(LANGUAGES)}")
    return _loaded(language)


@cache
def _loaded(language: str) -> Catalogue:
    return load_catalogue(TEXTS / f"{language}.toml")


def load_catalogue(file: Path) -> Catalogue:
    """The messages of a TOML file; tables give the first parts of an ID."""
    import tomllib  # not before something is said: labs in the browser import all this

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
