"""x-transformers, litgpt and transformers: what docs/CHECKED.md says, checked anew.

Whatever it calls wrong is shown here by hand as well, without the checker and its adapters.
"""

import re
from typing import Any

import pytest
import torch
import transformers
from litgpt.generate import base as litgpt_generate
from tests.check.checked import ENTRIES, PAGE, Entry, Line, lines_of_the_page, report_on, versions
from tests.check.said import ids
from tests.check.strangers import LLAMA, lit_gpt, x_transformers
from tests.check.tiny_models import VOCABULARY, model
from x_transformers import AutoregressiveWrapper

from kvproof.checking.messages import Message
from kvproof.checking.names import CaseId, Stage

pytestmark = pytest.mark.slow  # dozens of models

PAGE_TEXT = PAGE.read_text()
ANEW = "run: PYTHONPATH=py .venv/bin/python -m tests.check.checked"


def test_the_page_lists_all_and_names_the_versions() -> None:
    listed = [(line.decoder, line.cache) for line in lines_of_the_page()]
    assert listed == [(f"{e.library}: {e.decoder}", e.cache) for e in ENTRIES], ANEW
    assert f"Versions: {versions()}." in PAGE_TEXT, ANEW


EXACT = [entry for entry in ENTRIES if entry.cache != "fp8"]
"""An fp8 cache is held to a budget that it nearly uses up: another processor's rounding decides."""


@pytest.mark.parametrize("entry", EXACT, ids=lambda entry: entry.name)
def test_the_page_says_what_a_fresh_run_says(entry: Entry) -> None:
    line, fresh = lines_of_the_page()[ENTRIES.index(entry)], Line.of(entry)
    assert (line.verdict, line.case) == (fresh.verdict, fresh.case), ANEW
    assert bool(line.error) == bool(fresh.error), ANEW
    if line.error:
        assert float(line.error) == pytest.approx(float(fresh.error), rel=0.1), ANEW
    assert float(line.allowed) == pytest.approx(float(fresh.allowed), rel=1), ANEW


def test_what_litgpt_has_no_way_to_do_is_listed() -> None:
    [entry] = [e for e in ENTRIES if "window 6, with" in e.name and e.library == "litgpt"]
    not_checked = report_on(entry).not_checked
    case = CaseId.LONGER_THAN_WINDOW.message
    assert Message("not-checked.unsupported", case=case, member="step") in not_checked
    assert Message("unlocks.reorder") in not_checked


RIGHT = [
    entry
    for entry in ENTRIES
    if entry.library == "transformers" and entry.cache in ("dynamic", "static")
][:12]


@pytest.mark.parametrize("entry", RIGHT, ids=lambda entry: entry.name)
def test_models_of_transformers_are_right(entry: Any) -> None:
    report = report_on(entry)
    assert report.findings == ()
    assert report.tolerance < 1e-3
    done = [one.args["stage"] for one in report.checked if "stage" in one.args]
    assert done == [stage.message for stage in Stage]


def test_what_a_cache_refuses_is_listed_as_not_checked() -> None:
    by_name = {entry.name: report_on(entry) for entry in RIGHT}
    static = by_name["transformers: Llama, 4 heads on 2, static"]
    assert "not-checked.unsupported" in ids(static.not_checked)
    windowed = by_name["transformers: Mistral, window 6, dynamic"]
    refused = [one.args for one in windowed.not_checked if one.id == "not-checked.refused"]
    [crop] = [one["refused"] for one in refused if one["case"] == CaseId.CROP_NOTHING.message]
    assert crop.args["error"] == "RuntimeError"


# --- By hand ------------------------------------------------------------------------------------

PROMPT = torch.tensor([[10, 25, 8, 14, 6, 13]])
TEXT = torch.tensor([[10, 25, 8, 14, 6, 13, 24, 15, 12, 28, 12, 19]])


@pytest.fixture(autouse=True)
def no_gradients() -> Any:
    with torch.no_grad():
        yield


def off(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).abs().max())


