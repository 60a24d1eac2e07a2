"""Rounding that sharp attention enlarges, and attention that leaves most tokens out."""

from typing import Any

import numpy as np
import pytest
from tests.check.decoders import Plain

from kvproof import check
from kvproof.adapters import functions
from kvproof.zoo.right import ALIBI, LEARNED, ROPE, RightDecoder


@pytest.mark.parametrize("config", [LEARNED, ROPE, ALIBI], ids=lambda config: config.positions)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("contrast", [10, 40])
def test_sharp_attention_is_no_mistake(config: Any, dtype: str, contrast: float) -> None:
    for seed in range(4):
        report = check(RightDecoder(seed, config, "concat", dtype, contrast), seed)
        assert report.ok, str(report)


class Off(Plain):
    """Off by a little in every chunk of two."""

    by = 0.0

    def step(self, tokens: Any, cache: Any) -> Any:
        logits, longer = super().step(tokens, cache)
        return logits + self.by * (tokens.shape[1] == 2), longer


def test_errors_just_above_the_noise_are_noted_and_larger_ones_condemned() -> None:
    decoder = Off()
    decoder.by = 3 * check(decoder).tolerance
    report = check(decoder)
    assert report.ok
    assert any("were taken for rounding" in note for note in report.notes)
    assert report.tolerance == pytest.approx(2 * decoder.by, rel=0.1)
    decoder.by = 1e-6
    assert not check(decoder).ok


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


def test_an_error_near_the_noise_of_float32_is_named_with_doubt() -> None:
    class Single(Off):
        def full(self, tokens: Any) -> Any:
            return super().full(tokens).astype(np.float32)

        def step(self, tokens: Any, cache: Any) -> Any:
            logits, longer = super().step(tokens, cache)
            return logits.astype(np.float32), longer

    decoder = Single()
    decoder.by = 40 * check(decoder).tolerance
    [finding] = check(decoder).findings
    assert finding.confidence <= 0.5
    assert "40 times what is allowed" in finding.evidence[-1]
    decoder.by = 0.5
    [finding] = check(decoder).findings
    assert "times what is allowed" not in "".join(finding.evidence)
