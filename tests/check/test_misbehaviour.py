"""Decoders that refuse, raise late, or give odd things: a sentence each, never a traceback."""

import time
import warnings
from typing import Any

import numpy as np
import pytest
from tests.check.decoders import CropsAtMost, CropsBeyond, Miscounts, NeverEmpties, Plain
from tests.check.said import evidence, ids, run_snippet

from kvproof import check
from kvproof.checking import battery
from kvproof.checking.messages import Message
from kvproof.checking.names import CaseId
from kvproof.checking.subject import MEMORY, Subject


class Cropped(Plain):
    def crop(self, cache: Any, length: int) -> Any:
        return cache.crop(length)


def unsupported(case: CaseId) -> Message:
    return Message("not-checked.unsupported", case=case.message, member="step")


# --- NotImplementedError, wherever it comes -----------------------------------------------------


def test_a_decoder_of_one_row_is_not_condemned() -> None:
    class OneRow(Plain):
        def full(self, tokens: Any) -> Any:
            if len(tokens) > 1:
                raise NotImplementedError
            return super().full(tokens)

        def step(self, tokens: Any, cache: Any) -> Any:
            if len(tokens) > 1:
                raise NotImplementedError
            return super().step(tokens, cache)

    report = check(OneRow())
    assert report.ok, str(report)
    assert Message("checked.full") in report.checked
    assert unsupported(CaseId.ROWS_ONE_BY_ONE) in report.not_checked


@pytest.mark.parametrize("members", [{}, {"quantized": True}, {"keys_values": lambda c: []}])
def test_a_step_that_takes_no_short_first_chunk_is_not_condemned(members: dict[str, Any]) -> None:
    class LongPrompts(Cropped):
        def step(self, tokens: Any, cache: Any) -> Any:
            if cache is None and tokens.shape[1] < 4:
                raise NotImplementedError
            return super().step(tokens, cache)

    decoder = LongPrompts()
    for name, value in members.items():
        setattr(decoder, name, value)
    report = check(decoder)
    assert report.ok, str(report)
    assert unsupported(CaseId.ONE_BY_ONE) in report.not_checked
    assert Message("not-checked.crop-beyond", member="step") in report.not_checked


@pytest.mark.parametrize("member", ["crop", "window", "keys_values", "reset", "noise"])
def test_a_property_that_is_not_implemented_is_as_if_absent(member: str) -> None:
    def absent(decoder: Plain) -> None:
        raise NotImplementedError

    assert check(type("Odd", (Plain,), {member: property(absent)})()).ok


def test_a_reset_that_is_not_implemented_is_as_if_absent() -> None:
    class NoReset(Plain):
        def reset(self) -> None:
            raise NotImplementedError

    report = check(NoReset())
    assert report.ok
    assert Message("unlocks.reset") in report.not_checked


def test_a_question_that_is_not_supported_loses_no_finding() -> None:
    class Half(Plain):
        """Wrong with two tokens at a time, and after nothing it takes three at least."""

        def step(self, tokens: Any, cache: Any) -> Any:
            if cache is None and tokens.shape[1] in (1, 2, 5):
                raise NotImplementedError
            logits, longer = super().step(tokens, cache)
            return logits + (tokens.shape[1] == 2), longer

    [finding] = check(Half()).findings
    assert finding.max_abs_error == pytest.approx(1.0)
    assert finding.case is not None


# --- What isn't as it should be -----------------------------------------------------------------


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Shapeless:
    @property
    def shape(self) -> Any:
        raise RuntimeError("no shape")

    def __repr__(self) -> str:
        raise RuntimeError("no words")


def raises(error: BaseException) -> Any:
    def call(*_: Any) -> Any:
        raise error

    return call


