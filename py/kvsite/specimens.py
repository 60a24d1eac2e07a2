"""The zoo's specimens as code for the page's editor: each complete in itself, cut from the files.

A class comes with all that it needs of the zoo's modules, except for the right decoder that they
all break, without the decorator that enters it in the list, and with a check of it at the end.
"""

import ast
import sys
import textwrap
from collections import defaultdict
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, TypedDict

from kvproof.checking.report import meaning
from kvproof.zoo import SPECIMENS, Specimen
from kvsite.languages import ENGLISH, LANGUAGES, Language, words_of
from kvsite.paths import PY

ZOO = "kvproof.zoo."
BASE = "kvproof.zoo.right"
COLUMNS = 88
"""As wide as the editor shows without scrolling."""

Definition = ast.ClassDef | ast.FunctionDef | ast.Assign | ast.AnnAssign


class Module(NamedTuple):
    """A file of the zoo, taken apart."""

    lines: list[str]
    definitions: dict[str, Definition]
    imports: dict[str, tuple[str, str]]
    """Name -> the module that it is imported from ("" for the module itself), and what there."""


class Source(TypedDict):
    """A specimen as the page loads it: comments in the page's language, then the code."""

    heads: dict[str, str]
    """By ``lang``."""
    code: str


def specimen_sources() -> dict[str, Source]:
    """Name -> runnable code, for all specimens."""
    labels = {language: specimen_labels(language) for language in LANGUAGES}
    return {
        name: {
            "heads": {
                language.code: "\n".join(_comments(one, language, labels[language][name]))
                for language in LANGUAGES
            },
            "code": _code(one),
        }
        for name, one in SPECIMENS.items()
    }


def specimen_kinds(language: Language) -> list[tuple[str, str, dict[str, str]]]:
    """Each kind with its meaning and its specimens, in the order of the zoo: name -> label."""
    labels = specimen_labels(language)
    return [
        (
            kind,
            meaning(kind).text(language.code.lower()),
            {one.name: labels[one.name] for one in specimens},
        )
        for kind, specimens in groupby(SPECIMENS.values(), lambda one: one.kind)
    ]


def specimen_labels(language: Language) -> dict[str, str]:
    """What a page calls each specimen; its name is English."""
    if language == ENGLISH:
        return {name: name for name in SPECIMENS}
    words = words_of(language)
    return {name: words[f"zoo.{name}"] for name in SPECIMENS}


def specimen_source(specimen: Specimen) -> str:
    """One specimen in English: its facts as comments, imports, class, check."""
    head = _comments(specimen, ENGLISH, specimen.name)
    return "\n".join([*head, _code(specimen)])


def _code(specimen: Specimen) -> str:
    """Imports, class, check, below an empty line."""
    name = specimen.make.__name__
    parts = _Parts()
    parts.add(specimen.make.__module__, name)
    check = f"kvproof.check({name}())"
    if specimen.gold:
        # Such a mistake is in ``full`` as well: another implementation has to tell.
        check = f"right = {_right(specimen, parts)}\nkvproof.check({name}(), gold=right.full)"
    return "\n\n\n".join([f"\n{parts.imports()}", *parts.definitions, check])


def _right(specimen: Specimen, parts: "_Parts") -> str:
    """An expression for what it should have been."""
    if isinstance(specimen.right, type):
        parts.add(specimen.right.__module__, specimen.right.__name__)
        return f"{specimen.right.__name__}()"
    parts.add(BASE, "RightDecoder")
    name = specimen.make.__name__
    return f"RightDecoder(config={name}.config, storage={name}.storage)"


