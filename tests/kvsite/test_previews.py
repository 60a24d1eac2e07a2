"""What other sites show of a shared link: its picture, and the page's words about itself."""

import re
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvproof.story import encode
from kvsite import previews
from kvsite.languages import ENGLISH, LANGUAGES, Language
from kvsite.pages import Pages, environment
from kvsite.previews import HEIGHT, WIDTH, is_taken_of, picture_file, picture_html
from kvsite.stages import Failure
from kvsite.story_picture import story_picture

SHAPES = [[18] * 5, [18] * 5]
languages = pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.folder)


@languages
def test_the_pictures_have_the_size_that_the_page_names(language: Language) -> None:
    content = picture_file(language).read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", content[16:24]) == (WIDTH, HEIGHT) == (1200, 630)
    assert len(content) < 300_000  # some sites show none that is larger


@languages
def test_the_pictures_show_what_they_would_show_today(language: Language) -> None:
    """Red after a change: ``python build.py screenshot`` takes them anew."""
    html = picture_html(environment(language))
    assert is_taken_of(language, html)
    assert not is_taken_of(language, html.replace("✗", "✓"))


def test_the_right_call_answers_and_the_top_left_mask_forgets() -> None:
    story = story_picture("top-left")
    cave, tent = (f"word.{token}" for token in encode("cave. tent."))
    assert (story.right.next_word, story.wrong.next_word) == (cave, tent)
    assert story.right.error < 1e-10 < 1 < story.wrong.error
    shapes = [[len(row) for row in call.states] for call in (story.right, story.wrong)]
    assert shapes == SHAPES
    hidden = [[row.count("wrongly-hidden") for row in c.states] for c in (story.right, story.wrong)]
    assert hidden == [[0] * 5, [13] * 5]


def test_restarted_positions_begin_at_zero() -> None:
    story = story_picture("restarted")
    assert story.right.positions == [13, 14, 15, 16, 17]
    assert story.wrong.positions == [0, 1, 2, 3, 4]


# --- What a page says of itself -----------------------------------------------------------------


@pytest.fixture
def notices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a page in a language: a dictionary of what its ``meta`` say."""
    monkeypatch.delenv(previews.SETTING, raising=False)
    names = ["favicon.svg", "style.css", "boot.js", "header.js"]
    assets: Any = SimpleNamespace(urls={name: f"assets/{name}" for name in names})

    def write(language: Language) -> dict[str, str]:
        (tmp_path / language.folder).mkdir(exist_ok=True)
        Pages(tmp_path, assets, language).write_page("notices", f"{language.folder}/notices.html")
        page = (tmp_path / language.folder / "notices.html").read_text("utf-8")
        return dict(re.findall(r'<meta (?:property|name)="([^"]+)" content="([^"]*)"', page))

    return write


def test_without_the_sites_address_nothing_relative_is_said(notices: Any) -> None:
    said = notices(ENGLISH)
    assert said["og:title"]
    assert said["og:description"] == said["description"]
    assert said["twitter:card"] == "summary"
    assert not {"og:image", "og:url"} & said.keys()


@languages
@pytest.mark.parametrize("url", ["https://example.org/kvproof/", "https://example.org/kvproof"])
def test_with_it_the_page_and_its_languages_picture_have_addresses(
    notices: Any, monkeypatch: pytest.MonkeyPatch, language: Language, url: str
) -> None:
    monkeypatch.setenv(previews.SETTING, url)
    said = notices(language)
    site, folder = "https://example.org/kvproof/", language.folder
    assert said["og:url"] == f"{site}{folder}/notices.html"
    assert said["og:image"] == f"{site}previews/{folder}.png"
    assert said["twitter:card"] == "summary_large_image"
    assert said["og:locale"] == {"en": "en_US", "zh": "zh_CN", "zh-hant": "zh_TW"}[folder]


@pytest.mark.parametrize(
    "url", ["example.org", "/kvproof/", 'https://a.org/"x', "https://a.org/?q"]
)
def test_an_address_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv(previews.SETTING, url)
    with pytest.raises(Failure, match="must be an address like https://"):
        previews.site_url()
