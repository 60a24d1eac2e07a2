"""Measure the built site in cold browser contexts, then the core and the checker.

The site: start, sliders, memory, bytes.  Floor and site alternate within one run, because shared
machines drift; ratios are taken within a round.  The floor is plain Pyodide and NumPy in a module
worker, without any trick of ours.
"""

import argparse
import gzip
import json
import os
import platform
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import brotli
import numpy as np
from playwright.sync_api import Browser, Locator, Page, sync_playwright

from kvsite import bench_checker, bench_core
from kvsite.browser import launch_options
from kvsite.paths import BUILD, DIST, ROOT, RUNTIME
from kvsite.serve import start_server
from kvsite.stages import Failure, megabytes

STARTS_WITHIN_MS = 120_000
README = ROOT / "README.md"
SECTIONS = ("site", "core", "checker")
MARKERS = ("<!-- bench:start -->", "<!-- bench:end -->")
SLIDER_MOVES = 60
HEAP_MOVES = 200
TEXTS = {".html", ".css", ".js", ".mjs", ".json", ".svg"}
"""What hosts compress that compress only text."""
FLOOR_PAGE = "<!doctype html><script type=module src=floor.js></script>"
FLOOR_SCRIPT = """
const worker = new Worker("worker.js", { type: "module" });
worker.onmessage = () => performance.mark("floor");
"""
FLOOR_WORKER = """
import { loadPyodide } from "./runtime/pyodide.mjs";
const python = await loadPyodide({ indexURL: new URL("runtime/", self.location.href).href });
await python.loadPackage("numpy");
python.runPython("import numpy; numpy.ones(3) @ numpy.ones(3)");
self.postMessage("ready");
"""
# From the key's own time stamp to the first task after the frame that shows the new state.
WATCH_SLIDER = """() => {
  window.paints = [];
  let pressed = 0;
  addEventListener("keydown", (event) => { pressed = event.timeStamp; }, true);
  new MutationObserver(() => requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => window.paints.push(performance.now() - pressed);
    port2.postMessage(null);
  })).observe(document.querySelector('[data-readout="story.state"]'), { childList: true });
}"""


def main(argv: Sequence[str]) -> int:
    """Measure, print a table, and write the figures as JSON."""
    parser = argparse.ArgumentParser(prog="build.py bench --")
    parser.add_argument("--runs", type=int, default=5, help="cold contexts of each kind")
    parser.add_argument("--rounds", type=int, default=15, help="samples of each path of the core")
    parser.add_argument("--only", choices=SECTIONS, help="measure one, keep the others as they are")
    parser.add_argument("--json", type=Path, default=BUILD / "bench.json", help="where to write")
    parser.add_argument("--readme", action="store_true", help="put the figures into the README")
    args = parser.parse_args(argv)
    known = args.only and args.json.exists()
    figures: dict[str, Any] = json.loads(args.json.read_text()) if known else {}
    to_come = {args.only} if args.only else set(SECTIONS)
    if args.readme and (missing := set(SECTIONS) - figures.keys() - to_come):
        raise Failure(
            f"The README shows all figures, and {args.json} has none of "
            f"{' and '.join(sorted(missing))}: measure without --only, or leave out --readme."
        )
    if args.only in (None, "site"):
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(**launch_options())
            figures["site"] = measure(browser, args.runs)
            browser.close()
        keep(figures, args.json)
    if args.only in (None, "core"):
        figures["core"] = bench_core.measure(args.rounds)
        keep(figures, args.json)
    if args.only in (None, "checker"):
        figures["checker"] = bench_checker.measure()
    keep(figures, args.json)
    if args.readme:
        write_readme(figures)
    print(as_table(figures))
    print(f"Written to {args.json}")
    return 0


def keep(figures: dict[str, Any], path: Path) -> None:
    """Write what has been measured so far: a long run may be interrupted."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(figures, indent=1) + "\n")


def measure(browser: Browser, runs: int) -> dict[str, Any]:
    """All figures: milliseconds, bytes, shares."""
    starts: list[dict[str, float]] = []
    requested: list[str] = []
    with floor_site() as floor_url, start_server(DIST) as server:
        for _ in range(runs):
            floor = _mark(browser, floor_url, "floor")[0]
            prebuilt, live, requested = _start(browser, server.url)
            starts.append({"floor": floor, "prebuilt": prebuilt, "live": live})
        return {
            "environment": _environment(browser),
            "starts_ms": starts,
            "slider_prebuilt_ms": _slider(browser, server.url, live=False),
            "slider_live_ms": _slider(browser, server.url, live=True),
            "heap_growth": _heap_growth(browser, server.url),
            "bytes": weigh(requested),
        }


@contextmanager
def floor_site() -> Iterator[str]:
    """Serve a page that does nothing but start Pyodide and NumPy."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(RUNTIME, folder / "runtime")
        (folder / "index.html").write_text(FLOOR_PAGE)
        (folder / "floor.js").write_text(FLOOR_SCRIPT)
        (folder / "worker.js").write_text(FLOOR_WORKER)
        with start_server(folder) as server:
            yield server.url


