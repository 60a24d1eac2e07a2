"""Rounding that sharp attention enlarges, and attention that leaves most tokens out."""

from typing import Any

import numpy as np
import pytest
from tests.check.decoders import Plain
from tests.check.test_tolerance import scale

from kvproof import check, round_params
from kvproof.adapters import functions
from kvproof.checking import Report
from kvproof.checking.rounding import EPS, Rounding
from kvproof.experiments import scorecard
from kvproof.zoo import SPECIMENS
from kvproof.zoo.right import ALIBI, LEARNED, ROPE, RightDecoder


def is_condemned(report: Report) -> bool:
    """Something is wrong beyond doubt; float64 has none."""
    doubtful = [finding for finding in report.findings if finding.doubtful]
    assert report.dtype != "float64" or not doubtful
    assert all(finding.confidence <= 0.5 for finding in doubtful)
    assert all(finding.evidence[-1].id == "note.sharp" for finding in doubtful)
    assert report.in_doubt == (report.verdict.id == "report.in-doubt")
    assert report.in_doubt <= (not report.ok)
    return len(doubtful) < len(report.findings)


@pytest.mark.parametrize("config", [LEARNED, ROPE, ALIBI], ids=lambda config: config.positions)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "contrast", [40, *(pytest.param(contrast, marks=pytest.mark.slow) for contrast in (3, 10))]
)
def test_sharp_attention_is_no_mistake(config: Any, dtype: str, contrast: float) -> None:
    for seed in range(4):
        report = check(RightDecoder(seed, config, "concat", dtype, contrast), seed)
        assert not is_condemned(report), str(report)


@pytest.mark.parametrize("contrast", [3, 40])
def test_a_mistake_is_found_beyond_doubt_however_sharp_the_attention(contrast: float) -> None:
    specimen = SPECIMENS["mask-topleft-chunks"]
    for dtype in ("float32", "float64"):
        report = check(specimen.make(0, dtype=dtype, contrast=contrast))
        assert report.findings[0].kind == "MASK-TOPLEFT"
        assert is_condemned(report)


@pytest.mark.parametrize(
    ("make", "contrast", "verdict"),
    [
        ("rope-int8", 3, "right"),
        ("rope-int8", 40, "in-doubt"),
        ("quant-scale-touched", 3, "wrong"),
        ("quant-scale-layer", 3, "wrong"),
    ],
)
def test_a_cache_that_rounds_is_wrong_where_most_positions_are(
    make: str, contrast: float, verdict: str
) -> None:
    specimen = SPECIMENS[make].make if make in SPECIMENS else scorecard.right_decoders()[make]
    for seed in range(3):
        report = check(specimen(seed, contrast=contrast))
        assert report.verdict.id == f"report.{verdict}", str(report)


def cached(name: str, seed: int, how: str) -> Any:
    """A decoder of the zoo with a coarse cache, or in a coarse precision altogether."""
    make = SPECIMENS[name].make if name in SPECIMENS else scorecard.right_decoders()[name]
    if how == "int8":
        return make(seed, storage="int8")
    decoder = make(seed, dtype="float32")
    decoder.params = round_params(decoder.params, decoder.config, how)
    return decoder


@pytest.mark.parametrize("how", ["int8", "bfloat16", "float16"])
def test_coarse_numbers_are_no_excuse(how: str) -> None:
    """What no rounding can do is wrong, not in doubt; what is right stays right."""
    for seed in range(2):
        for name in ("mask-topleft-chunks", "rollback-none"):
            report = check(cached(name, seed, how))
            assert report.verdict.id == "report.wrong", str(report)
        assert check(cached("rope-concat", seed, how)).ok


def test_a_cache_that_rounds_excuses_nothing_that_is_not_cached() -> None:
    report = check(Plain(), gold=lambda tokens: -3 * Plain().full(tokens))
    assert report.verdict.id == "report.wrong"
    lossy = Plain()
    lossy.lossy = True  # type: ignore[attr-defined]
    report = check(lossy, gold=lambda tokens: -3 * Plain().full(tokens))
    assert (report.findings[0].check, report.in_doubt) == ("GOLD", False)


def test_a_wrong_count_is_never_in_doubt() -> None:
    class Counts(Off):
        dtype = "float32"
        by = 1e-3 * scale()

        def length(self, cache: Any) -> int:
            return 1 + int(cache.length)

    report = check(Counts())
    [count] = [finding for finding in report.findings if finding.check == "BOOK"]
    assert not count.doubtful


def test_the_rule_leaves_no_doubt_to_float64_and_nothing_else_to_16_bits() -> None:
    """And the tolerance is never below what is allowed, whatever was measured."""
    for dtype, eps in EPS.items():
        rounding = Rounding(dtype, scale=2.0)
        assert 2 * eps < rounding.allowed <= rounding.doubtful
        assert rounding.tolerance(0.0) == rounding.allowed
        assert rounding.tolerance(rounding.allowed) == 10 * rounding.allowed
        assert rounding.doubt(float("inf")) is None
    assert Rounding("float64", 2.0).doubtful == Rounding("float64", 2.0).allowed
    assert Rounding("float16", 2.0).doubt(2.0)
    with pytest.raises(KeyError):
        _ = Rounding("int8", 1.0).allowed


