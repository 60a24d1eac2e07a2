"""Render the site into ``dist``: pages, scripts, styles, figures and downloads.

Assets get names with a hash of their content, so that a host may tell browsers to keep them.
"""

import hashlib
import json
import re
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import bokeh
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup
from mdit_py_plugins.front_matter import front_matter_plugin

from kvlab.cells import load_cells
from kvlab.labs import LABS
from kvlab.palette import DARK, LIGHT
from kvsite.api import public_modules
from kvsite.bundle import bundle_scripts
from kvsite.fetch import CORE_FILES, LOCK
from kvsite.labs import default_states, lab_file
from kvsite.listings import body_diff, function_body, highlight_python
from kvsite.notebook import NOTEBOOK, render_notebook
from kvsite.paths import PY, ROOT, RUNTIME
from kvsite.policy import CONTENT_SECURITY_POLICY
from kvsite.specimens import specimen_kinds, specimen_sources
from kvsite.stamps import STAMP
from kvsite.timing import RESULTS, load_results, other_code_figure, timing_figure, timing_rows
from kvsite.wasm import WASM
from kvsite.words import TEXTS, load_catalogue

SITE = ROOT / "site"
BOKEH_SCRIPTS = ("bokeh.min.js", "bokeh-widgets.min.js")
NUMBER_WORDS = ["zero", "one", "two", "three", "four", "five", "six"]
NUMBER_WORDS += ["seven", "eight", "nine", "ten", "eleven", "twelve"]


