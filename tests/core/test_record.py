"""Evidence: what `run` writes, and what `audit` finds when somebody has touched it."""

import ast
import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kvproof.experiments import audit as audit_module
from kvproof.experiments.audit import Audit, audit
from kvproof.experiments.costs import Costs, count_costs
from kvproof.experiments.record import _npz, run
from kvproof.model.config import LAB, DecoderConfig
from kvproof.model.feeding import example_text, in_chunks
from kvproof.model.masks import top_left_mask
from kvproof.model.params import init_params

Arrays = dict[str, NDArray[Any]]
Folder = Callable[[], Path]


@pytest.fixture(scope="session")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The evidence of a right run; never written to."""
    folder = tmp_path_factory.mktemp("evidence") / "lab"
    run(folder)
    return folder


@pytest.fixture
def evidence(clean: Path, tmp_path: Path) -> Path:
    """A copy to tamper with."""
    return Path(shutil.copytree(clean, tmp_path / "evidence"))


def problems(folder: Path) -> str:
    found = audit(folder)
    assert not found.passed
    return "\n".join(found.problems)


def read(folder: Path) -> tuple[dict[str, Any], Arrays]:
    with np.load(folder / "arrays.npz") as stored:
        arrays = {name: stored[name] for name in stored.files}
    return json.loads((folder / "record.json").read_text()), arrays


def forge(folder: Path, record: dict[str, Any], arrays: Arrays) -> None:
    """Write both, with all hashes and errors right: only the recomputation can tell."""
    archive = _npz(arrays)
    ways = {"full", *record["errors"]} & arrays.keys()
    record["errors"] |= {
        way: float(np.abs(arrays[way] - arrays["full"]).max()) for way in ways - {"full"}
    }
    record["passed"] = max(record["errors"].values()) <= record["bound"]
    for name, array in arrays.items():
        record["arrays"][name] = {
            "shape": list(array.shape),
            "dtype": array.dtype.name,
            "sha256": hashlib.sha256(array.tobytes()).hexdigest(),
        }
    record["files"]["arrays.npz"] = described_file(archive)
    (folder / "arrays.npz").write_bytes(archive)
    seal(folder, record)


def described_file(content: bytes) -> dict[str, Any]:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def dumped(record: dict[str, Any]) -> bytes:
    return f"{json.dumps(record, indent=2)}\n".encode()


def seal(folder: Path, record: dict[str, Any] | bytes) -> None:
    text = record if isinstance(record, bytes) else dumped(record)
    (folder / "record.json").write_bytes(text)
    sums = [
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n"
        for name in ("arrays.npz", "record.json")
    ]
    (folder / "SHA256SUMS").write_text("".join(sums))


# ------------------------------------------------------------------ what run writes


def test_the_lab_has_the_articles_arrays_and_counts(clean: Path) -> None:
    record, arrays = read(clean)
    for way in ("full", "prefix", "cached", "chunked"):
        assert arrays[way].shape == (1, 24, 16)
        assert arrays[way].dtype == np.float64
    assert record["chunks"] == [5, 3, 7, 9]
    counts = record["counts"]
    assert counts["prefix"] == {"positions": 300, "qkv_rows": 1800, "scores": 9800, "kv_bytes": 0}
    cached = {"positions": 24, "qkv_rows": 144, "scores": 600, "kv_bytes": 12_288}
    assert counts["cached"] == cached
    in_chunks = 5 * 5 + 3 * 8 + 7 * 15 + 9 * 24
    assert counts["chunked"] == cached | {"scores": 2 * in_chunks}
    assert max(record["errors"].values()) < 1e-12
    assert record["passed"]


def test_the_record_names_no_place_of_this_machine(clean: Path) -> None:
    record, _ = read(clean)
    assert record["environment"]["numpy"] == np.__version__
    for value in record["environment"].values():
        assert "/" not in value
    assert str(clean.parent) not in (clean / "record.json").read_text()


@pytest.mark.parametrize("model", ["lab", "reference"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_both_models_in_both_precisions(model: str, dtype: str, tmp_path: Path) -> None:
    record = run(tmp_path, model=model, dtype=dtype, seed=3, chunks=(1, 6, 2))
    assert record["passed"]
    assert audit(tmp_path).problems == ()


def test_the_same_arguments_give_the_same_bytes(clean: Path, tmp_path: Path) -> None:
    run(tmp_path / "again")
    run(tmp_path / "other", seed=1)
    for name in ("arrays.npz", "record.json", "SHA256SUMS"):
        assert (tmp_path / "again" / name).read_bytes() == (clean / name).read_bytes()
        assert (tmp_path / "other" / name).read_bytes() != (clean / name).read_bytes()


def test_counts_that_differ_from_their_formula_fail_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_more(config: DecoderConfig, prefix: int, steps: int, dtype: str) -> Costs:
        return count_costs(config, prefix, steps + 1, dtype=dtype)

    monkeypatch.setattr("kvproof.experiments.record.count_costs", one_more)
    assert run(tmp_path)["passed"] is False
    assert "record.formula.cached.scores says 650, derived again it is 600" in problems(tmp_path)


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match="isn't empty: evidence is never overwritten"):
        run(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(ValueError, match="is a file: name a folder"):
        run(tmp_path / "mine.txt")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "gpt"}, "model must be one of lab, reference, got 'gpt'"),
        ({"dtype": "float16"}, "dtype must be float32 or float64, got float16"),
        ({"chunks": ()}, "chunks must be at least 1 each and at most 64 together"),
        ({"chunks": (3, 0)}, "chunks must be at least 1 each"),
        ({"chunks": (60, 5)}, "at most 64 together, got \\[60, 5\\]"),
    ],
)
def test_bad_arguments_write_nothing(
    arguments: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        run(tmp_path / "new", **arguments)
    assert not (tmp_path / "new").exists()


# ------------------------------------------------------------------ the auditor stands alone


def test_the_audit_imports_nothing_of_the_package() -> None:
    tree = ast.parse(Path(audit_module.__file__).read_text())
    imported = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
        )
    }
    assert "numpy" in imported
    assert not [name for name in imported if name is None or name.startswith("kvproof")]


# ------------------------------------------------------------------ one changed bit


@pytest.mark.parametrize(
    ("name", "step"), [("record.json", 17), ("SHA256SUMS", 1), ("arrays.npz", 311)]
)
def test_bits_all_over_the_files_count(name: str, step: int, evidence: Path) -> None:
    content = (evidence / name).read_bytes()
    ends = [*range(64), *range(len(content) - 64, len(content))] if step > 64 else []
    for at in [*ends, *range(0, len(content), step)]:
        changed = bytearray(content)
        changed[at] ^= 1 << at % 8
        (evidence / name).write_bytes(changed)
        assert not audit(evidence).passed, at
    (evidence / name).write_bytes(content)
    assert audit(evidence).passed


# ------------------------------------------------------------------ files


def link_the_record(folder: Path) -> None:
    (folder / "record.json").rename(folder.parent / "elsewhere.json")
    (folder / "record.json").symlink_to(folder.parent / "elsewhere.json")


TAMPERED: dict[str, tuple[Callable[[Path], object], str]] = {
    "no record": (lambda f: (f / "record.json").unlink(), "missing file: record.json"),
    "no sums": (lambda f: (f / "SHA256SUMS").unlink(), "missing file: SHA256SUMS"),
    "no arrays": (lambda f: (f / "arrays.npz").unlink(), "missing file: arrays.npz"),
    "a hidden file": (lambda f: (f / ".notes").write_text(""), "extra: '.notes'"),
    "a folder": (lambda f: (f / "more").mkdir(), "extra: 'more'"),
    "a link": (link_the_record, "missing file: record.json"),
}


@pytest.mark.parametrize(("tamper", "message"), TAMPERED.values(), ids=TAMPERED)
def test_other_files_than_were_written(
    tamper: Callable[[Path], object], message: str, evidence: Path
) -> None:
    tamper(evidence)
    assert message in problems(evidence)


def test_no_folder_at_all(tmp_path: Path) -> None:
    assert "is not a folder" in problems(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    assert "is not a folder" in problems(tmp_path / "file")


# ------------------------------------------------------------------ forged with right hashes


def test_every_number_of_the_record_is_derived_again(evidence: Path) -> None:
    """Each leaf but the environment's, changed by the least: all are seen, most by their name."""
    record, _ = read(evidence)
    unnamed = []

    def nudged(value: Any) -> object:
        if isinstance(value, bool) or value is None:
            return not value
        if isinstance(value, float):
            return float(np.nextafter(value, 1))
        return value + (1 if isinstance(value, int) else "x")

    def nudge(parent: Any, key: Any, path: str) -> int:
        value = parent[key]
        if isinstance(value, dict | list):
            keys = value if isinstance(value, dict) else range(len(value))
            return sum(nudge(value, inner, f"{path}.{inner}") for inner in keys)
        parent[key] = nudged(value)
        seal(evidence, record)
        found = problems(evidence)
        parent[key] = value
        assert "SHA256SUMS" not in found
        if f"{path.partition('.shape')[0]}" not in found:
            unnamed.append(path)
        return 1

    assert sum(nudge(record, key, f"record.{key}") for key in record.keys() - {"environment"}) > 120
    told = ("record.model", "record.dtype", "record.seed", "record.chunks")
    assert all(path.startswith(told) for path in unnamed), unnamed
    seal(evidence, record)
    assert audit(evidence).passed


