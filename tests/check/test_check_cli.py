"""``kvproof check`` and ``zoo``: what they print, write and return."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.check.decoders import Plain

import kvproof
from kvproof import cli
from kvproof.cli import main
from kvproof.experiments import scorecard
from kvproof.zoo import SPECIMENS

Captured = pytest.CaptureFixture[str]
ROOT = Path(cli.__file__).parents[2]
HERE = "tests.check.decoders"

made = Plain()


def factory() -> Plain:
    return Plain()


class Holder:
    inner = made


@pytest.mark.parametrize(
    "place",
    [f"{HERE}:Plain", f"{__name__}:made", f"{__name__}:factory", f"{__name__}:Holder.inner"],
)
def test_a_right_decoder_gives_0(place: str, capsys: Captured) -> None:
    assert main(["check", place]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("Plain: right, as far as it was checked\n")
    assert captured.err == "", "no progress where nobody is looking"


def test_a_wrong_decoder_gives_1_and_its_report_as_json(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "report.json"
    arguments = [f"{HERE}:ForgetsAfterReorder", "--json", str(path), "--seed", "3"]
    assert main(["check", *arguments]) == 1
    report = json.loads(path.read_text())
    assert (report["ok"], report["findings"][0]["kind"]) == (False, "ROW-PERM")
    assert "ROW-PERM: the sequences in the cache" in capsys.readouterr().out
    chinese = ["--language", "zh-hans", "--json", str(tmp_path / "zh.json")]
    assert main(["check", f"{HERE}:ForgetsAfterReorder", *chinese]) == 1
    meaning = json.loads((tmp_path / "zh.json").read_text("utf-8"))["meanings"]["ROW-PERM"]
    assert f"ROW-PERM：{meaning}" in capsys.readouterr().out


def test_seed_and_budget_are_the_checkers(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []

    def noted(decoder: object, seed: int, budget_s: float, progress: object) -> kvproof.Report:
        given.extend((type(decoder), seed, budget_s, progress))
        return kvproof.check(decoder)

    monkeypatch.setattr(cli, "check", noted)
    assert main(["check", f"{HERE}:Plain", "--seed", "7", "--budget", "99.5"]) == 0
    assert given == [Plain, 7, 99.5, None]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nothing", "nothing: needs MODULE:OBJECT, such as my_model:Decoder"),
        (":Plain", ":Plain: needs MODULE:OBJECT"),
        ("no_such_module:Decoder", "importing no_such_module raised ModuleNotFoundError: No"),
        (f"{HERE}:Nobody", f"{HERE}:Nobody: there is no Nobody"),
        (f"{HERE}:CONFIG", f"{HERE}:CONFIG: it has no method full()"),
        ("leaves:decoder", "importing leaves raised SystemExit: 3"),
        ("broken:decoder", "importing broken raised SyntaxError: "),
        ("odd:Raises", "odd:Raises() raised RuntimeError: no weights"),
        ("odd:NoStep", "odd:NoStep: it has no method step()"),
        ("odd:NoSize", "odd:NoSize: it has no vocab_size"),
        ("odd:Negative", "odd:Negative: max_length must be a positive integer, got -1"),
        (f"{HERE}:Plain --budget -1", "budget_s must be more than 0 seconds, got -1.0"),
        (f"{HERE}:Hangs --budget 1e-9", "no mistake so far, but 1e-09 s weren't enough"),
        ("odd:Wobbles", "in doubt: all that was found may be rounding"),
    ],
)
def test_what_cannot_be_checked_gives_2_and_a_sentence(
    place: str, message: str, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(3)\n")
    (tmp_path / "broken.py").write_text("def decoder(:\n")
    (tmp_path / "odd.py").write_text(ODD)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["check", *place.split()]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"kvproof: error: {message}")
    assert error.count("\n") == 1


ODD = """
from tests.check.decoders import Plain

class Wobbles(Plain):
    def full(self, tokens):
        return super().full(tokens).astype("float32")

    def step(self, tokens, cache):
        logits, cache = super().step(tokens, cache)
        return (1.001 * logits).astype("float32"), cache

class Raises:
    def __init__(self):
        raise RuntimeError("no weights\\nat all")

