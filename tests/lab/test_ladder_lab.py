"""The error ladder: every rung that is drawn is an error that the core computes."""

import math
from pathlib import Path
from typing import Any

import pytest
from bokeh.models import GlyphRenderer, Span
from tests.lab.lab_states import all_states, move, sentences, value

import kvlab
from kvlab.ladder_lab import KEYS, LINES, LadderLab, all_rungs
from kvlab.log_axis import INFINITE_LEVEL, ZERO_LEVEL
from kvlab.session import Session
from kvproof import zoo
from kvproof.experiments import error_ladder


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
        expected = [errors["trigger"], *errors.values()]
        assert chosen["x"] == [level(error) for error in expected]
        assert chosen["row"] == [3, 4, 5, 6, 7, 8]
        assert errors["trigger"] == rungs[name]
        assert [float(value(state, key)) for key in KEYS.values()] == list(errors.values())


def test_all_that_is_drawn_lies_inside_the_axes() -> None:
    session = Session(LadderLab)
    x = session.lab.roots["rungs"].x_range
    drawn = [error for data in drawn_groups(session).values() for error in data["x"]]
    drawn += [error for _, state in all_states("ladder") for error in state["rungs.chosen"]["x"]]
    assert all(x.start < error < x.end for error in drawn)
    assert len(LINES) == len(error_ladder.GROUPS) + len(KEYS)


@pytest.mark.parametrize(
    ("specimen", "message", "blind"),
    [
        ("mask-topleft", "ladder.trigger-clear", "1"),
        ("mask-topleft-chunks", "ladder.trigger-clear", "3"),
        ("mask-value-nan", "ladder.trigger-infinite", None),
    ],
)
def test_the_sentence_says_what_shows_it(specimen: str, message: str, blind: str | None) -> None:
    said = sentences(move(Session(LadderLab), specimen=specimen), "summary")
    assert said[0] == ("ladder.specimen-is", {"name": specimen})
    assert said[1][0] == message
    if blind is not None:
        assert said[2][1] == {"blind": blind, "ways": "4"}


def test_where_int8_errs_more_the_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: rungs of an archive in which a right int8 cache is off by ten."""
    rungs = [*all_rungs(), error_ladder.Rung("int8", "coarse", 10.0)]
    monkeypatch.setattr("kvlab.ladder_lab.all_rungs", lambda: rungs)
    said = sentences(move(Session(LadderLab)), "summary")
    assert said[1][0] == "ladder.trigger-hidden"


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
