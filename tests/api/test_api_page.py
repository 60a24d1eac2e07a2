"""The API page shows every public name, whole, and where it comes from."""

import inspect
import re
from html import unescape

import pytest

import kvproof
from kvsite.api import Section, find_definition, public_modules, split_docstring, split_items
from kvsite.paths import ROOT

MODULES = public_modules()
ENTRIES = {entry.name: entry for module in MODULES for entry in module.entries}
FUNCTIONS = [name for name in ENTRIES if inspect.isfunction(getattr(kvproof, name))]

names = pytest.mark.parametrize("name", kvproof.__all__)


def text_of(content: Section) -> str:
    """What a reader sees."""
    if not isinstance(content, str):
        return "\n".join(f"{text_of(term)}: {text_of(meaning)}" for term, meaning in content)
    return unescape(re.sub("<[^>]+>", "", content))


def test_every_public_name_is_there_once() -> None:
    shown = [entry.name for module in MODULES for entry in module.entries]
    assert sorted(shown) == sorted(kvproof.__all__)
    places = [module.name for module in MODULES]
    assert places[0] == "kvproof.model.config"
    assert len(set(places)) == len(places) > 8


@names
def test_the_whole_docstring_is_shown(name: str) -> None:
    _, _, docstring = find_definition(name)
    sections = ENTRIES[name].sections.items()
    shown = "".join(f"{title}: {text_of(content)}" for title, content in sections)
    assert letters(shown) == letters(docstring)
    assert len(letters(docstring)) > 10


def letters(text: str) -> str:
    """Without spaces and Markdown's signs."""
    return re.sub(r"[\s`*:]", "", text)


@names
def test_the_source_is_where_it_says(name: str) -> None:
    found = re.fullmatch(r"(\S+), lines (\d+)–(\d+)", ENTRIES[name].place)
    assert found
    lines = (ROOT / found[1]).read_text().splitlines()[int(found[2]) - 1 : int(found[3])]
    value = getattr(kvproof, name)
    if inspect.isfunction(value) or inspect.isclass(value):
        assert lines == inspect.getsource(value).rstrip().splitlines()
    else:
        assert lines[0].startswith(f"{name} = ")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signature_and_code_are_the_functions_own(name: str) -> None:
    function, entry = getattr(kvproof, name), ENTRIES[name]
    signature, code = text_of(entry.signature).rstrip(), text_of(entry.code)
    assert code.startswith(f"{signature}:\n")
    assert f"def {name}(" in signature
    for parameter in inspect.signature(function).parameters:
        assert re.search(rf"\b{parameter}\b", signature)
    lines = inspect.getsource(function).splitlines()
    left_out = [line for line in lines if line not in code.splitlines()]
    docstring = inspect.getdoc(function) or ""
    assert {line.strip().removeprefix('"""').removesuffix('"""') for line in left_out} <= {
        line.strip() for line in docstring.splitlines()
    }
    assert docstring not in code


def test_members_of_a_class_are_its_fields_and_what_has_a_docstring() -> None:
    members = {entry.name: entry for entry in ENTRIES["KVCache"].members}
    assert "let go" in text_of(members["KVCache.length"].sections[""]), "the string after it"
    assert text_of(members["KVCache.shape"].signature) == "shape: CacheShape\n"
    assert "StaleCacheError" in text_of(members["KVCache.crop"].sections["Raises"])
    assert not [name for name in members if "._" in name]


def test_public_names_in_code_are_links_but_not_to_oneself() -> None:
    entry = ENTRIES["decode"]
    assert '<a href="#KVCache">KVCache</a>' in entry.signature
    assert 'href="#decode"' not in entry.signature
    assert '<a href="#StaleCacheError">' in entry.sections["Raises"][1][0]


def test_sections_and_items_are_told_apart() -> None:
    sections = split_docstring(
        "Sum: of two.\n\nMore.\n\n"
        "Args:\n    a: one: the first\n        number.\n    b: the other.\n\n"
        "Returns:\n    Note:\n        indented."
    )
    assert list(sections) == ["", "Args", "Returns"]
    assert sections[""] == "Sum: of two.\n\nMore."
    assert split_items(sections["Args"]) == {"a": "one: the first\nnumber.", "b": "the other."}


def test_a_name_that_is_gone_stops_the_build() -> None:
    with pytest.raises(KeyError, match="kvproof doesn't define gone"):
        find_definition("gone")