@pytest.mark.parametrize(
    ("options", "same"),
    [
        ({"rotary_pos_emb": True}, True),
        ({"rotary_pos_emb": True, "shift_tokens": 1}, False),
        ({"attn_data_dependent_alibi": True, "wrapper": {"use_abs_pos_emb": False}}, False),
    ],
    ids=["rotary", "shifted tokens", "data-dependent ALiBi"],
)
def test_x_transformers_generates_the_same_with_its_cache(options: Any, same: bool) -> None:
    net = x_transformers(**options).model
    assert net.can_cache_kv  # so it says itself
    texts = [
        AutoregressiveWrapper(net).generate(PROMPT, 30, temperature=0.0, cache_kv=cached)
        for cached in (True, False)
    ]
    assert torch.equal(*texts) == same


def test_x_transformers_sinusoids_fail_with_padding() -> None:
    net = x_transformers(wrapper={"scaled_sinu_pos_emb": True}).model
    with pytest.raises(RuntimeError, match="einsum"):
        net(PROMPT, seq_start_pos=torch.tensor([2]))


@pytest.mark.parametrize(("n_memory", "same"), [(0, True), (3, False)])
def test_x_transformers_memory_keys_see_the_padding(n_memory: int, same: bool) -> None:
    """Not about the cache: a padded row gets other logits than the row alone."""
    options: Any = {"rotary_pos_emb": True, "attn_num_mem_kv": n_memory}
    net = x_transformers(wrapper={"use_abs_pos_emb": False}, **options).model
    padded = net(torch.cat([PROMPT[:, :2], PROMPT], dim=1), seq_start_pos=torch.tensor([2]))
    assert (off(padded[:, 2:], net(PROMPT)) < 1e-4) == same


def generated_by_litgpt(model: Any) -> torch.Tensor:
    model.set_kv_cache(batch_size=1, max_seq_length=36)
    text = litgpt_generate.generate(model, PROMPT[0], 36, temperature=0.0, top_k=1)
    return torch.as_tensor(text)


def generated_without_cache(model: Any) -> torch.Tensor:
    text = PROMPT
    while text.shape[1] < 36:
        text = torch.cat([text, model(text)[:, -1:].argmax(dim=-1)], dim=1)
    return text[0]


@pytest.mark.parametrize(("cap", "same"), [(None, True), (50.0, False)])
def test_litgpt_generates_the_same_as_without_a_cache(cap: float | None, same: bool) -> None:
    gpt = lit_gpt(attention_logit_softcapping=cap, **LLAMA).model
    assert torch.equal(generated_by_litgpt(gpt), generated_without_cache(gpt)) == same


def test_litgpt_adds_its_mask_of_true_and_false_to_capped_scores() -> None:
    gpt = lit_gpt(attention_logit_softcapping=50.0, **LLAMA).model
    gpt.set_kv_cache(batch_size=1, max_seq_length=36)
    assert gpt.mask_cache.dtype == torch.bool
    prefilled = gpt(PROMPT, torch.arange(6), input_pos_maxp1=6)
    assert off(prefilled, gpt(PROMPT)) > 1
    assert off(prefilled[:, -1:], gpt(PROMPT)[:, -1:]) > 0.1
    for block in gpt.transformer.h:  # with the mask that it adds without a cache it is right
        attend = block.attn.scaled_dot_product_attention
        block.attn.scaled_dot_product_attention = lambda q, k, v, mask, attend=attend: attend(
            q, k, v, None if mask is None else torch.zeros(mask.shape).masked_fill(~mask, -1e9)
        )
    assert off(gpt(PROMPT, torch.arange(6), input_pos_maxp1=6), gpt(PROMPT)) < 1e-4


@pytest.mark.parametrize(("sizes", "same"), [([1] * 12, True), ([6, *[1] * 6], True), ([4] * 3, 0)])
def test_litgpt_fills_its_ring_in_chunks(sizes: list[int], same: bool) -> None:
    """Chunks shorter than the window, as its message for longer ones advises."""
    window: Any = {"sliding_window_size": 6, "sliding_window_indices": [1, 1]}
    gpt = lit_gpt(**window, **LLAMA).model
    gpt.set_kv_cache(batch_size=1)
    ends = torch.tensor(sizes).cumsum(0)
    pieces = [
        gpt(TEXT[:, end - size : end], torch.arange(end - size, end))
        for size, end in zip(sizes, ends, strict=True)
    ]
    assert (off(torch.cat(pieces, dim=1), gpt(TEXT)) < 1e-4) == same