NAN, ENDLESS = float("nan"), float("inf")
ODD_MEMBERS = [
    ("full", None, "it has no method full()"),
    ("vocab_size", None, "it has no vocab_size"),
    ("max_length", None, "it has no max_length"),
    *(
        ("max_length", value, f"max_length must be a positive integer, got {value!r}")
        for value in (0, -3, 2.5, True, "long", NAN)
    ),
    ("window", ENDLESS, "window must be a positive integer, got inf"),
    ("window", Shapeless(), "window must be a positive integer, got a Shapeless"),
    ("vocab_size", 2**70, "full raised ValueError: token ID"),
    ("quantized", np.ones(2), "quantized must be True or False, got array([1., 1.])"),
    *(
        ("noise", value, f"noise must be a positive number, got {value!r}")
        for value in ("little", NAN, -1.0)
    ),
    ("noise", Shapeless(), "noise must be a positive number, got a Shapeless"),
    ("length", lambda _: None, "length() must return an integer, got None"),
    ("length", lambda _: 2.5, "length() must return an integer, got 2.5"),
    ("length", lambda _: np.arange(2), "length() must return an integer, got array"),
    ("length", lambda _: Shapeless(), "length() must return an integer, got a Shapeless"),
    ("crop", 5, "crop raised TypeError: 'int' object is not callable"),
    ("step", raises(SystemExit("bye")), "step raised SystemExit: bye"),
    ("reset", raises(SystemExit("bye")), "reset raised SystemExit: bye"),
    ("step", raises(Unprintable()), "step raised Unprintable: no message"),
    ("step", lambda *_: Shapeless(), "step returned Shapeless instead of (logits, cache)"),
    ("full", lambda *_: Shapeless(), "full returned Shapeless instead of logits"),
    ("full", lambda *_: [[1], [1, 2]], "full returned list instead of logits"),
]


@pytest.mark.parametrize(("member", "value", "says"), ODD_MEMBERS)
def test_an_odd_member_gets_a_sentence(member: str, value: Any, says: str) -> None:
    decoder = Plain()
    setattr(decoder, member, value)
    report = check(decoder)
    assert not report.ok
    assert str(report.findings[0].evidence[0]).startswith(says)


@pytest.mark.parametrize("member", ["full", "window", "crop", "noise", "keys_values", "keeps_old"])
def test_a_property_that_raises_is_named(member: str) -> None:
    odd = type("Odd", (Plain,), {member: property(raises(RuntimeError("not today")))})
    [finding] = check(odd()).findings
    said = Message("trouble.raised", member=member, error="RuntimeError", said="not today")
    assert finding.evidence == (said,)


