"""The story's words: a form in every language, and texts in all of them."""

from itertools import pairwise

import pytest

from kvproof.story import LANGUAGES, WORDS, encode, labels, render
from kvsite.languages import LANGUAGES as SITE_LANGUAGES

EXAMPLE = "The key is in the box. Ada hid in the tent. Leo likes tea. Where's my key? In the box."
WRITTEN = {
    "en": EXAMPLE,
    "zh-hans": "我的钥匙就在那个盒子里。艾达藏在那个帐篷里。"
    "利奥爱喝茶。咦，我的钥匙呢？在那个盒子里。",
    "zh-hant": "我的鑰匙就在那個盒子裡。艾達藏在那個帳篷裡。"
    "利奧愛喝茶。咦，我的鑰匙呢？在那個盒子裡。",
}


def test_there_are_few_words_and_each_english_one_is_unique() -> None:
    assert len({word.en for word in WORDS}) == len(WORDS) <= 97


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_word_is_empty_or_holds_a_space(language: str) -> None:
    """So that the axis of a mask names every token, and a text can be cut into its words."""
    forms = [word.in_language(language) for word in WORDS]
    assert [form for form in forms if not form or form.split() != [form]] == []


def test_the_traditional_forms_are_those_that_the_site_makes() -> None:
    *_, traditional = SITE_LANGUAGES
    made = [traditional.from_source(word.zh_hans) for word in WORDS]
    assert [word.zh_hant for word in WORDS] == made
    for before, after in pairwise(WRITTEN[language] for language in ("zh-hans", "zh-hant")):
        assert traditional.from_source(before) == after  # in a whole text no word changes


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_text_is_its_words_one_after_another(language: str) -> None:
    tokens = encode(EXAMPLE)
    assert render(tokens, language) == WRITTEN[language]
    assert len(labels(tokens, language)) == len(EXAMPLE.split())
    assert ("" if language != "en" else " ").join(labels(tokens, language)) == WRITTEN[language]
    assert encode(render(tokens)) == tokens


def test_bad_words_languages_and_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match=r"doesn't know 'dog'; it knows The is fell"):
        encode("The dog is in the box.")
    with pytest.raises(ValueError, match=r"doesn't know 'box'"):
        encode("The key is in the box")  # the full stop is a part of the word
    for token in (-1, len(WORDS)):
        with pytest.raises(ValueError, match=rf"a token must be 0..{len(WORDS) - 1}, got {token}"):
            labels([token])
    with pytest.raises(ValueError, match="language must be one of en, zh-hans, zh-hant, got 'zh'"):
        render([0], "zh")
