"""The page "Is mine right?": its listings do what it says, its figures are a fresh check's."""

import ast
import html
import json
import re
import subprocess
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from tests.check.tiny_models import VOCABULARY, model

import kvproof
from kvproof import REFERENCE
from kvproof.adapters import OPTIONAL
from kvproof.checking.rounding import UNITS
from kvsite import checker_page, report
from kvsite.checker_page import LISTINGS, MISTAKES, Reference, tried
from kvsite.environment import node_tool
from kvsite.formats import number
from kvsite.languages import ENGLISH, LANGUAGES, PAGES, words_of
from kvsite.pages import kept_checks
from kvsite.paths import DIST
from kvsite.report import Shown, drawn_reports
from kvsite.stages import Failure

TWELVE = (LISTINGS / "twelve_lines.py").read_text("utf-8")


@cache
def built(folder: str = "en") -> str:
    return (DIST / folder / "check.html").read_text("utf-8")


def text_of(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", " ", markup))


# --- The twelve lines -----------------------------------------------------------------------------


def test_the_test_has_twelve_lines_and_needs_numpy_only() -> None:
    assert len(TWELVE.splitlines()) == 12
    assert re.findall(r"import .*", TWELVE) == ["import numpy as np"]
    assert f"<= {UNITS['float32']} * floor" in TWELVE, "as the checker has it"


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("mistake", MISTAKES)
def test_it_passes_the_right_decoder_and_fails_the_three_mistakes(mistake: str, seed: int) -> None:
    decoder = Reference(**MISTAKES[mistake])
    decoder.params = kvproof.init_params(REFERENCE, seed)
    assert tried(decoder.full, decoder.step).passed == (mistake == "none")


def test_it_takes_tensors_and_no_nan() -> None:
    decoder = Reference()

    def full(tokens: Any) -> Any:
        return torch.as_tensor(decoder.full(np.asarray(tokens))).requires_grad_()

    def step(tokens: Any, cache: Any) -> Any:
        logits, cache = decoder.step(np.asarray(tokens), cache)
        return torch.as_tensor(logits), cache

    in_torch = TWELVE.replace("np.array([[3, 1, 4]])  # PyTorch: ", "")
    assert "tokens = torch.tensor([[3, 1, 4]])" in in_torch
    names: dict[str, Any] = {"full": full, "step": step, "torch": torch}
    exec(in_torch, names)
    names["test_cache"]()
    names["full"] = lambda tokens: full(tokens) * torch.nan
    with pytest.raises(AssertionError, match="off by nan"):
        names["test_cache"]()


@pytest.mark.parametrize(
    ("sizes", "hidden"), [([3], ["top-left", "restarted"]), ([1, 1, 1], ["open"]), ([1, 2], [])]
)
def test_a_smaller_test_hides_what_the_page_says(sizes: list[int], hidden: list[str]) -> None:
    """The whole text at once, one token at a time, and what the twelve lines do."""
    tokens = np.array([[3, 1, 4]])
    unseen = []
    for name, mistake in MISTAKES.items():
        decoder, cache, logits = Reference("float64", **mistake), None, []
        for chunk in np.split(tokens, np.cumsum(sizes)[:-1], axis=1):
            new, cache = decoder.step(chunk, cache)
            logits.append(new)
        if np.abs(np.concatenate(logits, axis=1) - decoder.full(tokens)).max() < 1e-9:
            unseen.append(name)
    assert unseen == ["none", *hidden]


@pytest.mark.parametrize("language", LANGUAGES[1:], ids=lambda language: language.folder)
def test_listings_are_the_same_code_with_comments_in_chinese(language: Any) -> None:
    for name, shown in checker_page.listings(language).items():
        text = html.unescape(re.sub("<[^>]*>", "", shown))
        assert ast.dump(ast.parse(text)) == ast.dump(
            ast.parse((LISTINGS / f"{name}.py").read_text("utf-8"))
        )
        comments = re.findall("# .*", text)
        assert [one for one in comments if not re.search("[\u4e00-\u9fff]|PyTorch", one)] == []
        assert comments


# --- What it says of the checker ------------------------------------------------------------------


def run_listing(name: str, **names: Any) -> kvproof.Report:
    """The report that it prints."""
    shown: list[kvproof.Report] = []
    source = (LISTINGS / f"{name}.py").read_text("utf-8")
    exec(source, {"kvproof": kvproof, "print": shown.append, **names})
    [found] = shown
    return found


def test_the_contract_as_it_stands_gets_a_sentence_and_no_traceback() -> None:
    [finding] = run_listing("contract").findings
    assert str(finding.evidence[0]).startswith("full returned NoneType instead of logits")


class Layer(torch.nn.Module):
    """One attention layer that takes its cache along."""

    def __init__(self, mistake: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.mistake = torch.nn.Embedding(31, 16), mistake

    def forward(self, ids: Any, cache: Any) -> Any:
        new = self.embedding(ids)
        keys = new if cache is None else torch.cat([cache, new], dim=1)
        n_past = 0 if self.mistake else keys.shape[1] - ids.shape[1]
        seen = torch.ones(ids.shape[1], keys.shape[1]).tril(n_past).bool()
        scores = (new @ keys.mT).masked_fill(~seen, -torch.inf)
        return (new + scores.softmax(-1) @ keys) @ self.embedding.weight.T, keys


@pytest.mark.parametrize("mistake", [False, True])
def test_the_listing_for_pytorch(mistake: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = kvproof.adapters.torch_module

    def smaller(module: Any, **told: Any) -> Any:
        return adapter(module, **told | {"vocab_size": 31, "max_length": 64})

    monkeypatch.setattr(kvproof.adapters, "torch_module", smaller)
    found = run_listing("torch_module", model=Layer(mistake))
    assert [finding.kind for finding in found.findings] == ["MASK-TOPLEFT"] * mistake
    assert found.ok != mistake


def test_the_listing_for_transformers() -> None:
    found = run_listing("transformers_model", model=model("LlamaForCausalLM"))
    assert VOCABULARY < 64
    assert found.ok, found


class InTheModule(Reference):
    """The table's advice: a ticket in place of the cache."""

    def __init__(self, refuses: bool) -> None:
        super().__init__()
        self.refuses, self.latest, self.kept = refuses, (0, 0), None

    def step(self, tokens: Any, cache: Any) -> Any:
        request, length = (self.latest[0] + 1, 0) if cache is None else cache
        if cache is not None and self.refuses and cache != self.latest:
            raise NotImplementedError
        logits, self.kept = super().step(tokens, None if cache is None else self.kept)
        self.latest = request, length + tokens.shape[1]
        return logits, self.latest

    keys_values = None  # type: ignore[assignment]

    def reset(self) -> None:
        self.kept = None


def test_a_cache_in_the_module_is_right_with_tickets_and_blamed_without() -> None:
    found = kvproof.check(InTheModule(refuses=True))
    assert found.ok, found
    assert "in turns with the first: step raises" in str(found)
    assert kvproof.check(InTheModule(refuses=False)).findings[0].kind == "ALIAS"


def test_a_decoder_of_single_tokens_is_right_as_far_as_that_goes() -> None:
    class OneToken(Reference):
        def step(self, tokens: Any, cache: Any) -> Any:
            if tokens.shape[1] > 1:
                raise NotImplementedError
            return super().step(tokens, cache)

    found = kvproof.check(OneToken())
    assert found.ok, found
    assert "pairs: step raises NotImplementedError" in str(found)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_table_of_caches_has_all_that_a_decoder_may_have(language: str) -> None:
    source = (PAGES / language / "check.md").read_text("utf-8")
    table = source.split('id="kinds"')[1].split("<h2")[0]
    names = set(re.findall(r"`(\w+)[`( =]", table))
    assert {*OPTIONAL, "full", "step", "gold"} <= names


# --- Figures --------------------------------------------------------------------------------------


def test_a_right_decoder_is_right_in_every_precision_and_a_broken_one_in_none() -> None:
    for line in kept_checks().precisions:
        verdicts = {name: verdict.message.id for name, verdict in line.verdicts.items()}
        assert verdicts.pop("none") == "report.right"
        wanted = {"report.wrong"} if line.name in ("float64", "float32") else set()
        assert set(verdicts.values()) - {"report.in-doubt"} <= {"report.wrong"}
        assert not wanted or set(verdicts.values()) == wanted, line.name


def test_what_is_kept_is_what_a_fresh_check_finds() -> None:
    kept = {line.name: line for line in kept_checks().precisions}
    for name in ("float32", "bfloat16"):
        for mistake, verdict in checker_page.precision(name).verdicts.items():
            assert kept[name].verdicts[mistake].message == verdict.message
            assert kept[name].verdicts[mistake].error == pytest.approx(verdict.error, abs=0.02)
    largest = np.abs(Reference().full(np.arange(12)[None])).max()
    assert kept["float32"].floor == pytest.approx(2.0**-23 * largest, rel=0.5)


# --- The reports before anything has run ----------------------------------------------------------


@pytest.mark.usefixtures("built_site")
@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.folder)
def test_the_report_of_the_cell_is_in_the_page_in_its_words(language: Any) -> None:
    fresh, code = checker_page.check_of_cell(), language.code.lower()
    text = text_of(built(language.folder).split('<div class="prebuilt-output">')[1])
    [finding] = fresh.findings
    assert words_of(language)["check.prebuilt"] in text
    for said in (*finding.evidence, *fresh.checked[:1], *fresh.not_checked):
        assert said.text(code) in text or said.text(code)[1:] in text
    assert number(finding.max_abs_error) in text


def test_a_report_is_drawn_as_text_with_its_parts() -> None:
    class Bad:
        vocab_size, max_length = 5, 5

        def full(self, tokens: Any) -> Any:
            raise ValueError('<img src="x"> & more')

        step = full

    whole = Shown(kvproof.check(Bad()))
    drawn = drawn_reports(ENGLISH, {"whole": whole, "short": whole._replace(in_short=True)})
    assert "<img" not in drawn["whole"]
    assert "&lt;img src=&quot;x&quot;&gt; &amp; more" in drawn["short"]
    assert "<details>" in drawn["whole"]
    assert "<details" not in drawn["short"]
    assert 'class="report-verdict" data-sign="✗"' in drawn["short"]


def test_what_node_says_is_told_if_a_report_cannot_be_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(report, "words_of", lambda _: {})
    with pytest.raises(Failure, match=r"can't be drawn:[\s\S]*no message report\."):
        drawn_reports(ENGLISH, {"one": Shown(kept_checks().on_home)})


def test_the_drawing_reads_nothing_but_its_input() -> None:
    """So that a build anywhere gives the same page."""
    question = {"messages": {}, "lang": "en", "reports": {}}
    command = [node_tool("node"), str(report.SCRIPT)]
    done = subprocess.run(command, input=json.dumps(question), capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("{}", "")
