"""What the pages show of the labs before any script runs."""

import json
from functools import cache, partial
from pathlib import Path
from typing import Any

from kvlab.labs import LABS
from kvsite.words import Catalogue


def lab_file(name: str) -> str:
    """Name of the file with a lab's document and its table of states."""
    return f"{name}_lab.json"


def default_states(folder: Path, words: Catalogue) -> dict[str, dict[str, Any]]:
    """Each lab by its name as it is at the start; ``folder`` holds the labs' files."""
    return {name: default_state(name, _lab_data(folder / lab_file(name)), words) for name in LABS}


@cache
def _lab_data(file: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(file.read_text())
    return data


def default_state(name: str, data: dict[str, Any], words: Catalogue) -> dict[str, Any]:
    """A lab as it is at the start.

    Returns:
        ``name``; ``initial``: the controls' values; ``outputs`` by name; ``readouts``: by name
        their text in the language of ``words`` and their value; ``marks``: a cell's state -> its
        mark as text; ``page``: what the lab declares of itself; ``table``: the head and the rows
        of a table that it declares, and what its headings are called.
    """
    table = data["table"]
    key = ",".join(str(value) for value in data["initial"].values())
    values = (table["pool"][index] for index in table["states"][key])
    outputs = dict(zip(data["description"]["outputs"], values, strict=True))
    return {
        "name": name,
        "initial": data["initial"],
        "outputs": outputs,
        "readouts": readouts(outputs["texts"], words),
        "marks": data["marks"],
        "page": data["page"],
        "table": partial(_table, outputs, words),
    }


def _table(outputs: dict[str, Any], words: Catalogue, declared: dict[str, Any]) -> dict[str, Any]:
    """The head and the rows of a ``Table`` or ``Matrix`` of ``kvlab.view`` (as lab-tables.js)."""
    data = outputs[declared["of"]]
    if columns := declared.get("columns"):
        shown = (
            [value and words.say(value) for value in data[name]]
            if name in declared["words"]
            else data[name]
            for name in columns
        )
        head = [words.say(title) for title in columns.values()]
        return {"head": head, "rows": list(zip(*shown, strict=True))}
    rows, columns, values = (data[declared[name]] for name in ("row", "column", "value"))
    names = {place: words.say(name) for place, name in declared["names"].items()}
    headings = list(dict.fromkeys(columns))
    starts = range(0, len(values), len(headings))

    def named(value: Any) -> Any:
        return names.get(str(value), value)

    return {
        "head": [words.say(declared["corner"]), *map(named, headings)],
        "rows": [[named(rows[start]), *values[start : start + len(headings)]] for start in starts],
        "names": names,
    }


def readouts(texts: dict[str, list[Any]], words: Catalogue) -> dict[str, dict[str, str]]:
    """The columns of ``kvlab.words.columns`` in a language: key -> ``text`` and ``value``."""
    paragraphs: dict[str, list[str]] = {}
    values: dict[str, str] = {}
    rows = zip(texts["key"], texts["message"], texts["args"], texts["value"], strict=True)
    for key, message, args, value in rows:
        paragraphs.setdefault(key, []).append(words.say(message, **args))
        values.setdefault(key, value)
    return {
        key: {"text": words.paragraph(sentences), "value": values[key]}
        for key, sentences in paragraphs.items()
    }
