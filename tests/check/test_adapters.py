"""Adapters: right models of transformers have no findings, and each is broken in several ways."""

import copy
import doctest
import sys
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.check.said import ids
from tests.check.tiny_models import VOCABULARY, model

import kvproof
from kvproof import adapters
from kvproof.adapters import (
    TransformersDecoder,
    _window,
    functions,
    torch_module,
    transformers,
)
from kvproof.checking import assert_cache_matches, check


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_other_dtypes(dtype: str) -> None:
    report = check(transformers(model("GPT2LMHeadModel").to(getattr(torch, dtype))))
    assert report.ok
    assert report.dtype == dtype


# --- Broken on purpose --------------------------------------------------------------------------


class PositionsRestart(TransformersDecoder):
    """Each chunk is told positions from 0 on."""

    def _call(self, ids: Any, mask: Any, past: Any) -> Any:
        with _told(self.model, position_ids=torch.arange(ids.shape[1])[None]):
            return super()._call(ids, mask, past)


class PositionsOfSlots(TransformersDecoder):
    """Padding counts as a position."""

    def _call(self, ids: Any, mask: Any, past: Any) -> Any:
        slots = torch.arange(mask.shape[1])[None, -ids.shape[1] :]
        with _told(self.model, position_ids=slots):
            return super()._call(ids, mask, past)


class NoMask(TransformersDecoder):
    """Padding isn't masked when there is a cache."""

    def _call(self, ids: Any, mask: Any, past: Any) -> Any:
        return super()._call(ids, mask if past is None else torch.ones_like(mask), past)


class ForgetsFirst(TransformersDecoder):
    """The mask of a cached call hides the first token of the past."""

    def _call(self, ids: Any, mask: Any, past: Any) -> Any:
        if past is not None and mask.shape[1] > ids.shape[1]:
            mask = mask.clone()
            mask[:, 0] = 0
            positions = torch.arange(mask.shape[1])[None, -ids.shape[1] :]
            with _told(self.model, position_ids=positions):
                return super()._call(ids, mask, past)
        return super()._call(ids, mask, past)


class WiderWindow(TransformersDecoder):
    """The window is one token wider when there is a cache."""

    def _call(self, ids: Any, mask: Any, past: Any) -> Any:
        self.config.sliding_window += past is not None
        try:
            return super()._call(ids, mask, past)
        finally:
            self.config.sliding_window -= past is not None

    def new_cache(self) -> Any:
        config = copy.deepcopy(self.config)
        config.sliding_window += 1
        self.config, kept = config, self.config
        try:
            return super().new_cache()
        finally:
            self.config = kept


class ForgetsToReorder(TransformersDecoder):
    """Only the mask is reordered."""

    def reorder(self, cache: Any, rows: Any) -> Any:
        return replace(cache, mask=cache.mask[np.asarray(rows)])


class SharesTheFork(TransformersDecoder):
    """A fork is the cache itself."""

    def fork(self, cache: Any) -> Any:
        return replace(cache)


class CropsOneTooFew(TransformersDecoder):
    """Takes one token less back than it should, and tells the mask the truth."""

    def crop(self, cache: Any, length: int) -> Any:
        n = self.length(cache)
        if not 0 < length <= n:
            return super().crop(cache, length)
        kept = super().crop(cache, min(length + 1, n))
        return replace(kept, mask=cache.mask[:, : min(length + 1, n)])


class _told:  # noqa: N801
    """Inside, the model gets other arguments than it is called with."""

    def __init__(self, model: Any, **other: Any) -> None:
        self.handle = model.register_forward_pre_hook(
            lambda _model, args, kwargs: (args, kwargs | other), with_kwargs=True
        )

    def __enter__(self) -> None:
        """Nothing more."""

    def __exit__(self, *_: object) -> None:
        self.handle.remove()


SABOTAGE: list[tuple[str, str, type[TransformersDecoder], str]] = [
    ("LlamaForCausalLM", "dynamic", PositionsRestart, "POS-RESET"),
    ("LlamaForCausalLM", "static", PositionsRestart, "POS-RESET"),
    ("LlamaForCausalLM", "dynamic", NoMask, "PAD-MASK"),
    ("LlamaForCausalLM", "dynamic", ForgetsToReorder, "ROW-PERM"),
    ("LlamaForCausalLM", "dynamic", SharesTheFork, "ALIAS"),
    ("LlamaForCausalLM", "dynamic", CropsOneTooFew, "ROLLBACK"),
    ("GPT2LMHeadModel", "dynamic", PositionsRestart, "POS-RESET"),
    ("GPT2LMHeadModel", "static", PositionsOfSlots, "POS-PERROW"),
    ("MistralForCausalLM", "dynamic", WiderWindow, "WINDOW-OBO"),
    ("MistralForCausalLM", "static", WiderWindow, "WINDOW-OBO"),
    ("BloomForCausalLM", "dynamic", ForgetsFirst, "SLOT-WRITE"),  # not read, as if not written
    ("BloomForCausalLM", "static", NoMask, "PAD-MASK"),
    ("BloomForCausalLM", "static", ForgetsToReorder, "ROW-PERM"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "cache", "broken", "kind"), SABOTAGE)
