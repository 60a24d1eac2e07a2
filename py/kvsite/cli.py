"""The command line. Until set-up is done it imports the standard library only."""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvsite.environment import Group, set_up_node, set_up_python, set_up_torch
from kvsite.paths import BUILD, DIST, NODE_MODULES, PY, ROOT, VENV, cache_folder, venv_python
from kvsite.stages import Failure, folder_bytes, megabytes

INTERRUPTED = 130  # what shells report for a program ended by Ctrl-C


@dataclass(frozen=True)
class Verb:
    """One command: what it does, in code and in words, and what it needs installed."""

    action: Callable[[argparse.Namespace], int]
    help: str
    group: Group | None = "test"
    node: bool = True
    torch: bool = False
    passes_on: str = ""  # the program that gets the arguments after `--`


def main(argv: Sequence[str]) -> int:
    """Run the command line `argv`; the result is the exit code.

    Expected failures end in a message and code 1, an interruption in code 130.
    """
    args = _parse(argv)
    verb = VERBS[args.verb]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.chdir(ROOT)
    try:
        if verb.group:
            set_up_python(verb.group)
            if verb.node:
                set_up_node()
            if verb.torch:
                set_up_torch()
            if Path(sys.executable) != venv_python():  # as started below: at most one hop
                return _continue_in_venv(argv)
        return verb.action(args)
    except Failure as failure:
        print(f"\nbuild.py {args.verb} failed: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. The same command goes on from here.", file=sys.stderr)
        return INTERRUPTED


def _continue_in_venv(argv: Sequence[str]) -> int:
    command = [str(venv_python()), "-m", "kvsite", *argv]
    search_path = os.pathsep.join(filter(None, [str(PY), os.environ.get("PYTHONPATH")]))
    # Our files are UTF-8, whatever the system's language is.
    environment = {**os.environ, "PYTHONPATH": search_path, "PYTHONUTF8": "1"}
    sys.stdout.flush()
    if os.name != "nt":
        os.execve(command[0], command, environment)
    child = subprocess.Popen(command, env=environment)  # Windows has no exec that keeps the console
    while True:
        try:
            return child.wait()
        except KeyboardInterrupt:  # the child got it as well and decides
            continue


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    own, extra = list(argv), []
    if "--" in own:
        at = own.index("--")
        own, extra = own[:at], own[at + 1 :]
    parser = _parser()
    args = parser.parse_args(own)
    args.extra = extra
    if extra and (not VERBS[args.verb].passes_on or vars(args).get("right")):
        parser.error(f"{' '.join(own)} takes no arguments after `--`, got: {' '.join(extra)}")
    return args


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="build.py", description="Build, serve, test and measure the kvproof site."
    )
    parsers = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    options = {}
    for name, verb in VERBS.items():
        note = f" Arguments after `--` go to {verb.passes_on}." if verb.passes_on else ""
        options[name] = parsers.add_parser(name, help=verb.help, description=verb.help + note)
    add = options["serve"].add_argument
    add("--port", type=_port, default=8000, help="first port to try (default: 8000)")
    add("--prefix", type=_prefix, default="/", help="URL path of the site, such as /sub/path/")
    add("--watch", action="store_true", help="build again after each change of a source")
    add("--open", action="store_true", help="open the site in the browser")
    options["test"].add_argument(
        "--core", action="store_true", help="only the fast tests that need neither site nor Node"
    )
    add = options["kernels"].add_argument
    add("--quick", action="store_true", help="one thread, and the tests that decide verdicts")
    add("--right", type=_seeds, metavar="SEEDS", help="check right decoders instead")
    options["clean"].add_argument(
        "--cache", action="store_true", help=f"also remove the downloads in {cache_folder()}"
    )
    options["lock"].add_argument(
        "--upgrade", action="store_true", help="move Python packages to their newest versions"
    )
    return parser


def _seeds(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seeds, at least 1")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, which is 0 to 65535")
    return int(text)


def _prefix(text: str) -> str:
    inside = text.strip("/")
    if not all(
        re.fullmatch(r"(?!\.+$)[\w.~-]+", part, re.ASCII) for part in inside.split("/") if inside
    ):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a path of letters, digits and . _ ~ - between slashes"
        )
    return f"/{inside}/" if inside else "/"


def build(_: argparse.Namespace) -> int:
    """Make `dist` complete and current."""
    from kvsite.fetch import fetch_runtime
    from kvsite.site import build_site
    from kvsite.wasm import build_wasm

    fetch_runtime()
    build_wasm()
    build_site()
    return 0