REWRITTEN = "record.json isn't what comes of writing down again"
RECORDS: dict[str, tuple[Callable[[bytes, dict[str, Any]], bytes], str]] = {
    "spaces": (lambda text, _: text.replace(b": ", b":  ", 1), REWRITTEN),
    "a line more": (lambda text, _: text + b"\n", REWRITTEN),
    "a key twice": (lambda text, _: text.replace(b"{", b'{"schema": 1, ', 1), REWRITTEN),
    "another order": (lambda _, record: dumped(dict(sorted(record.items()))), REWRITTEN),
    "1.0 for 1": (lambda text, _: text.replace(b'"schema": 1', b'"schema": 1.0'), REWRITTEN),
    "a key more": (lambda _, record: dumped(record | {"note": ""}), 'record: "note" is unknown'),
    "keys too few": (
        lambda _, record: dumped(record | {"counts": record["counts"] | {"cached": {}}}),
        'record.counts.cached: "scores" is missing',
    ),
    "NaN": (lambda *_: b'{"schema": NaN}', "NaN is no number"),
    "no text": (lambda *_: b"\xff", "record.json can't be read"),
    "a list": (lambda *_: b"[]", "record.json isn't an object"),
    "nothing": (lambda *_: b"{}", "model null is unknown"),
    "too deep": (lambda *_: b"[" * 100_000, "record.json can't be read"),
    "a list for a name": (lambda *_: b'{"model": ["lab"]}', 'model ["lab"] is unknown'),
}


