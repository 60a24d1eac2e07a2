"""What a cache may be off by: never more than would hide a mistake, never less than rounding."""

from typing import Any

import numpy as np
import pytest
from tests.check.decoders import CONFIG, Plain
from tests.check.said import ids

from kvproof import decode, forward, init_params, new_cache, top_left_mask
from kvproof.adapters import functions
from kvproof.checking import Report, check
from kvproof.checking.messages import Message
from kvproof.checking.reference import _stored_precision

# --- Decoders -----------------------------------------------------------------------------------


def coarse(logits: Any, eps: float, seed: float) -> Any:
    """Noise of a lower precision that depends on the shape of a call, as that of kernels does."""
    shape = [logits.shape[0], logits.shape[1], int(1e6 * seed)]
    drawn = np.random.default_rng(shape).uniform(-1, 1, logits.shape)
    return logits + eps * drawn


class Noisy(Plain):
    """Right, but for noise; the texts are those of ``Plain``."""

    eps = 1e-3

    def full(self, tokens: Any) -> Any:
        return coarse(super().full(tokens), self.eps * scale(), self.eps)

    def step(self, tokens: Any, cache: Any) -> Any:
        logits, longer = super().step(tokens, cache)
        return coarse(logits, self.eps * scale(), self.eps + 1), longer


class TopLeft(Plain):
    def step(self, tokens: Any, cache: Any) -> Any:
        if cache is None:
            cache = new_cache(CONFIG, len(tokens), "float64")
        return decode(self.params, tokens, cache, CONFIG, top_left_mask)


class BatchNoise(TopLeft):
    """Batches are off by a share of the largest logit, and the dtype would allow it."""

    dtype = "bfloat16"
    share = 0.05

    def full(self, tokens: Any) -> Any:
        logits = super().full(tokens)
        return logits + self.share * np.abs(logits).max() * (len(tokens) > 1)


class Single(Plain):
    """float32 inside."""

    def full(self, tokens: Any) -> Any:
        return self.out(forward(self.single, tokens, CONFIG))

    def step(self, tokens: Any, cache: Any) -> Any:
        if cache is None:
            cache = new_cache(CONFIG, len(tokens), "float32")
        logits, cache = decode(self.single, tokens, cache, CONFIG)
        return self.out(logits), cache

    single = init_params(CONFIG, 0, "float32")

    def out(self, logits: Any) -> Any:
        return logits


class AsLists(Single):
    def out(self, logits: Any) -> Any:
        return logits.tolist()


class AsFloat64(Single):
    def out(self, logits: Any) -> Any:
        return logits.astype(np.float64)


class Centred(Single):
    """The last operation is float64: no float32 holds the logits."""

    def out(self, logits: Any) -> Any:
        logits = logits.astype(np.float64)
        return logits - logits.mean(axis=-1, keepdims=True)


class Lossy(Plain):
    """Off by little in most calls, by ``most`` in chunks of two or more."""

    quantized = True
    most = 0.05

    def step(self, tokens: Any, cache: Any) -> Any:
        logits, longer = super().step(tokens, cache)
        return logits + (self.most if tokens.shape[1] > 1 else 1e-5), longer


def scale() -> float:
    return float(np.abs(Plain().full(np.arange(11)[None])).max())


def notes(report: Report) -> list[str]:
    return ids(report.notes)


def with_members(decoder: Any, **members: Any) -> Any:
    for name, value in members.items():
        setattr(decoder, name, value)
    return decoder


# --- Noise hides nothing ------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.005, 0.03, 0.05, 0.2, 0.7, 3.0])
def test_no_noise_makes_a_wrong_cache_right(share: float) -> None:
    report = check(with_members(BatchNoise(), share=share))
    assert not report.ok
    assert report.tolerance <= 0.15 * 1.5 * scale()


def test_the_dtype_alone_allows_less_than_a_mistake() -> None:
    for dtype in ("float16", "bfloat16"):
        assert check(with_members(TopLeft(), dtype=dtype)).findings[0].kind == "MASK-TOPLEFT"


# --- Declared noise -----------------------------------------------------------------------------


@pytest.mark.parametrize("decoder", [Plain, TopLeft])
def test_a_declared_noise_beyond_belief_is_refused(decoder: type) -> None:
    report = check(with_members(decoder(), noise=1e9))
    assert not report.ok
    assert report.findings[0].evidence[0].id == "trouble.noise"


def test_the_smaller_of_declared_and_measured_noise_is_allowed() -> None:
    declared = 0.1 * scale()
    report = check(with_members(Plain(), noise=declared))
    assert report.ok
    assert report.tolerance < 1e-8
    assert report.notes[0].id == "note.noise"
    assert report.notes[0].args["declared"] == declared
    wrong = check(with_members(TopLeft(), noise=declared))
    assert not wrong.ok
    small = check(with_members(Lossy(), most=1e-5, noise=3e-5))
    assert small.ok
    assert small.tolerance == 3e-5