def fed(net: Any, cache: Any, *sizes: int) -> torch.Tensor:
    pieces, start = [], 0
    for size in sizes:
        piece = TEXT[:, start : start + size]
        pieces.append(net(piece, past_key_values=cache, use_cache=True).logits)
        start += size
    return torch.cat(pieces, dim=1)


def test_gpt_neo_reads_the_empty_slots_of_a_static_cache() -> None:
    net = model("GPTNeoForCausalLM")
    wanted = net(TEXT, use_cache=False).logits
    dynamic = transformers.DynamicCache(config=net.config)
    assert off(fed(net, dynamic, 4, 8), wanted) < 1e-4
    static = transformers.StaticCache(net.config, max_cache_len=12)
    seen = fed(net, static, 4, 8)
    assert off(seen[:, :4], wanted[:, :4]) > 1  # 8 slots are empty
    assert off(seen[:, 4:], wanted[:, 4:]) < 1e-4  # none
    assert not net._can_compile_fullgraph  # "needs a hybrid cache"; nothing refuses this one


def test_jamba_forgets_its_state_in_a_chunk() -> None:
    net = model("JambaForCausalLM")
    wanted = net(TEXT, use_cache=False).logits
    for sizes, same in (([4, *[1] * 8], True), ([4, 8], False)):
        seen = fed(net, transformers.DynamicCache(config=net.config), *sizes)
        assert (off(seen, wanted) < 1e-3) == same


def test_a_recorded_window_is_cropped_further_back_than_recorded() -> None:
    net = model("MistralForCausalLM")
    cache = transformers.DynamicCache(config=net.config)
    cache.activate_past_recording()
    fed(net, cache, 8)
    cache.crop(-1)
    assert cache.layers[0].keys.shape[2] == 5
    cache.crop(-1)  # not refused
    assert cache.layers[0].keys.shape[2] == 4  # and 5 are needed
    with pytest.raises(RuntimeError, match="size of tensor"):
        net(TEXT[:, 6:7], past_key_values=cache)


def test_longrope_gives_a_prefix_other_logits() -> None:
    """As it is meant to: another rotation from 17 tokens on."""
    net = model("Phi3ForCausalLM")
    text = torch.arange(24)[None] % VOCABULARY
    assert off(net(text[:, :12]).logits, net(text[:, :16]).logits[:, :12]) < 1e-4
    assert off(net(text[:, :16]).logits, net(text).logits[:, :16]) > 0.1


@pytest.mark.parametrize(("n_first", "clipped"), [(1, True), (12, False)])
def test_fp8_clips_what_is_larger_than_in_the_first_call(n_first: int, clipped: bool) -> None:
    net = model("LlamaForCausalLM")
    exact = transformers.DynamicCache(config=net.config)
    rounded = transformers.QuantizedCache("fp8", net.config)
    fed(net, exact, 12)
    fed(net, rounded, n_first, *[1] * (12 - n_first))
    layer = rounded.layers[0]
    largest = layer._dequantize(layer._quantized_values).abs().max()
    assert (largest < 0.6 * exact.layers[0].values.abs().max()) == clipped


def test_every_wrong_line_is_explained_in_the_museum() -> None:
    museum = PAGE.parents[1] / "site" / "pages" / "en" / "museum.md"
    explained = museum.read_text().split("### What is behind them")[1].lower()
    for line in lines_of_the_page():
        if line.verdict != "right":
            library, _, decoder = line.decoder.lower().partition(": ")
            heads = re.findall(rf"^\*\*{library}, .*", explained, re.MULTILINE)
            parts = [part.partition(" in every")[0] for part in decoder.split(", ")]
            assert any(part in head for part in parts for head in heads), line