class Site:
    """One build into one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._assets: dict[str, str] = {}
        self._templates = Environment(
            loader=FileSystemLoader(SITE / "templates"),
            autoescape=True,
            trim_blocks=False,
            undefined=StrictUndefined,
        )
        self._words = load_catalogue(TEXTS / "en.toml")
        self._templates.filters["in_words"] = in_words
        self._templates.globals["say"] = self._words.say

    def build(self) -> None:
        """Write everything."""
        shutil.copytree(RUNTIME, self._folder / "runtime", ignore=shutil.ignore_patterns(STAMP))
        self._add_assets()
        self._add_downloads()
        self._write_index()
        self._write_api()
        self._write_notebook()
        self._write_not_found()
        (self._folder / ".nojekyll").touch()  # GitHub Pages would drop names with underscores

    def _add_assets(self) -> None:
        for file in bundle_scripts(SITE / "js", self._folder / "assets"):
            self._assets[f"{file.name.split('.')[0]}.js"] = f"assets/{file.name}"
        scripts = Path(bokeh.__file__).parent / "server" / "static" / "js"
        files = [
            *(scripts / name for name in BOKEH_SCRIPTS),
            *(path for path in sorted(WASM.iterdir()) if path.name != STAMP),
            SITE / "favicon.svg",
        ]
        for path in files:
            self._add_asset(path.name, path.read_bytes())
        self._add_asset("style.css", style_sheet().encode())
        self._add_asset("specimens.json", json.dumps(specimen_sources()).encode())

    def _add_asset(self, name: str, content: bytes) -> None:
        stem, dot, suffix = name.rpartition(".")
        hashed = f"assets/{stem}.{hashlib.sha256(content).hexdigest()[:12]}{dot}{suffix}"
        (self._folder / hashed).write_bytes(content)
        self._assets[name] = hashed

    def _add_downloads(self) -> None:
        downloads = self._folder / "downloads"
        downloads.mkdir()
        for path in (NOTEBOOK, RESULTS):
            shutil.copyfile(path, downloads / path.name)

    def _python(self, archive: str, packages: list[str]) -> dict[str, Any]:
        """A PythonConfig of site/js/python.js, without a snapshot."""
        runtime = self._folder / "runtime"
        wheels = [path.name for path in runtime.glob("*.whl")]
        return {
            "runtimeUrl": "runtime/",
            "sizes": {n: (runtime / n).stat().st_size for n in (*CORE_FILES[1:], LOCK, *wheels)},
            "archives": [self._file(archive)],
            "packages": packages,
        }

    def _file(self, name: str) -> dict[str, Any]:
        url = self._assets[name]
        return {"url": url, "bytes": (self._folder / url).stat().st_size}

    def _config(self) -> dict[str, Any]:
        snapshot = {
            "memory": self._file("snapshot.bin"),
            "stdlib": self._file("stdlib.zip"),
        }
        return {
            "labs": {
                "dataUrls": {name: self._assets[lab_file(name)] for name in LABS},
                "workerUrl": self._assets["lab-worker.js"],
                "python": {**self._python("lab.tar", []), "snapshot": snapshot},
            },
            "cells": {
                "workerUrl": self._assets["cells-worker.js"],
                "specimensUrl": self._assets["specimens.json"],
                "python": self._python("kvproof.tar", ["numpy"]),
            },
        }

    def _write_index(self) -> None:
        results = load_results()
        *cells, check_yours = [
            {**asdict(cell), "highlighted": Markup(highlight_python(cell.source))}
            for cell in load_cells(SITE / "cells")
        ]
        labs = default_states(WASM, self._words)
        context = {
            "labs": labs,
            "results": results,
            "timings": timing_rows(results),
            "timing_figure": timing_figure(results),
            "other_code_figure": other_code_figure(results),
            "diff": body_diff(
                function_body(PY / "kvproof" / "decoder.py", "forward"),
                function_body(PY / "kvproof" / "cached_decoder.py", "decode"),
            ),
            "cells": cells,
            "check_yours": check_yours,
            "specimen_kinds": specimen_kinds(),
        }
        source = (SITE / "pages" / "en" / "index.md").read_text()
        front, content = self.markdown(source, context)
        self._write_page(
            "index.html",
            **front,
            content=Markup(content),
            initial=labs["mask"]["initial"],
            config=self._config(),
            messages=self._words,
        )

    def _write_api(self) -> None:
        modules = public_modules()
        n_names = sum(len(module.entries) for module in modules)
        source = (SITE / "pages" / "en" / "api.md").read_text()
        front, content = self.markdown(source, {"modules": modules, "n_names": n_names})
        self._write_page("api.html", **front, content=Markup(content))

    def markdown(self, source: str, context: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """Front matter and HTML of a page.

        Jinja fills in the numbers, Markdown makes the prose, and then each ``<!-- part: x -->`` is
        replaced by the template ``x``: a part's blank lines would end Markdown's HTML blocks.  A
        part ``lab_x`` is the lab ``x``.
        """
        parser = MarkdownIt("commonmark", {"html": True}).use(front_matter_plugin)
        filled = self._templates.from_string(source).render(context)
        [matter] = [t for t in parser.parse(filled) if t.type == "front_matter"]

        def part(match: re.Match[str]) -> str:
            name = match[1]
            if name.startswith("lab_"):
                lab = context["labs"][name.removeprefix("lab_")]
                return self._templates.get_template(f"labs/{lab['name']}.html.j2").render(lab=lab)
            return self._templates.get_template(f"{name}.html.j2").render(context)

        html = re.sub(r"<!-- part: (\w+) -->", part, parser.render(filled))
        return front_matter(matter.content), html

    def _write_notebook(self) -> None:
        content = self._templates.get_template("notebook.html.j2").render(body=render_notebook())
        self._write_page(
            "notebook.html",
            title="The notebook: a KV cache in PyTorch, checked and timed",
            description="Executed: decoder, equivalence matrix, broken variants, CPU times.",
            content=Markup(content),
        )

    def _write_not_found(self) -> None:
        self._write_page(
            "404.html",
            title="Not here",
            description="This page doesn't exist.",
            content=Markup(self._templates.get_template("not_found.html.j2").render()),
            # Hosts answer with this page at any depth, so it can't refer to files.
            inline_style=Markup(style_sheet()),
        )

    def _write_page(self, name: str, **context: Any) -> None:
        template = self._templates.get_template("page.html.j2")
        page = template.render(
            {"config": None, "inline_style": None, **context},
            assets=self._assets,
            content_security_policy=CONTENT_SECURITY_POLICY,
        )
        (self._folder / name).write_text(page)


def in_words(count: int) -> str:
    """A count in prose: a word up to twelve, digits beyond."""
    return NUMBER_WORDS[count] if count < len(NUMBER_WORDS) else str(count)


def front_matter(text: str) -> dict[str, str]:
    """The page's ``key: value`` lines."""
    return dict(line.split(": ", 1) for line in text.splitlines())


def style_sheet() -> str:
    """The palette as CSS variables for light and dark, then all styles."""
    colours = [f"  --{name}: light-dark({LIGHT[name]}, {DARK[name]});" for name in LIGHT]
    palette = "\n".join([":root {", "  color-scheme: light dark;", *colours, "}"])
    styles = [path.read_text() for path in sorted((SITE / "styles").glob("*.css"))]
    return "\n".join([palette, *styles])