# --- A lossy cache beyond its budget --------------------------------------------------------------


def test_a_lossy_cache_beyond_its_budget_is_a_note() -> None:
    report = check(with_members(Lossy(), most=0.05 * scale()))
    assert report.ok
    assert report.findings == ()
    assert "note.lossy" in notes(report)
    assert any("a second request" in str(line) for line in report.checked)  # it goes on


def test_a_lossy_cache_far_beyond_is_a_finding() -> None:
    [finding] = check(with_members(Lossy(), most=0.3 * scale())).findings
    assert (finding.kind, finding.check) == ("QUANT-SCALE", "TOL")


# --- The precision behind the logits --------------------------------------------------------------


@pytest.mark.parametrize("decoder", [AsLists, AsFloat64, Centred])
def test_float32_behind_float64_logits_is_right(decoder: type) -> None:
    report = check(decoder())
    assert report.ok
    assert report.dtype == "float32"
    said = Message("note.precision", found="float32", returned="float64")
    assert said in report.notes


def test_a_step_that_returns_less_than_full_does_is_right() -> None:
    class StepsInSingle(Plain):
        def step(self, tokens: Any, cache: Any) -> Any:
            logits, longer = super().step(tokens, cache)
            return logits.astype(np.float32), longer

    class IsWrong(StepsInSingle):
        def step(self, tokens: Any, cache: Any) -> Any:
            logits, longer = super().step(tokens, cache)
            return logits + np.float32(1e-3) * (tokens.shape[1] == 2), longer

    report = check(StepsInSingle())
    assert report.ok, str(report)
    assert report.dtype == "float32"
    assert not check(IsWrong()).ok


@pytest.mark.parametrize(
    "dtype", ["float32", np.float32, np.dtype("float32"), "torch.float32"], ids=str
)
def test_a_declared_dtype_is_believed(dtype: Any) -> None:
    report = check(with_members(AsLists(), dtype=dtype))
    assert report.ok
    assert report.dtype == "float32"
    assert "note.precision" not in notes(report)


def test_a_coarser_result_counts_more_than_what_is_declared() -> None:
    assert check(with_members(Single(), dtype="float64")).dtype == "float32"


def test_a_dtype_that_is_none_is_ignored_with_a_note() -> None:
    report = check(with_members(Plain(), dtype="int8"))
    assert report.ok
    assert report.dtype == "float64"
    assert "note.dtype" in notes(report)


@pytest.mark.parametrize(("eps", "named"), [(1e-3, "float16"), (3e-3, "bfloat16")])
def test_half_precision_behind_float64_logits_is_seen(eps: float, named: str) -> None:
    report = check(with_members(Noisy(), eps=eps))
    assert report.ok, str(report)
    assert report.dtype == named
    said = Message("note.precision", found=named, returned="float64")
    assert said in report.notes


class Narrow(Plain):
    """Logits that were rounded, and are handed out as float32."""

    bits = 8

    def full(self, tokens: Any) -> Any:
        return self.rounded(super().full(tokens))

    def step(self, tokens: Any, cache: Any) -> Any:
        logits, longer = super().step(tokens, cache)
        return self.rounded(logits), longer

    def rounded(self, logits: Any) -> Any:
        digits, exponents = np.frexp(logits)
        digits = np.rint(digits * 2.0**self.bits) / 2.0**self.bits
        return np.ldexp(digits, exponents).astype(np.float32)


@pytest.mark.parametrize(("bits", "named"), [(8, "bfloat16"), (11, "float16")])
@pytest.mark.parametrize("members", [{}, {"max_length": 3}, {"dtype": "float32"}], ids=str)
def test_half_precision_behind_float32_logits_is_seen(bits: int, named: str, members: Any) -> None:
    """Without a declaration, against one, and in few logits."""
    report = check(with_members(Narrow(), bits=bits, **members))
    assert report.ok, str(report)
    assert report.dtype == named
    assert check(with_members(Narrow(), bits=24)).dtype == "float32"


@pytest.mark.parametrize("n", [4, 12, 50])
def test_few_logits_are_enough_to_tell_a_precision(n: int) -> None:
    """But not whole numbers, powers of two, or two or three numbers that happen to be short."""
    for seed in range(50):
        exact = np.random.default_rng(seed).normal(size=(1, n)).astype(np.float32)
        rounded = Narrow().rounded(exact).astype(float)
        found = _stored_precision(rounded)
        assert found == "bfloat16" or (n < 50 and found is None)
        assert _stored_precision(exact.astype(float)) in ("float32", None)
        assert _stored_precision(np.rint(100 * exact)) is None
        assert _stored_precision(2.0 ** np.rint(9 * exact.astype(float))) is None
    assert _stored_precision(np.array([[0.1, 0.5, 0.0, -np.inf]])) is None


