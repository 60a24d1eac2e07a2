"""The page's words: a catalogue of messages for each language (``site/texts``)."""

from pathlib import Path

from kvproof.checking import messages
from kvproof.checking.messages import places
from kvsite.paths import ROOT

__all__ = ["TEXTS", "Catalogue", "load_catalogue", "places"]

TEXTS = ROOT / "site" / "texts"


class Catalogue(messages.Catalogue):
    """Message ID -> text with ``{name}`` for each place that is filled in."""

    def paragraph(self, sentences: list[str]) -> str:
        """Sentences of one paragraph, joined as the language does."""
        return self["sentence-gap"].join(sentences)


def load_catalogue(file: Path) -> Catalogue:
    """The messages of a TOML file; tables give the first parts of an ID."""
    return Catalogue(messages.load_catalogue(file))
