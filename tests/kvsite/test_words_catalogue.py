"""The catalogues of messages: complete, equal in all languages, and every message is used."""

import json
import re
from functools import cache
from pathlib import Path

import pytest

from kvlab.cells import load_cells
from kvlab.labs import LABS, new_session
from kvproof.story import encode
from kvsite.checker_texts import HANS
from kvsite.languages import LANGUAGES, TERMS, page_source, words_of
from kvsite.pages import shown_cell
from kvsite.paths import PY, ROOT
from kvsite.words import TEXTS, Catalogue, load_catalogue, places, specimen_names, story_words


def test_tables_give_the_first_parts_of_an_id(tmp_path: Path) -> None:
    file = tmp_path / "en.toml"
    file.write_text('plain = "{text}"\n[mask]\nreads.one = "one key"\n', encoding="utf-8")
    assert load_catalogue(file) == {"plain": "{text}", "mask.reads.one": "one key"}


def test_a_place_is_filled_in_and_braces_of_an_argument_are_not() -> None:
    words = Catalogue({"state": "P = {P}, {P} of {all}"})
    assert words.say("state", P=4, all="{P}") == "P = 4, 4 of {P}"
    assert places(words["state"]) == {"P", "all"}


@pytest.mark.parametrize("args", [{}, {"P": 1, "C": 2}, {"C": 1}])
def test_arguments_must_be_the_places(args: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"message 'state' needs \(P\), got"):
        Catalogue({"state": "P = {P}"}).say("state", **args)


def test_an_unknown_message_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"no message 'mask\.tile'"):
        Catalogue({"mask.title": "Mask lab"}).say("mask.tile")


def test_sentences_are_joined_as_the_language_does() -> None:
    assert Catalogue({"sentence-gap": " "}).paragraph(["One.", "Two."]) == "One. Two."
    assert Catalogue({"sentence-gap": ""}).paragraph(["一。", "二。"]) == "一。二。"


# --- The site's own -----------------------------------------------------------------------------

ENGLISH_WORDS, CHINESE_WORDS = (load_catalogue(TEXTS / f"{name}.toml") for name in ("en", "zh"))
SITE = ROOT / "site"


def test_both_languages_have_the_same_messages_with_the_same_places() -> None:
    assert ENGLISH_WORDS.keys() == CHINESE_WORDS.keys()
    differing = [
        message
        for message, text in ENGLISH_WORDS.items()
        if places(text) != places(CHINESE_WORDS[message])
    ]
    assert not differing


def test_every_message_has_words_but_for_chinese_sentences_that_need_no_space() -> None:
    empty = {message for words in (ENGLISH_WORDS, CHINESE_WORDS) for message in words}
    empty = {m for m in empty if not (ENGLISH_WORDS[m] and CHINESE_WORDS[m])}
    assert empty == {"sentence-gap"}


@cache
def declared_by_labs() -> list[str]:
    """What the labs say of themselves, as texts."""
    labs = [new_session(lab) for lab in LABS]
    declared = [json.dumps(lab.lab.page) for lab in labs]
    return declared + [json.dumps(lab.description()).replace("\\", "") for lab in labs]


def test_every_message_is_used() -> None:
    """Whole IDs in quotes in a template, a script or our Python; cells, names by parts."""
    files = [
        *(SITE / "templates").rglob("*.j2"),
        *(SITE / "js").glob("*.js"),
        *(PY / "kvlab").glob("*.py"),
        *(PY / "kvsite").glob("*.py"),
    ]
    text = "\n".join([*(file.read_text("utf-8") for file in files), *declared_by_labs()])
    used = set(re.findall(r"""["']([\w-]+(?:\.[\w-]+)*)["']""", text))
    used |= {m for m in ENGLISH_WORDS if re.fullmatch(r"cells\..*\.(title|intro)", m)}
    used |= {language.name for language in LANGUAGES}
    assert not ENGLISH_WORDS.keys() - used


def test_cells_say_in_english_what_their_sources_say() -> None:
    for cell in map(shown_cell, load_cells(SITE / "cells")):
        assert ENGLISH_WORDS[f"cells.{cell['id']}.title"] == cell["title"]
        assert ENGLISH_WORDS[f"cells.{cell['id']}.intro"] == cell["intro"]


def test_chinese_keeps_to_the_vocabulary() -> None:
    table = (ROOT / "docs" / "CHINESE.md").read_text("utf-8")
    last_column = re.findall(r"\| ([^|]+) \|$", table, re.MULTILINE)[1:]
    forbidden = [word for cell in last_column for word in cell.split("，")]
    files = [*TEXTS.glob("*zh.toml"), HANS, ROOT / "notebooks" / "texts" / "zh.md"]
    files += (SITE / "pages" / "zh").glob("*.md")
    text = "\n".join([*(file.read_text("utf-8") for file in files), *declared_by_labs()])
    assert len(forbidden) > 8
    assert not [word for word in forbidden if word in text]


def test_a_number_and_its_unit_stay_together() -> None:
    broken = re.compile(r"[\d}] (?:ms|s|MB|KiB|MiB|GiB)\b")
    assert broken.search("took {full} ms")
    messages = {**ENGLISH_WORDS, **CHINESE_WORDS}
    assert not [message for message, text in messages.items() if broken.search(text)]


def test_no_space_follows_a_full_width_mark() -> None:
    english, simplified, _ = LANGUAGES
    set_apart = "<p><b>注意：</b> 图不动。 <a href='x'>看</a>，<em> 好</em> token 2</p>"
    closed_up = "<p><b>注意：</b>图不动。<a href='x'>看</a>，<em>好</em> token 2</p>"
    assert simplified.typeset(set_apart) == closed_up
    assert english.typeset(set_apart) == set_apart


def test_traditional_chinese_has_the_terms_of_the_field() -> None:
    *_, traditional = LANGUAGES
    others = story_words("zh-hant").keys() | specimen_names("zh").keys()
    assert words_of(traditional).keys() == CHINESE_WORDS.keys() | others
    text = traditional.from_source("前缀、后缀与参数：掩码随许可证发布")
    assert text == "前綴、後綴與參數：遮罩隨授權條款發布"
    assert not [term for term in TERMS if term in page_source(traditional, "index.md")]


def test_rows_and_columns_change_their_names_in_taiwan_and_parts_of_words_do_not() -> None:
    *_, traditional = LANGUAGES
    text = traditional.from_source("每一行放行一列；运行三行代码，并列出数组与序列的行为")
    assert text == "每一列放行一行；執行三行程式碼，並列出陣列與序列的行為"


def test_a_word_of_the_story_stands_upright_below_a_column_in_chinese() -> None:
    """Without the punctuation behind it; English words are turned."""
    in_language = {language.code: words_of(language) for language in LANGUAGES}
    box = encode("box.")[0]
    said = [
        words[f"{form}.{box}"] for words in in_language.values() for form in ("word", "upright")
    ]
    assert said == ["box.", "box.", "盒子里。", "盒\n子\n里", "盒子裡。", "盒\n子\n裡"]