def _mark(browser: Browser, url: str, *names: str) -> list[float]:
    """Milliseconds from navigation to each performance mark, in a context with an empty cache."""
    with _page(browser) as page:
        page.goto(url)
        return [_mark_time(page, name) for name in names]


def _start(browser: Browser, url: str) -> tuple[float, float, list[str]]:
    """Milliseconds to prebuilt, and from the first touch to live; the paths of all files for it."""
    with _page(browser) as page:
        requested: list[str] = []
        page.on(
            "requestfinished", lambda request: requested.append(request.url)
        )  # not its worker's
        page.goto(url)
        prebuilt = _mark_time(page, "kvproof:prebuilt")
        _first_slider(page).press("ArrowLeft")  # Python comes for those who move something
        asked, live = (_mark_time(page, f"kvproof:{name}") for name in ("asked", "live"))
        return prebuilt, live - asked, sorted({urlparse(url).path.lstrip("/") for url in requested})


@contextmanager
def _page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    yield context.new_page()
    context.close()


def _mark_time(page: Page, name: str) -> float:
    page.wait_for_function(
        "name => performance.getEntriesByName(name).length", arg=name, timeout=STARTS_WITHIN_MS
    )
    return float(page.evaluate("name => performance.getEntriesByName(name)[0].startTime", name))


@contextmanager
def _lab(browser: Browser, url: str, *, live: bool) -> Iterator[Page]:
    """The page with a slider in focus; without ``live``, Python isn't started."""
    with _page(browser) as page:
        if not live:  # as on a metered connection, where the page waits for a click
            page.add_init_script(
                "Object.defineProperty(navigator, 'connection', { value: { saveData: true } })"
            )
        page.goto(url)
        _mark_time(page, "kvproof:live" if live else "kvproof:prebuilt")
        _first_slider(page).focus()
        yield page


def _first_slider(page: Page) -> Locator:
    return page.locator("#story-n_past").get_by_role("slider")


def _slider(browser: Browser, url: str, *, live: bool) -> list[float]:
    """Milliseconds from a key press on a slider to the frame that shows its state."""
    with _lab(browser, url, live=live) as page:
        page.evaluate(WATCH_SLIDER)
        for move in range(SLIDER_MOVES):
            page.keyboard.press("ArrowLeft" if move % 20 < 10 else "ArrowRight")
            page.wait_for_function("n => window.paints.length > n", arg=move)
        return [float(ms) for ms in page.evaluate("window.paints")]


def _heap_growth(browser: Browser, url: str) -> float:
    """Share by which the page's JS heap grows over 200 slider moves, garbage collected."""
    with _lab(browser, url, live=True) as page:
        session = page.context.new_cdp_session(page)

        def used() -> float:
            session.send("HeapProfiler.collectGarbage")
            return float(session.send("Runtime.getHeapUsage")["usedSize"])

        before = used()
        for move in range(HEAP_MOVES):
            page.keyboard.press("ArrowLeft" if move % 20 < 10 else "ArrowRight")
        page.wait_for_timeout(500)
        return used() / before - 1


def weigh(paths: Sequence[str]) -> list[dict[str, Any]]:
    """Bytes of each file of the site, as it lies and as two kinds of hosts send it.

    ``brotli``: a host that compresses all that isn't compressed yet; ``gzip``: one that compresses
    only text, as most do.
    """
    with ThreadPoolExecutor() as pool:  # the best compression takes a minute, and frees the GIL
        return list(pool.map(_weigh, paths))


def _weigh(path: str) -> dict[str, Any]:
    file = DIST / (path or "index.html")
    content = file.read_bytes()
    is_text = file.suffix in TEXTS
    return {
        "path": path or "index.html",
        "raw": len(content),
        "brotli": min(len(content), len(brotli.compress(content, quality=11, lgwin=24))),
        "gzip": len(gzip.compress(content, compresslevel=6)) if is_text else len(content),
    }


def _environment(browser: Browser) -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "system": platform.platform(terse=True),
        "processor": processor(),
        "cores": os.cpu_count(),
        "browser": f"Chromium {browser.version}, headless",
    }