def test_a_conversion_that_fails_is_named() -> None:
    class Tensor:
        shape = (1, 1, 11)

        def __array__(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("on another device")

    decoder = Plain()
    decoder.full = lambda tokens: Tensor()  # type: ignore[method-assign]
    [sentence] = check(decoder).findings[0].evidence
    assert sentence.id == "trouble.no-logits"
    assert sentence.args["got"] == "Tensor (1, 1, 11)"
    assert sentence.args["why"] == "on another device"


def arrays(*shapes: tuple[int, ...]) -> Any:
    return [tuple(np.ones(shape) for shape in shapes)] * 2


@pytest.mark.parametrize(
    "given",
    [
        None,
        3,
        [(1, 2)],
        arrays((1, 1, 1), (1, 1, 1)),
        arrays((1, 2, 3, 4), (1, 2, 2, 4)),
        arrays((1, 0, 3, 4), (1, 0, 3, 4)),
        arrays((1, 2, 3, 4), (1, 1, 3, 4)),
    ],
)
def test_keys_and_values_of_no_use_are_a_note_and_hide_nothing(given: Any) -> None:
    class Odd(Plain):
        off = 0.0

        def keys_values(self, cache: Any) -> Any:
            return given

        def step(self, tokens: Any, cache: Any) -> Any:
            logits, cache = super().step(tokens, cache)
            return logits + self.off, cache

    report = check(Odd())
    assert report.ok
    assert "note.keys-values" in ids(report.notes)
    wrong = Odd()
    wrong.off = 1.0
    assert check(wrong).findings


def test_a_property_that_begins_to_raise_breaks_nothing() -> None:
    class Fickle(Plain):
        asked = 0

        @property
        def window(self) -> None:
            self.asked += 1
            if self.asked > 2:
                raise RuntimeError("no more")

    assert check(Fickle()).ok


@pytest.mark.parametrize("how", ["error", "raise"])
def test_warnings_as_errors_break_nothing(how: str) -> None:
    class Infinite(Plain):
        def step(self, tokens: Any, cache: Any) -> Any:
            logits, cache = super().step(tokens, cache)
            return logits * np.float64(np.inf), cache

    with warnings.catch_warnings(), np.errstate(all="raise" if how == "raise" else "warn"):
        warnings.simplefilter("error")
        assert check(Plain()).ok
        report = check(Infinite())
    assert report.findings[0].max_abs_error == np.inf


def test_a_full_that_gives_nan_later_is_blamed_itself() -> None:
    class Later(Plain):
        calls = 0

        def full(self, tokens: Any) -> Any:
            self.calls += 1
            logits = super().full(tokens)
            return logits * np.nan if self.calls == 80 else logits

    assert "trouble.nan" in evidence(check(Later()))


def test_a_wrong_count_has_a_snippet() -> None:
    [finding] = check(Miscounts()).findings
    assert run_snippet(finding, Miscounts()) == [(2,)]


def test_a_decoder_of_very_short_texts_is_told_that_it_shows_nothing() -> None:
    decoder = Plain()
    decoder.max_length = 2
    report = check(decoder)
    assert report.ok
    assert Message("note.short", n=2) in report.notes
    assert "note.short" not in ids(check(Plain()).notes)


# --- Crop ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3])
def test_cropping_beyond_the_end_of_a_short_cache(n: int) -> None:
    class Short(Cropped):
        max_length = n

    class Lax(Short):
        def crop(self, cache: Any, length: int) -> Any:
            return cache.crop(min(length, cache.length))

    class Lies(Lax):
        believed: Any = None

        def crop(self, cache: Any, length: int) -> Any:
            self.believed = length
            return super().crop(cache, length)

        def length(self, cache: Any) -> int:
            counted, self.believed = self.believed, None
            return int(cache.length if counted is None else counted)

    assert check(Short()).ok
    assert check(Lax()).ok
    said = Message("operations.crop-beyond", length=n + 2, n=n)
    evidence = check(Lies()).findings[0].evidence
    assert evidence[0] == said
    assert (evidence[1].args["counted"], evidence[1].args["kept"]) == (n + 2, n)


def test_a_crop_that_goes_beyond_the_end_has_a_snippet() -> None:
    [finding] = check(CropsBeyond()).findings
    assert finding.kind == "ROLLBACK"
    assert run_snippet(finding, CropsBeyond()) == [(6,)]  # 4 were fed


def test_a_crop_to_at_most_or_one_that_never_empties_is_no_mistake() -> None:
    assert check(CropsAtMost()).ok
    report = check(NeverEmpties())
    assert report.ok
    assert any("length must be positive" in str(line) for line in report.not_checked)


def test_a_crop_that_leaves_the_program_is_a_refusal() -> None:
    class Leaves(Cropped):
        def crop(self, cache: Any, length: int) -> Any:
            if length > cache.length:
                raise SystemExit("bye")
            return super().crop(cache, length)

    assert check(Leaves()).ok


def test_a_crop_beyond_the_end_that_hangs_is_named() -> None:
    class Hangs(Cropped):
        max_length = 4  # so that there is little to do before

        def crop(self, cache: Any, length: int) -> Any:
            if length > cache.length:
                time.sleep(60)
            return super().crop(cache, length)

    report = check(Hangs(), budget_s=2.0)
    assert Message("trouble.hangs", member="crop", budget=2.0) in report.findings[0].evidence


# --- Sizes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [float("inf"), 1e20])
def test_a_budget_without_end_is_one(budget: float) -> None:
    assert check(Plain(), budget_s=budget).ok


@pytest.mark.parametrize("budget", [0, -1.0, NAN, "30", None, [1]])
def test_a_budget_that_is_none_is_refused(budget: Any) -> None:
    with pytest.raises(ValueError, match="budget_s must be more than 0 seconds, got"):
        check(Plain(), budget_s=budget)


def test_a_ring_that_takes_no_chunk_longer_than_itself_is_right() -> None:
    from kvproof.zoo.right import RightDecoder
    from kvproof.zoo.windows import WINDOWED

    class Ring(RightDecoder):
        config, storage = WINDOWED, "rolling"
        capacity = WINDOWED.window

        def step(self, tokens: Any, cache: Any = None, lengths: Any = None) -> Any:
            if np.shape(tokens)[1] > self.capacity:
                raise ValueError(f"no more than {self.capacity} tokens at a time")
            return super().step(tokens, cache, lengths)

    report = check(Ring())
    assert report.ok, str(report)
    assert any("no more than 4 tokens at a time" in str(one) for one in report.not_checked)


def test_recomputed_texts_do_not_fill_the_memory() -> None:
    class Large(Plain):
        vocab_size = 2**17

        def full(self, tokens: Any) -> Any:
            return np.broadcast_to(np.array(tokens, float)[..., None], (*tokens.shape, 2**17))

    subject = Subject(Large(), np.inf)
    for token in range(300):
        subject.recompute((token,))
    assert sum(logits.nbytes for logits in subject._memo.values()) <= MEMORY + 2**20


def test_a_huge_window_asks_for_no_endless_text() -> None:
    class Wide(Plain):
        window = 1000
        max_length = 100_000

    assert battery.text_length(Subject(Wide(), np.inf)) == 1000 + battery.SHORTEST


# --- Another number of rows ---------------------------------------------------------------------


class FirstRows(Plain):
    """Memory for the rows of the first request, which later ones get as well."""

    def __init__(self) -> None:
        super().__init__()
        self.n_rows: int | None = None

    def step(self, tokens: Any, cache: Any) -> Any:
        if self.n_rows is None:
            self.n_rows = len(tokens)
        # A lonely first row is broadcast: what a view with the old strides reads.
        tokens = np.resize(tokens[: self.n_rows], np.shape(tokens))
        return super().step(tokens, cache)


def test_a_second_request_with_more_rows_than_the_first() -> None:
    class Reset(FirstRows):
        def reset(self) -> None:
            self.n_rows = None

    [finding] = check(Reset()).findings
    assert finding.kind == "SLOT-STALE"
    assert finding.case is not None
    assert finding.case.rows is not None
    errors = [words[1] for words in run_snippet(finding, Reset())]
    assert max(errors) == pytest.approx(finding.max_abs_error)


def test_torch_modules_say_their_precision() -> None:
    torch = pytest.importorskip("torch")
    from kvproof.adapters import torch_module

    def dtype_of(module: Any, **given: Any) -> Any:
        return torch_module(module, no_step, vocab_size=2, max_length=8, **given).dtype

    def no_step(*_: Any) -> Any:
        raise NotImplementedError

    table = torch.nn.Embedding(2, 2)
    assert dtype_of(table) == torch.float32
    assert dtype_of(torch.nn.Sequential(table, torch.nn.Linear(2, 2).half())) == torch.float16
    assert dtype_of(table, dtype="bfloat16") == "bfloat16"


def test_an_exception_of_no_class_of_its_own_is_caught() -> None:
    class Panic(BaseException):
        pass

    decoder = Plain()
    decoder.step = raises(Panic("overflow"))  # type: ignore[method-assign]
    [sentence] = check(decoder).findings[0].evidence[:1]
    assert sentence == Message("trouble.raised", member="step", error="Panic", said="overflow")
    decoder.step = raises(KeyboardInterrupt())  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        check(decoder)


def test_a_typo_in_a_long_chunk_is_no_refusal() -> None:
    class Typo(Plain):
        capacity = 4
        window = 4

        def step(self, tokens: Any, cache: Any) -> Any:
            if cache is not None and tokens.shape[1] > 4:
                raise AttributeError("no attribute lenght")
            return super().step(tokens, cache)

    assert not check(Typo()).ok


def test_numbers_of_numpy_are_numbers() -> None:
    decoder = Plain()
    decoder.noise = np.float32(0.05)  # type: ignore[attr-defined]
    budget: Any = np.float32(30)
    assert check(decoder, budget_s=budget).ok


def test_snippets_run_on_tensors_of_any_kind() -> None:
    torch = pytest.importorskip("torch")

    class Tensors(Plain):
        def step(self, tokens: Any, cache: Any) -> Any:
            logits = torch.tensor(super().full(tokens), dtype=torch.bfloat16, requires_grad=True)
            return logits, "nothing"

        def full(self, tokens: Any) -> Any:
            return torch.tensor(super().full(tokens), dtype=torch.bfloat16, requires_grad=True)

    [finding] = check(Tensors()).findings
    assert run_snippet(finding, Tensors())[-1][1] == pytest.approx(finding.max_abs_error)