def _comments(specimen: Specimen, language: Language, label: str) -> list[str]:
    """What it is, what shows it, who reported its kind; the smallest case is told in English."""
    say = words_of(language).say
    kind = {"kind": specimen.kind, "meaning": meaning(specimen.kind).text(language.code.lower())}
    sentences = [say("specimens.head", label=label), say("specimens.head-kind", **kind)]
    if language == ENGLISH:
        told = [" ".join(sentences), f"Shows with: {specimen.smallest}."]
        told += [f"Not told by full and step: {specimen.gold}."] if specimen.gold else []
        wrapped = [textwrap.wrap(text, COLUMNS - 2, break_on_hyphens=False) for text in told]
        sentences = [line for lines in wrapped for line in lines]
    elif specimen.gold:
        sentences.append(say("specimens.head-gold"))
    return [f"# {line}" for line in [*sentences, say("specimens.head-reports"), *specimen.links]]


class _Parts:
    """What a class needs, in an order in which it can be executed."""

    def __init__(self) -> None:
        self._code: dict[str, str] = {}
        self._homes: dict[str, str] = {}
        self._imports: dict[str, set[str]] = defaultdict(set, {"": {"kvproof"}})

    def add(self, home: str, name: str) -> None:
        """Add a name as the module ``home`` sees it, after all that it needs itself.

        Raises:
            ValueError: two modules of the zoo mean different things by it.
        """
        module = _module(home)
        if home == BASE:
            self._imports[home].add(name)
        elif name in module.definitions:
            if name not in self._homes:
                self._homes[name] = home
                self._define(home, name)
            if self._homes[name] != home:
                raise ValueError(f"{name} is defined in {home} and in {self._homes[name]}")
        elif name in module.imports:
            source, original = module.imports[name]
            if source.startswith(ZOO):
                self.add(source, original)
            else:
                self._imports[source].add(original)

    def _define(self, home: str, name: str) -> None:
        node = _module(home).definitions[name]
        # From the line of the class: its decorator would enter it in the zoo once more.
        code = "\n".join(_module(home).lines[node.lineno - 1 : node.end_lineno])
        for inner in ast.walk(ast.parse(code)):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
                self.add(home, inner.id)
        self._code[name] = code

    @property
    def definitions(self) -> list[str]:
        """The code; constants that follow each other in one piece."""
        pieces: list[str] = []
        for name, code in self._code.items():
            if name.isupper() and pieces and pieces[-1].split(" ")[0].isupper():
                pieces[-1] += f"\n{code}"
            else:
                pieces.append(code)
        return pieces

    def imports(self) -> str:
        """In groups, as everywhere: the standard library, others, our own."""
        groups: list[list[str]] = [[], [], []]
        for module, names in sorted(self._imports.items()):
            if module:
                groups[_group(module)].append(_from(module, sorted(names, key=_sort_key)))
            else:
                for name in sorted(names):
                    groups[_group(name)].append(f"import {name}")
        return "\n\n".join("\n".join(lines) for lines in groups if lines)


def _from(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= COLUMNS:
        return line
    return "\n".join([f"from {module} import (", *(f"    {name}," for name in names), ")"])


def _group(module: str) -> int:
    top = module.split(".")[0].split(" ")[0]
    return 0 if top in sys.stdlib_module_names else 2 if top == "kvproof" else 1


def _sort_key(name: str) -> tuple[bool, str]:
    """Constants first, as ruff sorts them."""
    return not name.isupper(), name


@cache
def _module(name: str) -> Module:
    text = (PY / Path(*name.split("."))).with_suffix(".py").read_text("utf-8")
    definitions: dict[str, Definition] = {}
    imports: dict[str, tuple[str, str]] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom):
            imports |= {
                alias.asname or alias.name: (node.module or "", alias.name) for alias in node.names
            }
        elif isinstance(node, ast.Import):
            for alias in node.names:
                known = f"{alias.name} as {alias.asname}" if alias.asname else alias.name
                imports[alias.asname or alias.name] = "", known
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            definitions[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            definitions |= {target.id: node for target in targets if isinstance(target, ast.Name)}
    return Module(text.splitlines(), definitions, imports)