@pytest.mark.parametrize(("change", "message"), RECORDS.values(), ids=RECORDS)
def test_a_record_that_run_would_not_write(
    change: Callable[[bytes, dict[str, Any]], bytes], message: str, evidence: Path
) -> None:
    text = (evidence / "record.json").read_bytes()
    seal(evidence, change(text, json.loads(text)))
    assert message in problems(evidence)


ALL_WAYS = ["full", "prefix", "cached", "chunked"]


@pytest.mark.parametrize("names", [*([name] for name in (*ALL_WAYS, "keys", "values")), ALL_WAYS])
def test_arrays_that_agree_with_the_record_but_not_with_the_model(
    names: list[str], evidence: Path
) -> None:
    """All four wrong alike differ by nothing among themselves."""
    record, arrays = read(evidence)
    for name in names:
        arrays[name].flat[-1] += 1e-6
    forge(evidence, record, arrays)
    found = problems(evidence)
    for name in names:
        assert f"{name} differs by 1.000e-06 from the recomputation" in found
    assert "record." not in found


def read_with_a_top_left_mask(arrays: Arrays) -> None:
    params = init_params(LAB, 0, "float64")
    text, chunks = example_text(LAB, 24), [5, 3, 7, 9]
    arrays["chunked"], _ = in_chunks(params, text, LAB, chunks, mask=top_left_mask)


