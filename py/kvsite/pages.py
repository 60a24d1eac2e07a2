"""Render the site into ``dist``: for each language its pages, and the start page in English.

A path in the site has ``root`` before it: the way from a page's folder to the site's.
"""

import json
import os
import pickle
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from kvlab.cells import Cell
from kvproof.experiments.audit import FILES
from kvproof.experiments.record import run
from kvproof.kinds import KINDS, Kind
from kvsite import checker_page
from kvsite.api import public_modules
from kvsite.assets import SITE, Assets, style_sheet
from kvsite.cell_texts import cell_id, page_cells
from kvsite.error_curve import error_curve_figure
from kvsite.formats import FILTERS
from kvsite.labs import default_states
from kvsite.languages import (
    ENGLISH,
    LANGUAGES,
    Language,
    page_source,
    words_of,
)
from kvsite.listings import body_diff, function_body, highlight_python
from kvsite.museum import SIGNS, Measured, checked, measured, rooms
from kvsite.notebook import colab_url, converted, notebook_file, render_notebook
from kvsite.notices import shipped
from kvsite.numbers import numbers
from kvsite.paths import BUILD, PY, REQUIREMENTS, ROOT
from kvsite.policy import CONTENT_SECURITY_POLICY
from kvsite.poster import poster
from kvsite.previews import picture_file, shared_as
from kvsite.prose import inline, table_of_contents, to_html
from kvsite.report import Shown, drawn_reports
from kvsite.specimens import specimen_kinds
from kvsite.stamps import digest, is_fresh, new_folder
from kvsite.timing import (
    RESULTS,
    Results,
    load_results,
    other_code_figure,
    timing_figure,
    timing_rows,
)
from kvsite.wasm import LAB_FILES
from kvsite.wheel import brought, build_wheel
from kvsite.words import Catalogue

NUMBERS = BUILD / "numbers"
MUSEUM = BUILD / "museum"
CHECKER_PAGE = BUILD / "checker_page"
T = TypeVar("T")
NUMBER_WORDS = ["zero", "one", "two", "three", "four", "five", "six"]
NUMBER_WORDS += ["seven", "eight", "nine", "ten", "eleven", "twelve"]
EVIDENCE = "evidence"
"""Among the downloads: the folder that ``kvproof run`` writes."""


def build_pages(folder: Path, build: str) -> None:
    """Write everything; ``build`` is what the service worker knows this build by."""
    downloads = folder / "downloads"
    downloads.mkdir()
    for path in (RESULTS, build_wheel()):
        shutil.copyfile(path, downloads / path.name)
    run(downloads / EVIDENCE)
    assets = Assets(folder, build)
    for language in LANGUAGES:
        text = converted(notebook_file(language.source), language.from_source)
        (downloads / download_name(language)).write_text(text, "utf-8")
        (folder / language.folder).mkdir()
        pages = Pages(folder, assets, language)
        pages.write_index(f"{language.folder}/index.html")
        pages.write_api()
        pages.write_notebook()
        pages.write_museum()
        pages.write_check()
        pages.write_poster()
        pages.write_notices()
    english = Pages(folder, assets, ENGLISH)
    english.write_index("index.html")
    english.write_not_found()
    (folder / "previews").mkdir()
    for language in LANGUAGES:
        shutil.copy(picture_file(language), folder / "previews")
    (folder / ".nojekyll").touch()  # GitHub Pages would drop names with underscores


def download_name(language: Language) -> str:
    """The notebook's among the downloads."""
    return notebook_file(language.folder).name


