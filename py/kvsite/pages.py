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
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from kvlab.cells import Cell
from kvlab.labs import LABS
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
from kvsite.prose import Entry, inline, table_of_contents, to_html
from kvsite.report import Shown, drawn_reports
from kvsite.savings import savings
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

HOME = "index"
PAGES = {
    HOME: "nav.index",
    "check": "nav.check",
    "museum": "nav.museum",
    "proof": "nav.proof",
    "costs": "nav.costs",
    "storages": "nav.storages",
    "notebook": "nav.notebook",
    "api": "nav.api",
}
"""The pages in the order in which they are read, with the message that names each."""
MORE_PAGES = ("poster", "notices")
"""Those that are only looked up."""
MOVED = ("check", "proof", "costs", "storages")
"""Those that were parts of the first page once, so that links to it may mean them."""
STAYED = {"check-yours"}
"""What is on the first page as well: a link to it says what it leads to."""
EMBEDDED = "embed"
"""Folder of the labs that stand alone."""
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
        (folder / language.folder / EMBEDDED).mkdir(parents=True)
        Pages(folder, assets, language).write()
    english = Pages(folder, assets, ENGLISH)
    english.write_page(HOME, "index.html")
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
        self._words = words_of(language)
        self._templates = environment(language)

    def write(self) -> None:
        """All of them, and each lab alone, for other people's pages."""
        for name in (*PAGES, *MORE_PAGES):
            self.write_page(name, f"{self._language.folder}/{name}.html")
        for name in LABS:
            self.write_embedded(name)

    def write_page(self, name: str, path: str) -> None:
        """The page whose prose is ``name.md``."""
        front, content = self._rendered(name, path)
        before, after = neighbours(name)
        self._write(
            path,
            **front,
            room=name,
            content=Markup(content),
            contents=table_of_contents(content),
            before=before,
            after=after,
            config=self._config(content),
            places=self._places if name == HOME else None,
            wide=name == "api",
        )

    def write_embedded(self, name: str) -> None:
        """A lab alone, with a way to the page that explains it."""
        lab = self._context["labs"][name]
        content = self._templates.get_template("lab.html.j2").render(lab=lab, leads=True)
        title = self._words.say(lab["page"]["title"])
        self._write(
            f"{self._language.folder}/{EMBEDDED}/{name}.html",
            title=title,
            description=title,
            room=EMBEDDED,
            whole=f"{self._places.get(f'{name}-lab', HOME)}.html#{name}-lab",
            content=Markup(content),
            config={**self._config(content), "isEmbedded": True},
        )

    def write_not_found(self) -> None:
        """What hosts answer with at any depth, so it can't refer to files.

        Its links work there if ``KVPROOF_BASE_PATH`` says where on its host the site will lie.
        """
        say = self._words.say
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

    @cached_property
    def _context(self) -> dict[str, Any]:
        return page_context(self._language)

    def _rendered(self, name: str, path: str) -> tuple[dict[str, str], str]:
        """Front matter and HTML of a page's prose."""
        context = {**self._context, **_ways(path)}
        if name == HOME:
            context["contents_of"] = self._contents
        return render(self._templates, page_source(self._language, f"{name}.md"), context)

    @cached_property
    def _prose(self) -> dict[str, str]:
        """HTML of the pages that were parts of the first page once; the way to them is the same."""
        return {name: self._rendered(name, f"{self._language.folder}/")[1] for name in MOVED}

    @cached_property
    def _contents(self) -> dict[str, list[Entry]]:
        """Sections and labs of these, those of which an old address leads there."""
        places = self._places
        return {
            name: [one for one in table_of_contents(content) if places.get(one.anchor) == name]
            for name, content in self._prose.items()
        }

    @cached_property
    def _places(self) -> dict[str, str]:
        """ID of a section or lab, or ``~`` and the name of a cell -> the page that it is on now."""
        found: dict[str, str] = {}
        for name, content in self._prose.items():
            ids = re.findall(r' id="([\w-]+)"', content)
            cells = [f"~{cell}" for cell in re.findall(r' data-cell="([\w-]+)"', content)]
            found |= {place: name for place in (*ids, *cells) if place not in found}
        return {place: name for place, name in found.items() if place not in STAYED}

    def _config(self, content: str) -> dict[str, Any]:
        """What site/js/main.js needs for the labs and cells in ``content``; empty without any."""
        labs = re.findall(r'data-lab="(\w+)"', content)
        has_cells = "data-cell=" in content
        return self._assets.config(labs, has_cells) if labs or has_cells else {}

    def _write(self, path: str, **context: Any) -> None:
        file = path.partition("/")[2].removesuffix("index.html")
        page = self._templates.get_template("page.html.j2").render(
            {
                "room": None,
                "config": None,
                "places": None,
                "contents": None,
                "before": None,
                "after": None,
                "inline_style": None,
                "base": None,
                "wide": False,
                **context,
                **_ways(path),
            },
            file=file,
            page_names=PAGES,
            messages=self._words if context.get("config") else None,
            shared=None if path == "404.html" else shared_as(self._language, file),
            assets=self._assets.urls,
            watched="KVPROOF_WATCH" in os.environ,
            content_security_policy=CONTENT_SECURITY_POLICY,
        )
        (self._folder / path).write_text(self._language.typeset(page), encoding="utf-8")