WEIGHT = "param.block0.attention.w_qkv"
FORGED: dict[str, tuple[Callable[[Arrays], object], str]] = {
    "a top-left mask in the chunks": (read_with_a_top_left_mask, "chunked differs by"),
    "a parameter moved by one bit": (
        lambda a: np.put(a[WEIGHT], 0, np.nextafter(a[WEIGHT].flat[0], 1)),
        f"{WEIGHT} isn't what seed 0 draws",
    ),
    "another text": (
        lambda a: a.update(tokens=a["tokens"][:, ::-1].copy()),
        "the tokens aren't the text that seed 2026 draws",
    ),
    "NaN": (lambda a: np.put(a["values"], 0, np.nan), "values has 1 NaN or infinite"),
    "infinity": (lambda a: np.put(a["keys"], 0, -np.inf), "keys has 1 NaN or infinite"),
    "too large to add": (lambda a: a[WEIGHT].fill(1e308), "full differs by nan"),
    "another name": (
        lambda a: a.update(hidden=a.pop("keys")),
        "keys is missing\narrays.npz: 'hidden' is unknown",
    ),
    "another shape": (
        lambda a: a.update(full=a["full"][0]),
        "full is float64 (24, 16), wanted float64 (1, 24, 16)",
    ),
    "another precision": (
        lambda a: a.update(prefix=a["prefix"].astype(np.float32)),
        "prefix is float32",
    ),
}


@pytest.mark.parametrize(("change", "message"), FORGED.values(), ids=FORGED)
def test_arrays_that_no_right_run_gives(
    change: Callable[[Arrays], object], message: str, evidence: Path
) -> None:
    record, arrays = read(evidence)
    change(arrays)
    forge(evidence, record, arrays)
    assert message in problems(evidence)


def test_tokens_outside_the_vocabulary(tmp_path: Path) -> None:
    run(tmp_path, model="reference")
    record, arrays = read(tmp_path)
    arrays["tokens"][0, 3] = 97
    forge(tmp_path, record, arrays)
    assert "a token is outside the vocabulary 0..96" in problems(tmp_path)


# ------------------------------------------------------------------ garbage


def _found(folder: Path, record: bytes, archive: bytes | None = None) -> Audit:
    if archive is not None:
        (folder / "arrays.npz").write_bytes(archive)
    seal(folder, record)
    return audit(folder)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="session")
def scratch(clean: Path) -> Path:
    """A copy that each example overwrites."""
    return Path(shutil.copytree(clean, clean.parent / "scratch"))


