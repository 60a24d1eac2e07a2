"""A document answers patches as a page sends them, and its states can be stored in a table."""

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from bokeh.document import Document
from bokeh.models import ColumnDataSource, Model, Range1d

from kvlab.controls import radio, slider
from kvlab.lab import Lab, Part
from kvlab.session import Session, state_table
from kvlab.words import Text


class Source:
    """A part with one output."""

    def __init__(self, figure: Model, name: str, attr: str) -> None:
        self.figure = figure
        self.outputs = {name: (figure, attr)}


class Multiples(Lab):
    """A lab as small as can be: the multiples of ``factor`` up to 3 times, and their range."""

    made: "Multiples"
    title = "mask.title"

    def __init__(self) -> None:
        Multiples.made = self
        self.answered: list[int] = []
        self.controls = {
            "factor": slider("mask.n-past", "unit.history", range(5), 2),
            "sign": radio("mask.dtype", ["plus", "minus"], "plus"),
        }
        self._source, self._range = ColumnDataSource(), Range1d()
        parts: dict[str, Part] = {
            "end": Source(self._range, "end", "end"),
            "multiples": Source(self._source, "data", "data"),
        }
        super().__init__(self.controls, parts, [])

    def show(self, factor: int, sign: str) -> list[Text]:
        """Draw them."""
        factor *= {"plus": 1, "minus": -1}[sign]
        self.answered.append(factor)
        self._source.data = {"times": [1, 2, 3], "value": [factor, 2 * factor, 3 * factor]}
        self._range.end = 3 * abs(factor)
        return []


@pytest.fixture
def session() -> Session:
    return Session(Multiples)


def state(factor: int) -> list[Any]:
    multiples = {"times": [1, 2, 3], "value": [factor, 2 * factor, 3 * factor]}
    return [3 * abs(factor), multiples, {"key": [], "message": [], "args": [], "value": []}]


def test_a_session_starts_with_the_labs_first_state(session: Session) -> None:
    assert session.state() == state(2)


def test_a_patch_moves_panels_widget_and_the_outputs(session: Session) -> None:
    session.set({"factor": 4, "sign": 1})
    assert Multiples.made.controls["factor"].value == 4
    assert Multiples.made.controls["sign"].value == "minus"
    assert session.state() == state(-4)


def test_what_changes_at_once_is_drawn_once_and_what_is_set_already_not_at_all(
    session: Session,
) -> None:
    Multiples.made.answered.clear()
    session.set({"factor": 4, "sign": 1})
    session.set({"factor": 4, "sign": 1})
    assert Multiples.made.answered == [-4]


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_what_json_does_not_have_is_refused_by_name(session: Session, number: float) -> None:
    """Python would write NaN, which a browser's JSON.parse refuses without saying where."""

    class Broken(Session):
        def state(self) -> list[Any]:
            return [1, {"times": [1, 2, 3], "value": [0, number, 0]}, {}]

    broken = Broken(Multiples)
    with pytest.raises(ValueError, match="the lab's output 'multiples.data' can't be shown"):
        broken.answer('{"factor": 3, "sign": 0}')
    with pytest.raises(ValueError, match="the lab's output 'multiples.data' can't be shown"):
        state_table(broken)


def test_a_page_can_rebuild_the_document_from_its_description(session: Session) -> None:
    """All IDs resolve, and what they name holds the state."""
    description = json.loads(json.dumps(session.description()))
    rebuilt = Document.from_json(description["document"])
    for name, root in description["roots"].items():
        assert rebuilt.get_model_by_id(root) in rebuilt.roots
        assert rebuilt.get_model_by_name(name).id == root
    found = {}
    for group in ("widgets", "outputs"):
        for name, place in description[group].items():
            found[name] = getattr(rebuilt.get_model_by_id(place["id"]), place["attr"])
    assert found["factor"] == 2
    assert found["sign"] == 0
    assert [found["end.end"], found["multiples.data"], found["texts"]] == state(2)


def test_two_sessions_do_not_share_a_model(session: Session) -> None:
    other = Session(Multiples)
    other.set({"factor": 3, "sign": 0})
    assert session.state() == state(2)
    ids = [set(s.description()["roots"].values()) for s in (session, other)]
    assert not ids[0] & ids[1]


def test_the_table_gives_each_state_back_exactly(session: Session) -> None:
    table = json.loads(json.dumps(state_table(session)))
    assert list(table["states"]) == [f"{factor},{sign}" for factor in range(5) for sign in (0, 1)]
    for key, indices in table["states"].items():
        factor, sign = map(int, key.split(","))
        assert [table["pool"][index] for index in indices] == state(-factor if sign else factor)


def test_the_table_stores_each_value_once(session: Session) -> None:
    """Five ends serve both signs; of the multiples only those of 0 are equal."""
    table = state_table(session)
    values = [json.dumps(value) for value in table["pool"]]
    assert len(values) == len(set(values)) == 5 + 9 + 1


def test_equal_numbers_of_different_kinds_stay_apart() -> None:
    """1 == 1.0 == True in Python, yet a page would see another text or type."""
    values = iter([1, 1.0, True, 1])

    class Changing(Multiples):
        def states(self) -> Iterator[dict[str, Any]]:
            return ({"factor": factor, "sign": 0} for factor in range(4))

    class Fixed(Session):
        def state(self) -> list[Any]:
            return [next(values)]

    table = state_table(Fixed(Changing))
    assert json.dumps(table["pool"]) == "[1, 1.0, true]"
    assert list(table["states"].values()) == [[0], [1], [2], [0]]


@pytest.mark.parametrize("values", [{}, {"factor": 3}])
def test_a_control_without_a_value_is_an_error_and_moves_nothing(
    session: Session, values: dict[str, Any]
) -> None:
    with pytest.raises(KeyError, match="sign|factor"):
        session.set(values)
    assert session.state() == state(2)


def test_a_choice_that_does_not_exist_is_an_error(session: Session) -> None:
    with pytest.raises(IndexError):
        session.set({"factor": 2, "sign": 7})
