"""Evidence: what `run` writes, and what `audit` finds when somebody has touched it."""

import ast
import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Callable
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
from kvproof.experiments.record import run
from kvproof.model.config import LAB, DecoderConfig
from kvproof.model.params import init_params, params_to_arrays

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
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    archive = buffer.getvalue()
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
    digest = hashlib.sha256(archive).hexdigest()
    record["files"]["arrays.npz"] = {"bytes": len(archive), "sha256": digest}
    (folder / "arrays.npz").write_bytes(archive)
    seal(folder, json.dumps(record).encode())


def seal(folder: Path, record: bytes) -> None:
    (folder / "record.json").write_bytes(record)
    sums = [
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n"
        for name in ("arrays.npz", "record.json")
    ]
    (folder / "SHA256SUMS").write_text("".join(sums))


# ------------------------------------------------------------------ what run writes


def test_a_right_run_passes_every_check(clean: Path) -> None:
    found = audit(clean)
    assert found.problems == ()
    assert found.passed
    assert len(found.checked) == 8
    assert str(found).endswith("audit passed")


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


def test_parameters_are_those_of_the_seed(clean: Path) -> None:
    _, arrays = read(clean)
    wanted = params_to_arrays(init_params(LAB, 0, "float64"))
    stored = {name.removeprefix("param."): a for name, a in arrays.items() if "param." in name}
    assert stored.keys() == wanted.keys()
    assert all(np.array_equal(stored[name], wanted[name]) for name in wanted)


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


def test_no_time_stamp_is_in_the_archive(clean: Path) -> None:
    with zipfile.ZipFile(clean / "arrays.npz") as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


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


@pytest.mark.parametrize(("name", "step"), [("record.json", 17), ("SHA256SUMS", 1)])
def test_bits_all_over_the_texts_count(name: str, step: int, evidence: Path) -> None:
    content = (evidence / name).read_bytes()
    for at in range(0, len(content), step):
        changed = bytearray(content)
        changed[at] ^= 1 << at % 8
        (evidence / name).write_bytes(changed)
        assert not audit(evidence).passed, at
    (evidence / name).write_bytes(content)
    assert audit(evidence).passed


def test_bits_all_over_the_arrays_count(evidence: Path) -> None:
    path = evidence / "arrays.npz"
    content = path.read_bytes()
    places = [*range(64), *range(64, len(content), 311), *range(len(content) - 64, len(content))]
    for at in places:
        changed = bytearray(content)
        changed[at] ^= 1 << at % 8
        path.write_bytes(changed)
        assert not audit(evidence).passed, at


def test_a_changed_file_is_named(evidence: Path) -> None:
    path = evidence / "arrays.npz"
    path.write_bytes(path.read_bytes() + b"\0")
    assert "arrays.npz isn't the file that SHA256SUMS names" in problems(evidence)


# ------------------------------------------------------------------ files


@pytest.mark.parametrize("name", ["record.json", "SHA256SUMS", "arrays.npz"])
def test_a_missing_file(name: str, evidence: Path) -> None:
    (evidence / name).unlink()
    assert f"missing file: {name}" in problems(evidence)


def test_an_extra_file_or_folder(evidence: Path) -> None:
    (evidence / ".notes").write_text("")
    (evidence / "more").mkdir()
    assert "extra: '.notes'\nextra: 'more'" in problems(evidence)


def test_a_link_is_no_file(evidence: Path) -> None:
    (evidence / "record.json").rename(evidence.parent / "elsewhere.json")
    (evidence / "record.json").symlink_to(evidence.parent / "elsewhere.json")
    assert "missing file: record.json" in problems(evidence)