def test_sabotage_is_found_and_named(name: str, cache: Any, broken: Any, kind: str) -> None:
    # Two layers with a window of 4 look back 6 tokens: less than the texts are long.
    changes = {"sliding_window": 4} if broken is WiderWindow else {}
    report = check(broken(model(name, **changes), cache, 64))
    assert not report.ok
    assert report.findings[0].kind == kind, report


# --- What an adapter knows and says -------------------------------------------------------------


def test_keys_and_values_are_what_is_kept_the_newest_last() -> None:
    tokens = np.arange(10)[None]
    kept = {}
    for cache in ("dynamic", "static"):
        decoder = transformers(model("MistralForCausalLM"), cache)
        assert decoder.window == 6
        _, handed_on = decoder.step(tokens[:, :9], None)
        _, handed_on = decoder.step(tokens[:, 9:], handed_on)
        assert decoder.length(handed_on) == 10
        kept[cache] = decoder.keys_values(handed_on)[0][0]
    assert kept["dynamic"].shape == (1, 2, 5, 8)  # W - 1: the next token comes with its own
    assert kept["static"].shape == (1, 2, 6, 8)
    assert torch.equal(kept["static"][:, :, 1:], kept["dynamic"])


def test_slots_that_a_static_cache_has_not_filled_are_left_out() -> None:
    decoder = transformers(model("LlamaForCausalLM"), "static")
    _, handed_on = decoder.step(np.arange(10)[None], None)
    shapes = {array.shape for pair in decoder.keys_values(handed_on) for array in pair}
    assert shapes == {(1, 2, 10, 8)}


def test_padding_goes_with_its_row() -> None:
    decoder = transformers(model("GPT2LMHeadModel"))
    tokens, lengths = np.arange(16).reshape(2, 8), np.array([6, 2])
    _, handed_on = decoder.step(tokens[:, :6], None, lengths)
    handed_on = decoder.reorder(handed_on, [1, 0])
    logits, _ = decoder.step(tokens[:, 6:], handed_on)
    row = np.concatenate([tokens[1, 4:6], tokens[0, 6:]])[None]
    assert torch.allclose(logits[0], decoder.full(row)[0, -2:], atol=1e-4)


@pytest.mark.parametrize(
    ("name", "changes", "max_length", "window"),
    [
        ("MistralForCausalLM", {}, 64, 6),
        ("MistralForCausalLM", {}, 6, None),  # never reached
        ("MistralForCausalLM", {"sliding_window": None}, 64, None),
        ("Gemma3ForCausalLM", {}, 64, 6),
        ("Qwen2ForCausalLM", {"use_sliding_window": False}, 64, None),
        ("LlamaForCausalLM", {}, 64, None),
    ],
)
def test_window(name: str, changes: Any, max_length: int, window: int | None) -> None:
    assert transformers(model(name, **changes), max_length=max_length).window == window


def test_the_shortest_of_two_kinds_of_window() -> None:
    kinds = ["chunked_attention", "sliding_attention", "full_attention"]
    config = SimpleNamespace(layer_types=kinds, attention_chunk_size=8, sliding_window=4)
    assert _window(config, 64) == 4