def serve(args: argparse.Namespace) -> int:
    """Build, then serve the site until Ctrl-C."""
    from kvsite.serve import start_server

    if args.watch:
        from kvsite.watch import WATCHED_SITE, keep_current
    else:
        build(args)
    with start_server(WATCHED_SITE if args.watch else DIST, args.port, args.prefix) as server:

        def announce() -> None:
            if args.port not in (0, server.server_port):
                print(f"Port {args.port} is taken, using {server.server_port}.")
            print(f"Serving the site at {server.url} (Ctrl-C stops)", flush=True)
            if args.open:
                webbrowser.open(server.url)

        try:
            if args.watch:
                keep_current(announce)
            announce()
            threading.Event().wait()
        except KeyboardInterrupt:
            print("\nStopped.")
    return 0


PARALLEL = ["--numprocesses=auto", "--maxprocesses=4", "--dist=loadfile", "--no-loadscope-reorder"]
"""Tests of one file stay together, since they share a browser's page or a long computation.

The files go out in the order of tests/conftest.py, which has the long ones first.
"""
CORE = [f"tests/{folder}" for folder in ("core", "story", "zoo", "check", "api", "oracles")]


def test(args: argparse.Namespace) -> int:
    """Run pytest on up to four processors; ``-n0`` among its arguments: on one.

    The site, Node's packages and the browser are made ready by the first test that uses them.
    """
    import pytest

    chosen = ["-m", "not (slow or site or node)", *CORE] if args.core else []
    return int(pytest.main([*PARALLEL, *chosen, *args.extra]))


def kernels(args: argparse.Namespace) -> int:
    """Run the numerical tests under each kernel of OpenBLAS."""
    from kvsite import kernels

    return kernels.main(args.quick, args.right, args.extra)


def check(_: argparse.Namespace) -> int:
    """Run the formatters', linters' and type checkers' checks."""
    from kvsite import check

    return check.main()


def bench(args: argparse.Namespace) -> int:
    """Build, then measure."""
    from kvsite import bench

    build(args)
    return bench.main(args.extra)


def notebook(args: argparse.Namespace) -> int:
    """Re-execute the notebook."""
    from kvsite import notebook

    return notebook.main(args.extra)


def train(_: argparse.Namespace) -> int:
    """Train the story's decoder."""
    from kvsite import train

    return train.main()


def screenshot(args: argparse.Namespace) -> int:
    """Build, then take the pictures."""
    from kvsite import screenshot

    build(args)
    return screenshot.main()


def lock(args: argparse.Namespace) -> int:
    """Write the lock files anew."""
    from kvsite import lock

    return lock.main(upgrade=args.upgrade)


def clean(args: argparse.Namespace) -> int:
    """Remove everything that other commands have made."""
    left = ROOT.glob(f".{DIST.name}-*")  # by killed builds
    cache = [cache_folder()] if args.cache else []
    for folder in (VENV, NODE_MODULES, BUILD, DIST, *left, *cache):
        if folder.exists():
            n_bytes = folder_bytes(folder)
            shutil.rmtree(folder)
            print(f"removed {folder}, {megabytes(n_bytes)}")
    return 0


VERBS = {
    "serve": Verb(serve, "Build the site and serve it on this machine.", group="site"),
    "build": Verb(build, "Build the site into dist/.", group="site"),
    "test": Verb(
        test,
        "Run all tests; the site is built when one needs it.",
        node=False,
        torch=True,
        passes_on="pytest",
    ),
    "kernels": Verb(
        kernels,
        "Run the numerical tests under every kernel of OpenBLAS that this machine can run.",
        node=False,
        torch=True,
        passes_on="pytest",
    ),
    "check": Verb(check, "Check format, lint and types of Python and JavaScript."),
    "bench": Verb(
        bench,
        "Build, measure the site in the browser and the core.",
        torch=True,
        passes_on="the benchmark",
    ),
    "notebook": Verb(
        notebook,
        "Execute the PyTorch notebook anew.",
        node=False,
        torch=True,
        passes_on="the notebook command",
    ),
    "train": Verb(
        train,
        "Train the story's decoder with PyTorch, on one thread; measure what it can do.",
        node=False,
        torch=True,
    ),
    "screenshot": Verb(
        screenshot, "Take the README's picture of the live lab, and those that shared links show."
    ),
    "lock": Verb(lock, "Write the lock files anew after a change of the requirements."),
    "clean": Verb(clean, "Remove .venv, node_modules, build and dist.", group=None),
}
