"""The pictures that a shared link shows, one a language: drawn here, taken by ``screenshot``.

They are committed, so that a build needs no browser.  ``MADE_FROM`` says what each was taken of.
"""

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

from jinja2 import Environment

from kvlab.marks import MARKS
from kvlab.palette import LIGHT
from kvsite.languages import LANGUAGES, Language
from kvsite.paths import ROOT
from kvsite.stages import Failure
from kvsite.story_picture import story_picture

WIDTH, HEIGHT = 1200, 630
PREVIEWS = ROOT / "site" / "previews"
MADE_FROM = PREVIEWS / "made_from.json"
LOCALES = {"en": "en_US", "zh-Hans": "zh_CN", "zh-Hant": "zh_TW"}
SETTING = "KVPROOF_SITE_URL"


def picture_html(templates: Environment) -> str:
    """A page of WIDTH x HEIGHT pixels to take the picture of, in the language of the templates."""
    template = templates.get_template("preview.html.j2")
    size = {"width": WIDTH, "height": HEIGHT}
    return template.render(story=story_picture("top-left"), colours=LIGHT, marks=MARKS, **size)


def picture_file(language: Language) -> Path:
    """The committed picture."""
    return PREVIEWS / f"{language.folder}.png"


def note_what_was_taken(pages: dict[str, str]) -> None:
    """Remember the pages, by the folder of their language, of which the pictures were taken."""
    MADE_FROM.write_text(
        json.dumps({name: _digest(html) for name, html in pages.items()}, indent=2) + "\n"
    )


def is_taken_of(language: Language, html: str) -> bool:
    """Whether the committed picture shows this page."""
    noted: dict[str, str] = json.loads(MADE_FROM.read_text())
    return noted.get(language.folder) == _digest(html)


def _digest(html: str) -> str:
    return hashlib.sha256(html.encode()).hexdigest()


def site_url() -> str | None:
    """Where the site will lie, from ``KVPROOF_SITE_URL``, with a slash at the end.

    Raises:
        Failure: that is no absolute address.
    """
    url = os.environ.get(SETTING)
    if not url:
        return None
    if not re.fullmatch(r"https?://[^\s/?#\"<>]+(/[^\s?#\"<>]*)?", url):
        raise Failure(
            f"{SETTING} must be an address like https://example.org/kvproof/, got {url!r}"
        )
    return url.rstrip("/") + "/"


def shared_as(language: Language, file: str) -> dict[str, Any]:
    """What tells other sites how to show a link to a page.

    Those who read it open pages by no relative address, so without the site's own there is neither
    the page's nor a picture.

    Args:
        language: of the page.
        file: its name, "" for the first page.
    """
    others = [LOCALES[other.code] for other in LANGUAGES if other != language]
    shared: dict[str, Any] = {"locale": LOCALES[language.code], "others": others, "picture": None}
    if url := site_url():
        shared |= {
            "url": f"{url}{language.folder}/{file}",
            "picture": f"{url}{picture_file(language).relative_to(PREVIEWS.parent).as_posix()}",
            "width": WIDTH,
            "height": HEIGHT,
        }
    return shared
