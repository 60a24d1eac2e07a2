"""What the checker says: catalogues that are complete, names that are no texts, three languages."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from tests.check.decoders import ForgetsAfterReorder, Plain

from kvproof.checking import Alternative, check, messages
from kvproof.checking.messages import LANGUAGES, Catalogue, Message, catalogue, places
from kvproof.checking.names import CaseId, Check, Stage
from kvproof.checking.report import LANGUAGE, MIME_TYPE
from kvproof.checking.verdict import Facts
from kvproof.kinds import Kind
from kvsite.checker_texts import HANT, traditional_texts

CHECKING = Path(messages.__file__).parent
ENGLISH, *OTHERS = (catalogue(language) for language in LANGUAGES)

# --- Catalogues ---------------------------------------------------------------------------------


@pytest.mark.parametrize("other", OTHERS, ids=LANGUAGES[1:])
def test_all_catalogues_have_the_same_messages_with_the_same_places(other: Catalogue) -> None:
    assert other.keys() == ENGLISH.keys()
    differing = [name for name, text in ENGLISH.items() if places(text) != places(other[name])]
    assert differing == []
    assert all(other.values())


def test_the_traditional_catalogue_is_in_step_with_the_simplified_one() -> None:
    told = "PYTHONPATH=py .venv/bin/python -m kvsite.checker_texts"
    assert HANT.read_text("utf-8") == traditional_texts(), f"write it anew: {told}"


def calls_of_message() -> list[ast.Call]:
    trees = [ast.parse(path.read_text("utf-8")) for path in CHECKING.glob("*.py")]
    calls = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [call for call in calls if getattr(call.func, "id", "") == "Message"]


def test_each_message_that_is_made_exists_and_gets_its_places() -> None:
    """Those that are written out; all others are looked up when they are made."""
    n_seen = 0
    for call in calls_of_message():
        if isinstance(name := call.args[0], ast.Constant):
            n_seen += 1
            text = ENGLISH[str(name.value)]
            if all(keyword.arg for keyword in call.keywords):
                given = {keyword.arg for keyword in call.keywords}
                assert given == places(text), ast.unparse(call)
    assert n_seen > 100


def test_each_message_is_used() -> None:
    """As a whole ID in the code, or by one that is put together, such as ``f"op.{action}"``."""
    used: set[str] = set()
    patterns: set[str] = set()
    for path in CHECKING.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                used.add(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = [getattr(part, "value", None) for part in node.values]
                if isinstance(parts[0], str) and re.match(r"[a-z-]+\.", parts[0]):
                    known = (re.escape(p) if isinstance(p, str) else "[^.]+" for p in parts)
                    patterns.add("".join(known))
    named = {"kind": Kind, "stage": Stage}
    for group, names in named.items():
        patterns.discard(rf"{group}\.[^.]+")
        used |= {f"{group}.{name}" for name in names}
    used |= {f"case.{part}" for name in CaseId for part in name.split(".")}
    patterns.discard(r"case\.[^.]+")
    left = {
        name for name in ENGLISH.keys() - used if not any(re.fullmatch(p, name) for p in patterns)
    }
    of_variables = {f"feeding.leak{filled}-less" for filled in ("", "-filled")}
    assert left == of_variables


# --- Names --------------------------------------------------------------------------------------


@pytest.mark.parametrize("args", [{}, {"slot": 1, "other": 2}, {"at": 1}])
def test_a_message_gets_its_places(args: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"message 'stored\.zeros' needs \(slot\), got"):
        Message("stored.zeros", **args)


def test_what_is_unknown_raises() -> None:
    with pytest.raises(ValueError, match=r"no message 'stored\.ones'"):
        Message("stored.ones")
    with pytest.raises(ValueError, match="no language 'de': choose one of en, zh-hans, zh-hant"):
        Message("report.wrong").text("de")
    for names in (Kind, Check, Stage, CaseId):
        with pytest.raises(ValueError, match="is not a valid"):
            names("MASK-TOPRIGHT")


def test_a_case_is_right_wrong_or_was_not_run() -> None:
    class Off:
        def __init__(self, wrong: bool) -> None:
            self.off = wrong

        def wrong(self, tolerance: float) -> bool:
            return self.off

    class Probes:
        tolerance = 0.0

    results: Any = {CaseId.ONE_CALL: Off(False), CaseId.PAIRS: Off(True)}
    anything: Any = Probes()
    facts = Facts(anything, results, anything, anything, 0.0)
    answers = [facts.is_right(name) for name in (CaseId.ONE_CALL, CaseId.PAIRS, CaseId.RAGGED)]
    assert answers == [True, False, None]
    assert [facts.is_wrong(name) for name in (CaseId.ONE_CALL, CaseId.RAGGED)] == [False, False]
    unknown: Any = "one by two"
    with pytest.raises(KeyError, match="no case 'one by two'"):
        facts.is_right(unknown)


# --- Languages ----------------------------------------------------------------------------------


def test_numbers_and_lists_are_written_in_one_way() -> None:
    words = Catalogue({"comma": ", ", "semicolon": "; "})
    assert words.written([1, 2]) == "1, 2"
    assert words.written(["a", "b, c"]) == "a; b, c"
    assert words.written(1.23456e-07) == "1.23e-07"
    assert words.written(float("inf")) == "inf"
    message = Message("fails.cases", cases=[Message("case.one-call"), Message("case.pairs")])
    assert str(message) == "fails: one call, pairs"
    assert message.text("zh-hans") == "失败：一次输入、两个两个输入"


def test_alternatives_are_printed_with_their_reasons() -> None:
    why = Message("stored.zeros", slot=2)
    assert str(Alternative(Kind.ALIAS, 0.25, why)) == f"ALIAS (0.25): {why}"
    assert str(Alternative(Kind.ALIAS, 0.25)) == "ALIAS (0.25)"


@pytest.mark.parametrize(("language", "said"), [("zh-hans", "重排"), ("zh-hant", "快取")])
def test_a_report_is_written_in_other_languages(
    language: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = check(ForgetsAfterReorder())
    assert said in report.text(language)
    assert report.text() == str(report)
    data = report.to_dict(language)
    assert data["notes"] == [{**vars(note), "text": note.text(language)} for note in report.notes]
    assert data["findings"][0]["evidence"][0]["text"] in report.text(language)
    monkeypatch.setenv(LANGUAGE, language)
    bundle = report._repr_mimebundle_()
    assert bundle == {"text/plain": report.text(language), MIME_TYPE: data}
    monkeypatch.setenv(LANGUAGE, "tlh")
    assert report._repr_mimebundle_()["text/plain"] == report.text()


def test_what_an_exception_says_stays_as_it_is() -> None:
    class Broken(Plain):
        def step(self, tokens: Any, cache: Any) -> Any:
            raise IndexError("index 7 is out of bounds")

    text = check(Broken()).text("zh-hans")
    assert "step 抛出 IndexError：index 7 is out of bounds" in text