class Pages:
    """The pages of one language."""

    def __init__(self, folder: Path, assets: Assets, language: Language) -> None:
        self._folder = folder
        self._assets = assets
        self._language = language
        self._templates = environment(language)

    def write_index(self, path: str) -> None:
        """The article with its labs and cells."""
        labs = default_states(LAB_FILES, words_of(self._language))
        context = {
            **article_context(self._language, load_results()),
            "labs": labs,
            "download": download_name(self._language),
            "evidence": [f"{EVIDENCE}/{name}" for name in FILES],
            "wheel": build_wheel().name,
            "wheels": brought(),
            **_ways(path),
        }
        front, content = self._prose("index.md", context)
        self._write(
            path,
            **front,
            content=Markup(content),
            contents=table_of_contents(content),
            config=self._assets.config(),
            messages=words_of(self._language),
        )

    def write_api(self) -> None:
        """Every public name, with its docstring."""
        modules = public_modules()
        n_names = sum(len(module.entries) for module in modules)
        front, content = self._prose("api.md", {"modules": modules, "n_names": n_names})
        self._write(self._path("api.html"), **front, content=Markup(content), wide=True)

    def write_notebook(self) -> None:
        """The executed notebook, and how to read its results."""
        path, results = self._path("notebook.html"), load_results()
        notebook = notebook_file(self._language.source)
        context = {
            "body": Markup(self._language.from_source(render_notebook(notebook))),
            "download": download_name(self._language),
            "colab": colab_url(self._language.source),
            **timing_context(words_of(self._language), results),
            **_ways(path),
        }
        front, content = self._prose("notebook.md", context)
        self._write(path, **front, content=Markup(content))

    def write_museum(self) -> None:
        """A card for each kind of mistake, by symptom, and what was found in libraries."""
        path = self._path("museum.html")
        context = {
            "rooms": rooms(self._language, kept_museum()),
            "kinds": KINDS,
            "signs": SIGNS,
            "checked": checked(),
            **_ways(path),
        }
        front, content = self._prose("museum.md", context)
        self._write(path, **front, content=Markup(content))

    def write_check(self) -> None:
        """A test to paste, the checker with a cell, and what it can see."""
        path = self._path("check.html")
        context = {**check_context(self._language), **_ways(path)}
        front, content = self._prose("check.md", context)
        self._write(
            path,
            **front,
            content=Markup(content),
            contents=table_of_contents(content),
            config={**self._assets.config(), "labs": None},
            messages=words_of(self._language),
        )

    def write_poster(self) -> None:
        """One page to print."""
        front, content = self._prose("poster.md", {"poster": kept_poster()})
        self._write(self._path("poster.html"), **front, content=Markup(content))

    def write_notices(self) -> None:
        """What others have made."""
        front, content = self._prose("notices.md", {"components": shipped()})
        self._write(self._path("notices.html"), **front, content=Markup(content))

    def write_not_found(self) -> None:
        """What hosts answer with at any depth, so it can't refer to files.

        Its links work there if ``KVPROOF_BASE_PATH`` says where on its host the site will lie.
        """
        say = words_of(self._language).say
        written = [language for language in LANGUAGES if language.folder == language.source]
        template = self._templates.get_template("not_found.html.j2")
        self._write(
            "404.html",
            title=say("site.not-found-title"),
            description=say("site.not-found-description"),
            content=Markup(template.render(words={lang: words_of(lang) for lang in written})),
            base=os.environ.get("KVPROOF_BASE_PATH"),
            inline_style=Markup(style_sheet()),
        )

    def _prose(self, name: str, context: dict[str, Any]) -> tuple[dict[str, str], str]:
        return render(self._templates, page_source(self._language, name), context)

    def _path(self, file: str) -> str:
        return f"{self._language.folder}/{file}"

    def _write(self, path: str, **context: Any) -> None:
        file = "" if path == "404.html" else Path(path).name.removeprefix("index.html")
        page = self._templates.get_template("page.html.j2").render(
            {
                "config": None,
                "contents": None,
                "inline_style": None,
                "base": None,
                "wide": False,
                **context,
                **_ways(path),
            },
            file=file,
            shared=None if path == "404.html" else shared_as(self._language, file),
            assets=self._assets.urls,
            watched="KVPROOF_WATCH" in os.environ,
            content_security_policy=CONTENT_SECURITY_POLICY,
        )
        (self._folder / path).write_text(self._language.typeset(page), encoding="utf-8")


def _ways(path: str) -> dict[str, str]:
    """From a page to the site's folder, and to the other pages of its language."""
    in_language = "/" in path
    return {"root": "../" if in_language else "", "pages": "" if in_language else "en/"}


@cache
def environment(language: Language) -> Environment:
    """The templates of a language: its words in ``say``, its numbers by filters."""
    templates = Environment(
        loader=FileSystemLoader(SITE / "templates"), autoescape=True, undefined=StrictUndefined
    )
    templates.filters |= {**FILTERS, "in_words": in_words, "inline": inline}
    templates.globals |= {
        "say": words_of(language).say,
        "language": language,
        "languages": LANGUAGES,
        "names": {other.code: words_of(ENGLISH)[other.name] for other in LANGUAGES},
    }
    return templates


