"""The command line: help, bad arguments, exit codes, and the door build.py."""

import ast
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvsite import check, cli
from kvsite.paths import PY, ROOT, venv_python
from kvsite.stages import Failure


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """`main` handles SIGTERM; put back what was there."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def action(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """The verb `bench` needs no set-up and raises what the test puts in."""
    raised: list[BaseException] = []

    def act(args: object) -> int:
        if raised:
            raise raised[0]
        return 7

    monkeypatch.setitem(cli.VERBS, "bench", cli.Verb(act, "", group=None))
    return raised


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_explains_itself(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([verb, "--help"])
    assert ended.value.code == 0
    assert " ".join(capsys.readouterr().out.split()).find(cli.VERBS[verb].help) > 0


NO_PATHS = ["中", "a b", "../x", "a//b", "a?b", "a\nSet-Cookie: x"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "required: VERB"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        *((["serve", "--port", port], f"'{port}' is not a port") for port in ("70000", "http")),
        (["kernels", "--right", "-1"], "'-1' is not a number of seeds"),
        (["kernels", "--right", "1", "--", "-x"], "kernels --right 1 takes no arguments after"),
        *((["serve", f"--prefix={text}"], "is not a path of letters") for text in NO_PATHS),
        (["build", "--", "-x"], "build takes no arguments after `--`, got: -x"),
        (["serve", "stray"], "unrecognized arguments: stray"),
    ],
)
def test_bad_arguments(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli._parse(argv)  # not `main`, which would go on to set things up
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("text", ["sub/path", "/sub/path", "/sub/path/", "sub/path/"])
def test_prefix_is_brought_into_form(text: str) -> None:
    assert cli._parse(["serve", "--prefix", text]).prefix == "/sub/path/"
    assert cli._parse(["serve"]).prefix == "/"


def test_exit_codes(action: list[BaseException], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench"]) == 7
    action[:] = [Failure("The cable is unplugged.")]
    assert cli.main(["bench"]) == 1
    assert capsys.readouterr().err == "\nbuild.py bench failed: The cable is unplugged.\n"
    action[:] = [KeyboardInterrupt()]
    assert cli.main(["bench"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_programming_errors_are_not_hidden(action: list[BaseException]) -> None:
    action[:] = [ZeroDivisionError()]
    with pytest.raises(ZeroDivisionError):
        cli.main(["bench"])


def test_work_goes_on_in_the_venv_with_one_hop(monkeypatch: pytest.MonkeyPatch) -> None:
    hops: list[list[str]] = []

    def hop(argv: list[str]) -> int:
        hops.append(argv)
        monkeypatch.setattr(sys, "executable", str(venv_python()))  # as the new process has it
        return cli.main(argv)

    monkeypatch.setattr(cli, "set_up_python", lambda group: None)
    monkeypatch.setattr(cli, "set_up_node", lambda: None)
    monkeypatch.setattr(cli, "_continue_in_venv", hop)
    monkeypatch.setitem(cli.VERBS, "bench", cli.Verb(lambda args: 7, ""))
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    assert cli.main(["bench"]) == 7
    assert hops == [["bench"]]


def test_arguments_behind_the_dashes_go_to_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[list[str]] = []
    monkeypatch.setattr(cli, "build", None)  # isn't called: tests ask for what they need

    def no_tests_collected(argv: list[str]) -> int:
        passed.append(argv)
        return 5

    monkeypatch.setattr("pytest.main", no_tests_collected)
    assert cli.test(cli._parse(["test", "--", "-k", "name"])) == 5
    assert cli.test(cli._parse(["test", "--core", "--", "-x"])) == 5
    both = [*cli.PARALLEL, "-m", "not (slow or site or node)", *cli.CORE, "-x"]
    assert passed == [[*cli.PARALLEL, "-k", "name"], both]


def test_clean_removes_what_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("VENV", "NODE_MODULES", "BUILD", "DIST"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "file").write_bytes(b"x" * 1_500_000)
        monkeypatch.setattr(cli, name, folder)
    (tmp_path / "cache").mkdir()
    assert cli.main(["clean"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
    assert capsys.readouterr().out.count("1.5 MB") == 4
    assert cli.main(["clean", "--cache"]) == 0
    assert list(tmp_path.iterdir()) == []


def test_all_checkers_run_even_if_one_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    python = sys.executable
    monkeypatch.setattr(
        check,
        "commands",
        lambda: {
            "strict": [python, "-c", "raise SystemExit('line 3 is wrong')"],
            "mild": [python, "-c", "print('noise')"],
        },
    )
    assert check.main() == 1
    shown = capsys.readouterr().out
    assert "FAILED strict" in shown
    assert "line 3 is wrong" in shown
    assert "ok     mild" in shown
    assert "noise" not in shown
    assert shown.endswith("check failed: strict\n")


def test_command_line_starts_without_any_package() -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(PY)!r}); import kvsite.cli, kvsite.fetch;"
        "print({name.split('.')[0] for name in sys.modules} - set(sys.stdlib_module_names))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True
    )
    assert ast.literal_eval(done.stdout) == {"kvsite", "__main__"} - set(sys.stdlib_module_names)


def test_old_python_is_told_so() -> None:
    source = (ROOT / "build.py").read_text()
    ast.parse(source, feature_version=(3, 4))
    script = "import sys; sys.version_info = (3, 8, 10); exec(sys.stdin.read())"
    done = subprocess.run(
        [sys.executable, "-c", script], input=source, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.startswith("kvproof needs Python 3.11 or newer, but ")
    assert "is Python 3.8." in done.stderr
    assert "Traceback" not in done.stderr