class Off(Plain):
    """Off by a little in every chunk of two."""

    by = 0.0
    dtype = "float64"

    def full(self, tokens: Any) -> Any:
        return super().full(tokens).astype(self.dtype)

    def step(self, tokens: Any, cache: Any) -> Any:
        logits, longer = super().step(tokens, cache)
        return (logits + self.by * (tokens.shape[1] == 2)).astype(self.dtype), longer


@pytest.mark.parametrize(
    ("dtype", "share", "verdict"),
    [
        ("float64", 1e-10, "right"),
        ("float64", 1e-8, "wrong"),
        ("float32", 1e-5, "right"),
        ("float32", 1e-3, "doubt"),
        ("float32", 0.1, "wrong"),
    ],
)
def test_what_an_error_comes_to(dtype: str, share: float, verdict: str) -> None:
    """By its share of the largest logit."""
    decoder = Off()
    decoder.dtype, decoder.by = dtype, share * scale()
    report = check(decoder)
    assert report.tolerance >= report.noise
    assert report.ok == (verdict == "right")
    assert is_condemned(report) == (verdict == "wrong")


def test_a_full_that_differs_a_little_from_itself_leaves_a_doubt_too() -> None:
    class Wobbles(Off):
        dtype = "float32"

        def full(self, tokens: Any) -> Any:
            return super().full(tokens) * np.float32(1 + 1e-3 * (tokens.shape[1] > 6))

    class Forgets(Wobbles):
        """What a doubt about ``full`` mustn't hide."""

        def step(self, tokens: Any, cache: Any) -> Any:
            return super().step(tokens, None)

    report = check(Wobbles())
    assert report.findings[0].kind == "ROPE-LEN"
    assert report.in_doubt
    assert not is_condemned(report)
    assert report.tolerance > report.noise
    report = check(Forgets())
    assert report.findings[0].evidence[0].id == "feeding.no-cache"
    assert [finding.doubtful for finding in report.findings] == [False, True]
    assert report.verdict.id == "report.wrong"
    Wobbles.dtype = "float64"
    assert is_condemned(check(Wobbles()))


def test_a_leak_of_the_future_is_never_rounding() -> None:
    class Leaks(Off):
        dtype = "float32"

        def full(self, tokens: Any) -> Any:
            return super().full(tokens) * np.float32(1 + 1e-4 * int(tokens[0, -1]))

    report = check(Leaks())
    assert report.findings[0].check == "CAU"
    assert is_condemned(report)


def test_logits_that_are_constant_but_for_rounding_get_no_name() -> None:
    class Constant(Plain):
        """As of weights that were never set."""

        by = 6.7e-7

        def full(self, tokens: Any) -> Any:
            return (1 + self.by * super().full(tokens)).astype(np.float32)

        def step(self, tokens: Any, cache: Any) -> Any:
            logits, longer = super().step(tokens, cache)
            return (1 - self.by * logits).astype(np.float32), longer

    report = check(Constant())
    assert report.findings == ()
    assert not report.ok
    assert report.notes[0].id == "note.constant"
    Constant.by = 0.1
    assert check(Constant()).findings


@pytest.mark.parametrize("n_seen", [1, 2])
def test_attention_to_the_best_few_is_no_blind_spot(n_seen: int) -> None:
    """Most tokens move no later row of a text, but others do in another text."""
    rng = np.random.default_rng(3)
    queries, keys, values, out = (rng.normal(size=shape) for shape in ((11, 8),) * 3 + ((8, 11),))

    def attend(past: Any, n_past: int) -> Any:
        scores = np.einsum("bqd,bkd->bqk", queries[past[:, n_past:]], keys[past])
        n_new, n_all = scores.shape[1:]
        future = np.arange(n_all) > n_past + np.arange(n_new)[:, None]
        scores = np.where(future, -np.inf, scores)
        best = np.sort(scores, axis=-1)[..., -n_seen:][..., :1]
        weights = np.where((scores >= best) & np.isfinite(scores), 1.0, 0.0)
        read = np.einsum("bqk,bkd->bqd", weights / weights.sum(-1, keepdims=True), values[past])
        return (read + values[past[:, n_past:]]) @ out

    def full(tokens: Any) -> Any:
        return attend(np.asarray(tokens), 0)

    def step(tokens: Any, cache: Any) -> Any:
        past = tokens if cache is None else np.concatenate([cache, tokens], axis=1)
        return attend(past, past.shape[1] - tokens.shape[1]), past

    for seed in range(6):
        report = check(functions(full, step, vocab_size=11, max_length=32), seed)
        assert report.ok, str(report)


def test_a_mask_of_full_that_hides_the_past_is_still_found() -> None:
    class Blind(Plain):
        """Tokens 4 and 5 are hidden from all that come later."""

        def full(self, tokens: Any) -> Any:
            tokens = np.array(tokens)
            rows = [super(Blind, self).full(self.seen(tokens, at))[:, at] for at in at_all(tokens)]
            return np.stack(rows, axis=1)

        def seen(self, tokens: Any, at: int) -> Any:
            tokens = tokens[:, : at + 1].copy()
            tokens[:, [i for i in (4, 5) if i < at]] = 0
            return tokens

    [finding] = check(Blind()).findings
    assert finding.kind == "MASK-TOPLEFT"


def at_all(tokens: Any) -> range:
    return range(tokens.shape[1])