def render(
    templates: Environment, source: str, context: dict[str, Any]
) -> tuple[dict[str, str], str]:
    """Front matter and HTML of a page.

    Jinja fills in the numbers, Markdown makes the prose, and then each ``<!-- part: x -->`` is
    replaced by the template ``x``: a part's blank lines would end Markdown's HTML blocks.  A part
    ``lab_x`` is the lab ``x``.
    """

    def part(match: re.Match[str]) -> str:
        name = match[1]
        if name.startswith("lab_"):
            lab = context["labs"][name.removeprefix("lab_")]
            return templates.get_template("lab.html.j2").render(lab=lab)
        return templates.get_template(f"{name}.html.j2").render(context)

    front, html = to_html(templates.from_string(source).render(context))
    return front, re.sub(r"<!-- part: (\w+) -->", part, html)


def article_context(language: Language, results: Results) -> dict[str, Any]:
    """What the article shows besides the labs."""
    words = words_of(language)
    *cells, _ = [shown_cell(cell) for cell in page_cells(language)]
    return {
        "numbers": kept_numbers(),
        **timing_context(words, results),
        "error_curve_figure": error_curve_figure(results, words.say),
        "diff": body_diff(
            function_body(PY / "kvproof" / "model" / "decoder.py", "forward"),
            function_body(PY / "kvproof" / "model" / "cached_decoder.py", "decode"),
        ),
        "cells": cells,
        "reports": reports(language),
        "on_home": checker_page.ON_HOME,
        "specimen_kinds": specimen_kinds(language),
    }


def check_context(language: Language) -> dict[str, Any]:
    """What the page of the checker shows besides what the article does."""
    return {
        "measured": kept_checks(),
        "reports": reports(language),
        "listings": checker_page.listings(language),
        "limits": checker_page.limits(),
        "kinds": KINDS,
        "wheel": build_wheel().name,
        "check_yours": shown_cell(page_cells(language)[-1]),
        "specimen_kinds": specimen_kinds(language),
    }


@cache
def reports(language: Language) -> dict[str, Markup]:
    """Reports that stand in a page before anything has run: of the cell's decoder, and in short."""
    kept = kept_checks()
    shown = {"of_cell": Shown(kept.of_cell), "on_home": Shown(kept.on_home, in_short=True)}
    return drawn_reports(language, shown)


@cache
def kept_numbers() -> dict[str, Any]:
    """``numbers()``, from the last build if all that they were made of is the same."""
    return _kept(NUMBERS, numbers)


@cache
def kept_poster() -> dict[str, Any]:
    """``poster()``, computed once for all languages."""
    return poster()


@cache
def kept_museum() -> dict[Kind, Measured]:
    """``measured()``, kept likewise."""
    return _kept(MUSEUM, measured)


@cache
def kept_checks() -> checker_page.Measured:
    """``checker_page.measured()``, kept likewise."""
    return _kept(CHECKER_PAGE, checker_page.measured)


def _kept(target: Path, compute: Callable[[], T]) -> T:
    sources = target / "sources.json"
    kept = [ROOT / name for name in json.loads(sources.read_text())] if sources.exists() else []
    if kept and is_fresh(target, digest(kept)):
        stored: T = pickle.loads((target / "found.pickle").read_bytes())
        return stored
    found = compute()
    files = [Path(getattr(module, "__file__", None) or "") for module in sys.modules.values()]
    made_of = [file for file in files if file.is_relative_to(PY)]
    made_of += [ROOT / "notebooks", SITE / "cells", checker_page.LISTINGS]
    made_of.append(REQUIREMENTS / "site.txt")
    with new_folder(target, digest(made_of)) as folder:
        names = [path.relative_to(ROOT).as_posix() for path in made_of]
        (folder / sources.name).write_text(json.dumps(names))
        (folder / "found.pickle").write_bytes(pickle.dumps(found))
    return found


def timing_context(words: Catalogue, results: Results) -> dict[str, Any]:
    """The stored times: rows of the tables, and figures of all samples."""
    return {
        "results": results,
        "timings": timing_rows(results),
        "timing_figure": timing_figure(results, words),
        "other_code_figure": other_code_figure(results, words),
    }


def shown_cell(cell: Cell) -> dict[str, Any]:
    """A starting cell for the templates; ``id`` is the last part of its messages' IDs."""
    return {
        **asdict(cell),
        "id": cell_id(cell),
        "highlighted": Markup(highlight_python(cell.source)),
    }


def in_words(count: int) -> str:
    """A count in English prose: a word up to twelve, digits beyond."""
    return NUMBER_WORDS[count] if count < len(NUMBER_WORDS) else str(count)
