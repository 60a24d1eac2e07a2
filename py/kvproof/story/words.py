"""The story's words: at most 97, each in English and in both Chinese scripts.

Punctuation is part of a word, and no form is empty: a text and the axis of a mask can be written
word by word in any language, in the same order.  The Traditional forms are those that
``kvsite.languages`` makes of the Simplified ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass

LANGUAGES = ("en", "zh-hans", "zh-hant")
"""English, Chinese in simplified characters, and in the traditional ones of Taiwan."""


@dataclass(frozen=True)
class Word:
    """One token: what it's called in each language."""

    en: str
    zh_hans: str
    zh_hant: str

    def in_language(self, language: str) -> str:
        """The form in one of ``LANGUAGES``.

        Raises:
            ValueError: another language.
        """
        if language not in LANGUAGES:
            raise ValueError(f"language must be one of {', '.join(LANGUAGES)}, got {language!r}")
        form: str = getattr(self, language.replace("-", "_"))
        return form

    def with_end(self, en: str, zh_hans: str, zh_hant: str) -> "Word":
        """Another word: this one with something after it."""
        return Word(self.en + en, self.zh_hans + zh_hans, self.zh_hant + zh_hant)


def _words(*forms: str) -> tuple[Word, ...]:
    return tuple(Word(*form.split()) for form in forms)


THE, IS, FELL, HID, IN, THAT, WHERE, MY, ANSWER_IN, LIKES, IT = _words(
    *("The 我的 我的", "is 就 就", "fell 掉 掉", "hid 藏 藏", "in 在 在", "the 那个 那個"),
    *("Where's 咦， 咦，", "my 我的 我的", "In 在 在", "likes 爱喝 愛喝", "It 外面 外面"),
)
WEATHER = _words("rains. 在下雨。 在下雨。", "snows. 在下雪。 在下雪。")
THINGS = _words(
    *("key 钥匙 鑰匙", "cup 杯子 杯子", "hat 帽子 帽子", "book 书 書"),
    *("ring 戒指 戒指", "bell 铃铛 鈴鐺", "coin 硬币 硬幣", "pen 钢笔 鋼筆"),
)
NAMES = _words(
    *("Ada 艾达 艾達", "Leo 利奥 利奧", "Mia 米娅 米婭"),
    *("Ivy 艾薇 艾薇", "Max 马克斯 馬克斯", "Zoe 佐伊 佐伊"),
)
DRINKS = _words(
    *("tea. 茶。 茶。", "milk. 牛奶。 牛奶。", "cocoa. 可可。 可可。"),
    *("juice. 果汁。 果汁。", "soup. 汤。 湯。", "coffee. 咖啡。 咖啡。"),
)
PLACES = _words(
    *("box. 盒子里。 盒子裡。", "bag. 袋子里。 袋子裡。", "jar. 罐子里。 罐子裡。"),
    *("pot. 锅里。 鍋裡。", "tent. 帐篷里。 帳篷裡。", "shed. 棚子里。 棚子裡。"),
    *("attic. 阁楼里。 閣樓裡。", "drawer. 抽屉里。 抽屜裡。", "cave. 山洞里。 山洞裡。"),
    "basket. 篮子里。 籃子裡。",
)
ASKED = {word: word.with_end("?", "呢？", "呢？") for word in (*THINGS, *NAMES)}
"""A thing or a name -> the word that asks for it."""

WORDS = (
    *(THE, IS, FELL, HID, IN, THAT, WHERE, MY, ANSWER_IN, LIKES, IT, *WEATHER),
    *(*THINGS, *NAMES, *ASKED.values(), *DRINKS, *PLACES),
)
"""All words; a token is an index of this."""
TOKENS = {word: token for token, word in enumerate(WORDS)}
_ENGLISH = {word.en: token for word, token in TOKENS.items()}


def encode(text: str) -> list[int]:
    """The tokens of an English text, words between spaces.

    Raises:
        ValueError: it holds a word that isn't one of ``WORDS``.

    Example:
        >>> kvproof.story.encode("Where's my key? In the")
        [6, 7, 27, 8, 5]
    """
    unknown = [word for word in text.split() if word not in _ENGLISH]
    if unknown:
        raise ValueError(
            f"the story's decoder doesn't know {unknown[0]!r}; it knows {' '.join(_ENGLISH)}"
        )
    return [_ENGLISH[word] for word in text.split()]


def labels(tokens: Iterable[int], language: str = "en") -> list[str]:
    """What each token is called in a language, as for the axis of a mask.

    Raises:
        ValueError: a token that isn't the number of a word, or another language.
    """
    found = []
    for token in tokens:
        if not 0 <= token < len(WORDS):
            raise ValueError(f"a token must be 0..{len(WORDS) - 1}, got {token}")
        found.append(WORDS[token].in_language(language))
    return found


def render(tokens: Iterable[int], language: str = "en") -> str:
    """The text of tokens in a language.

    Raises:
        ValueError: as ``labels``.

    Example:
        >>> kvproof.story.render(kvproof.story.encode("Where's my key? In the"), "zh-hans")
        '咦，我的钥匙呢？在那个'
    """
    return (" " if language == "en" else "").join(labels(tokens, language))
