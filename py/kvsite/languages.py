"""The site's languages: English, Simplified Chinese, and Traditional Chinese made from that."""

import re
from functools import cache
from typing import NamedTuple

import opencc

from kvsite.paths import ROOT
from kvsite.words import TEXTS, Catalogue, load_catalogue, specimen_names, story_words

PAGES = ROOT / "site" / "pages"
TERMS = {
    # What OpenCC converts wrongly: characters with two traditional forms, words cut in two.
    "舍入": "捨入",
    "大小隻": "大小只",
    "角里": "角裡",
    "沒有采樣": "沒有採樣",
    "不復制": "不複製",
    "公佈": "公布",
    "釋出": "發布",
    # What it calls by a word of another trade.
    "字首": "前綴",
    "字尾": "後綴",
    "引數": "參數",
    "運算元": "運算子",
    "許可證": "授權條款",
    "控制元件": "控制項",
    "宣告": "聲明",
    "線性函式": "線性函數",
    "$ 的函式": "$ 的函數",
    "` 的函式": "` 的函數",
    # What it leaves as it is said on the mainland.
    "掩碼": "遮罩",
    "滑塊": "滑桿",
    "推理引擎": "推論引擎",
    "窗口": "視窗",
    "反饋": "回饋",
    "觀察要點": "觀察重點",
    "文本": "文字",
    "樸素版": "基本版",
    "尾延遲": "尾端延遲",
    "推理模式": "推論模式",
    "推測解碼": "推測性解碼",
    "批大小": "批次大小",
    "批中": "批次中",
    "批裡": "批次裡",
    "批的": "批次的",
    "單元格": "儲存格",
    "拼接": "串接",
    "實現": "實作",
    "返回": "回傳",
    "詞表": "詞彙表",
    "隱狀態": "隱藏狀態",
    "構建": "建置",
    "倉庫": "儲存庫",
    "大型庫": "大型程式庫",
    "各個庫": "各個程式庫",
    "塊表": "區塊表",
    "一個列表": "一個串列",
    "拋異常": "拋出例外",
    "置信度": "信心水準",
    "噪聲": "雜訊",
    "演示": "示範",
    "示例": "範例",
    "跟蹤": "追蹤",
    "撤銷": "復原",
    "當前": "目前",
    "計劃": "計畫",
    "這個地址": "這個網址",
    "介面卡": "轉接器",
    "` 包": "` 套件",
    " 包": " 套件",
    "本包": "本套件",
    "各個包": "各個套件",
    "包裡的": "套件裡的",
    "“": "「",
    "”": "」",
    "‘": "『",
    "’": "』",
}
"""What OpenCC's general phrases get wrong in this field -> what it's called in Taiwan."""

ROW_OR_COLUMN = re.compile(
    r"(?<![執進並自放發不可運])行(?!程式碼|事|為|動|文)"
    r"|(?<![陣序串系排並下這只])列(?![表出印舉入])"
)
"""行 where it is a row and 列 where it is a column, not a part of another word or a line of code.

Taiwan has them the other way round: 列 is a row and 行 a column.
"""

GAP = re.compile(r"(?<=[，。：；？！])((?:</?[a-z][^>]*>)*) +(?=\S)")
"""A space after a full-width mark, which has its own; tags may stand between them."""


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

    def typeset(self, html: str) -> str:
        """A page as the language is set: the templates have a space between any two sentences."""
        return GAP.sub(r"\1", html) if self.source == "zh" else html


ENGLISH = Language("en", "en", "en")
LANGUAGES = (
    ENGLISH,
    Language("zh-Hans", "zh", "zh"),
    Language("zh-Hant", "zh-hant", "zh"),
)


@cache
def words_of(language: Language) -> Catalogue:
    """The messages of a language, the broken decoders' names and the words of the story."""
    words = load_catalogue(TEXTS / f"{language.source}.toml") | specimen_names(language.source)
    written = {message: language.from_source(text) for message, text in words.items()}
    return Catalogue(written | story_words(language.code.lower()))


def page_source(language: Language, name: str) -> str:
    """The Markdown of a page."""
    return language.from_source((PAGES / language.source / name).read_text(encoding="utf-8"))


def _in_taiwan(text: str) -> str:
    """Traditional characters with the phrases of Taiwan: 缓存 becomes 快取, and rows columns."""
    text = _traditional().convert(text)
    for phrase, term in TERMS.items():
        text = text.replace(phrase, term)
    return ROW_OR_COLUMN.sub(lambda found: {"行": "列", "列": "行"}[found[0]], text)


@cache
def _traditional() -> opencc.OpenCC:
    return opencc.OpenCC("s2twp")
