"""Progress lines and child processes."""

import io
import sys
from pathlib import Path

import pytest

from kvsite.stages import Failure, Stage, run, stage


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_output_has_whole_lines_and_no_control_characters() -> None:
    out = io.StringIO()
    Stage("fetch", out).note("done, 2.9 MB")
    assert out.getvalue() == "fetch     done, 2.9 MB  0.0 s\n"


def test_terminal_line_is_rewritten_and_the_last_one_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvsite.stages.TERMINAL_INTERVAL_S", 0.0)
    out = Terminal()
    current = Stage("fetch", out)
    current.show("1 MB")
    current.note("done")
    assert out.getvalue().startswith("\r\x1b[Kfetch     1 MB")
    assert out.getvalue().endswith("\r\x1b[Kfetch     done  0.0 s\n")


def test_fast_reports_are_left_out() -> None:
    out = io.StringIO()
    current = Stage("fetch", out)
    for n_bytes in range(1000):
        current.show(str(n_bytes))
    assert out.getvalue() == ""


def test_failing_stage_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Failure), stage("npm"):
        raise Failure("no network")
    assert capsys.readouterr().err.startswith("npm       stopped")


def test_failing_child_shows_the_end_of_its_output(tmp_path: Path) -> None:
    script = "import sys; print('first'); [print(i) for i in range(50)];"
    script += "print('WARNING: beside the point'); sys.exit('the reason')"
    command = [sys.executable, "-c", script]
    with pytest.raises(Failure, match="ended with code 1") as failure:
        run(Stage("x", io.StringIO()), command, watch=tmp_path, advice="Plug it in.")
    assert str(failure.value).startswith(
        f"`{Path(sys.executable).name}` ended with code 1:\n  | 36\n  | 37\n"
    )
    assert str(failure.value).endswith("  | the reason\nPlug it in.")


def test_folder_that_is_filled_is_weighed_else_only_time_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvsite.stages.PLAIN_INTERVAL_S", 0.0)
    (tmp_path / "file").write_bytes(b"x" * 1_500_000)
    command = [sys.executable, "-c", ""]
    filling, other = io.StringIO(), io.StringIO()
    run(Stage("npm", filling), command, watch=tmp_path)
    run(Stage("lock", other), command)
    assert filling.getvalue().startswith("npm       1.5 MB so far  0.")
    assert other.getvalue().startswith("lock      running  0.")
    assert "MB" not in other.getvalue()