class FaintLength(Plain):
    """Prefixes shorter than ``start`` are off, by little."""

    start, share = 6, 1e-3

    def full(self, tokens: Any) -> Any:
        logits = super().full(tokens)
        return logits * (1 + self.share * (tokens.shape[1] >= self.start))


@pytest.mark.parametrize("start", [3, 6, 11, 12, 20])
@pytest.mark.parametrize("share", [1e-3, 0.01, 0.5])
def test_what_starts_at_a_length_is_no_rounding(start: int, share: float) -> None:
    [finding] = check(with_members(FaintLength(), start=start, share=share)).findings
    assert finding.kind == "ROPE-LEN"


def test_what_spares_the_first_position_is_no_rounding() -> None:
    """As a rotation that depends on the length does."""

    class Rotated(Plain):
        def full(self, tokens: Any) -> Any:
            logits = super().full(tokens)
            logits[:, 1:] *= 1 + 1e-3 * np.sin(tokens.shape[1])
            return logits

    assert check(Rotated()).findings[0].kind == "ROPE-LEN"


@pytest.mark.parametrize("share", [1e-6, 1e-3])
def test_a_leak_from_the_future_is_no_rounding(share: float) -> None:
    class Leaks(Plain):
        def full(self, tokens: Any) -> Any:
            logits = super().full(tokens)
            return logits + share * logits[:, -1:]

    assert check(Leaks()).findings[0].kind == "MASK-SKIPPED"


@pytest.mark.parametrize("factor", [1.0, 37.0, 0.0625])
def test_whole_numbers_are_no_low_precision(factor: float) -> None:
    """Sums of table entries up to 255, which bfloat16 would hold."""
    table = np.random.default_rng(0).integers(0, 256 // 12, (11, 11)) * factor

    def full(tokens: Any) -> Any:
        return table[tokens].cumsum(axis=1)

    def step(tokens: Any, cache: Any) -> Any:
        logits = full(tokens) + (0 if cache is None else cache)
        return logits, logits[:, -1:]

    report = check(functions(full, step, vocab_size=11, max_length=32, dtype=None))
    assert report.ok
    assert report.dtype in ("float64", "float32")
    assert report.tolerance < 1e-3 * factor


# --- Tokens that nobody sees ----------------------------------------------------------------------


def test_two_equal_embeddings_are_no_blind_spot() -> None:
    class Padded(Plain):
        """Tokens 3 to 6 are one and the same."""

        def full(self, tokens: Any) -> Any:
            return super().full(self.same(tokens))

        def step(self, tokens: Any, cache: Any) -> Any:
            return super().step(self.same(tokens), cache)

        def same(self, tokens: Any) -> Any:
            return np.where((tokens >= 3) & (tokens <= 6), 3, tokens)

    for seed in range(4):
        assert check(Padded(), seed=seed).ok


@pytest.mark.parametrize("size", [2, 4, 5, 8])
def test_attention_in_chunks_without_a_window_is_a_note(size: int) -> None:
    class Chunked(Plain):
        def full(self, tokens: Any) -> Any:
            starts = range(0, tokens.shape[1], size)
            parts = [super(Chunked, self).full(tokens[:, at : at + size]) for at in starts]
            return np.concatenate(parts, axis=1)

        def step(self, tokens: Any, cache: Any) -> Any:
            seen = tokens if cache is None else np.concatenate([cache, tokens], axis=1)
            return self.full(seen)[:, -tokens.shape[1] :], seen

    report = check(Chunked())
    assert report.ok
    assert "note.blind" in notes(report)


# --- A model of transformers ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("LlamaForCausalLM", "bfloat16"),
        ("GPT2LMHeadModel", "float16"),
        ("MistralForCausalLM", "bfloat16"),
    ],
)
def test_low_precision_behind_float32_logits(name: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tests.check.tiny_models import model

    from kvproof.adapters import transformers

    decoder = transformers(model(name).to(getattr(torch, dtype)))

    def full(tokens: Any) -> Any:
        return decoder.full(tokens).float()

    def step(tokens: Any, cache: Any) -> Any:
        logits, cache = decoder.step(tokens, cache)
        return logits.float(), cache

    sizes = {"vocab_size": decoder.vocab_size, "max_length": decoder.max_length}
    silent = check(functions(full, step, **sizes, window=decoder.window))
    assert silent.ok, str(silent)
    assert silent.dtype == dtype
    told = check(functions(full, step, **sizes, window=decoder.window, dtype=decoder.dtype))
    assert told.ok, str(told)
    assert told.dtype == dtype
