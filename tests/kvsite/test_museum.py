"""The museum: a card for each kind, true to a fresh check, and links that open what they say."""

import gzip
import html
import re
from functools import cache
from typing import Any

import numpy as np
import pytest

from kvproof import check
from kvproof.checking.report import Influence
from kvproof.kinds import KINDS, Kind
from kvproof.zoo import SPECIMENS
from kvsite import museum
from kvsite.formats import number
from kvsite.languages import ENGLISH, LANGUAGES
from kvsite.pages import kept_museum
from kvsite.paths import CHECKED, DIST
from kvsite.words import TEXTS, load_catalogue, places

MOST_BYTES = 150_000


@cache
def built(folder: str = "en") -> str:
    return (DIST / folder / "museum.html").read_text("utf-8")


def exhibit(kind: Kind, folder: str = "en") -> str:
    """The HTML of a kind's card."""
    pattern = rf'<article class="exhibit" aria-labelledby="{kind.lower()}">(.*?)</article>'
    [found] = re.findall(pattern, built(folder), re.DOTALL)
    return str(found)


def text_of(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", " ", markup))


# --- Every kind has a room, texts, a specimen -----------------------------------------------------


def test_every_kind_is_in_one_room_with_a_specimen_of_its_own() -> None:
    shown = [(kind, name) for room in museum.ROOMS.values() for kind, name in room.items()]
    assert sorted(kind for kind, _ in shown) == sorted(KINDS)
    assert [name for kind, name in shown if SPECIMENS[name].kind != kind] == []


def test_both_languages_have_the_texts_of_every_kind_and_room_and_no_others() -> None:
    wanted = {f"{kind}.{text}" for kind in KINDS for text in ("mend", "catch")}
    wanted |= {f"room.{room}.{text}" for room in museum.ROOMS for text in ("title", "intro")}
    for language in ("en", "zh"):
        words = load_catalogue(TEXTS / f"museum_{language}.toml")
        assert words.keys() == wanted
        assert [one for one, text in words.items() if len(text) < 5 or places(text)] == []


def test_a_kind_without_a_room_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    rest = {name: room for name, room in museum.ROOMS.items() if name != "chunks"}
    monkeypatch.setattr(museum, "ROOMS", rest)
    with pytest.raises(ValueError, match="no room of the museum has MASK-SKIPPED, MASK-VALUE"):
        museum.rooms(ENGLISH, {})  # what is kept mustn't be made of these rooms


def test_a_specimen_that_is_named_otherwise_cannot_stand_for_a_kind() -> None:
    with pytest.raises(ValueError, match="finds POS-RESET in it"):
        museum.measure(Kind.POS_DRIFT, "pos-reset-rope")


# --- The pictures ---------------------------------------------------------------------------------


def test_a_cell_of_a_mask_says_what_is_and_what_should_be() -> None:
    seen = ((True, False, True, False), (True, True, True, True))
    expected = ((True, True, True, False), (True, True, False, True))
    assert museum.grid(Influence(2, 2, seen, expected)) == [
        ["history", "wrongly-hidden", "chunk", "hidden-future"],
        ["history", "history", "wrongly-seen", "chunk"],
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_strip_has_all_tokens_and_one_that_is_wrong_first(kind: Kind) -> None:
    finding = kept_museum()[kind].finding
    strip = museum.steps(finding)
    assert finding.case is not None
    for row, tokens in enumerate(finding.case.tokens):
        shown = [token.text for step in strip for token in step.rows[row]]
        assert shown == [str(token) for token in tokens[: len(shown)]]
        assert len(shown) == finding.case.n_tokens
    wrong = [token for step in strip for row in step.rows for token in row if token.is_wrong]
    assert len(wrong) == bool(finding.first_bad)  # what is said of `full` itself has no place
    assert all(token.state == "chunk" for token in wrong)
    pads = sum(token.state == "pad" for step in strip for row in step.rows for token in row)
    lengths = finding.case.lengths or ()
    assert pads == sum(finding.case.ops[0].argument - length for length in lengths)


# --- The built page -------------------------------------------------------------------------------


@pytest.mark.usefixtures("built_site")
@pytest.mark.parametrize("kind", KINDS)
def test_a_card_says_what_a_fresh_check_finds(kind: Kind) -> None:
    """The case, its error, its mask; the first two digits do not rest on an order of addition."""
    [name] = [room[kind] for room in museum.ROOMS.values() if kind in room]
    finding = check(SPECIMENS[name].make(seed=0)).findings[0]
    card, text = exhibit(kind), text_of(exhibit(kind))
    assert finding.kind == kind
    assert finding.case is not None
    heads = re.findall(r'<th scope="col"(?: class="bad")?>(\w+(?: [\d(), ]+)?)(?: ✗)?</th>', card)
    ops = [str(op) for op in finding.case.ops]
    assert heads[-len(ops) :] == ops
    if finding.max_abs_error:
        assert np.isfinite(finding.max_abs_error)
        assert f"off by {number(finding.max_abs_error, 2)}; a right cache" in text
    marks = [
        re.findall(r'<td class="[\w-]+">(.)</td>', row)
        for row in re.findall(r"<tr>.*?</tr>", card, re.DOTALL)
    ]
    drawn = [row for row in marks if row]
    assert drawn == expected_marks(finding.influence)


def expected_marks(influence: Influence | None) -> list[list[str]]:
    """As ``Influence.text`` draws it, in the page's signs."""
    if influence is None:
        return []
    signs = {"1": "●", ".": "–", "x": "×", "!": "▲"}
    return [[signs[sign] for sign in row.split()] for row in influence.text().splitlines()[1:]]


@pytest.mark.usefixtures("built_site")
@pytest.mark.parametrize("kind", KINDS)
def test_a_card_links_to_the_reports_and_opens_its_specimen(kind: Kind) -> None:
    for language in LANGUAGES:
        card = exhibit(kind, language.folder)
        [name] = re.findall(r'href="check\.html#check-yours~check-yours=zoo:([\w-]+)"', card)
        assert SPECIMENS[name].kind == kind
        links = re.findall(r'href="(https:[^"]+)">([^<]+)<', card)
        assert links
        for address, label in links:
            owner = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+)/issues/(\d+)", address)
            assert owner, address
            assert label == f"{owner[1]}#{owner[2]}"


@pytest.mark.usefixtures("built_site")
def test_the_page_is_light() -> None:
    for language in LANGUAGES:
        assert len(gzip.compress(built(language.folder).encode())) < MOST_BYTES
        assert "site-config" not in built(language.folder), "it is read without Python"


# --- What was found in libraries ------------------------------------------------------------------


@pytest.mark.usefixtures("built_site")
def test_the_table_of_libraries_has_every_line_that_is_not_right() -> None:
    lines = [line for line in CHECKED.read_text().splitlines() if ": " in line[:20]]
    lines = [line for line in lines if line.startswith("| ")]
    wrong = [line for line in lines if "| right |" not in line]
    found = museum.checked()
    assert (found.n_all, len(found.wrong)) == (len(lines), len(wrong))
    section = text_of(built().split('id="libraries"')[1])
    assert [row for row in found.wrong if row[0] not in section or row[3] not in section] == []
    assert f"on {found.n_all} pairs" in section
    assert f"{found.n_all - len(wrong)} came out right" in section


def test_a_table_of_another_form_is_refused(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "CHECKED.md"
    page.write_text("Versions: numpy 2.\n\n| litgpt: one | cache | right |\n", "utf-8")
    monkeypatch.setattr(museum, "CHECKED", page)
    with pytest.raises(ValueError, match=r"CHECKED\.md has no table of decoders"):
        museum.checked()
