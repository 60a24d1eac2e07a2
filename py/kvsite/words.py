"""The page's words: a catalogue of messages for each language (``site/texts``)."""

from pathlib import Path

from kvproof.checking import messages
from kvproof.checking.messages import places
from kvproof.story import WORDS, labels
from kvsite.paths import ROOT

__all__ = ["TEXTS", "Catalogue", "load_catalogue", "places", "specimen_names", "story_words"]

TEXTS = ROOT / "site" / "texts"


class Catalogue(messages.Catalogue):
    """Message ID -> text with ``{name}`` for each place that is filled in."""

    def paragraph(self, sentences: list[str]) -> str:
        """Sentences of one paragraph, joined as the language does."""
        return self["sentence-gap"].join(sentences)


def load_catalogue(file: Path) -> Catalogue:
    """The messages of a TOML file; tables give the first parts of an ID."""
    return Catalogue(messages.load_catalogue(file))


def specimen_names(source: str) -> dict[str, str]:
    """What the zoo's broken decoders are called in a language that is written: ``zoo.NAME``."""
    names = load_catalogue(TEXTS / f"zoo_{source}.toml")
    return {f"zoo.{specimen}": name for specimen, name in names.items()}


def story_words(language: str) -> dict[str, str]:
    """The words that the story's decoder knows, in one of its languages: ``word.TOKEN``.

    ``upright.TOKEN`` is the same for below a column: Chinese characters stand one upon the other.
    """
    names = labels(range(len(WORDS)), language)
    upright = names if language == "en" else ["\n".join(name.rstrip("，。？")) for name in names]
    return {f"word.{token}": name for token, name in enumerate(names)} | {
        f"upright.{token}": name for token, name in enumerate(upright)
    }