def test_longest_text() -> None:
    assert transformers(model("GPT2LMHeadModel")).max_length == 64
    assert transformers(model("BloomForCausalLM")).max_length == 256  # it names no end
    long = model("LlamaForCausalLM", max_position_embeddings=4096)
    assert transformers(long).max_length == 256
    assert transformers(long, max_length=1000).max_length == 1000


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "cache": (
        lambda: transformers(model("GPT2LMHeadModel"), "rolling"),  # type: ignore[arg-type]
        "cache must be one of dynamic, recording, static, fp8, got 'rolling'",
    ),
    "no head": (
        lambda: transformers(model("LlamaModel")),
        "LlamaModel gives no next-token logits: take the class ...ForCausalLM",
    ),
    "encoder": (
        lambda: transformers(model("T5ForConditionalGeneration")),
        "has an encoder",
    ),
    "no keys": (lambda: transformers(model("MambaForCausalLM")), "isn't a KV cache"),
    "no model": (lambda: transformers(torch.nn.Linear(2, 2)), "Linear isn't a model of transf"),
    "too long": (
        lambda: transformers(model("GPT2LMHeadModel"), max_length=65),
        "max_length must be 1 to 64, got 65",
    ),
    "fp8 and a window": (
        lambda: transformers(model("MistralForCausalLM"), "fp8"),
        "only full attention layers",
    ),
    "no module": (
        lambda: torch_module(len, len, vocab_size=2, max_length=2),  # type: ignore[arg-type]
        "must be a torch.nn.Module, got builtin_function_or_method",
    ),
    "misspelt": (
        lambda: functions(len, len, vocab_size=2, max_length=2, key_values=len),
        "no optional member 'key_values'; there are length, keys_values, crop",
    ),
}


@pytest.mark.parametrize(("make", "says"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_in_the_call_are_explained(make: Callable[[], Any], says: str) -> None:
    with pytest.raises(ValueError, match=says.replace("...", r"\.\.\.")):
        make()


@pytest.mark.parametrize(("missing", "install"), [("torch", "torch"), ("transformers", "torch tr")])
def test_a_missing_library_is_explained(
    monkeypatch: pytest.MonkeyPatch, missing: str, install: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=f"needs {missing}, .* -m pip install {install}"):
        if missing == "torch":
            torch_module(None, len, vocab_size=2, max_length=2)  # type: ignore[arg-type]
        else:
            transformers(None)


def test_the_examples_run() -> None:
    names = {"kvproof": kvproof, "torch": torch, "np": np}
    failed, tried = doctest.testmod(adapters, extraglobs=names)
    assert (failed, tried > 8) == (0, True)


# --- Modules and functions ----------------------------------------------------------------------


class Counts(torch.nn.Module):
    """Logits are a learned mixture of how often each token was there before; without positions."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mixture = torch.nn.Linear(VOCABULARY, VOCABULARY, dtype=torch.float64)

    def forward(self, ids: torch.Tensor, past: Any = 0.0, first: Any = None) -> torch.Tensor:
        seen = torch.nn.functional.one_hot(ids, VOCABULARY).double()
        if first is not None:
            seen = seen * (torch.arange(ids.shape[1]) >= first[:, None])[..., None]
        mixed: torch.Tensor = self.mixture(seen.cumsum(dim=1) + past)
        return mixed


def counts(module: Counts) -> Any:
    def full(ids: torch.Tensor, lengths: Any = None) -> torch.Tensor:
        first = None if lengths is None else ids.shape[1] - lengths
        logits: torch.Tensor = module(ids, first=first)
        return logits

    def step(ids: torch.Tensor, cache: Any, lengths: Any = None) -> tuple[torch.Tensor, Any]:
        first = None if lengths is None else ids.shape[1] - lengths
        past = torch.zeros(len(ids), 1, VOCABULARY).double() if cache is None else cache
        new = torch.nn.functional.one_hot(ids, VOCABULARY).double()
        if first is not None:
            new = new * (torch.arange(ids.shape[1]) >= first[:, None])[..., None]
        logits = module(ids, past, first)
        past += new.sum(dim=1, keepdim=True)  # in place
        return logits, past

    return torch_module(
        module,
        step,
        full=full,
        vocab_size=VOCABULARY,
        max_length=24,
        supports_padding=True,
        fork=torch.clone,
        reorder=lambda cache, rows: cache[torch.as_tensor(rows)],
    )


def test_a_module_with_padding_and_operations() -> None:
    module = Counts().train()
    assert_cache_matches(counts(module))
    assert not module.training
    logits, cache = counts(module).step(np.array([[3]]), None)
    assert not logits.requires_grad
    assert not cache.requires_grad


def test_a_module_that_shares_its_fork() -> None:
    decoder = counts(Counts())
    decoder.fork = lambda cache: cache
    assert check(decoder).findings[0].kind == "ALIAS"


def test_functions_take_what_the_contract_knows() -> None:
    right = counts(Counts())
    decoder = functions(
        right.full, right.step, vocab_size=VOCABULARY, max_length=24, fork=torch.clone
    )
    report = check(decoder)
    assert report.ok
    assert "unlocks.fork" not in ids(report.not_checked)
    assert "unlocks.reorder" in ids(report.not_checked)
