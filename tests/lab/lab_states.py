"""All states of a lab, as the page finds them in the prebuilt table."""

import json
from functools import cache
from typing import Any

from kvlab.labs import new_session
from kvlab.session import Session, state_table

State = dict[str, Any]
"""Name of an output -> its value."""


@cache
def prebuilt(name: str) -> dict[str, Any]:
    """The lab's table of states."""
    return state_table(new_session(name))


@cache
def all_states(name: str) -> list[tuple[dict[str, Any], State]]:
    """(control values, state) of each state, in the order of the table."""
    table, lab = prebuilt(name), new_session(name).lab
    states = []
    for values in lab.states():
        indices = table["states"][",".join(str(values[control]) for control in lab.widgets)]
        pairs = zip(lab.outputs, indices, strict=True)
        states.append((values, {output: table["pool"][index] for output, index in pairs}))
    return states


def move(session: Session, **values: Any) -> State:
    """Move a session's controls; those that aren't named go to their initial values."""
    session.set({**session.lab.initial, **values})
    return dict(zip(session.lab.outputs, json.loads(json.dumps(session.state())), strict=True))


def sentences(state: State, key: str) -> list[tuple[str, dict[str, str]]]:
    """(message, arguments) of the texts with this key."""
    texts = state["texts"]
    rows = zip(texts["key"], texts["message"], texts["args"], strict=True)
    return [(message, args) for row_key, message, args in rows if row_key == key]


def value(state: State, key: str) -> str:
    """The number behind a read-out."""
    texts = state["texts"]
    found: str = texts["value"][texts["key"].index(key)]
    return found