@given(data=st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_garbage_in_the_record_is_reported(data: st.DataObject, clean: Path, scratch: Path) -> None:
    record = json.loads((clean / "record.json").read_text())
    key = data.draw(st.sampled_from(sorted(record)))
    record[key] = data.draw(JSON.filter(lambda value: value != record[key]))
    found = _found(scratch, json.dumps(record).encode(), (clean / "arrays.npz").read_bytes())
    assert found.problems
    str(found).encode()


@given(content=st.binary(max_size=300))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_random_bytes_are_reported(content: bytes, clean: Path, scratch: Path) -> None:
    assert _found(scratch, content, (clean / "arrays.npz").read_bytes()).problems
    assert _found(scratch, (clean / "record.json").read_bytes(), content).problems


def test_records_nested_to_the_edge_of_recursion(evidence: Path) -> None:
    """Where reading just succeeds and writing for a message just fails."""
    text = (evidence / "record.json").read_text()
    reasons = set()
    for depth in range(880, 1000):
        content = text.replace('"bound": 1e-12', f'"bound": {"[" * depth + "]" * depth}')
        reasons |= set(_found(evidence, content.encode()).problems)
    assert any(reason.startswith("record.bound says [[[") for reason in reasons)


Members = dict[str, bytes]


def zipped(members: Members, comment: bytes = b"", **how: Any) -> bytes:
    """An archive as `run` writes it, but for ``how``: attributes of every entry."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.comment = comment
        for name, content in members.items():
            entry = zipfile.ZipInfo(name)
            for key, value in ({"create_system": 3} | how).items():
                setattr(entry, key, value)
            archive.writestr(entry, content)
    return buffer.getvalue()


def overlapping(members: Members) -> bytes:
    """Every name stands for one and the same entry, which fills the archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        first, *others = members
        archive.writestr(first, b"x" * 10_000)
        for name in others:
            entry = copy(archive.filelist[0])
            entry.filename = name
            archive.filelist.append(entry)
    return buffer.getvalue()


def with_first(members: Members, content: bytes) -> Members:
    return members | {next(iter(members)): content}


def _npy(header: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


HUGE = _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,), }")
OBJECTS = _npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }") + b"cos\nsystem\n."
OTHER = "arrays.npz isn't what comes of writing down again what it says"
UNREADABLE = "arrays.npz can't be read: "
ARCHIVES: dict[str, tuple[Callable[[Members], bytes], str]] = {
    "nothing": (lambda _: b"", f"{UNREADABLE}BadZipFile"),
    "no array": (lambda _: zipped({}), "full is missing"),
    "an empty file": (lambda m: zipped(with_first(m, b"")), f"{UNREADABLE}ValueError"),
    "a huge array": (lambda m: zipped(with_first(m, HUGE)), UNREADABLE),
    "Python objects": (lambda m: zipped(with_first(m, OBJECTS)), "Object arrays cannot be loaded"),
    "an array more": (lambda m: zipped(m | {"more.npy": b""}), "'more' is unknown"),
    "another order": (lambda m: zipped(dict(reversed(m.items()))), "twice, or in another order"),
    "overlapping": (overlapping, "compressed or overlap"),
    "compressed": (
        lambda m: zipped(m, compress_type=zipfile.ZIP_DEFLATED),
        "compressed or overlap",
    ),
    "a date": (lambda m: zipped(m, date_time=(2026, 1, 1, 0, 0, 0)), OTHER),
    "a comment": (lambda m: zipped(m, b"note"), OTHER),
    "a comment at an entry": (lambda m: zipped(m, comment=b"note"), OTHER),
    "bytes before it": (lambda m: b"note" + zipped(m), OTHER),
    "bytes in an array": (
        lambda m: zipped(with_first(m, next(iter(m.values())) + b"note")),
        OTHER,
    ),
}


@pytest.mark.parametrize(("change", "message"), ARCHIVES.values(), ids=ARCHIVES)
def test_an_archive_is_its_arrays_and_nothing_else(
    change: Callable[[Members], bytes],
    message: str,
    evidence: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All hashes are those of the changed archive."""
    with zipfile.ZipFile(evidence / "arrays.npz") as stored:
        members = {name: stored.read(name) for name in stored.namelist()}
    assert zipped(members) == (evidence / "arrays.npz").read_bytes()
    record, _ = read(evidence)
    archive = change(members)
    record["files"]["arrays.npz"] = described_file(archive)
    (evidence / "arrays.npz").write_bytes(archive)
    seal(evidence, record)
    if "overlap" in message:  # refused before anything is read: else it may take all memory
        monkeypatch.setattr(zipfile.ZipFile, "open", None)
    found = problems(evidence)
    assert message in found
    assert found.count("\n") == (len(members) - 1 if message == "full is missing" else 0)


def test_an_array_that_stands_twice(evidence: Path) -> None:
    with (
        zipfile.ZipFile(evidence / "arrays.npz", "a") as archive,
        pytest.warns(UserWarning, match="Duplicate name"),
    ):
        archive.writestr("full.npy", archive.read("full.npy"))
    assert "an array stands twice" in problems(evidence)


def test_files_too_large_are_not_read(evidence: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "MAX_BYTES", 1000)
    assert "more than 1000" in problems(evidence)
