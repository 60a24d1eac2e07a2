"""A lab names messages; their words are the page's."""

import pytest
from bokeh.models import LinearAxis, Span

from kvlab.controls import select
from kvlab.words import Text, columns, plain, worded


def test_texts_become_columns_and_sentences_of_a_paragraph_keep_their_order() -> None:
    texts = [
        Text("summary", "mask.first", {"P": "4"}),
        Text("summary", "mask.second"),
        plain("floor", "3.00e-16", "3e-16"),
    ]
    assert columns(texts) == {
        "key": ["summary", "summary", "floor"],
        "message": ["mask.first", "mask.second", "plain"],
        "args": [{"P": "4"}, {}, {"text": "3.00e-16"}],
        "value": ["", "", "3e-16"],
    }


def test_no_text_at_all_still_has_its_columns() -> None:
    assert columns([]) == {"key": [], "message": [], "args": [], "value": []}


def test_a_worded_model_has_the_ids_and_a_note_for_the_page() -> None:
    axis = LinearAxis()
    worded(axis, axis_label="axis.key-position", major_label_overrides={0: "axis.layer"})
    assert axis.axis_label == "axis.key-position"
    assert axis.tags == [
        {
            "worded": {
                "axis_label": "axis.key-position",
                "major_label_overrides": {0: "axis.layer"},
            }
        }
    ]


def test_a_list_keeps_its_values_beside_its_words() -> None:
    model = select("ladder.specimen", ["a", "b"], "b", ["blind.one", "blind.two"]).model
    assert (model.value, model.options) == ("b", [("a", "blind.one"), ("b", "blind.two")])
    assert model.tags[-1] == {"worded": {"options": model.options}}


def test_a_property_that_the_model_does_not_have_is_refused() -> None:
    with pytest.raises(AttributeError, match="title"):
        worded(Span(location=0), title="mask.title")
