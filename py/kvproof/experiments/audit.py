"""Checks a folder of evidence that it didn't write, with code of its own.

Nothing of ``kvproof`` is imported: a mistake in the package can't excuse itself here.

Held to the last bit, whoever has made the hashes anew: which arrays there are and in which order,
their shapes and dtypes, the parameters, the text, and all that the record says of them.  Both files
are written again from what they say and must be the same bytes, so that nothing can be hidden in
or between them.  Held up to rounding: outputs, keys and values, against the few lines of
``_reference``.  So copies of ``full`` in the place of the other ways would pass, as they differ by
rounding and needn't.

Not held: the record's environment, which can't be derived; another order of the chunk lengths that
gives the same counts; and who wrote all this, since hashes are no signature.
"""

import hashlib
import io
import json
import math
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FILES = ("SHA256SUMS", "arrays.npz", "record.json")
BOUNDS = {"float64": 1e-12, "float32": 1e-5}
MAX_BYTES = 2**26
NORM_EPS = 1e-5
TEXT_SEED = 2026
WAYS = ("prefix", "cached", "chunked")

_LAB: dict[str, Any] = {"n_layers": 2, "width": 16, "n_heads": 1, "n_kv_heads": 1}
_LAB |= {"vocab_size": None, "mlp_width": 256, "max_positions": 64, "positions": "learned"}
_LAB |= {"norm": "layernorm", "mlp": "none", "window": None, "n_sinks": 0}
_LARGER = {"width": 64, "n_heads": 4, "n_kv_heads": 4, "vocab_size": 97, "max_positions": 512}
CONFIGS = {"lab": _LAB, "reference": _LAB | _LARGER | {"mlp": "gelu"}}
"""The fields in the order in which a record has them."""

Matrix = NDArray[Any]
Arrays = dict[str, NDArray[Any]]
Record = dict[str, Any]


@dataclass(frozen=True)
class Audit:
    """What an audit found; it passed if there are no problems."""

    checked: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """No problem was found; the first that ends the audit early is one."""
        return not self.problems

    def __str__(self) -> str:
        good = [f"  ok  {line}" for line in self.checked]
        bad = [f"WRONG {line}" for line in self.problems]
        verdict = "audit passed" if self.passed else f"audit FAILED: {len(bad)} problems"
        return "\n".join([*good, *bad, verdict])


class _Unreadable(Exception):
    """Something is so wrong that the checks after it can't be made."""


def audit(folder: str | Path) -> Audit:
    """Check every file, array and number of a folder of evidence.

    Args:
        folder: what ``run`` wrote.  Anything else is reported, never raised.

    Returns:
        The checks that held and the problems found.
    """
    checked: list[str] = []
    problems: list[str] = []
    try:
        with np.errstate(all="ignore"):  # what overflows shows as a difference
            for check, found in _checks(Path(folder)):
                problems += found
                checked += [] if found else [check]
    except _Unreadable as reason:
        problems += str(reason).splitlines()
    except RecursionError:
        problems.append("record.json is nested too deeply")
    return Audit(tuple(checked), tuple(problems))


