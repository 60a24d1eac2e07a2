"""How a lab speaks without a language: it names messages, and the page has the words.

The words are in ``site/texts``, a catalogue a language; ``{name}`` in a message is a place.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kvlab.palette import note


class Text(NamedTuple):
    """A sentence or a read-out of one state.

    ``key``: its place in the lab on the page.  ``message``: an ID of the catalogues.  ``args``:
    what goes into the message's places, already formatted.  ``value``: the number behind a
    read-out in full precision, or "" for a sentence.
    """

    key: str
    message: str
    args: Mapping[str, str] = {}
    value: str = ""


def plain(key: str, text: str, value: str) -> Text:
    """A read-out that is the same in every language, such as a number."""
    return Text(key, "plain", {"text": text}, value)


def columns(texts: Iterable[Text]) -> dict[str, list[Any]]:
    """All texts of a state as the columns of a data source, the lab's output ``texts``.

    Texts with the same key are the sentences of one paragraph, in this order.
    """
    rows = list(texts)
    return {
        "key": [row.key for row in rows],
        "message": [row.message for row in rows],
        "args": [dict(row.args) for row in rows],
        "value": [row.value for row in rows],
    }


Messages = str | list[str] | list[tuple[str, str]] | dict[float, str]


def worded(model: Any, **messages: Messages) -> None:
    """Put messages into a Bokeh model, and leave a note for the page to put in the words.

    Args:
        model: a Bokeh model; its properties hold the bare IDs until the page replaces them.
        messages: property name -> an ID of the catalogues, a list of IDs (labels of radio
            buttons), values and IDs (what a list shows for them), or IDs by position
            (``major_label_overrides`` of an axis).
    """
    for name, message in messages.items():
        setattr(model, name, message)
    note(model, worded=messages)