def processor() -> str:
    """The processor's name where the system tells it, else its architecture."""
    table = Path("/proc/cpuinfo")
    lines = table.read_text().splitlines() if table.exists() else []
    names = [line.split(": ")[1] for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def summary(figures: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What was measured so far, the figure, and its budget if it has one."""
    sections = (site_summary, bench_core.summary, bench_checker.summary)
    known = [(name, rows) for name, rows in zip(SECTIONS, sections, strict=True) if name in figures]
    return [row for name, rows in known for row in rows(figures[name])]


def site_summary(figures: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The site's rows of ``summary``."""
    starts = figures["starts_ms"]

    def seconds(name: str) -> str:
        return f"{statistics.median(run[name] for run in starts) / 1e3:.2f} s"

    ratio = statistics.median(run["live"] / run["floor"] for run in starts)
    sizes = {
        kind: megabytes(sum(file[kind] for file in figures["bytes"])) for kind in ("brotli", "gzip")
    }
    prebuilt, live = figures["slider_prebuilt_ms"], figures["slider_live_ms"]
    return [
        ("floor: plain Pyodide and NumPy in a worker", seconds("floor"), ""),
        ("prebuilt figures interactive", seconds("prebuilt"), "<= 1.2 s"),
        ("live, from the first touch", seconds("live"), ""),
        ("live / floor", f"{ratio:.2f}", "<= 1.4"),
        ("slider to paint, prebuilt, p50", f"{percentile(prebuilt, 50):.0f} ms", ""),
        ("slider to paint, prebuilt, p95", f"{percentile(prebuilt, 95):.0f} ms", "<= 32 ms"),
        ("slider to paint, live, p50", f"{percentile(live, 50):.0f} ms", "<= 45 ms"),
        ("slider to paint, live, p95", f"{percentile(live, 95):.0f} ms", "<= 80 ms"),
        (f"heap growth over {HEAP_MOVES} slider moves", f"{figures['heap_growth']:.1%}", "< 10%"),
        ("bytes to live, host with brotli 11", sizes["brotli"], ""),
        ("bytes to live, host that compresses only text", sizes["gzip"], "<= 16 MB"),
    ]


def as_table(figures: dict[str, Any]) -> str:
    """The figures beside their budgets, then the core's steps and each file that a start loads."""
    rows = [("medians", "measured", "budget"), *summary(figures)]
    lines = [f"{name:<50}{value:>10}  {budget}" for name, value, budget in rows]
    if "core" in figures:
        for name, *values in bench_core.step_table(figures["core"]):
            lines.append(f"  {name:<38}" + "".join(f"{value:>10}" for value in values))
    if "site" in figures:
        lines.append(f"  {'file':<62}{'raw':>10}{'brotli':>10}{'gzip':>10}")
        for file in figures["site"]["bytes"]:
            sizes = "".join(f"{file[kind]:>10}" for kind in ("raw", "brotli", "gzip"))
            lines.append(f"  {file['path']:<62}{sizes}")
    return "\n".join(lines)


def as_markdown(figures: dict[str, Any]) -> str:
    """The same for the README, with what it was measured on."""
    site, core = figures["site"], figures["core"]
    here, versions, protocol = site["environment"], core["environment"], core["protocol"]
    steps = bench_core.step_table(core)
    return "\n".join(
        [
            f"Medians of {len(site['starts_ms'])} cold browser contexts on {here['date'][:10]}, "
            f"{here['cores']} shared cores of {here['processor']}, {here['browser']}, by "
            "`python build.py bench -- --readme`. Your machine will differ.",
            "",
            *_markdown_table([["", "measured", "budget"], *summary(figures)]),
            "",
            f"The core: {protocol['steps']} steps of one token after a prefix, one thread, "
            f"{protocol['dtype']}, NumPy {versions['numpy']}, PyTorch {versions['torch']}; medians "
            f"of {protocol['rounds']} rounds that take all paths in turns. A cached step above is "
            "the tuned decoder's in static memory; its matrix products are its own calls on its "
            "own arrays, without all that lies between them. Each ratio is the median of those "
            "within a round, so it needn't be the ratio of two medians below.",
            "",
            *_markdown_table(steps),
            "",
            f"The checker: {bench_checker.note(figures['checker'])}",
        ]
    )


def _markdown_table(rows: Sequence[Sequence[str]]) -> list[str]:
    header, *others = [f"| {' | '.join(row)} |" for row in rows]
    return [header, "|" + "---|" * len(rows[0]), *others]


def write_readme(figures: dict[str, Any]) -> None:
    """Put the figures between the README's markers."""
    before, rest = README.read_text().split(MARKERS[0])
    after = rest.split(MARKERS[1])[1]
    content = f"{MARKERS[0]}\n{as_markdown(figures)}\n{MARKERS[1]}"
    README.write_text(before + content + after)


def percentile(samples: Sequence[float], percent: int) -> float:
    """Linearly interpolated percentile, as ``numpy.percentile``."""
    return float(np.percentile(samples, percent))
