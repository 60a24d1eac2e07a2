"""The site's languages: English, Simplified Chinese, and Traditional Chinese made from that."""

from functools import cache
from typing import NamedTuple

import opencc

from kvsite.paths import ROOT
from kvsite.words import TEXTS, Catalogue, load_catalogue

PAGES = ROOT / "site" / "pages"
TERMS = {
    "掩碼": "遮罩",
    "字首": "前綴",
    "字尾": "後綴",
    "引數": "參數",
    "運算元": "運算子",
    "釋出": "發布",
    "許可證": "授權條款",
}
"""What OpenCC's general phrases get wrong in this field -> what it's called there."""


class Language(NamedTuple):
    """A language of the site.

    ``code``: for ``lang`` and ``hreflang``.  ``folder``: of its pages in ``dist``.  ``source``: the
    language that its texts are written in.
    """

    code: str
    folder: str
    source: str

    @property
    def name(self) -> str:
        """ID of the message with its name in the language itself."""
        return f"language.{self.folder}"

    def from_source(self, text: str) -> str:
        """A text of ``source`` in this language."""
        return _in_taiwan(text) if self.code == "zh-Hant" else text


ENGLISH = Language("en", "en", "en")
LANGUAGES = (
    ENGLISH,
    Language("zh-Hans", "zh", "zh"),
    Language("zh-Hant", "zh-hant", "zh"),
)


@cache
def words_of(language: Language) -> Catalogue:
    """The messages of a language."""
    words = load_catalogue(TEXTS / f"{language.source}.toml")
    return Catalogue({message: language.from_source(text) for message, text in words.items()})


def page_source(language: Language, name: str) -> str:
    """The Markdown of a page."""
    return language.from_source((PAGES / language.source / name).read_text(encoding="utf-8"))


def _in_taiwan(text: str) -> str:
    """Traditional characters with the phrases of Taiwan: 缓存 becomes 快取."""
    text = _traditional().convert(text)
    for phrase, term in TERMS.items():
        text = text.replace(phrase, term)
    return text


@cache
def _traditional() -> opencc.OpenCC:
    return opencc.OpenCC("s2twp")