def neighbours(name: str) -> tuple[str | None, str | None]:
    """The pages before and after one; None where there is none."""
    if name not in PAGES:
        return None, None
    pages = [None, *PAGES, None]
    place = pages.index(name)
    return pages[place - 1], pages[place + 1]


def _ways(path: str) -> dict[str, str]:
    """From a page to the site's folder, and to the other pages of its language."""
    depth = path.count("/")
    return {"root": "../" * depth, "pages": "../" * (depth - 1) if depth else "en/"}


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
    ``lab_x`` is the lab ``x``, of which the first tells how Python is; ``cell_x`` is the cell.
    """
    labs = re.findall(r"<!-- part: (lab_\w+) -->", source)

    def part(match: re.Match[str]) -> str:
        name = match[1]
        kind, _, which = name.partition("_")
        if kind == "lab":
            lab = context["labs"][which]
            return templates.get_template("lab.html.j2").render(lab=lab, leads=name == labs[0])
        if kind == "cell":
            cells: Any = templates.get_template("cell.html.j2").module
            return str(cells.static_cell(context["cells"][which.replace("_", "-")]))
        return templates.get_template(f"{name}.html.j2").render(context)

    front, html = to_html(templates.from_string(source).render(context))
    return front, re.sub(r"<!-- part: (\w+) -->", part, html)


def page_context(language: Language) -> dict[str, Any]:
    """What pages show besides their prose: the same for all, so that a part may move."""
    notebook, modules = notebook_file(language.source), public_modules()
    return {
        **article_context(language, load_results()),
        **check_context(language),
        "labs": default_states(LAB_FILES, words_of(language)),
        "download": download_name(language),
        "evidence": [f"{EVIDENCE}/{name}" for name in FILES],
        "wheels": brought(),
        "modules": modules,
        "n_names": sum(len(module.entries) for module in modules),
        "body": Markup(language.from_source(render_notebook(notebook))),
        "colab": colab_url(language.source),
        "rooms": rooms(language, kept_museum()),
        "signs": SIGNS,
        "checked": checked(),
        "poster": kept_poster(),
        "components": shipped(),
    }


def article_context(language: Language, results: Results) -> dict[str, Any]:
    """Of these what follows from the numbers and the stored results."""
    words = words_of(language)
    return {
        "numbers": kept_numbers(),
        **timing_context(words, results),
        "savings": savings(results, words),
        "error_curve_figure": error_curve_figure(results, words.say),
        "diff": body_diff(
            function_body(PY / "kvproof" / "model" / "decoder.py", "forward"),
            function_body(PY / "kvproof" / "model" / "cached_decoder.py", "decode"),
        ),
        "cells": {cell_id(cell): shown_cell(cell) for cell in page_cells(language)},
        "reports": reports(language),
        "on_home": checker_page.ON_HOME,
        "specimen_kinds": specimen_kinds(language),
    }


def check_context(language: Language) -> dict[str, Any]:
    """Of these what the page of the checker shows."""
    return {
        "measured": kept_checks(),
        "reports": reports(language),
        "listings": checker_page.listings(language),
        "limits": checker_page.limits(),
        "kinds": KINDS,
        "wheel": build_wheel().name,
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
