"""A folder of evidence: one text read in four ways, with hashes, counts and errors.

``run`` writes three files::

    arrays.npz    full, prefix, cached, chunked: the same outputs, four ways;
                  keys, values: the cache at the end; tokens; param.*: the parameters
    record.json   what was run, a hash of every array, counts and errors, the environment
    SHA256SUMS    hashes of the two, in the format of `sha256sum --check`

``audit.py`` checks such a folder and shares no code with this file.  The same arguments give the
same bytes again, on the same machine and versions.
"""

import hashlib
import io
import json
import platform
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvproof.experiments.costs import Work, count_costs, watch
from kvproof.model.cache import KVCache
from kvproof.model.config import LAB, REFERENCE, DecoderConfig
from kvproof.model.decoder import forward
from kvproof.model.feeding import every_prefix, example_text, in_chunks
from kvproof.model.params import Params, float_dtype, init_params, params_to_arrays

SCHEMA = 1
MODELS = {"lab": LAB, "reference": REFERENCE}
CHUNKS = (5, 3, 7, 9)
"""24 tokens in chunks of uneven length."""
BOUNDS = {"float64": 1e-12, "float32": 1e-5}
"""Largest difference from ``full`` that passes as rounding."""

Arrays = dict[str, NDArray[Any]]


def run(
    folder: str | Path,
    model: str = "lab",
    seed: int = 0,
    dtype: str = "float64",
    chunks: Sequence[int] = CHUNKS,
) -> dict[str, Any]:
    """Read one text whole, prefix by prefix, token by token and in chunks; write the evidence.

    Args:
        folder: where to write; made if it isn't there, empty if it is.
        model: "lab" (attention only, vectors in and hidden states out) or "reference".
        seed: of the parameters.
        dtype: "float64" or "float32".
        chunks: the lengths of the calls of ``chunked``; they add up to the length of the text.

    Returns:
        The record, as in ``record.json``; ``record["passed"]`` is the verdict.

    Raises:
        ValueError: an argument is out of range, or the folder has something in it.
        OSError: a file can't be written; none is left.
    """
    if model not in MODELS:
        raise ValueError(f"model must be one of {', '.join(MODELS)}, got {model!r}")
    config, name = MODELS[model], float_dtype(dtype).name
    sizes = [int(size) for size in chunks]
    if min(sizes, default=0) < 1 or sum(sizes) > config.max_positions:
        raise ValueError(
            f"chunks must be at least 1 each and at most {config.max_positions} together, "
            f"got {sizes}"
        )
    path = _empty_folder(folder)
    arrays, counts = _read_in_four_ways(init_params(config, seed, name), config, sizes)
    archive = _npz(arrays)
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "model": model,
        "config": asdict(config),
        "seed": int(seed),
        "dtype": name,
        "n_tokens": sum(sizes),
        "chunks": sizes,
        "arrays": {key: _described(array) for key, array in arrays.items()},
        "files": {"arrays.npz": {"bytes": len(archive), "sha256": _sha256(archive)}},
        "environment": _environment(),
        **_verdict(arrays, counts, config, name),
    }
    text = json.dumps(record, indent=2) + "\n"
    _write(path, {"arrays.npz": archive, "record.json": text.encode()})
    return record


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """The files and their hashes, or nothing: a part would stand in the way of the next run."""
    sums = "".join(f"{_sha256(content)}  {name}\n" for name, content in files.items())
    written = []
    try:
        for name, content in {**files, "SHA256SUMS": sums.encode()}.items():
            written.append(folder / name)
            written[-1].write_bytes(content)
    except BaseException as error:
        for path in written:
            path.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:  # such as a full disk
            raise OSError(error.errno, error.strerror, str(written[-1])) from error
        raise


def _empty_folder(folder: str | Path) -> Path:
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file: name a folder")
    if path.is_dir() and any(path.iterdir()):
        raise ValueError(f"{path} isn't empty: evidence is never overwritten, name another folder")
    path.mkdir(parents=True, exist_ok=True)
    return path


def _read_in_four_ways(
    params: Params, config: DecoderConfig, sizes: Sequence[int]
) -> tuple[Arrays, dict[str, Work]]:
    """All arrays of the evidence, and the counted work of each way but ``full``."""
    n_total = sum(sizes)
    text = example_text(config, n_total)
    if config.vocab_size is None:
        text = text.astype(params.dtype)
    arrays: Arrays = {"full": forward(params, text, config)}
    counts: dict[str, Work] = {}
    watched, tally = watch(params, config)
    arrays["prefix"] = np.asarray(every_prefix(watched, text, config))
    counts["prefix"] = tally.work(0)
    caches: dict[str, KVCache] = {}
    for way, chunks in {"cached": [1] * n_total, "chunked": sizes}.items():
        watched, tally = watch(params, config)
        outputs, caches[way] = in_chunks(watched, text, config, chunks)
        arrays[way] = np.asarray(outputs)
        counts[way] = tally.work(caches[way].payload_bytes)
    layers = caches["cached"].keys_values()
    arrays |= {
        "keys": np.stack([np.asarray(keys) for keys, _ in layers]),  # (L, B, H_kv, T, D)
        "values": np.stack([np.asarray(values) for _, values in layers]),
        "tokens": text,
    }
    arrays |= {f"param.{name}": array for name, array in params_to_arrays(params).items()}
    return arrays, counts


def _verdict(
    arrays: Arrays, counts: Mapping[str, Work], config: DecoderConfig, dtype: str
) -> dict[str, Any]:
    """Errors and counts of each way, the counts by formula, and whether all is well."""
    full = arrays["full"].astype(np.float64)
    errors = {way: float(np.abs(arrays[way] - full).max()) for way in counts}
    by_formula = count_costs(config, 0, full.shape[1], dtype=dtype)
    formula = {"prefix": by_formula.recomputed, "cached": by_formula.cached}
    agree = all(counts[way] == work for way, work in formula.items())
    return {
        "bound": BOUNDS[dtype],
        "errors": errors,
        "counts": {way: asdict(work) for way, work in counts.items()},
        "formula": {way: asdict(work) for way, work in formula.items()},
        "passed": agree and max(errors.values()) <= BOUNDS[dtype],
    }


def _described(array: NDArray[Any]) -> dict[str, Any]:
    """Shape, dtype and hash of an array: of its numbers in C order, little-endian."""
    numbers = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
    return {
        "shape": list(array.shape),
        "dtype": array.dtype.name,
        "sha256": _sha256(numbers.tobytes()),
    }


def _npz(arrays: Arrays) -> bytes:
    """An ``.npz`` whose bytes depend on the arrays only: no time stamps, no compression."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system = 3  # else it says on which system it was written
            archive.writestr(entry, member.getvalue())
    return buffer.getvalue()


def _environment() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "system": platform.system() or "unknown",
        "machine": platform.machine() or "unknown",
    }


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
