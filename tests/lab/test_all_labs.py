"""What every lab promises: complete tables, known colours and words, no other host, no leaks."""

import json
import re
from collections.abc import Iterator
from typing import Any

import brotli
import numpy as np
import pytest
from bokeh.models import Model
from tests.lab.lab_states import all_states, move, prebuilt

from kvlab.labs import LABS, lab_class, new_session
from kvlab.palette import LIGHT
from kvsite.languages import LANGUAGES, words_of
from kvsite.words import places

OTHER_HOST = re.compile(r"(https?:)?//[a-z0-9]", re.IGNORECASE)
MAX_TABLE_BYTES = 200_000  # by the kernel that added, the largest has 148,000 to 161,000
CATALOGUES = {language.code: words_of(language) for language in LANGUAGES}


@pytest.fixture(params=LABS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_table_has_each_state_once(name: str) -> None:
    states = [json.dumps(values) for values, _ in all_states(name)]
    assert len(set(states)) == len(states) == len(prebuilt(name)["states"])
    assert json.dumps(new_session(name).lab.initial) in states


def test_the_table_is_small(name: str) -> None:
    text = json.dumps(prebuilt(name), separators=(",", ":"), allow_nan=False)
    assert len(brotli.compress(text.encode(), quality=9)) < MAX_TABLE_BYTES


def test_a_session_answers_what_is_stored_whatever_came_before(name: str) -> None:
    session, states = new_session(name), all_states(name)
    for i in np.random.default_rng(0).integers(len(states), size=8):
        values, state = states[i]
        assert move(session, **values) == state


def test_each_control_has_an_effect(name: str) -> None:
    session = new_session(name)
    before = move(session)
    for control, initial in session.lab.initial.items():
        others = {v[control] for v, _ in all_states(name)} - {initial}
        assert any(move(session, **{control: other}) != before for other in others), control


WRONG = {"slider": -99, "radio": 99, "select": "no such choice"}


def test_what_no_control_can_send_is_an_error(name: str) -> None:
    for control, declared in new_session(name).lab.page["controls"].items():
        with pytest.raises((ValueError, IndexError, KeyError)):
            move(new_session(name), **{control: WRONG[declared["kind"]]})


def test_what_a_lab_declares_is_there(name: str) -> None:
    """Every read-out in every state, every table in the first, every figure with its shape."""
    lab = new_session(name).lab
    found = list(everything(lab.page["blocks"]))
    readouts = [one["rows"] for one in found if one.get("kind") == "readouts"]
    keys = {key for rows in readouts for row in rows.values() for key in row}
    for part in ("key", "reading", "caption_reading", "summary", "next_word", "about", "note"):
        keys |= {one[part] for one in found if one.get(part)}
    for _, state in all_states(name):
        assert keys <= set(state["texts"]["key"])
    state = move(new_session(name))
    for table in (one for one in found if "of" in one):
        named = ("row", "column", "value") if "row" in table else ()
        columns = table.get("columns") or {table[part] for part in named} or {"state"}
        assert set(columns) <= state[table["of"]].keys()
    figures = [one for one in found if "root" in one]
    grids = [one for one in found if "words_of" in one]
    assert figures or grids
    assert all({"word", "state"} <= state[grid["words_of"]].keys() for grid in grids)
    assert all(lab.page["ratios"][figure["root"]] > 0 for figure in figures)
    sentences = {one["key"] for one in found if one.get("kind") == "summary"}
    sentences |= {figure["summary"] for figure in figures}
    assert all((figure["summary"] or "summary") in sentences for figure in figures)
    assert all(figure["table"] or not figure["fold"] for figure in figures)


def test_there_is_something_to_try_but_in_the_first_which_the_page_leads_to(name: str) -> None:
    page = new_session(name).lab.page
    assert bool(page["to_try"]) == (not page["is_first"])


def everything(declared: Any) -> Iterator[dict[str, Any]]:
    """Each dictionary inside."""
    if isinstance(declared, dict):
        yield declared
        declared = list(declared.values())
    if isinstance(declared, list):
        for one in declared:
            yield from everything(one)


def notes(name: str, kind: str) -> list[tuple[Model, dict[str, Any]]]:
    models = new_session(name).document.select({"type": Model})
    return [(model, tag[kind]) for model in models for tag in model.tags if kind in tag]


def test_each_colour_is_a_concept(name: str) -> None:
    """The page recolours by the notes; in the light theme both must agree."""
    noted = notes(name, "themed")
    has_figures = any(new_session(name).lab.page["ratios"].values())
    assert len(noted) >= (5 if has_figures else 1)
    for model, concepts in noted:
        for attr, concept in concepts.items():
            wanted = LIGHT[concept] if isinstance(concept, str) else [LIGHT[c] for c in concept]
            assert getattr(model, attr) == wanted


@pytest.mark.parametrize("language", CATALOGUES)
def test_every_message_of_every_state_is_in_the_catalogue(name: str, language: str) -> None:
    catalogue = CATALOGUES[language]
    said = set()
    for _, state in all_states(name):
        texts = state["texts"]
        for message, args in zip(texts["message"], texts["args"], strict=True):
            assert places(catalogue[message]) == args.keys(), message
            said.add(message)
    assert said
    for message in page_messages(new_session(name).lab.page):
        assert message in catalogue
    for _, messages in notes(name, "worded"):
        for message in messages.values():
            found = [message] if isinstance(message, str) else list(dict_values(message))
            assert all(one in catalogue and not places(catalogue[one]) for one in found)


def page_messages(page: dict[str, Any]) -> Iterator[str]:
    """Messages that the template says: all texts with a point that name no output."""
    for one in everything(page):
        texts = [value for key, value in one.items() if key not in ("of", "words_of")]
        texts += [*one.get("head", []), *(one["rows"] if one.get("kind") == "readouts" else [])]
        yield from (
            text for text in texts if isinstance(text, str) and re.match(r"[a-z]+\.\S", text)
        )


def dict_values(messages: Any) -> list[str]:
    found = messages.values() if isinstance(messages, dict) else messages
    return [one if isinstance(one, str) else one[1] for one in found]


def test_there_is_a_sentence_for_each_state(name: str) -> None:
    """And they differ: it isn't one sentence for all."""
    summaries = []
    for _, state in all_states(name):
        texts = state["texts"]
        rows = zip(texts["key"], texts["message"], texts["args"], strict=True)
        summaries.append(json.dumps([row for row in rows if row[0].endswith("summary")]))
    assert "[]" not in summaries
    assert len(set(summaries)) > len(summaries) / 4


def test_the_document_asks_no_other_host(name: str) -> None:
    assert urls(new_session(name).description()) == urls(prebuilt(name)) == []


def urls(description: object) -> list[str]:
    return [found[0] for found in OTHER_HOST.finditer(json.dumps(description))]


def test_a_move_makes_no_new_model(name: str) -> None:
    """Bokeh leaks figures that are replaced."""
    session = new_session(name)
    before = {model.id for model in session.document.models}
    for values, _ in all_states(name)[:: max(1, len(all_states(name)) // 5)]:
        move(session, **values)
    assert {model.id for model in session.document.models} == before


def test_the_labels_of_an_axis_are_always_at_the_same_ticks(name: str) -> None:
    """BokehJS keeps the old label of a tick that has lost its own."""
    for output, (_, attr) in new_session(name).lab.outputs.items():
        if attr == "major_label_overrides":
            assert len({tuple(state[output]) for _, state in all_states(name)}) == 1


def test_an_unknown_lab_is_refused() -> None:
    with pytest.raises(ValueError, match="no lab 'masks'; the labs are .*, mask, "):
        lab_class("masks")