def test_no_folder_at_all(tmp_path: Path) -> None:
    assert "is not a folder" in problems(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    assert "is not a folder" in problems(tmp_path / "file")


# ------------------------------------------------------------------ forged with right hashes


def edit(record: dict[str, Any], path: str, value: object) -> None:
    *parents, last = path.split(".")
    for key in parents:
        record = record[key]
    record[last] = value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("counts.cached.scores", 601),
        ("counts.prefix.qkv_rows", 1799),
        ("counts.chunked.positions", 25),
        ("counts.cached.kv_bytes", 12_289),
        ("formula.cached.scores", 599),
        ("errors.prefix", 0.0),
        ("bound", 1e-3),
        ("passed", False),
        ("passed", 1),
        ("n_tokens", 25),
        ("schema", 2),
        ("config.width", 32),
        ("config.n_heads", True),
        ("arrays.full.shape", [24, 1, 16]),
        ("arrays.full.sha256", "0" * 64),
        ("files.arrays.npz.bytes", 1),
        ("chunks", [5, 3, 8, 8]),
        ("seed", 1),
    ],
)
def test_an_edited_number(path: str, value: object, evidence: Path) -> None:
    record, _ = read(evidence)
    if path.startswith("files."):
        record["files"]["arrays.npz"]["bytes"] = value
    else:
        edit(record, path, value)
    seal(evidence, json.dumps(record).encode())
    found = problems(evidence)
    assert "SHA256SUMS" not in found
    if path not in ("chunks", "seed"):
        assert f"record.{path} says {json.dumps(value)[:77]}" in found


def test_every_number_of_the_record_is_derived_again(evidence: Path) -> None:
    """Each leaf but the environment's, changed by the least: all are seen."""
    record, _ = read(evidence)
    n_leaves = 0

    def nudged(value: Any) -> object:
        if isinstance(value, bool) or value is None:
            return not value
        if isinstance(value, float):
            return float(np.nextafter(value, 1))
        return value + (1 if isinstance(value, int) else "x")

    def nudge(parent: Any, key: Any) -> None:
        nonlocal n_leaves
        value = parent[key]
        if isinstance(value, dict | list):
            for inner in value if isinstance(value, dict) else range(len(value)):
                nudge(value, inner)
            return
        parent[key] = nudged(value)
        seal(evidence, json.dumps(record).encode())
        assert not audit(evidence).passed, (key, value)
        parent[key] = value
        n_leaves += 1

    for key in record.keys() - {"environment"}:
        nudge(record, key)
    assert n_leaves > 120
    seal(evidence, json.dumps(record).encode())
    assert audit(evidence).passed


def test_unknown_missing_and_repeated_keys(evidence: Path) -> None:
    record, _ = read(evidence)
    seal(evidence, json.dumps(record | {"note": "trust me"}).encode())
    assert 'record: "note" is unknown' in problems(evidence)
    del record["counts"]["cached"]["scores"]
    seal(evidence, json.dumps(record).encode())
    assert 'record.counts.cached: "scores" is missing' in problems(evidence)
    seal(evidence, b'{"schema": 1, "schema": 1}')
    assert "a key stands twice" in problems(evidence)
    seal(evidence, b'{"schema": NaN}')
    assert "NaN is no number" in problems(evidence)


@pytest.mark.parametrize("name", ["full", "prefix", "cached", "chunked", "keys", "values"])
def test_arrays_that_agree_with_the_record_but_not_with_the_model(
    name: str, evidence: Path
) -> None:
    record, arrays = read(evidence)
    arrays[name].flat[-1] += 1e-6
    forge(evidence, record, arrays)
    found = problems(evidence)
    assert f"{name} differs by 1.000e-06 from the recomputation" in found
    assert "record." not in found


def test_all_four_ways_wrong_together(evidence: Path) -> None:
    """The record is consistent and its errors are zero; the model would give other numbers."""
    record, arrays = read(evidence)
    for way in ("full", "prefix", "cached", "chunked"):
        arrays[way] = np.zeros_like(arrays[way])
    forge(evidence, record, arrays)
    found = problems(evidence)
    assert found.count("from the recomputation") == 4
    assert "record." not in found


def test_a_top_left_mask_in_the_chunks_is_seen(evidence: Path) -> None:
    from kvproof.model.feeding import example_text, in_chunks
    from kvproof.model.masks import top_left_mask

    record, arrays = read(evidence)
    params = init_params(LAB, 0, "float64")
    wrong, _ = in_chunks(params, example_text(LAB, 24), LAB, [5, 3, 7, 9], mask=top_left_mask)
    arrays["chunked"] = wrong
    forge(evidence, record, arrays)
    assert "chunked differs by" in problems(evidence)


