"""The commands of `kvproof`: what they print, write and return."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvproof import cli
from kvproof.cli import main
from kvproof.experiments.costs import NOT_A_SPEED_UP, Costs, count_costs
from kvproof.experiments.model_shapes import MODEL_SHAPES
from kvproof.model.config import REFERENCE
from kvproof.model.feeding import every_prefix

Captured = pytest.CaptureFixture[str]
PY = Path(cli.__file__).parents[1]


def shell(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kvproof", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=PY, check=False)


# ------------------------------------------------------------------ prove


def test_prove_prints_each_error_and_writes_them_as_json(tmp_path: Path, capsys: Captured) -> None:
    assert main(["prove", "--json", str(tmp_path / "proof.json")]) == 0
    printed = capsys.readouterr().out
    content = json.loads((tmp_path / "proof.json").read_text())
    assert content["passed"] is True
    assert list(content["proofs"]) == ["reference", "lab", "modern"]
    for proof in content["proofs"].values():
        assert len(proof["claims"]) > 60
        for claim in proof["claims"]:
            assert f"{claim['error']:.2e}" in printed
            assert claim["name"] in printed
    assert printed.endswith("proved\n")


def test_prove_a_changed_model_with_a_rolling_cache(capsys: Captured) -> None:
    options = "--model modern --storage rolling --set window=8 --set n_sinks=2 --seed 4"
    assert main(["prove", *options.split()]) == 0
    printed = capsys.readouterr().out
    assert "window=8, n_sinks=2), storage rolling, seed 4" in printed
    assert "reference:" not in printed


def test_a_claim_that_fails_gives_1(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvproof.experiments.proof.ROUNDING_UNITS", 0)
    assert main(["prove", "--model", "lab", "--json", str(tmp_path / "proof.json")]) == 1
    printed = capsys.readouterr().out
    assert "  FAIL  " in printed
    assert printed.endswith("NOT PROVED: see the lines with FAIL\n")
    assert json.loads((tmp_path / "proof.json").read_text())["passed"] is False


def test_a_mistake_that_cannot_be_seen_gives_2(capsys: Captured) -> None:
    assert main(["prove", "--model", "modern", "--set", "window=1"]) == 2
    printed = capsys.readouterr().out
    assert "FAIL" not in printed
    assert "some mistakes can't be seen here" in printed.splitlines()[-1]


# ------------------------------------------------------------------ run, audit


def test_run_then_audit(tmp_path: Path, capsys: Captured) -> None:
    folder = tmp_path / "evidence"
    assert main(["run", "--out", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "Q/K/V input rows 1,800, score elements 9,800" in printed
    assert "Q/K/V input rows 144, score elements 600, K/V bytes 12,288" in printed
    assert printed.endswith("passed\n")
    assert main(["audit", str(folder)]) == 0
    assert capsys.readouterr().out.endswith("audit passed\n")
    (folder / "record.json").write_text("{}")
    assert main(["audit", str(folder)]) == 1
    assert "WRONG record.json isn't the file that SHA256SUMS names" in capsys.readouterr().out


def test_run_with_all_its_options(tmp_path: Path, capsys: Captured) -> None:
    options = ["--model", "reference", "--dtype", "float32", "--seed", "7", "--chunks", "2", "3"]
    assert main(["run", "--out", str(tmp_path / "evidence"), *options]) == 0
    assert "5 tokens, reference, float32" in capsys.readouterr().out
    record = json.loads((tmp_path / "evidence" / "record.json").read_text())
    assert (record["seed"], record["chunks"]) == (7, [2, 3])
    assert main(["audit", str(tmp_path / "evidence")]) == 0


def test_a_run_beyond_its_bound_gives_1_and_no_audit_passes_it(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "kvproof.experiments.record.every_prefix", lambda *a: every_prefix(*a) + 1e-9
    )
    assert main(["run", "--out", str(tmp_path)]) == 1
    assert capsys.readouterr().out.endswith("FAILED\n")
    assert main(["audit", str(tmp_path)]) == 1


# ------------------------------------------------------------------ costs


def test_costs_of_the_reference_by_formula_and_counted(capsys: Captured) -> None:
    assert main(["costs", "--prefix", "256", "--steps", "16"]) == 0
    printed = capsys.readouterr().out
    assert "4,232" in printed
    assert "278,528" in printed
    assert NOT_A_SPEED_UP in printed
    assert "By formula, and counted while the decoders ran: equal." in printed


def test_costs_that_differ_from_the_counted_ones_give_1(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_too_many(config: object, prefix: int, steps: int, *more: object) -> Costs:
        return count_costs(REFERENCE, prefix + 1, steps)

    monkeypatch.setattr(cli, "measure_costs", one_too_many)
    assert main(["costs", "--prefix", "5", "--steps", "2"]) == 1
    assert "COUNTED while the decoders ran, not equal" in capsys.readouterr().out


def test_costs_of_a_changed_model(capsys: Captured) -> None:
    options = ["--batch", "2", "--dtype", "float64", "--set", "window=4", "--set", "n_kv_heads=1"]
    assert main(["costs", "--prefix", "8", "--steps", "2", *options]) == 0
    printed = capsys.readouterr().out
    assert f"{2 * 2 * 4 * 2 * 1 * 16 * 8:,}" in printed.split("rolling")[1]
    assert "equal." in printed


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--model", "llama-3-8b"], "35,651,584"),  # 272 tokens of 131,072 bytes
        (["--model", "deepseek-v3"], "latent"),
        (["--model", "mistral-7b", "--set", "window=64"], "changed by --set"),
        (["--dtype", "int8"], "By formula alone"),
    ],
)
def test_costs_by_formula_alone(options: list[str], said: str, capsys: Captured) -> None:
    assert main(["costs", "--prefix", "256", "--steps", "16", *options]) == 0
    assert said in capsys.readouterr().out


def test_the_list_names_every_model_and_its_source(capsys: Captured) -> None:
    assert main(["costs", "--list"]) == 0
    printed = capsys.readouterr().out
    for name, shape in MODEL_SHAPES.items():
        [line] = [line for line in printed.splitlines() if line.startswith(f"{name} ")]
        assert line.endswith(shape.repository)


# ------------------------------------------------------------------ bad usage


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("costs --prefix 1", "costs needs --prefix and --steps"),
        ("costs --prefix -1 --steps 1", "prefix must be at least 0, got -1"),
        ("costs --prefix 1 --steps 1 --model gpt5", "unknown model 'gpt5': choose one of"),
        ("costs --prefix 1 --steps 1 --set colour=red", "--set colour=red: FIELD=VALUE"),
        ("costs --prefix 1 --steps 1 --set window", "--set window: FIELD=VALUE"),
        ("costs --prefix 1 --steps 1 --set window=big", "needs a whole number or none"),
        ("costs --prefix 1 --steps 1 --set width=none", "needs a whole number"),
        ("costs --prefix 1 --steps 1 --model gpt2 --set fields=x", "FIELD=VALUE with one of"),
        ("prove --model gpt2", "unknown model 'gpt2'"),
        ("prove --model lab --storage rolling", "window"),
        ("audit nowhere", "nowhere is no folder: name one that `kvproof run` wrote"),
    ],
)
def test_bad_values_give_2_and_one_line(
    arguments: str, message: str, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments.split()) == 2
    error = capsys.readouterr().err
    assert error.startswith("kvproof: error: ")
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "required: COMMAND"),
        ("fly", "invalid choice: 'fly'"),
        ("run", "required: --out"),
        ("audit", "required: DIR"),
        ("prove --storage int8", "argument --storage: invalid choice"),
        ("costs --prefix many", "argument --prefix: invalid int"),
        ("prove --seed -1", "argument --seed: needs a whole number, at least 0, got -1"),
        ("run --out x --seed 1.5", "argument --seed: needs a whole number, at least 0, got 1.5"),
        ("check decoders:Right --seed -1", "argument --seed: needs a whole number"),
        (
            "prove --json /dev/null/x",
            "argument --json: can't write /dev/null/x: there is no folder",
        ),
        ("zoo --json .", "argument --json: can't write .: . is a folder"),
        ("check decoders:Right --json no/x", "can't write no/x: there is no folder no"),
    ],
)
def test_bad_usage_gives_2_before_any_work(
    arguments: str, message: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in ("prove", "run", "check"):
        monkeypatch.setattr(cli, command, None)
    with pytest.raises(SystemExit) as exit_info:
        main(arguments.split())
    assert exit_info.value.code == 2
    error = capsys.readouterr().err
    assert "usage: kvproof" in error
    assert message in error


def test_ctrl_c_ends_a_command_in_one_line(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "prove", interrupted)
    monkeypatch.setattr("kvproof.experiments.scorecard.rows", interrupted)
    for command in ("prove", "zoo"):
        assert main([command]) == 130
        assert capsys.readouterr().err == "kvproof: stopped\n"


def test_a_full_disk_is_named_and_leaves_no_part(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Path.write_bytes

    def full_at_the_record(path: Path, content: bytes) -> int:
        if path.name != "record.json":
            return write(path, content)
        write(path, content[:100])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full_at_the_record)
        assert main(["run", "--out", str(tmp_path)]) == 2
    assert f"{tmp_path / 'record.json'}: No space left" in capsys.readouterr().err
    assert main(["run", "--out", str(tmp_path)]) == 0


def test_too_little_memory_is_said(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*arguments: object) -> Costs:
        raise MemoryError("Unable to allocate 3 TiB")

    monkeypatch.setattr(cli, "measure_costs", none_left)
    assert main(["costs", "--prefix", "1", "--steps", "1"]) == 2
    assert "too large for this machine: Unable to allocate 3 TiB" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["", "prove", "run", "audit", "costs", "check", "zoo"])
def test_help_says_what_the_exit_codes_mean(command: str, capsys: Captured) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main([*command.split(), "--help"])
    assert exit_info.value.code == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert cli.EXIT_CODES in printed


# ------------------------------------------------------------------ as a process


def test_the_module_runs_and_its_exit_code_counts(tmp_path: Path) -> None:
    ran = shell("run", "--out", str(tmp_path / "evidence"))
    assert (ran.returncode, ran.stderr) == (0, "")
    (tmp_path / "evidence" / "arrays.npz").unlink()
    audited = shell("audit", str(tmp_path / "evidence"))
    assert audited.returncode == 1
    assert "missing file: arrays.npz" in audited.stdout
    wrong = shell("costs", "--prefix", "0", "--steps", "0")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == "kvproof: error: steps must be at least 1, got 0\n"


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    command = [sys.executable, "-m", "kvproof", "costs", "--list"]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True, cwd=PY) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1
