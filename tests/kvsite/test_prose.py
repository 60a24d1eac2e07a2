"""The pages' prose: the same things in both languages, no typed numbers, and Chinese typography."""

import re
from collections import Counter
from collections.abc import Callable

import pytest
from markdown_it import MarkdownIt

from kvsite.languages import PAGES
from kvsite.notebook import TEXTS as NOTEBOOK_TEXTS
from kvsite.words import TEXTS, load_catalogue

PAGE_NAMES = sorted(path.name for path in (PAGES / "en").glob("*.md"))


def source(language: str, page: str) -> str:
    return (PAGES / language / page).read_text(encoding="utf-8")


def links(text: str) -> Counter[str]:
    return Counter(re.findall(r"\]\(([^)]+)\)", text))


def numbers(text: str) -> Counter[str]:
    """Expressions that are filled in, without the filters that only English needs."""
    english = r"\| (in_words|capitalize)|join\(.*?\)|\s*\| trim\(.*?\)|\s"
    places = re.findall(r"\{\{(.*?)\}\}", text)
    return Counter(re.sub(english, "", place) for place in places)


def formulas(text: str) -> Counter[str]:
    """Without the words in them."""
    found = re.findall(r"(?<!\$)(\$\$?)([^$\n]+)\1", text)
    return Counter(re.sub(r"\\text\{.*?\}", "", formula) for _, formula in found)


@pytest.mark.parametrize("page", PAGE_NAMES)
@pytest.mark.parametrize("pick", [links, numbers, formulas])
def test_both_languages_have_the_same(page: str, pick: Callable[[str], object]) -> None:
    english, chinese = pick(source("en", page)), pick(source("zh", page))
    assert chinese == english
    assert english or page != "index.md"


def bare(text: str) -> str:
    """Prose without what isn't prose: front matter, places, formulas, code, links, tags."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    text = re.sub(r"\{[{%].*?[%}]\}|\$\$?[^$]+\$\$?|`[^`]+`|<pre>.*?</pre>", "", text, flags=re.S)
    return re.sub(r"\]\([^)]*\)|<[^>]+>", "", text)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("page", PAGE_NAMES)
def test_no_number_is_typed(language: str, page: str) -> None:
    """Small ones name things (C = 1, layer 2); what was measured or counted is longer."""
    typed = re.findall(r"(?<![\w.])\d[\d,.]*\d\b(?!\w)", bare(source(language, page)))
    years = re.compile(
        r"20[12]\d|2\.1|29|95|16"
    )  # of papers; of flash-attention; exponent; percentile; bits
    assert [number for number in typed if not years.fullmatch(number)] == []


# --- Chinese ------------------------------------------------------------------------------------

HAN = r"[\u4e00-\u9fff]"
FULL = r"[，。；：？！、（）“”]"
FAULTS = {
    "no space between Chinese and Latin": rf"{HAN}[A-Za-z0-9]|[A-Za-z0-9%]{HAN}",
    "half-width punctuation": rf"{HAN}[,.;:?!()]|[,;:?!(]{HAN}",
    "a space within Chinese": rf"{HAN} {HAN}|{FULL} | {FULL}",
}


def chinese_texts() -> dict[str, str]:
    pages = {page: source("zh", page) for page in PAGE_NAMES}
    notebook = {"notebook": (NOTEBOOK_TEXTS / "zh.md").read_text(encoding="utf-8")}
    zoo = load_catalogue(TEXTS / "zoo_zh.toml")
    return pages | notebook | dict(load_catalogue(TEXTS / "zh.toml")) | dict(zoo)


def shown(text: str) -> str:
    """A text as it is read: places and formulas as one Latin letter, no marks, no tags."""
    text = text.replace("{% else %}", "\n\n")
    text = re.sub(r"\A---\n.*?\n---\n|\{%.*?%\}|<!--.*?-->|<pre>.*?</pre>", "", text, flags=re.S)
    text = re.sub(r"\{\{.*?\}\}|\{[\w-]+\}|\$\$?[^$]+\$\$?", "X", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"</?(?:a|code|strong)\b[^>]*>|[`*]", "", text)
    return re.sub(r"<[^>]+>|\n|\|", "\n\n", text)


@pytest.mark.parametrize("name", list(FAULTS))
def test_chinese_is_set_as_chinese(name: str) -> None:
    fault = re.compile(rf".{{0,9}}(?:{FAULTS[name]}).{{0,9}}")
    texts = {key: shown(text) for key, text in chinese_texts().items()}
    assert {key: found for key, text in texts.items() if (found := fault.findall(text))} == {}


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("page", PAGE_NAMES)
def test_bold_is_closed(language: str, page: str) -> None:
    """CommonMark doesn't close it between a Chinese full stop and a letter."""
    html = MarkdownIt("commonmark", {"html": True}).render(source(language, page))
    assert re.findall(r".{20}\*\*.{20}", html) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("缓存有P个", "no space between Chinese and Latin"),
        ("缓存有 `P`个", "no space between Chinese and Latin"),
        ("缓存,掩码", "half-width punctuation"),
        ("缓存。 掩码", "a space within Chinese"),
    ],
)
def test_a_fault_would_be_seen(text: str, name: str) -> None:
    assert re.search(FAULTS[name], shown(text))