def test_other_parameters_than_the_seeds(evidence: Path) -> None:
    record, arrays = read(evidence)
    name = "param.block0.attention.w_qkv"
    arrays[name].flat[0] = np.nextafter(arrays[name].flat[0], 1)
    forge(evidence, record, arrays)
    assert f"{name} isn't what seed 0 draws" in problems(evidence)


def test_another_text(evidence: Path) -> None:
    record, arrays = read(evidence)
    arrays["tokens"] = arrays["tokens"][:, ::-1].copy()
    forge(evidence, record, arrays)
    assert "the tokens aren't the text that seed 2026 draws" in problems(evidence)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_none(value: float, evidence: Path) -> None:
    record, arrays = read(evidence)
    arrays["values"].flat[3] = value
    forge(evidence, record, arrays)
    assert "values has 1 NaN or infinite" in problems(evidence)


def test_numbers_too_large_to_add(evidence: Path) -> None:
    record, arrays = read(evidence)
    arrays["param.block0.attention.w_qkv"][:] = 1e300
    forge(evidence, record, arrays)
    assert "full differs by nan" in problems(evidence)


def test_arrays_missing_extra_or_of_another_shape(evidence: Path) -> None:
    record, arrays = read(evidence)
    del arrays["keys"]
    arrays["hidden"] = np.zeros(3)
    arrays["full"] = arrays["full"][0]
    arrays["prefix"] = arrays["prefix"].astype(np.float32)
    forge(evidence, record, {name: a for name, a in arrays.items() if name != "cached"})
    found = problems(evidence)
    assert "arrays.npz: keys is missing" in found
    assert "arrays.npz: cached is missing" in found
    assert "arrays.npz: 'hidden' is unknown" in found
    assert "full is float64 (24, 16), wanted float64 (1, 24, 16)" in found
    assert "prefix is float32" in found


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
@settings(max_examples=150, deadline=None, derandomize=True)
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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff", "record.json can't be read"),
        (b"[]", "record.json isn't an object"),
        (b"{}", "model null is unknown"),
        (b"[" * 100_000, "record.json can't be read"),
        (b'{"model": ["lab"]}', 'model ["lab"] is unknown'),
    ],
)
def test_broken_records(content: bytes, message: str, evidence: Path) -> None:
    assert message in "\n".join(_found(evidence, content).problems)


def test_records_nested_to_the_edge_of_recursion(evidence: Path) -> None:
    """Where reading just succeeds and writing for a message just fails."""
    text = (evidence / "record.json").read_text()
    reasons = set()
    for depth in range(880, 1000):
        content = text.replace('"bound": 1e-12', f'"bound": {"[" * depth + "]" * depth}')
        reasons |= set(_found(evidence, content.encode()).problems)
    assert any(reason.startswith("record.bound says [[[") for reason in reasons)


def _zip(*members: tuple[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()


def _npy(header: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


HUGE = _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,), }")
OBJECTS = _npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }") + b"cos\nsystem\n."


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (b"", "arrays.npz can't be read: BadZipFile"),
        (_zip(("full.npy", b"")), "arrays.npz can't be read: ValueError"),
        (_zip(("full.npy", HUGE)), "arrays.npz can't be read: "),
        (_zip(("full.npy", OBJECTS)), "Object arrays cannot be loaded"),
        (_zip(compression=zipfile.ZIP_DEFLATED), "full is missing"),
        (_zip(("a.npy", b"x"), compression=zipfile.ZIP_DEFLATED), "it is compressed"),
    ],
)
def test_broken_archives(archive: bytes, message: str, evidence: Path) -> None:
    record = (evidence / "record.json").read_bytes()
    assert message in "\n".join(_found(evidence, record, archive).problems)


def test_something_hidden_in_the_archive(evidence: Path) -> None:
    record = (evidence / "record.json").read_bytes()
    member = io.BytesIO()
    np.save(member, np.zeros(1))
    twice = ("full.npy", member.getvalue())
    with pytest.warns(UserWarning, match="Duplicate name"):
        archive = _zip(twice, twice)
    assert "full stands twice" in "\n".join(_found(evidence, record, archive).problems)
    archive = _zip(("full.npy", member.getvalue() + b"!"))
    assert "something stands after full" in "\n".join(_found(evidence, record, archive).problems)


def test_files_too_large_are_not_read(evidence: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "MAX_BYTES", 1000)
    assert "more than 1000" in problems(evidence)
