"""The commands of ``kvproof``: prove, run, audit, costs, check, zoo."""

import argparse
import dataclasses
import importlib
import io
import json
import math
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args

from kvproof import __version__
from kvproof.checking.checker import check
from kvproof.checking.messages import LANGUAGES, Message
from kvproof.checking.subject import Subject, Trouble
from kvproof.experiments import scorecard
from kvproof.experiments.audit import audit
from kvproof.experiments.costs import BYTES_PER_NUMBER, Costs, count_costs, measure_costs
from kvproof.experiments.model_shapes import MODEL_SHAPES, ModelShape
from kvproof.experiments.proof import prove
from kvproof.experiments.record import CHUNKS, MODELS, run
from kvproof.model.cache import STORAGES
from kvproof.model.config import LAB, MODERN, REFERENCE, DecoderConfig

CONFIGS = {"reference": REFERENCE, "lab": LAB, "modern": MODERN}
MEASURED = ("float32", "float64")
AnyModel = TypeVar("AnyModel", bound=DecoderConfig | ModelShape)

PASSED, FAILED, UNTOLD = 0, 1, 2
STOPPED = 130
"""After Ctrl-C, as shells have it: 128 and the number of the signal."""
EXIT_CODES = (
    "exit codes: 0 all is well, 1 something is wrong, 2 bad usage, in doubt, or not to be told"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code.

    Args:
        arguments: what stands after ``kvproof``; None: of this process.
    """
    parsed = _parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what a decoder says may be anything
    try:
        code: int = parsed.command(parsed)
        if sys.stdout is not None:  # it may be closed
            sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        print("kvproof: stopped", file=sys.stderr)
        return STOPPED
    except MemoryError as error:
        print(f"kvproof: error: too large for this machine: {error}", file=sys.stderr)
        return UNTOLD
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        print(f"kvproof: error: {where}{error.strerror}", file=sys.stderr)
        return UNTOLD
    except ValueError as error:
        print(f"kvproof: error: {error}", file=sys.stderr)
        return UNTOLD
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kvproof",
        description="A decoder with a KV cache, and the proof that the cache is right.",
        epilog=EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=f"kvproof {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, text: str, command: object) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text, epilog=EXIT_CODES)
        added.set_defaults(command=command)
        return added

    _add_prove(add("prove", "hold the cached decoder against a full recompute", _prove))
    _add_run(add("run", "write a folder of evidence: four ways to read one text", _run))
    _add_audit(add("audit", "check a folder of evidence with code of its own", _audit))
    _add_costs(add("costs", "what is computed and kept, with a cache and without", _costs))
    _add_check(
        add("check", "is your decoder's cache right, and if not, what is the mistake", _check)
    )
    _add_zoo(add("zoo", "broken decoders: what shows them, what the checker says of them", _zoo))
    return parser


def _add_model(parser: argparse.ArgumentParser, text: str, default: str | None = None) -> None:
    parser.add_argument("--model", default=default, help=text)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="change the model, such as --set window=8 --set n_kv_heads=1",
    )


def _model(name: str, known: Mapping[str, AnyModel], changes: list[str]) -> AnyModel:
    """The model of that name with the changes of ``--set``."""
    if name not in known:
        raise ValueError(f"unknown model {name!r}: choose one of {', '.join(known)}")
    model = known[name]
    fields = {field.name: field for field in dataclasses.fields(model) if field.type is not str}
    values: dict[str, Any] = {}
    for change in changes:
        field, equals, text = change.partition("=")
        if field not in fields or not equals:
            raise ValueError(f"--set {change}: FIELD=VALUE with one of {', '.join(fields)}")
        values[field] = _value(text, fields[field])
    return dataclasses.replace(model, **values)


def _value(text: str, field: "dataclasses.Field[Any]") -> int | str | None:
    kinds = get_args(field.type) or (field.type,)
    if int not in kinds:
        return text
    if NoneType in kinds and text == "none":
        return None
    try:
        return int(text)
    except ValueError:
        or_none = " or none" if NoneType in kinds else ""
        raise ValueError(f"--set {field.name}={text}: needs a whole number{or_none}") from None


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"needs a whole number, at least 0, got {text}")
    return int(text)


def _add_json(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--json", type=_new_file, metavar="FILE", help=f"write {what} there as well"
    )


def _new_file(text: str) -> Path:
    """A file that can be written, as far as can be told without writing: before all the work."""
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        place = f"{path} is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise argparse.ArgumentTypeError(f"can't write {path}: {place}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"can't write {path}: permission denied")
    return path


# ------------------------------------------------------------------ prove


def _add_prove(parser: argparse.ArgumentParser) -> None:
    storages = [name for name, storage in STORAGES.items() if storage.is_exact]
    _add_model(parser, f"one of {', '.join(CONFIGS)} (default: each of them)")
    parser.add_argument("--storage", choices=storages, default="concat", help="(default: concat)")
    parser.add_argument("--seed", type=_seed, default=0, help="of the parameters (default: 0)")
    _add_json(parser, "all claims")


def _prove(parsed: argparse.Namespace) -> int:
    proofs = {}
    for name in [parsed.model] if parsed.model else list(CONFIGS):
        config = _model(name, CONFIGS, parsed.set)
        proofs[name] = prove(config, parsed.seed, parsed.storage)
        print(f"{name}: {proofs[name]}\n")
    passed = all(proof.passed for proof in proofs.values())
    if parsed.json:
        content = {name: proof.to_dict() for name, proof in proofs.items()}
        parsed.json.write_text(json.dumps({"passed": passed, "proofs": content}, indent=2) + "\n")
    if any(proof.failures for proof in proofs.values()):
        print("NOT PROVED: see the lines with FAIL")
        return FAILED
    if not passed:
        print(
            "every claim holds, but some mistakes can't be seen here, and a decoder that makes "
            "them would pass as well: see the lines with open"
        )
        return UNTOLD
    print("proved")
    return PASSED


# ------------------------------------------------------------------ run, audit


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", required=True, metavar="DIR", help="a new or empty folder")
    parser.add_argument("--model", choices=MODELS, default="lab", help="(default: lab)")
    parser.add_argument("--seed", type=_seed, default=0, help="of the parameters (default: 0)")
    parser.add_argument("--dtype", choices=MEASURED, default="float64", help="(default: float64)")
    parser.add_argument(
        "--chunks",
        type=int,
        nargs="+",
        default=CHUNKS,
        metavar="N",
        help=f"lengths of the calls (default: {' '.join(map(str, CHUNKS))})",
    )


def _run(parsed: argparse.Namespace) -> int:
    record = run(parsed.out, parsed.model, parsed.seed, parsed.dtype, parsed.chunks)
    print(f"{record['n_tokens']} tokens, {parsed.model}, {parsed.dtype}: {parsed.out}")
    for way, error in record["errors"].items():
        counts = record["counts"][way]
        print(
            f"{way:<8} off by {error:.2e} (bound {record['bound']:.0e}); "
            f"Q/K/V input rows {counts['qkv_rows']:,}, score elements {counts['scores']:,}, "
            f"K/V bytes {counts['kv_bytes']:,}"
        )
    print("passed" if record["passed"] else "FAILED")
    return PASSED if record["passed"] else FAILED


def _add_audit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="what `run` wrote")


def _audit(parsed: argparse.Namespace) -> int:
    if not Path(parsed.folder).is_dir():
        raise ValueError(f"{parsed.folder} is no folder: name one that `kvproof run` wrote")
    found = audit(parsed.folder)
    print(found)
    return PASSED if found.passed else FAILED


# ------------------------------------------------------------------ costs


def _add_costs(parser: argparse.ArgumentParser) -> None:
    _add_model(parser, "see --list (default: reference)", default="reference")
    parser.add_argument("--list", action="store_true", help="show all models and their sources")
    parser.add_argument("--prefix", type=int, metavar="P", help="tokens that are read already")
    parser.add_argument("--steps", type=int, metavar="G", help="tokens that follow, one by one")
    parser.add_argument("--batch", type=int, default=1, metavar="B", help="rows (default: 1)")
    parser.add_argument(
        "--dtype",
        choices=BYTES_PER_NUMBER,
        help="of keys and values (default: float32, bfloat16 for published models)",
    )


def _costs(parsed: argparse.Namespace) -> int:
    if parsed.list:
        print(_list())
        return PASSED
    if parsed.prefix is None or parsed.steps is None:
        raise ValueError("costs needs --prefix and --steps, such as --prefix 256 --steps 16")
    known: dict[str, DecoderConfig | ModelShape] = {**CONFIGS, **MODEL_SHAPES}
    model = _model(parsed.model, known, parsed.set)
    dtype = parsed.dtype or ("float32" if parsed.model in CONFIGS else "bfloat16")
    costs = count_costs(model, parsed.prefix, parsed.steps, parsed.batch, dtype)
    print(
        f"{parsed.model}: {parsed.prefix} tokens read, then {parsed.steps} one by one, "
        f"batch {parsed.batch}, {dtype}\n\n{costs}\n"
    )
    if isinstance(model, ModelShape):
        changed = "; changed by --set" if parsed.set else ""
        print(f"By formula. Sizes: {model.repository}, config.json: {model.fields}{changed}.")
        return PASSED
    return _compare(costs, model, parsed, dtype)


def _compare(costs: Costs, config: DecoderConfig, parsed: argparse.Namespace, dtype: str) -> int:
    """Count the same while the decoders run, if they can."""
    if dtype not in MEASURED or parsed.prefix + parsed.steps > config.max_positions:
        print(
            f"By formula alone: decoders run in {' and '.join(MEASURED)}, "
            f"up to {config.max_positions} positions."
        )
        return PASSED
    measured = measure_costs(config, parsed.prefix, parsed.steps, parsed.batch, dtype)
    if measured == costs:
        print("By formula, and counted while the decoders ran: equal.")
        return PASSED
    print(f"COUNTED while the decoders ran, not equal to the formula:\n\n{measured}")
    return FAILED


def _list() -> str:
    """All published models: sizes, what one token takes in bfloat16, and whose they are."""
    head = ("", "layers", "heads", "K/V heads", "head dim", "window", "bytes a token")
    lines = ["{:<16}{:>7}{:>7}{:>11}{:>10}{:>8}{:>15}".format(*head)]
    for name, shape in MODEL_SHAPES.items():
        costs = count_costs(shape, 0, 1, dtype="bfloat16")
        kept = (costs.latent or costs.cached).kv_bytes
        lines.append(
            f"{name:<16}{shape.n_layers:>7}{shape.n_heads:>7}{shape.n_kv_heads:>11}"
            f"{shape.head_dim:>10}{shape.window or '':>8}{kept:>15,}"
            f"  {shape.repository}"
        )
    lines += [
        "Read from config.json in the repository at the right. Bytes in bfloat16, those of the",
        f"DeepSeek models as they compress them. Our own: {', '.join(CONFIGS)}.",
    ]
    return "\n".join(lines)


# ------------------------------------------------------------------ check


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "place",
        metavar="MODULE:OBJECT",
        help="a decoder, or a class or function that makes one when it is called without arguments",
    )
    parser.add_argument("--seed", type=_seed, default=0, help="of the texts (default: 0)")
    parser.add_argument(
        "--budget", type=float, default=30.0, metavar="S", help="seconds (default: 30)"
    )
    _add_json(parser, "the report")
    parser.add_argument(
        "--language", choices=LANGUAGES, default="en", help="of the report (default: en)"
    )


def _check(parsed: argparse.Namespace) -> int:
    decoder = _load(parsed.place)
    if not parsed.budget < threading.TIMEOUT_MAX:
        raise ValueError(f"--budget {parsed.budget:g}: needs seconds, a finite number of them")
    progress = partial(_progress, parsed.language) if sys.stderr.isatty() else None
    found = check(decoder, parsed.seed, parsed.budget, progress=progress)
    print(found.text(parsed.language))
    if parsed.json:
        parsed.json.write_text(found.to_json(parsed.language) + "\n", encoding="utf-8")
    if not found.findings and not found.complete:
        raise ValueError(f"no mistake so far, but {parsed.budget:g} s weren't enough: try --budget")
    if not found.findings and not found.ok:
        raise ValueError("neither right nor wrong: the notes above say what can't be checked")
    if found.in_doubt:
        raise ValueError("in doubt: all that was found may be rounding, as its evidence says")
    return PASSED if found.ok else FAILED


def _progress(language: str, stage: Message) -> None:
    """Says what goes on, if somebody is looking."""
    print(f"kvproof: {stage.text(language)}", file=sys.stderr, flush=True)


def _load(place: str) -> Any:
    """The decoder that stands at ``module:object``; the current folder is searched first.

    Raises:
        ValueError: there is none.
    """
    name, _, path = place.partition(":")
    if not name or not path:
        raise ValueError(f"{place}: needs MODULE:OBJECT, such as my_model:Decoder")
    if str(Path.cwd()) not in sys.path:  # an installed command doesn't look there by itself
        sys.path.insert(0, str(Path.cwd()))
    found: Any = _tried(lambda: importlib.import_module(name), f"importing {name}")
    for attribute in path.split("."):
        if not _tried(partial(hasattr, found, attribute), f"looking for {attribute} in {place}"):
            raise ValueError(f"{place}: there is no {attribute}")
        found = getattr(found, attribute)
    if isinstance(found, type) or (callable(found) and not hasattr(found, "full")):
        found = _tried(found, f"{place}()")
    try:
        Subject(found, math.inf)
    except Trouble as trouble:
        raise ValueError(f"{place}: {trouble}") from None
    return found


def _tried(call: Callable[[], Any], what: str) -> Any:
    try:
        return call()
    except (Exception, SystemExit) as error:
        text = (str(error).strip() or "no message").splitlines()[0]
        raise ValueError(f"{what} raised {type(error).__name__}: {text}") from None


# ------------------------------------------------------------------ zoo


def _add_zoo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seeds", type=int, default=3, metavar="N", help="measure with seeds 0 to N-1 (default: 3)"
    )
    _add_json(parser, "all figures")


def _zoo(parsed: argparse.Namespace) -> int:
    if parsed.seeds < 1:
        raise ValueError(f"zoo needs at least 1 seed, got {parsed.seeds}")
    table = []
    print(scorecard.HEAD, flush=True)
    for row in scorecard.rows(range(parsed.seeds)):
        print(row, flush=True)
        table.append(row)
    print("", *scorecard.summary(table), sep="\n")
    if parsed.json:
        parsed.json.write_text(scorecard.to_json(table) + "\n")
    return PASSED