def _checks(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Each check with the problems that it found, from the outside to the inside."""
    names, problems = _listing(folder)
    yield f"the folder holds {', '.join(FILES)} and nothing else", problems
    if missing := [name for name in FILES if name not in names]:
        raise _Unreadable(f"without {' and '.join(missing)} there is nothing more to check")
    files = {name: _read(folder / name) for name in FILES}
    yield "SHA256SUMS has the hashes of both files", _check_sums(files)
    record = _parse(files["record.json"])
    told = _told(record)
    shapes = _shapes(told)
    arrays = _load(files["arrays.npz"], list(shapes))
    yield f"{len(shapes)} arrays, of the right shape and dtype", _check_arrays(arrays, shapes, told)
    derived = _derive(arrays, files["arrays.npz"], told)
    yield "every number of the record follows from the arrays", list(_differences(record, derived))
    again = {"arrays.npz": _archive(arrays), "record.json": _text(derived)}
    yield "both files hold this and nothing else", _spare_bytes(files, again)
    failed = [] if derived["passed"] else ["the evidence shows an error beyond the bound"]
    yield f"all ways agree within {derived['bound']:.0e}", failed
    yield f"the parameters are those that seed {told['seed']} draws", _check_draw(arrays, told)
    yield "the tokens are those of the fixed text", _check_text(arrays["tokens"], told)
    worst, problems = _check_reference(arrays, told)
    yield f"all outputs, computed again here: off by at most {worst:.1e}", problems


# ------------------------------------------------------------------ files


def _listing(folder: Path) -> tuple[set[str], list[str]]:
    """The regular files of the folder, and what is wrong with the list."""
    if not folder.is_dir():
        raise _Unreadable(f"{folder} is not a folder")
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise _Unreadable(f"{folder} can't be listed: {error.strerror}") from None
    names = {path.name for path in entries if path.is_file() and not path.is_symlink()}
    problems = [f"missing file: {name}" for name in FILES if name not in names]
    problems += [f"extra: {path.name!r}" for path in entries if path.name not in FILES]
    return names, problems


def _read(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise _Unreadable(f"{path.name} has {size} bytes, more than {MAX_BYTES}")
        return path.read_bytes()
    except OSError as error:
        raise _Unreadable(f"{path.name} can't be read: {error.strerror}") from None


def _spare_bytes(files: dict[str, bytes], again: dict[str, bytes]) -> list[str]:
    return [
        f"{name} isn't what comes of writing down again what it says: it holds more than that"
        for name, content in again.items()
        if files[name] != content
    ]


def _check_sums(files: dict[str, bytes]) -> list[str]:
    names = ("arrays.npz", "record.json")
    right = "".join(f"{_sha256(files[name])}  {name}\n" for name in names)
    if files["SHA256SUMS"] == right.encode():
        return []
    said = files["SHA256SUMS"].decode(errors="replace")
    wrong = [name for name in names if f"{_sha256(files[name])}  {name}\n" not in said]
    return [f"{name} isn't the file that SHA256SUMS names" for name in wrong] or [
        "SHA256SUMS isn't as it was written"
    ]


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# ------------------------------------------------------------------ the record


def _parse(content: bytes) -> Record:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no number")

    try:
        record = json.loads(content.decode(), parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise _Unreadable(f"record.json can't be read: {error}") from None
    if not isinstance(record, dict):
        raise _Unreadable("record.json isn't an object")
    return record


def _told(record: Record) -> Record:
    """What only the record can say: all else is derived from this and the arrays."""
    told = {key: record.get(key) for key in ("model", "dtype", "seed", "chunks", "environment")}
    if told["model"] not in list(CONFIGS):
        raise _Unreadable(f"record.json: model {_short(told['model'])} is unknown")
    if told["dtype"] not in list(BOUNDS):
        raise _Unreadable(f"record.json: dtype {_short(told['dtype'])} is unknown")
    if type(told["seed"]) is not int or not 0 <= told["seed"] < 2**128:
        raise _Unreadable(f"record.json: {_short(told['seed'])} is no seed")
    _check_environment(told["environment"])
    config = CONFIGS[str(told["model"])]
    return told | {"n_tokens": _sum(told["chunks"], config["max_positions"]), "config": config}


def _sum(chunks: object, most: int) -> int:
    """The tokens of all calls."""
    sizes = chunks if isinstance(chunks, list) else []
    if not all(type(size) is int and size >= 1 for size in sizes) or not 1 <= sum(sizes) <= most:
        raise _Unreadable(
            f"record.json: chunks {_short(chunks)} aren't lengths of calls with 1..{most} tokens"
        )
    return sum(sizes)


def _check_environment(environment: object) -> None:
    keys = {"python", "numpy", "system", "machine"}
    if not isinstance(environment, dict) or environment.keys() != keys:
        raise _Unreadable(f"record.json: the environment must say {', '.join(sorted(keys))}")
    for key, value in environment.items():
        if not isinstance(value, str) or not re.fullmatch(r"[\w.+-]{1,40}", value):
            raise _Unreadable(f"record.json: environment.{key} says {_short(value)}")


def _derive(arrays: Arrays, archive: bytes, told: Record) -> Record:
    """The record as it must be."""
    full = arrays["full"].astype(np.float64)
    errors = {way: float(np.abs(arrays[way] - full).max()) for way in WAYS}
    n_tokens, bound = told["n_tokens"], BOUNDS[told["dtype"]]
    calls = {
        "prefix": [(0, n) for n in range(1, n_tokens + 1)],
        "cached": [(n, 1) for n in range(n_tokens)],
        "chunked": [(sum(told["chunks"][:i]), n) for i, n in enumerate(told["chunks"])],
    }
    kept = arrays["keys"].nbytes + arrays["values"].nbytes
    counts = {
        way: _count(calls[way], 0 if way == "prefix" else kept, told["config"]) for way in WAYS
    }
    return {
        "schema": 1,
        **{key: told[key] for key in ("model", "config", "seed", "dtype", "n_tokens", "chunks")},
        "arrays": {name: _described(array) for name, array in arrays.items()},
        "files": {"arrays.npz": {"bytes": len(archive), "sha256": _sha256(archive)}},
        "environment": told["environment"],
        "bound": bound,
        "errors": errors,
        "counts": counts,
        "formula": {way: counts[way] for way in ("prefix", "cached")},
        "passed": max(errors.values()) <= bound,
    }


def _count(calls: list[tuple[int, int]], kv_bytes: int, config: Record) -> Record:
    """The work of calls of ``n_new`` tokens each after ``n_past``, added up call by call."""
    n_layers, n_heads = config["n_layers"], config["n_heads"]
    return {
        "positions": sum(n_new for _, n_new in calls),
        "qkv_rows": sum(3 * n_new for _, n_new in calls) * n_layers,
        "scores": sum(n_new * (n_past + n_new) for n_past, n_new in calls) * n_layers * n_heads,
        "kv_bytes": kv_bytes,
    }


def _text(record: Record) -> bytes:
    return f"{json.dumps(record, indent=2)}\n".encode()


def _described(array: NDArray[Any]) -> Record:
    numbers = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False).tobytes()
    return {"shape": list(array.shape), "dtype": array.dtype.name, "sha256": _sha256(numbers)}


def _differences(said: object, derived: object, where: str = "record") -> Iterator[str]:
    """Where a record differs from the derived one; 1, 1.0 and true are three things."""
    if isinstance(said, dict) and isinstance(derived, dict):
        yield from (f"{where}: {_short(key)} is unknown" for key in said if key not in derived)
        yield from (f"{where}: {_short(key)} is missing" for key in derived if key not in said)
        for key in derived:
            if key in said:
                yield from _differences(said[key], derived[key], f"{where}.{key}")
    elif json.dumps(said) != json.dumps(derived):
        yield f"{where} says {_short(said)}, derived again it is {_short(derived)}"


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


# ------------------------------------------------------------------ the arrays


def _load(content: bytes, names: list[str]) -> Arrays:
    """The arrays of these names, none larger than the archive: entries may claim anything."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            found = [entry.filename.removesuffix(".npy") for entry in entries]
            if found != names:
                raise _Unreadable(_misnamed(found, names))
            if sum(entry.file_size for entry in entries) > len(content):
                raise ValueError("its arrays are compressed or overlap: together they are larger")
            members = map(archive.read, entries)
            return {name: _array(member) for name, member in zip(names, members, strict=True)}
    except _Unreadable:
        raise
    except Exception as error:  # whatever garbage brings about
        raise _Unreadable(f"arrays.npz can't be read: {type(error).__name__}: {error}") from None


def _misnamed(found: list[str], names: list[str]) -> str:
    problems = [f"arrays.npz: {name} is missing" for name in names if name not in found]
    problems += [f"arrays.npz: {name!r} is unknown" for name in found if name not in names]
    return "\n".join(problems) or "arrays.npz: an array stands twice, or in another order"


def _array(member: bytes) -> NDArray[Any]:
    return np.lib.format.read_array(io.BytesIO(member), allow_pickle=False)


def _archive(arrays: Arrays) -> bytes:
    """The archive that holds these arrays: stored, in this order, without dates."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, version=(1, 0))
            entry = zipfile.ZipInfo(f"{name}.npy")
            entry.create_system = 3
            archive.writestr(entry, member.getvalue())
    return buffer.getvalue()


def _shapes(told: Record) -> dict[str, tuple[int, ...]]:
    """The shape of each array that must be there; parameters in the order of their drawing."""
    config, n_tokens = told["config"], told["n_tokens"]
    n_layers, n_heads, width = config["n_layers"], config["n_heads"], config["width"]
    vocab = config["vocab_size"]
    kept = (n_layers, 1, n_heads, n_tokens, width // n_heads)
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(
        ("full", *WAYS), (1, n_tokens, vocab or width)
    )
    shapes |= {"keys": kept, "values": kept}
    shapes["tokens"] = (1, n_tokens) if vocab else (1, n_tokens, width)
    if vocab:
        shapes["param.token_embedding"] = (vocab, width)
    shapes["param.position_embedding"] = (config["max_positions"], width)
    for i in range(n_layers):
        shapes |= _block_shapes(f"param.block{i}", config)
    shapes |= _norm_shapes("param.final_norm", width)
    return shapes | ({"param.unembedding": (width, vocab)} if vocab else {})


def _block_shapes(name: str, config: Record) -> dict[str, tuple[int, ...]]:
    width, hidden = config["width"], config["mlp_width"]
    shapes = _norm_shapes(f"{name}.norm1", width)
    shapes |= _linear_shapes(f"{name}.attention", "qkv", width, 3 * width)
    shapes |= _linear_shapes(f"{name}.attention", "out", width, width)
    if config["mlp"] != "none":
        shapes |= _norm_shapes(f"{name}.norm2", width)
        shapes |= _linear_shapes(f"{name}.mlp", "in", width, hidden)
        shapes |= _linear_shapes(f"{name}.mlp", "out", hidden, width)
    return shapes


def _norm_shapes(name: str, width: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.gain": (width,), f"{name}.bias": (width,)}


def _linear_shapes(name: str, kind: str, n_in: int, n_out: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.w_{kind}": (n_in, n_out), f"{name}.b_{kind}": (n_out,)}


def _check_arrays(arrays: Arrays, shapes: dict[str, tuple[int, ...]], told: Record) -> list[str]:
    """Shapes, dtypes and finite numbers.  What is wrong here ends the audit."""
    problems: list[str] = []
    vocab = told["config"]["vocab_size"]
    for name, array in arrays.items():
        dtype = "int64" if vocab and name == "tokens" else told["dtype"]
        if array.shape != shapes[name] or array.dtype != np.dtype(dtype).newbyteorder("<"):
            found = f"{array.dtype} {array.shape}"
            problems.append(f"arrays.npz: {name} is {found}, wanted {dtype} {shapes[name]}")
        elif not np.isfinite(array).all():
            problems.append(f"arrays.npz: {name} has {(~np.isfinite(array)).sum()} NaN or infinite")
        elif dtype == "int64" and not ((array >= 0) & (array < vocab)).all():
            problems.append(f"arrays.npz: a token is outside the vocabulary 0..{vocab - 1}")
    if problems:
        raise _Unreadable("\n".join(problems))
    return []


def _check_draw(arrays: Arrays, told: Record) -> list[str]:
    rng = np.random.default_rng(told["seed"])
    problems = []
    for name, shape in _shapes(told).items():
        if not name.startswith("param."):
            continue
        if "embedding" in name and "un" not in name:
            drawn = rng.standard_normal(shape)
        elif "norm" in name:
            drawn = (1.0 if name.endswith("gain") else 0.0) + 0.1 * rng.standard_normal(shape)
        else:
            bound = 1.0 / math.sqrt(shape[0])
            drawn = rng.uniform(-bound, bound, shape)
        if not np.array_equal(drawn.astype(np.float32).astype(told["dtype"]), arrays[name]):
            problems.append(f"{name} isn't what seed {told['seed']} draws (NumPy {np.__version__})")
    return problems


def _check_text(tokens: NDArray[Any], told: Record) -> list[str]:
    """The text is drawn from a seed of its own, as long as the decoder allows, and then cut."""
    config, rng = told["config"], np.random.default_rng(TEXT_SEED)
    n_positions, vocab = config["max_positions"], config["vocab_size"]
    if vocab:
        drawn = rng.integers(vocab, size=(1, n_positions))
        drawn[0, :6] = 12, 7, 31, 4, 9, 18
    else:
        drawn = rng.standard_normal((1, n_positions, config["width"])).astype(told["dtype"])
    right = np.array_equal(drawn[:, : told["n_tokens"]], tokens)
    return [] if right else [f"the tokens aren't the text that seed {TEXT_SEED} draws"]


# ------------------------------------------------------------------ the outputs, once more


def _check_reference(arrays: Arrays, told: Record) -> tuple[float, list[str]]:
    """All outputs and the cache against ``_reference``; the largest difference, and problems."""
    wanted = _reference(arrays, told["config"])
    errors = {name: float(np.abs(arrays[name] - array).max()) for name, array in wanted.items()}
    bound = BOUNDS[told["dtype"]]
    problems = [
        f"{name} differs by {error:.3e} from the recomputation, more than {bound:.0e}"
        for name, error in errors.items()
        if not error <= bound
    ]
    return max(errors.values()), problems


def _reference(arrays: Arrays, config: Record) -> Arrays:
    """The decoder in float64, for one row: what each stored array must be."""
    p = {
        name.removeprefix("param."): array.astype(np.float64)
        for name, array in arrays.items()
        if name.startswith("param.")
    }
    tokens = arrays["tokens"][0]
    x = p["token_embedding"][tokens] if config["vocab_size"] else tokens.astype(np.float64)
    x = x + p["position_embedding"][: len(x)]
    keys, values = [], []
    for i in range(config["n_layers"]):
        attended, k, v = _attention(_norm(x, p, f"block{i}.norm1"), p, i, config["n_heads"])
        x = x + attended
        if config["mlp"] != "none":
            x = x + _mlp(_norm(x, p, f"block{i}.norm2"), p, i)
        keys.append(k[None])
        values.append(v[None])
    output = _norm(x, p, "final_norm")
    if config["vocab_size"]:
        output = output @ p["unembedding"]
    outputs = dict.fromkeys(("full", *WAYS), output[None])
    return outputs | {"keys": np.stack(keys), "values": np.stack(values)}


def _norm(x: Matrix, p: Arrays, name: str) -> Matrix:
    """LayerNorm of each row."""
    deviation = x - x.mean(axis=1, keepdims=True)
    variance = np.square(deviation).mean(axis=1, keepdims=True)
    normed: Matrix = deviation / np.sqrt(variance + NORM_EPS) * p[f"{name}.gain"]
    return normed + p[f"{name}.bias"]


def _attention(x: Matrix, p: Arrays, i: int, n_heads: int) -> tuple[Matrix, Matrix, Matrix]:
    """Causal attention over all rows of ``x`` (T, W); also keys and values, each (H, T, D)."""
    n_tokens, width = x.shape
    qkv = x @ p[f"block{i}.attention.w_qkv"] + p[f"block{i}.attention.b_qkv"]
    q, k, v = qkv.reshape(n_tokens, 3, n_heads, -1).transpose(1, 2, 0, 3)
    scores = np.einsum("hqd,hkd->hqk", q, k) / math.sqrt(width // n_heads)
    future = np.arange(n_tokens)[:, None] < np.arange(n_tokens)
    weights = np.exp(scores - scores.max()) * ~future
    weights = weights / weights.sum(axis=2, keepdims=True)
    heads = np.einsum("hqk,hkd->qhd", weights, v).reshape(n_tokens, width)
    return heads @ p[f"block{i}.attention.w_out"] + p[f"block{i}.attention.b_out"], k, v


def _mlp(x: Matrix, p: Arrays, i: int) -> Matrix:
    """Two linear layers with GELU, tanh form, between."""
    h = x @ p[f"block{i}.mlp.w_in"] + p[f"block{i}.mlp.b_in"]
    h = h / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
    y: Matrix = h @ p[f"block{i}.mlp.w_out"] + p[f"block{i}.mlp.b_out"]
    return y