class NoStep:
    full = vocab_size = max_length = print

class NoSize:
    full = step = print

class Negative(NoSize):
    vocab_size, max_length = 5, -1
"""


def test_progress_is_told_on_a_terminal() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "kvproof", "check", f"{HERE}:ForgetsAfterReorder"]
    paths = os.pathsep.join([str(ROOT / "py"), str(ROOT)])
    ran = subprocess.run(
        command, stdout=-1, stderr=theirs, env=os.environ | {"PYTHONPATH": paths}, check=False
    )
    os.close(theirs)
    told = os.read(ours, 10_000).decode().splitlines()
    os.close(ours)
    assert ran.returncode == 1
    assert told[:2] == ["kvproof: full itself", "kvproof: one sequence in every chunking"]
    assert re.fullmatch(r"kvproof: wrong in \d+ of \d+ cases: looking for .*", told[-1])
    assert b"kvproof: full itself" not in ran.stdout


# ------------------------------------------------------------------ zoo


@pytest.fixture
def small_zoo(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names = ["mask-topleft", "mask-value-bool"]
    monkeypatch.setattr(scorecard, "SPECIMENS", {name: SPECIMENS[name] for name in names})
    return names


def test_the_zoo_says_of_each_specimen_what_the_checker_does(
    small_zoo: list[str], tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / "zoo.json"
    assert main(["zoo", "--seeds", "2", "--json", str(path)]) == 0
    head, first, second, empty, *below = capsys.readouterr().out.splitlines()
    assert head.startswith("checker  specimen ")
    assert first.startswith("first    mask-topleft ")
    assert second.split()[1] == "mask-value-bool"
    assert empty == ""
    data = json.loads(path.read_text())
    assert [row["facts"]["name"] for row in data["rows"]] == small_zoo
    assert [one["seed"] for one in data["rows"][0]["scores"]] == [0, 1]
    [said] = [line for line in below if line.startswith("the checker: ")]
    share = data["checker"]["detected"]
    assert said.startswith(f"the checker: found {share:.1%}, named first ")
    assert said.endswith(" of 4")
    assert below[0].startswith("2 specimens, float64, median error over 2 seeds")


def test_a_specimen_that_is_missed_is_told(
    small_zoo: list[str], capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Plain()
    monkeypatch.setattr(scorecard, "check", lambda decoder, *more: kvproof.check(right))
    assert main(["zoo", "--seeds", "1"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("\nmissed   ") == 2
    assert "found 0.0%, named first 0.0%, among the first three 0.0% of 2" in printed


def test_a_zoo_without_seeds_is_refused(capsys: Captured) -> None:
    assert main(["zoo", "--seeds", "0"]) == 2
    assert capsys.readouterr().err == "kvproof: error: zoo needs at least 1 seed, got 0\n"


def test_places_and_shares() -> None:
    def one(*named: str) -> scorecard.Score:
        return scorecard.Score("any", "ALIAS", 0, named, 0.1)

    scores = [one("ALIAS"), one("A", "B", "ALIAS"), one("A", "B", "C", "ALIAS"), one("A"), one()]
    assert [s.verdict for s in scores] == ["first", "third", "later", "other", "missed"]
    assert str(scorecard.totals(scores)) == (
        "found 80.0%, named first 20.0%, among the first three 40.0% of 5"
    )
    with pytest.raises(ValueError, match="no scores"):
        scorecard.totals([])


@pytest.mark.parametrize("budget", ["inf", "1e30", "nan"])
def test_a_budget_without_end_is_refused(budget: str, capsys: Captured) -> None:
    assert main(["check", f"{HERE}:Plain", "--budget", budget]) == 2
    assert "needs seconds, a finite number of them" in capsys.readouterr().err


def test_a_module_that_raises_when_it_is_asked_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    class Moody(ModuleType):
        def __getattr__(self, name: str) -> object:
            raise RuntimeError("not today")

    monkeypatch.setitem(sys.modules, "moody", Moody("moody"))
    assert main(["check", "moody:decoder"]) == 2
    assert "looking for decoder in moody:decoder raised RuntimeError" in capsys.readouterr().err


def test_without_an_output_there_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["costs", "--prefix", "4", "--steps", "4"]) == 0
