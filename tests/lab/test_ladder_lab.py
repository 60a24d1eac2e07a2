"""The error ladder: every rung that is drawn is an error that the core computes."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
from bokeh.models import GlyphRenderer, Span
from tests.lab.lab_states import all_states, move, sentences, value

import kvlab
from kvlab.ladder_lab import KEYS, LINES, LadderLab, all_rungs, called
from kvlab.log_axis import INFINITE_LEVEL, ZERO_LEVEL
from kvlab.session import Session
from kvproof import zoo
from kvproof.experiments import error_ladder
from kvsite.languages import LANGUAGES, Language, words_of


def level(error: float) -> Any:
    return INFINITE_LEVEL if math.isinf(error) else pytest.approx(max(error, ZERO_LEVEL), rel=1e-3)


def drawn_groups(session: Session) -> dict[str, Any]:
    renderers = session.lab.roots["rungs"].select({"type": GlyphRenderer})
    return {r.name: r.data_source.data for r in renderers if r.name in error_ladder.GROUPS}


def test_every_rung_is_drawn_in_its_groups_line() -> None:
    groups = drawn_groups(Session(LadderLab))
    for line, group in enumerate(error_ladder.GROUPS):
        rungs = [*error_ladder.right_rungs(), *error_ladder.broken_rungs()]
        errors = [rung.error for rung in rungs if rung.group == group]
        assert list(groups[group]["x"]) == [level(error) for error in errors]
        assert all(abs(y - line) < 0.4 for y in groups[group]["y"])


def test_the_floors_are_drawn() -> None:
    spans = Session(LadderLab).lab.roots["rungs"].select({"type": Span})
    floors = error_ladder.rounding_floors().values()
    assert sorted(span.location for span in spans) == sorted(floors)


def test_the_chosen_one_is_computed_anew() -> None:
    assert [values["specimen"] for values, _ in all_states("ladder")] == list(zoo.SPECIMENS)
    rungs = {rung.name: rung.error for rung in all_rungs() if rung.group == "broken"}
    for values, state in all_states("ladder"):
        name, chosen = values["specimen"], state["rungs.chosen"]
        errors = error_ladder.specimen_errors(name)
        assert chosen["x"] == [level(errors["trigger"])]
        assert chosen["row"] == [3]
        assert errors["trigger"] == rungs[name]
        assert [float(value(state, key)) for key in KEYS.values()] == list(errors.values())


def test_all_that_is_drawn_lies_inside_the_axes() -> None:
    session = Session(LadderLab)
    x = session.lab.roots["rungs"].x_range
    drawn = [error for data in drawn_groups(session).values() for error in data["x"]]
    drawn += [error for _, state in all_states("ladder") for error in state["rungs.chosen"]["x"]]
    assert all(x.start < error < x.end for error in drawn)
    assert list(LINES.values()) == [f"ladder.{group}" for group in error_ladder.GROUPS]


@pytest.mark.parametrize(
    ("specimen", "message", "blind"),
    [
        # All at once hides the first; single tokens, in a prompt or not, hide the second as well.
        ("mask-topleft", "ladder.trigger-clear", ("ladder.blind.one", {"ways": "4"})),
        (
            "mask-topleft-chunks",
            "ladder.trigger-clear",
            ("ladder.blind.many", {"ways": "4", "blind": "3"}),
        ),
        # A single sequence has no padding.
        ("mask-value-nan", "ladder.trigger-infinite", ("ladder.blind.all", {"ways": "4"})),
        ("mask-value-bool", "ladder.trigger-clear", ("ladder.blind.one", {"ways": "4"})),
    ],
)
def test_the_sentence_says_what_shows_it(
    specimen: str, message: str, blind: tuple[str, dict[str, str]]
) -> None:
    said = sentences(move(Session(LadderLab), specimen=specimen), "summary")
    assert said[0][0] == message
    assert said[1] == blind


def test_each_state_counts_the_plain_ways_that_show_nothing() -> None:
    counted = set()
    for _, state in all_states("ladder"):
        ways = [float(value(state, key)) for key in KEYS.values() if key != "trigger"]
        blind = sum(error <= zoo.blind.SEEN for error in ways)
        message, args = sentences(state, "summary")[1]
        one_of = {0: "none", 1: "one", len(ways): "all"}
        assert message == f"ladder.blind.{one_of.get(blind, 'many')}"
        assert args.get("blind", str(blind)) == str(blind)
        counted.add(blind)
    assert {0, 1, len(ways)} < counted


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_decoder_is_called_by_words_and_each_by_its_own(language: Language) -> None:
    """No name of the code stands in the table or in the list, and no two rows are the same."""
    words = words_of(language)
    said = [tuple(text and words[text] for text in called(rung)) for rung in all_rungs()]
    groups = [rung.group for rung in all_rungs()]
    assert len(set(zip(groups, said, strict=True))) == len(said)
    codes = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")
    names = {rung.name for rung in all_rungs()}
    assert not [text for pair in said for text in pair if text in names]
    assert not [pair for pair in said if codes.fullmatch(pair[0])]
    select: Any = Session(LadderLab).lab.roots["specimen"]
    assert [value for value, _ in select.options] == list(zoo.SPECIMENS)
    assert [words[message] for _, message in select.options] == [
        name for group, (name, _) in zip(groups, said, strict=True) if group == "broken"
    ]


def test_where_int8_errs_more_the_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: rungs of an archive in which a right int8 cache is off by ten."""
    rungs = [*all_rungs(), error_ladder.Rung("int8", "coarse", 10.0)]
    monkeypatch.setattr("kvlab.ladder_lab.all_rungs", lambda: rungs)
    said = sentences(move(Session(LadderLab)), "summary")
    assert said[0][0] == "ladder.trigger-hidden"


def test_an_archives_rungs_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed = all_rungs()
    assert error_ladder.from_json(error_ladder.to_json()) == computed
    (tmp_path / "stored").mkdir()
    stored = '[["float64", "a", 1e-16], ["broken", "b", null]]'
    (tmp_path / "stored" / "ladder.json").write_text(stored)
    monkeypatch.setattr(kvlab, "__path__", [*kvlab.__path__, str(tmp_path)])
    found = all_rungs()
    assert found == [
        error_ladder.Rung("float64", "a", 1e-16),
        error_ladder.Rung("broken", "b", math.inf),
    ]
