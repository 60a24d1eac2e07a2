"""A lab as a document: one Panel/Bokeh document whose changing properties can be read as a whole.

The same code runs twice.  At build time it fills the table of prebuilt states; in the browser's
worker it answers the controls.  Both give a state as the values of all outputs in the same order,
so the page applies either to the one document that it shows.
"""

import json
from collections.abc import Callable
from typing import Any

from bokeh.document import Document
from bokeh.embed.util import standalone_docs_json_and_render_items

from kvlab.lab import Lab


class Session:
    """One document with one lab in it."""

    def __init__(self, make_lab: Callable[[], Lab]) -> None:
        self.lab = make_lab()
        self.document = Document()
        with self.document.models.freeze():  # one look at all models instead of one for each root
            for name, root in self.lab.roots.items():
                root.name = name
                self.document.add_root(root)

    def set(self, values: dict[str, Any], candidate: dict[str, Any] | None = None) -> None:
        """Move the controls as the page would, by a Bokeh patch, so that Panel answers.

        Args:
            values: control name -> value.
            candidate: what a mask or decoder of the visitor's does there, for a lab that draws it.
        """
        events = [
            {"kind": "ModelChanged", "model": model.ref, "attr": attr, "new": values[name]}
            for name, (model, attr) in self.lab.widgets.items()
        ]
        with self.lab.drawn_once(candidate):
            self.document.apply_json_patch({"events": events})

    def state(self) -> list[Any]:
        """Values of all outputs, in the order of ``description()['outputs']``."""
        return [getattr(model, attr) for model, attr in self.lab.outputs.values()]

    def answer(self, values_json: str, candidate_json: str = "null") -> str:
        """Set the controls and return ``state()``, both as JSON: what a slider's move costs.

        Args:
            values_json: control name -> value.
            candidate_json: as ``set`` takes it; "null": nothing.

        Raises:
            ValueError: an output holds NaN or an infinity, which JSON doesn't have.
        """
        self.set(json.loads(values_json), json.loads(candidate_json))
        return f"[{', '.join(map(_to_json, self.lab.outputs, self.state()))}]"

    def description(self) -> dict[str, Any]:
        """The document and the names of its controls and outputs, ready for JSON."""
        docs, _ = standalone_docs_json_and_render_items(
            self.document.roots, suppress_callback_warning=True
        )
        [doc] = docs.values()
        return {
            "document": doc,
            "roots": {root.name: root.id for root in self.document.roots},
            "widgets": {n: {"id": m.id, "attr": a} for n, (m, a) in self.lab.widgets.items()},
            "outputs": {n: {"id": m.id, "attr": a} for n, (m, a) in self.lab.outputs.items()},
        }


def state_table(session: Session) -> dict[str, Any]:
    """Every state of the lab, each distinct value stored once.

    Returns:
        ``states``: control values joined by commas -> an index into ``pool`` for each output;
        ``pool``: the distinct values.

    Raises:
        ValueError: an output holds NaN or an infinity, which JSON doesn't have.
    """
    pool: dict[str, int] = {}
    states: dict[str, list[int]] = {}
    for values in session.lab.states():
        session.set(values)
        key = ",".join(str(values[name]) for name in session.lab.widgets)
        outputs = map(_to_json, session.lab.outputs, session.state())
        states[key] = [pool.setdefault(output, len(pool)) for output in outputs]
    return {"states": states, "pool": [json.loads(value) for value in pool]}


def _to_json(name: str, value: Any) -> str:
    """An output's value; browsers refuse the NaN that Python would write by default."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError as error:
        raise ValueError(f"the lab's output {name!r} can't be shown: {error}") from error
