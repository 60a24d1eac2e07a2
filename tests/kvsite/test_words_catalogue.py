"""The catalogues of messages: complete, equal in all languages, and every message is used."""

from pathlib import Path

import pytest

from kvsite.words import Catalogue, load_catalogue, places


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
