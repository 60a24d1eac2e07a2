# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A KV cache in PyTorch: the proof first, then the stopwatch
#
# A decoder that writes text token by token can read its whole context anew at every step, or
# keep the keys and values of what it has read. This notebook builds a small decoder that can do
# both, proves that both give the same logits, breaks the cached one on purpose to see that the
# proof notices, and only then measures time.

# %% [markdown]
# ## 1 What this is, and what it isn't
#
# It **is** a correctness argument that you can rerun in a minute, with counts and CPU times of
# the same code beside it. The weights are random: nobody trained this model, and the proof doesn't
# depend on what it "says". Section 10 shows what the same mistakes do to one that was trained.
#
# It is **not** a benchmark of a serving engine. There is no GPU, no scheduler of requests, no
# tokenizer and no sampler. The times show how one small model scales on one CPU thread, and no
# more than that; section 9 says which conclusions they don't carry.
#
# Three words are used throughout: `n_past` tokens lie in the cache, `n_new` tokens are fed in
# one call, and together they are `n_total`.

# %% [markdown]
# ## 2 The environment
#
# The notebook shares its weights, tokens and masks with `kvproof`, a NumPy package in the same
# repository. If you downloaded this file alone, the next cell says how to get the rest. PyTorch,
# NumPy, Matplotlib, transformers and threadpoolctl are needed as well; any CPU will do.
# transformers builds its GPT-2 from sizes and gets our weights: nothing is downloaded.

# %%
import json
import os
import platform
import sys
import time
import warnings
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

sys.path.insert(0, str(Path("../py").resolve()))
try:
    import kvproof
    from kvproof.model.cache import KVCache
    from kvproof.model.fast_decoder import FastDecoder
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "This notebook needs the package kvproof, which lies beside it in the repository. Get the "
        "whole repository and open notebooks/kv_cache_cpu.ipynb there, or run `pip install .` in "
        "the repository's top folder and restart the kernel."
    ) from None

# %%
os.environ["HF_HUB_OFFLINE"] = "1"  # transformers reads it at its import: no hub is asked
warnings.filterwarnings("ignore", "IProgress not found")  # of its progress bars: we show none

import matplotlib
import numpy as np
import threadpoolctl
import torch
import transformers
from IPython.display import Markdown, display
from matplotlib import pyplot as plt
from matplotlib.ticker import LogLocator, NullLocator
from torch import Tensor, nn
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import pad, scaled_dot_product_attention

# %%
torch.set_num_threads(1)
threadpoolctl.threadpool_limits(1, user_api="blas")  # NumPy's matrix products
matplotlib.use("svg")  # figures are drawn once, by `show`
plt.rcParams.update({"svg.hashsalt": "kvproof", "figure.facecolor": "white", "font.size": 10})


def table(header, rows):
    """Show a Markdown table; all columns but the first are set flush right."""
    lines = [header, [":---"] + ["---:"] * (len(header) - 1), *rows]
    display(Markdown("\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)))


def show(figure, alt):
    """Show a figure as SVG, with a text for those who can't see it."""
    svg = StringIO()
    figure.savefig(svg, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    mime = "image/svg+xml"
    display({mime: svg.getvalue(), "text/plain": alt}, raw=True, metadata={mime: {"alt": alt}})


def cpu_model():
    """The CPU's name as Linux gives it, else what Python knows."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def system():
    """The operating system's name and the processor's family."""
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:  # not Linux
        name = platform.platform(terse=True)
    return f"{name}, {platform.machine()}"


def blas():
    """The library behind NumPy's matrix products, and its threads."""
    (library,) = threadpoolctl.ThreadpoolController().select(user_api="blas").info()
    return f"{library['internal_api']} {library['version']}", library["num_threads"]


blas_name, blas_threads = blas()
environment = {
    "cpu": cpu_model(),
    "os": system(),
    "python": platform.python_version(),
    "torch": torch.__version__,
    "transformers": transformers.__version__,
    "numpy": np.__version__,
    "blas": blas_name,
    "threads": torch.get_num_threads(),
    "blas_threads": blas_threads,
}
table(["", "this run"], environment.items())

# %% [markdown]
# ## 3 Six tokens, by hand
#
# Prefill four tokens, then feed the last two in a single call. This is NumPy: `kvproof.forward`
# is the plain decoder, `kvproof.decode` the cached one.

# %%
config = kvproof.REFERENCE
params = {dtype: kvproof.init_params(config, dtype=dtype) for dtype in ("float32", "float64")}

n_past, n_new = 4, 2
tokens = kvproof.example_tokens(n_past + n_new)
double = params["float64"]
recomputed = kvproof.forward(double, tokens, config)
empty = kvproof.new_cache(config, dtype="float64")
_, cache = kvproof.decode(double, tokens[:, :n_past], empty, config)
logits, longer = kvproof.decode(double, tokens[:, n_past:], cache, config)

# The first layer once more, step by step, to see its query and its scores.
first = double.blocks[0]
x = kvproof.model.layers.embed(double, tokens[:, n_past:], kvproof.offset_positions(n_past, n_new))
normed = kvproof.model.layers.layer_norm(x, first.norm1)
q, _, _ = kvproof.model.layers.project_qkv(normed, first, config)
k, v = longer.keys_values()[0]
scores = q @ k.swapaxes(-1, -2)

table(
    ["tokens " + str(tokens[0].tolist()), "shape"],
    [
        ["Q: the new tokens only (B, H, n_new, D)", q.shape],
        ["K: everything so far (B, H, n_total, D)", k.shape],
        ["V: everything so far (B, H, n_total, D)", v.shape],
        ["scores, one row a new token (B, H, n_new, n_total)", scores.shape],
        ["logits (B, n_new, V)", logits.shape],
    ],
)
for i, row in enumerate(kvproof.offset_mask(n_past, n_new)):
    print(f"the query at position {n_past + i} reads keys {np.flatnonzero(row).tolist()}")

# %% [markdown]
# Which row of the recompute belongs to row 0 of the call? Row 0 is the prediction *after* the
# call's first token was consumed; it isn't the probability of that token. So it must be held
# against the same consumed position, `n_past`. One row off, and a correct cache looks broken:

# %%
row_errors = np.abs(recomputed - logits[:, :1]).max(axis=(0, 2))  # (n_total,)
assert row_errors.argmin() == n_past
assert row_errors[n_past] < 1e-14 < 0.1 < np.delete(row_errors, n_past).min()
table(
    ["row 0 of the call against the recompute", "largest logit difference"],
    [
        [f"position {i}, consumed ID {tokens[0, i]}", f"{row_errors[i]:.2g}"]
        for i in (n_past - 1, n_past, n_past + 1)
    ],
)

# %% [markdown]
# ## 4 One mask for any history and any chunk
#
# Query row `i` stands at position `n_past + i`, key column `j` at position `j`. The query may
# attend to what isn't in its future: `j <= n_past + i`. Leave `n_past` out, and the triangle
# sticks to the top left corner. The shape is still legal, so nothing complains.
#
# What to notice: the top-left mask doesn't let the model cheat, it makes it forget. Each row
# loses exactly `n_past` keys.

# %%
STATES = {
    "may attend": ("#9ecae8", "1"),
    "hidden future": ("#eeeeee", "·"),
    "wrongly hidden": ("#f2a65a", "×"),
}


def draw_mask(axes, mask, right_mask, title):
    """One coloured and marked cell for each query and key."""
    n_queries, n_keys = mask.shape
    for i, j in np.ndindex(n_queries, n_keys):
        state = "may attend" if mask[i, j] else "hidden future"
        state = "wrongly hidden" if right_mask[i, j] and not mask[i, j] else state
        colour, mark = STATES[state]
        axes.add_patch(plt.Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor=colour, edgecolor="white"))
        axes.text(j, i, mark, ha="center", va="center")
    axes.set(title=title, xlabel="key position", xticks=range(n_keys), aspect="equal")
    axes.set(xlim=(-0.5, n_keys - 0.5), ylim=(n_queries - 0.5, -0.5))
    axes.set_yticks(range(n_queries), [f"query {n_keys - n_queries + i}" for i in range(n_queries)])


right, wrong = kvproof.offset_mask(n_past, n_new), kvproof.top_left_mask(n_past, n_new)
figure, (left_axes, right_axes) = plt.subplots(1, 2, figsize=(8, 1.9), layout="constrained")
draw_mask(left_axes, right, right, "offset mask")
draw_mask(right_axes, wrong, right, "top-left mask")
swatches = [plt.Rectangle((0, 0), 1, 1, facecolor=colour) for colour, _ in STATES.values()]
names = [f"{mark}  {state}" for state, (_, mark) in STATES.items()]
figure.legend(swatches, names, loc="outside lower center", ncols=len(STATES), frameon=False)
show(
    figure,
    f"Two masks for {n_past} cached and {n_new} new tokens. The offset mask opens "
    f"{right.sum()} cells. The top-left mask opens {wrong.sum()} and wrongly hides "
    f"{(right & ~wrong).sum()}, {n_past} in each row.",
)

# %% [markdown]
# `kvproof.compare_masks` feeds the same chunk with either mask and compares the logits with a full
# recompute.
#
# With no history the two masks are the same. With any history, even for one new token, they
# differ; and for one new token the right mask hides nothing, so code that skips the mask
# altogether passes until the first chunk of two. The last column is why comparing only the most
# likely token is a weak test: it can agree while the logits are wrong.

# %%
reports = [
    kvproof.compare_masks(p, c) for p, c in [(0, 4), (1, 1), (4, 1), (4, 2), (10, 3), (32, 16)]
]
table(
    ["n_past, n_new", "keys wrongly hidden", "error, offset", "error, top-left", "argmax agrees"],
    [
        [
            f"{r.n_past}, {r.n_new}",
            r.wrongly_hidden_keys,
            f"{r.offset.max_abs_error:.1e}",
            f"{r.top_left.max_abs_error:.3f}",
            f"{r.top_left.argmax_agreement:.0%}",
        ]
        for r in reports
    ],
)
assert all(r.wrongly_hidden_keys == r.n_past * r.n_new for r in reports)

# %% [markdown]
# ## 5 The decoder in PyTorch
#
# Positions and masks first. They are functions of `n_past` and `n_new` and nothing else, so the
# wrong ones of section 7 have the same signature and can be passed in instead.


# %%
def offset_positions(n_past, n_new):
    """Positions of the new tokens: they go on where the cache ends. (n_new,)"""
    return torch.arange(n_past, n_past + n_new)


def restarted_positions(_n_past, n_new):
    """Wrong: each call begins again at 0. (n_new,)"""
    return torch.arange(n_new)


def offset_mask(n_past, n_new):
    """True where a query may attend to a key. (n_new, n_past + n_new)"""
    return torch.arange(n_past + n_new) <= offset_positions(n_past, n_new)[:, None]


def top_left_mask(n_past, n_new):
    """Wrong: the triangle without the offset. (n_new, n_past + n_new)"""
    return torch.arange(n_past + n_new) <= restarted_positions(n_past, n_new)[:, None]


# %% [markdown]
# The cache is a list with one pair (K, V) for each layer. Two kinds of pair know how to append:
# one concatenates into new tensors, one writes into room that was allocated beforehand.
# Appending returns a longer pair and leaves the shorter one as it was.


# %%
@dataclass(frozen=True)
class ConcatPair:
    """Keys and values of one layer, each (B, H, T, D)."""

    k: Tensor
    v: Tensor

    @property
    def length(self):
        return self.k.shape[2]

    def append(self, k, v):
        return ConcatPair(torch.cat([self.k, k], dim=2), torch.cat([self.v, v], dim=2))


@dataclass(frozen=True)
class StaticPair:
    """The same, in a buffer (2, B, H, room, D) of which the first `length` slots are in use.

    Pairs that grew from one another share the buffer: two continuations of the same pair would
    overwrite each other, which `ConcatPair` has no trouble with.
    """

    buffer: Tensor
    length: int = 0

    @property
    def k(self):
        return self.buffer[0, :, :, : self.length]

    @property
    def v(self):
        return self.buffer[1, :, :, : self.length]

    def append(self, k, v):
        longer = StaticPair(self.buffer, self.length + k.shape[2])
        if longer.length > self.buffer.shape[3]:
            raise ValueError(f"{longer.length} tokens don't fit into {self.buffer.shape[3]} slots")
        longer.k[:, :, self.length :] = k
        longer.v[:, :, self.length :] = v
        return longer


def static_cache(room, batch_size=1, dtype=torch.float32):
    """An empty cache with room for that many tokens."""
    shape = (2, batch_size, config.n_heads, room, config.head_dim)
    return [StaticPair(torch.zeros(shape, dtype=dtype)) for _ in range(config.n_layers)]


# %% [markdown]
# A block is pre-norm: attention, then MLP, each added to its input. The cache costs it one line.
# A query is used once, so only K and V are kept; and each layer keeps its own, because the
# second layer's keys come from the second layer's input.


# %%
def linear(weight, bias=None):
    """A linear layer with kvproof's (in, out) weight; PyTorch stores (out, in)."""
    layer = nn.Linear(*weight.shape, bias=bias is not None)
    # Contiguous, as any PyTorch model has it, so that the times aren't those of a strided view.
    layer.weight = nn.Parameter(torch.tensor(weight).T.contiguous())
    if bias is not None:
        layer.bias = nn.Parameter(torch.tensor(bias))
    return layer


def layer_norm(norm):
    """A LayerNorm with kvproof's gain and bias."""
    layer = nn.LayerNorm(norm.gain.shape)
    layer.weight = nn.Parameter(torch.tensor(norm.gain))
    layer.bias = nn.Parameter(torch.tensor(norm.bias))
    return layer


class Block(nn.Module):
    def __init__(self, block, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.norm1 = layer_norm(block.norm1)
        self.qkv = linear(block.attention.w_qkv, block.attention.b_qkv)
        self.out = linear(block.attention.w_out, block.attention.b_out)
        self.norm2 = layer_norm(block.norm2)
        self.mlp = nn.Sequential(
            linear(block.mlp.w_in, block.mlp.b_in),
            nn.GELU(approximate="tanh"),
            linear(block.mlp.w_out, block.mlp.b_out),
        )

    def forward(self, x, visible, past):
        """x (B, n_new, W) -> the same shape, and the pair (K, V) of all tokens so far."""
        qkv = self.qkv(self.norm1(x))  # (B, n_new, 3W)
        q, k, v = qkv.unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4)
        pair = past.append(k, v) if past else ConcatPair(k, v)
        attended = scaled_dot_product_attention(q, pair.k, pair.v, attn_mask=visible)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x)), pair


# %% [markdown]
# The decoder reads `n_past` from the cache in one place; positions and mask both follow from it.
# Without a cache it is the plain decoder, and reads everything that it is given.


# %%
class Decoder(nn.Module):
    def __init__(self, params):
        super().__init__()
        self.token_embedding = nn.Embedding.from_pretrained(torch.tensor(params.token_embedding))
        self.position_embedding = nn.Embedding.from_pretrained(
            torch.tensor(params.position_embedding)
        )
        self.blocks = nn.ModuleList(Block(block, config.n_heads) for block in params.blocks)
        self.final_norm = layer_norm(params.final_norm)
        self.unembedding = linear(params.unembedding)

    @torch.inference_mode()
    def forward(
        self, tokens, cache=None, mask=offset_mask, positions=offset_positions, last_only=False
    ):
        """tokens (B, n_new) -> logits (B, n_new, V), and the cache with the new tokens in it."""
        n_past = cache[0].length if cache else 0
        n_new = tokens.shape[1]
        visible = mask(n_past, n_new)
        x = self.token_embedding(tokens) + self.position_embedding(positions(n_past, n_new))
        longer = []
        for layer, block in enumerate(self.blocks):
            x, pair = block(x, visible, cache[layer] if cache else None)
            longer.append(pair)
        if last_only:
            x = x[:, -1:]
        return self.unembedding(self.final_norm(x)), longer


def example(n_total, batch_size=1):
    """The first `n_total` tokens of the example text, int64 (B, n_total)."""
    return torch.from_numpy(kvproof.example_tokens(n_total, batch_size).copy())


def feed(decoder, tokens, chunk, cache=None, **how):
    """Feed `tokens` in calls of `chunk` (the last may be short): all logits, final cache."""
    logits = []
    for piece in tokens.split(chunk, dim=1):
        step, cache = decoder(piece, cache, **how)
        logits.append(step)
    return torch.cat(logits, dim=1), cache


decoders = {dtype: Decoder(arrays).eval() for dtype, arrays in params.items()}

# %% [markdown]
# The same arrays are now in NumPy and in PyTorch, and the two share no line of arithmetic. So
# each is a check on the other: the plain pass, and the cached call on 4 + 2 tokens.

# %%
n_parameters = sum(array.size for array in kvproof.params_to_arrays(double).values())
assert n_parameters == sum(p.numel() for p in decoders["float32"].parameters())
assert n_parameters == kvproof.parameter_count(config)


def twin_errors(dtype):
    """Largest difference of PyTorch's logits from NumPy's: plain pass, cached call."""
    decoder, arrays = decoders[dtype], params[dtype]
    tokens = example(n_past + n_new)
    prompt, chunk = tokens[:, :n_past], tokens[:, n_past:]
    plain = kvproof.forward(arrays, tokens, config)
    _, past = kvproof.decode(arrays, prompt, kvproof.new_cache(config, dtype=dtype), config)
    cached, _ = kvproof.decode(arrays, chunk, past, config)
    return (
        np.abs(decoder(tokens)[0].numpy() - plain).max(),
        np.abs(decoder(chunk, decoder(prompt)[1])[0].numpy() - cached).max(),
    )


twins = {dtype: twin_errors(dtype) for dtype in decoders}
assert max(twins["float32"]) <= 2e-6, twins
assert max(twins["float64"]) <= 1e-14, twins
table(
    ["PyTorch against NumPy", "plain pass", f"cached, {n_past} + {n_new} tokens"],
    [[dtype, *(f"{error:.1e}" for error in errors)] for dtype, errors in twins.items()],
)

_, pairs = decoders["float64"](example(6))
apart = (pairs[0].k - pairs[1].k).abs().max().item()
assert apart > 0.1
display(
    Markdown(
        f"{n_parameters:,} parameters in both. K of the two layers, each "
        f"{tuple(pairs[0].k.shape)}, differ by up to {apart:.2f}: one can't stand in for the other."
    )
)

# %% [markdown]
# ## 6 Equivalence: every logit, every layer
#
# ### 6.1 Twelve combinations
#
# Batch 1 and 2, chunks of 1, 2 and 5 tokens (24 isn't a multiple of 5, so the last chunk is
# short), float32 and float64. The float64 weights are the float32 ones converted: a mistake in
# the flow shows in both precisions alike, while rounding shrinks by a factor of 2^29. For each
# combination:
#
# - **logits**: all 24 consumed positions, the whole vocabulary, against one plain pass;
# - **K/V**: shape and content in both layers; and the same for the preallocated cache;
# - **causality**: change the last token, and no earlier logit may move (the last one must);
# - **lifetime**: a call leaves the cache that it was given as it was.
#
# A failed check stops the notebook. What to notice: the errors are a few units of rounding, in
# both precisions, whatever the chunk.

# %%
N_TOKENS = 24
TOLERANCE = {"float32": 1e-5, "float64": 1e-10}  # both absolute and relative
BOUND = {"float32": 2e-6, "float64": 1e-14}


def max_error(actual, expected):
    """Largest absolute difference of two tensors, as a Python float."""
    return (actual - expected).abs().max().item()


def check_logits(actual, expected, dtype):
    """Largest logit error; raises if it is more than rounding."""
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=tolerance)
    error = max_error(actual, expected)
    assert error <= BOUND[dtype], f"logit error {error:.2e} is above {BOUND[dtype]:.0e} ({dtype})"
    return error


def check_keys_values(cache, expected_cache, dtype):
    """Largest K/V error of all layers; raises on a wrong shape or content."""
    tolerance, errors = TOLERANCE[dtype], []
    for layer, (pair, expected) in enumerate(zip(cache, expected_cache, strict=True)):
        for name in ("k", "v"):
            actual, wanted = getattr(pair, name), getattr(expected, name)
            assert actual.shape == wanted.shape, f"layer {layer} {name}: {actual.shape}"
            torch.testing.assert_close(actual, wanted, atol=tolerance, rtol=tolerance)
            errors.append(max_error(actual, wanted))
    return max(errors)


def check_causality(run, tokens, dtype):
    """Largest change of an earlier logit when the last token changes; raises if there is one."""
    changed = tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % config.vocab_size
    moved = (run(changed) - run(tokens)).abs().amax(dim=(0, 2))  # (N_TOKENS,)
    assert moved[:-1].max() <= BOUND[dtype], f"the future reaches back: {moved[:-1].max():.2e}"
    assert moved[-1] > 0.1, f"the last token has no effect: {moved[-1]:.2e}"
    return moved[:-1].max().item()


def check_lifetime(decoder, tokens, chunk):
    """True if a call leaves the cache that it was given as it was; raises if not."""
    prompt, rest = tokens[:, : N_TOKENS // 2], tokens[:, N_TOKENS // 2 :]
    _, past = decoder(prompt)
    before = [(pair.k.clone(), pair.v.clone()) for pair in past]
    decoder(rest[:, :chunk], past)
    for layer, (pair, (k, v)) in enumerate(zip(past, before, strict=True)):
        assert torch.equal(pair.k, k), f"layer {layer}: the call changed K"
        assert torch.equal(pair.v, v), f"layer {layer}: the call changed V"
    return True


def check_combination(batch_size, chunk, dtype):
    """All checks of one combination; the largest errors found."""
    decoder, tokens = decoders[dtype], example(N_TOKENS, batch_size)
    expected, expected_cache = decoder(tokens)
    logits, cache = feed(decoder, tokens, chunk)
    room = static_cache(N_TOKENS, batch_size, getattr(torch, dtype))
    static_logits, static = feed(decoder, tokens, chunk, room)
    shape = (batch_size, config.n_heads, N_TOKENS, config.head_dim)
    assert all(pair.k.shape == pair.v.shape == shape for pair in cache + static)
    return {
        "batch_size": batch_size,
        "chunk": chunk,
        "dtype": dtype,
        "max_logit_error": check_logits(logits, expected, dtype),
        "max_kv_error": check_keys_values(cache, expected_cache, dtype),
        "max_logit_error_static": check_logits(static_logits, expected, dtype),
        "max_kv_error_static": check_keys_values(static, expected_cache, dtype),
        "max_earlier_logit_change": max(
            check_causality(lambda tokens: decoder(tokens)[0], tokens, dtype),
            check_causality(lambda tokens: feed(decoder, tokens, chunk)[0], tokens, dtype),
        ),
        "passed_in_cache_unchanged": check_lifetime(decoder, tokens, chunk),
    }


# %%
equivalence = [
    check_combination(batch_size, chunk, dtype)
    for dtype in ("float32", "float64")
    for batch_size in (1, 2)
    for chunk in (1, 2, 5)
]
ERRORS = {
    "logits": "max_logit_error",
    "K/V": "max_kv_error",
    "logits, static": "max_logit_error_static",
    "K/V, static": "max_kv_error_static",
    "earlier logits moved": "max_earlier_logit_change",
}
table(
    ["dtype", "batch", "chunk", *ERRORS, "old cache"],
    [
        [row["dtype"], row["batch_size"], row["chunk"]]
        + [f"{row[name]:.2e}" for name in ERRORS.values()]
        + ["unchanged" if row["passed_in_cache_unchanged"] else "CHANGED"]
        for row in equivalence
    ],
)
for dtype, bound in BOUND.items():
    worst = max(row["max_logit_error"] for row in equivalence if row["dtype"] == dtype)
    unit = kvproof.compare_masks(0, N_TOKENS, dtype).rounding_floor
    print(f"{dtype}: largest logit error {worst:.2e} = {worst / unit:.1f} units of rounding")
    print(f"         the bound was {bound:.0e}")

# %% [markdown]
# ### 6.2 A longer text
#
# One more view of the same fact: the error of each position, fed token by
# token in float32, against one plain pass. It is stored with the times and drawn in section 9.3.


# %%
def error_curve(n_total):
    """Largest float32 logit error of each position, token by token against one plain pass."""
    tokens = example(n_total)
    expected, _ = decoders["float32"](tokens)
    errors = (feed(decoders["float32"], tokens, 1)[0] - expected).abs().amax(dim=(0, 2))
    return {
        "n_total": n_total,
        "dtype": "float32",
        "chunk": 1,
        "rounding_unit": torch.finfo(torch.float32).eps * expected.abs().max().item(),
        "max_logit_error": errors.tolist(),
    }


curve = error_curve(272)
assert max(curve["max_logit_error"]) <= TOLERANCE["float32"]

# %% [markdown]
# ### 6.3 Somebody else's cache: transformers' GPT-2
#
# So far our decoder was judged by itself and by its twin in NumPy. The GPT-2 of Hugging Face's
# transformers has the same parts: learned positions, LayerNorm before each half of a block, GELU
# in its tanh form. Built at our sizes and filled with our weights, it must give our logits; and
# its `DynamicCache` must end up with our keys and values. Its weights are (in, out) like ours, so
# filling it is a matter of names, but for the unembedding, which it usually shares with the
# embedding and here doesn't.

# %%
WHOLE = {
    "token_embedding": "transformer.wte.weight",
    "position_embedding": "transformer.wpe.weight",
    "final_norm.gain": "transformer.ln_f.weight",
    "final_norm.bias": "transformer.ln_f.bias",
    "unembedding": "lm_head.weight",
}
IN_BLOCK = {
    "norm1.gain": "ln_1.weight",
    "norm1.bias": "ln_1.bias",
    "attention.w_qkv": "attn.c_attn.weight",
    "attention.b_qkv": "attn.c_attn.bias",
    "attention.w_out": "attn.c_proj.weight",
    "attention.b_out": "attn.c_proj.bias",
    "norm2.gain": "ln_2.weight",
    "norm2.bias": "ln_2.bias",
    "mlp.w_in": "mlp.c_fc.weight",
    "mlp.b_in": "mlp.c_fc.bias",
    "mlp.w_out": "mlp.c_proj.weight",
    "mlp.b_out": "mlp.c_proj.bias",
}


def gpt2_name(name):
    """What GPT-2 calls one of our arrays."""
    if name in WHOLE:
        return WHOLE[name]
    block, _, part = name.partition(".")
    return f"transformer.h.{block.removeprefix('block')}.{IN_BLOCK[part]}"


def gpt2(params):
    """transformers' GPT-2 with our sizes and our weights; raises if one is left over."""
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=config.vocab_size,
            n_positions=config.max_positions,
            n_embd=config.width,
            n_layer=config.n_layers,
            n_head=config.n_heads,
            n_inner=config.mlp_width,
            activation_function="gelu_new",
            layer_norm_epsilon=1e-5,
            tie_word_embeddings=False,
            bos_token_id=None,
            eos_token_id=None,
        )
    )
    arrays = kvproof.params_to_arrays(params)
    state = {gpt2_name(name): torch.tensor(array) for name, array in arrays.items()}
    state["lm_head.weight"] = state["lm_head.weight"].T.contiguous()
    model.load_state_dict(state)
    return model.to(state["lm_head.weight"].dtype).eval()


def gpt2_step(model):
    """A call like the decoder's: logits and the cache, which GPT-2 changes in place."""

    @torch.inference_mode()
    def step(tokens, cache):
        output = model(input_ids=tokens, past_key_values=cache, use_cache=True)
        return output.logits, output.past_key_values

    return step


def check_gpt2(dtype, chunk):
    """GPT-2 with its own cache against our plain pass: largest errors of logits and K/V."""
    tokens = example(N_TOKENS, batch_size=2)
    expected, expected_cache = decoders[dtype](tokens)
    model = gpt2s[dtype]
    cache = transformers.DynamicCache(config=model.config)
    logits, cache = feed(gpt2_step(model), tokens, chunk, cache)
    pairs = [ConcatPair(layer.keys, layer.values) for layer in cache.layers]
    return {
        "dtype": dtype,
        "chunk": chunk,
        "max_logit_error": check_logits(logits, expected, dtype),
        "max_kv_error": check_keys_values(pairs, expected_cache, dtype),
    }


gpt2s = {dtype: gpt2(arrays) for dtype, arrays in params.items()}
others = [check_gpt2(dtype, chunk) for dtype in gpt2s for chunk in (1, 5, N_TOKENS)]
table(
    ["GPT-2 with DynamicCache", "chunk", "logits", "K/V"],
    [
        [row["dtype"], row["chunk"], f"{row['max_logit_error']:.2e}", f"{row['max_kv_error']:.2e}"]
        for row in others
    ],
)

# %% [markdown]
# ### 6.4 Prompts of unequal length
#
# A batch needs rows of one length, prompts seldom have it. The usual remedy is padding at the
# left, so that all rows end together and the next token of each goes into the same slot. Then a
# slot is no longer a position, and two things must be told apart for each row:
#
# - **positions** count the row's own tokens: slot minus pads;
# - **visibility** has two reasons that must both hold: a key isn't in the future (the same for
#   all rows), and it isn't padding (different for each row).
#
# A pad attends to itself, so that its row of the softmax isn't empty; nobody reads the result.
# The decoder of section 5 needs no change for this: mask and positions are passed in.


# %%
def padded(padding):
    """Mask and positions for rows that begin with so many pads: options of a call."""
    padding = torch.tensor(padding)[:, None]  # (B, 1)

    def mask(n_past, n_new):
        """(B, 1, n_new, n_past + n_new), the same for all heads."""
        slots = torch.arange(n_past + n_new)
        is_token = (slots >= padding)[:, None]  # (B, 1, n_total)
        itself = slots == offset_positions(n_past, n_new)[:, None]  # (n_new, n_total)
        return (offset_mask(n_past, n_new) & is_token | itself)[:, None]

    def positions(n_past, n_new):
        """(B, n_new)"""
        return (offset_positions(n_past, n_new) - padding).clamp(min=0)

    return {"mask": mask, "positions": positions}


PROMPTS, CONTINUATION, PAD = (3, 7, 5), 4, 0
n_slots = max(PROMPTS)
PADDING = [n_slots - length for length in PROMPTS]
texts = [
    example(length + CONTINUATION, len(PROMPTS))[row : row + 1]
    for row, length in enumerate(PROMPTS)
]


def ragged_errors(dtype, pad_id=PAD, **how):
    """Largest logit error of each row against the row alone: prefill, then token by token."""
    rows = [pad(text, (n, 0), value=pad_id) for text, n in zip(texts, PADDING, strict=True)]
    batch, decoder = torch.cat(rows), decoders[dtype]
    prefill, cache = decoder(batch[:, :n_slots], **how)
    steps, _ = feed(decoder, batch[:, n_slots:], 1, cache, **how)
    logits = torch.cat([prefill, steps], dim=1)
    return [
        max_error(logits[row, n_pads:], decoder(text)[0][0])
        for row, (text, n_pads) in enumerate(zip(texts, PADDING, strict=True))
    ]


def ragged_row(variant, dtype, **how):
    """One line of the file: the errors of all rows for one way to treat padding."""
    return {"variant": variant, "dtype": dtype, "row_errors": ragged_errors(dtype, **how)}


right_ragged = [ragged_row("right", dtype, **padded(PADDING)) for dtype in decoders]
for row in right_ragged:
    assert max(row["row_errors"]) <= BOUND[row["dtype"]], row
    assert row["row_errors"] == ragged_errors(row["dtype"], pad_id=PAD + 1, **padded(PADDING))
table(
    ["left-padded row against the row alone", *(f"prompt of {n}" for n in PROMPTS)],
    [[row["dtype"], *(f"{error:.1e}" for error in row["row_errors"])] for row in right_ragged],
)
visible = padded(PADDING)["mask"](n_slots, 2)[:, 0]
for row, (length, mask) in enumerate(zip(PROMPTS, visible, strict=True)):
    first, last = (torch.where(line)[0].tolist() for line in mask)
    print(f"row {row}, prompt of {length}, step 2 reads slots {last[0]} to {last[-1]}")
print("With another ID for the pads the errors are the same to the last bit.")

# %% [markdown]
# ## 7 Broken variants
#
# ### 7.1 Two classic mistakes
#
# A proof that can't fail proves nothing. Two mistakes that have been made many times, on a
# prefix of four and a suffix of two tokens, in float64: positions that restart at 0 with each
# call, and the mask without its offset. Neither raises, neither makes a NaN.

# %%
BROKEN = {
    "positions restart": {"positions": restarted_positions},
    "mask without offset": {"mask": top_left_mask},
}


def run_variant(name, options):
    """Logits of the suffix against the plain pass, for one way to make the call."""
    decoder, tokens = decoders["float64"], example(n_past + n_new)
    expected = decoder(tokens)[0][:, n_past:]
    _, past = decoder(tokens[:, :n_past])
    logits, _ = decoder(tokens[:, n_past:], past, **options)
    return {
        "name": name,
        "max_logit_error": max_error(logits, expected),
        "row_errors": (logits - expected).abs().amax(dim=(0, 2)).tolist(),
        "argmax_agreement": (logits.argmax(-1) == expected.argmax(-1)).double().mean().item(),
        "n_nan": int(logits.isnan().sum()),
    }


correct = run_variant("correct", {})
broken = [run_variant(name, options) for name, options in BROKEN.items()]
assert correct["max_logit_error"] <= BOUND["float64"]
assert all(row["max_logit_error"] > 0.1 for row in broken)
table(
    ["variant", "largest logit error", "row 0", "row 1", "argmax agrees", "NaN"],
    [
        [
            row["name"],
            *(f"{error:.3g}" for error in [row["max_logit_error"], *row["row_errors"]]),
            f"{row['argmax_agreement']:.0%}",
            row["n_nan"],
        ]
        for row in [correct, *broken]
    ],
)

# %%
unseen = [row["name"] for row in broken if row["argmax_agreement"] == 1]
verdict = f"Argmax sees nothing wrong with: {', '.join(unseen)}." if unseen else "Argmax sees both."
display(Markdown(f"**{verdict}** A test of generated text sees only what changes the top token."))

# %% [markdown]
# ### 7.2 The same mistakes in NumPy
#
# The NumPy decoder, given the same mistakes, makes the same errors. So they are properties of
# the mistakes, not of one implementation.

# %%
numpy_mask = kvproof.compare_masks(n_past, n_new, "float64").top_left.row_errors
numpy_logits, _ = kvproof.decode(
    double, tokens[:, n_past:], cache, config, positions=kvproof.restarted_positions
)
numpy_positions = np.abs(numpy_logits - recomputed[:, n_past:]).max(axis=(0, 2))
twin_rows = dict(zip(BROKEN, (numpy_positions, numpy_mask), strict=True))
for row in broken:
    np.testing.assert_allclose(row["row_errors"], twin_rows[row["name"]], rtol=0, atol=1e-13)
table(
    ["variant", "PyTorch", "NumPy"],
    [
        [row["name"], f"{row['max_logit_error']:.12f}", f"{twin_rows[row['name']].max():.12f}"]
        for row in broken
    ],
)

# %% [markdown]
# ### 7.3 PyTorch's two alignments
#
# The mask without offset is no exotic mistake: it is what `is_causal=True` means in PyTorch's own
# attention when there are more keys than queries. `causal_lower_right` is the other alignment. To
# see what a call really reads, give it the identity matrix as values: what comes out are the
# attention weights, and a weight is positive where the key was visible.


# %%
def attention(n_past, n_new, weights_only=False, **how):
    """Attention of random queries to random keys: (n_new, head_dim), or (n_new, n_total)."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(1, 1, n_rows, config.head_dim, dtype=torch.float64, generator=generator)
        for n_rows in (n_new, n_past + n_new, n_past + n_new)
    )
    if weights_only:
        v = torch.eye(n_past + n_new, dtype=torch.float64)[None, None]
    return scaled_dot_product_attention(q, k, v, **how)[0, 0]


def visible_keys(n_past, n_new, **how):
    """What a call reads. (n_new, n_total)"""
    return (attention(n_past, n_new, weights_only=True, **how) > 0).numpy()


def alignments(n_past, n_new):
    """PyTorch's two ways to ask for a causal mask."""
    return {
        "is_causal=True": {"is_causal": True},
        "causal_lower_right": {"attn_mask": causal_lower_right(n_new, n_past + n_new)},
    }


seen = {name: visible_keys(n_past, n_new, **how) for name, how in alignments(n_past, n_new).items()}
np.testing.assert_array_equal(seen["is_causal=True"], kvproof.top_left_mask(n_past, n_new))
np.testing.assert_array_equal(seen["causal_lower_right"], kvproof.offset_mask(n_past, n_new))
figure, both_axes = plt.subplots(1, 2, figsize=(8, 1.9), layout="constrained")
for axes, (name, mask) in zip(both_axes, seen.items(), strict=True):
    draw_mask(axes, mask, kvproof.offset_mask(n_past, n_new), name)
figure.legend(swatches, names, loc="outside lower center", ncols=len(STATES), frameon=False)
show(
    figure,
    f"What PyTorch's attention reads with {n_past} cached and {n_new} new tokens. is_causal=True "
    f"opens {seen['is_causal=True'].sum()} cells, those of the top-left mask; causal_lower_right "
    f"opens {seen['causal_lower_right'].sum()}, those of the offset mask.",
)

# %% [markdown]
# The same as numbers, for several histories and chunks. What to notice: with no history all agree,
# which is why the flag works in training and in the prefill; and with a history even the single
# token of an ordinary step is wrong, since under the flag it reads the very first key and no other.


# %%
def alignment_row(n_past, n_new):
    """Largest differences of PyTorch's two ways from our two masks."""
    attended = {
        name: attention(n_past, n_new, **how) for name, how in alignments(n_past, n_new).items()
    }
    masked = {
        mask: attention(n_past, n_new, attn_mask=mask(n_past, n_new))
        for mask in (top_left_mask, offset_mask)
    }
    return {
        "n_past": n_past,
        "n_new": n_new,
        "flag_from_top_left": max_error(attended["is_causal=True"], masked[top_left_mask]),
        "flag_from_offset": max_error(attended["is_causal=True"], masked[offset_mask]),
        "lower_right_from_offset": max_error(attended["causal_lower_right"], masked[offset_mask]),
    }


sdpa = [alignment_row(p, c) for p, c in [(0, 4), (1, 1), (4, 1), (4, 2), (10, 3), (32, 16)]]
for row in sdpa:
    assert max(row["flag_from_top_left"], row["lower_right_from_offset"]) < 1e-14, row
    assert (row["flag_from_offset"] > 0.01) == (row["n_past"] > 0), row
table(
    [
        "n_past, n_new",
        "is_causal − top-left mask",
        "is_causal − offset mask",
        "causal_lower_right − offset mask",
    ],
    [
        [f"{row['n_past']}, {row['n_new']}", *(f"{row[name]:.1e}" for name in list(row)[2:])]
        for row in sdpa
    ],
)
keys = np.flatnonzero(visible_keys(4, 1, is_causal=True)[0]).tolist()
assert keys == [0]
print(f"4 cached, 1 new, is_causal=True: the query at position 4 reads keys {keys}")

# %% [markdown]
# ### 7.4 One position vector for all rows
#
# The batch of section 6.4 again, with its two requirements broken one at a time. What to notice:
# the longest prompt has no padding, so it is right either way; a test with equal lengths finds
# neither mistake.

# %%
right_how = padded(PADDING)
RAGGED_MISTAKES = {
    "one position vector for all rows": {**right_how, "positions": offset_positions},
    "padding visible": {**right_how, "mask": offset_mask},
}
broken_ragged = [ragged_row(variant, "float64", **how) for variant, how in RAGGED_MISTAKES.items()]
for row in broken_ragged:
    for n_pads, error in zip(PADDING, row["row_errors"], strict=True):
        assert error > 0.1 if n_pads else error <= BOUND["float64"], row
ragged = [*right_ragged, *broken_ragged]
table(
    ["variant, float64", *(f"prompt of {n}, {n_slots - n} pads" for n in PROMPTS)],
    [
        [row["variant"], *(f"{error:.3g}" for error in row["row_errors"])]
        for row in ragged
        if row["dtype"] == "float64"
    ],
)

# %% [markdown]
# The NumPy decoder takes `lengths` for the same thing, and agrees row by row:

# %%
padded_rows = [pad(text, (n, 0)) for text, n in zip(texts, PADDING, strict=True)]
lengths = [text.shape[1] for text in texts]
numpy_rows = kvproof.forward(double, torch.cat(padded_rows).numpy(), config, lengths=lengths)
numpy_errors = [
    np.abs(row[n:] - decoders["float64"](text)[0][0].numpy()).max()
    for row, n, text in zip(numpy_rows, PADDING, texts, strict=True)
]
assert max(numpy_errors) <= BOUND["float64"]
print("NumPy, left-padded, against PyTorch, row alone:", *(f"{e:.1e}" for e in numpy_errors))

# %% [markdown]
# ## 8 Counts, protocol and times
#
# ### 8.1 The nine paths
#
# Each path but the first consumes the same 16 tokens, known beforehand, after a prefix that was
# read before the clock starts, and returns the logits of each step.
#
# - `prefill` reads the prefix in one call. It is timed apart.
# - `full_recompute` reads the whole context at every step and projects every position onto the
#   vocabulary, of which only the last is needed.
# - `full_recompute_last_only` projects the last position only: the fair baseline.
# - `cached_concat` feeds one token a step and concatenates.
# - `cached_static` does the same in preallocated room.
# - `cached_transformers` is the GPT-2 of section 6.3 with its `DynamicCache`, which concatenates.
# - `numpy_concat` and `numpy_static` are `kvproof.decode` with two of its storages.
# - `numpy_fast` is `kvproof.model.fast_decoder` in preallocated room: the same decoder, with all
#   that doesn't depend on the tokens worked out beforehand.
#
# A cache that is changed in place goes back to the prefix at the beginning of each run.

# %%
PREFIXES, STEPS = (16, 64, 128, 256), 16
RECOMPUTED = ("full_recompute", "full_recompute_last_only")


def full_recompute(decoder, tokens, prefix, last_only=False):
    """Logits (1, STEPS, V) with the whole context read anew at each step; the last call's K/V."""
    logits = []
    for n_total in range(prefix + 1, tokens.shape[1] + 1):
        step, pairs = decoder(tokens[:, :n_total], last_only=last_only)
        logits.append(step[:, -1:])
    return torch.cat(logits, dim=1), pairs


def resume(step, tokens, cache, crop, join):
    """A path that goes back to the prefix, then takes one step for each of `tokens`."""

    def path():
        nonlocal cache
        cache, logits = crop(cache), []
        for i in range(tokens.shape[1]):
            step_logits, cache = step(tokens[:, i : i + 1], cache)
            logits.append(step_logits)
        return join(logits, 1), cache

    return path


def numpy_path(step, prompt, rest, **storage):
    """Token by token through a decoder of kvproof."""
    empty = kvproof.new_cache(config, dtype="float32", **storage)
    _, cache = step(prompt.numpy(), empty)
    prefix = prompt.shape[1]
    return resume(step, rest.numpy(), cache, lambda cache: cache.crop(prefix), np.concatenate)


def transformers_path(model, prompt, rest):
    """Token by token through transformers' model with its `DynamicCache`."""
    step, prefix = gpt2_step(model), prompt.shape[1]
    _, cache = step(prompt, transformers.DynamicCache(config=model.config))

    def crop(cache):
        cache.crop(prefix - cache.get_seq_length())  # minus the number of tokens to drop
        return cache

    return resume(step, rest, cache, crop, torch.cat)


def make_paths(dtype, prefix):
    """The nine paths after a prefix, each a function that gives logits and a cache."""
    decoder, arrays = decoders[dtype], params[dtype]
    tokens = example(prefix + STEPS)
    prompt, rest = tokens[:, :prefix], tokens[:, prefix:]
    static = {"storage": "static", "capacity": prefix + STEPS}
    fast = FastDecoder(arrays, config)
    _, concat_pairs = decoder(prompt)
    _, static_pairs = decoder(prompt, static_cache(prefix + STEPS))

    def plain(tokens, cache):
        return kvproof.decode(arrays, tokens, cache, config)

    return {
        "prefill": lambda: decoder(prompt),
        "full_recompute": lambda: full_recompute(decoder, tokens, prefix),
        "full_recompute_last_only": lambda: full_recompute(decoder, tokens, prefix, last_only=True),
        "cached_concat": lambda: feed(decoder, rest, 1, concat_pairs),
        "cached_static": lambda: feed(decoder, rest, 1, static_pairs),
        "cached_transformers": transformers_path(gpt2s[dtype], prompt, rest),
        "numpy_concat": numpy_path(plain, prompt, rest),
        "numpy_static": numpy_path(plain, prompt, rest, **static),
        "numpy_fast": numpy_path(fast.decode, prompt, rest, **static),
    }


# %% [markdown]
# ### 8.2 What is computed and what is kept
#
# Before any time, two numbers that don't depend on the machine, each counted in the running code
# and by formula. With prefix P and G steps, full recompute projects `G*P + G*(G+1)/2` positions
# onto Q, K and V in each layer, the cached decoder G. K and V of n tokens take
# `2 * B * n * n_layers * n_heads * head_dim * itemsize` bytes.
#
# A count is not a speed-up: a call for one token and a call for 270 don't cost the same per
# token. Section 9 has both side by side.


# %%
@contextmanager
def counting():
    """Count the positions that enter the first layer's Q/K/V projection and the unembedding."""
    counts = Counter()

    def count(name):
        return lambda _, arguments: counts.update({name: arguments[0].shape[:-1].numel()})

    decoder, model = decoders["float32"], gpt2s["float32"]
    counted = {
        "projected": (decoder.blocks[0].qkv, model.transformer.h[0].attn.c_attn),
        "unembedded": (decoder.unembedding, model.lm_head),
    }
    handles = [
        module.register_forward_pre_hook(count(name))
        for name, modules in counted.items()
        for module in modules
    ]
    try:
        yield counts
    finally:
        for handle in handles:
            handle.remove()


def kv_bytes_of(cache):
    """Bytes of the real K and V tensors, of whichever cache a path has."""
    if isinstance(cache, KVCache):
        pairs = cache.keys_values()
    elif isinstance(cache, transformers.DynamicCache):
        pairs = [(layer.keys, layer.values) for layer in cache.layers]
    else:
        pairs = [(pair.k, pair.v) for pair in cache]
    return sum(k.nbytes + v.nbytes for k, v in pairs)


def kv_bytes_formula(n_tokens, batch_size=1, itemsize=4):
    """2 * B * n * n_layers * n_heads * head_dim * itemsize"""
    return 2 * batch_size * n_tokens * config.n_layers * config.n_heads * config.head_dim * itemsize


def count_path(name, path, prefix):
    """Counts of one run of a path, with the formulas' values beside them."""
    with counting() as counts:
        logits, cache = path()
    if isinstance(cache, KVCache):  # NumPy has no hooks, but its caches count what they take in
        counts.update(projected=cache.length - prefix, unembedded=logits.shape[1])
    recomputed = STEPS * prefix + STEPS * (STEPS + 1) // 2
    formulas = {"prefill": prefix, **dict.fromkeys(RECOMPUTED, recomputed)}
    row = {
        "path": name,
        "prefix": prefix,
        "projected": counts["projected"],
        "projected_formula": formulas.get(name, STEPS),
        "unembedded": counts["unembedded"],
        "kv_bytes": kv_bytes_of(cache),
        "kv_bytes_formula": kv_bytes_formula(prefix + (0 if name == "prefill" else STEPS)),
    }
    assert row["projected"] == row["projected_formula"], row
    assert row["kv_bytes"] == row["kv_bytes_formula"], row
    return row


paths = {prefix: make_paths("float32", prefix) for prefix in PREFIXES}
counts = [
    count_path(name, path, prefix) for prefix in PREFIXES for name, path in paths[prefix].items()
]
longest = PREFIXES[-1]
table(
    ["prefix " + str(longest), "projected", "by formula", "unembedded", "K/V bytes", "by formula"],
    [
        [row["path"], *(f"{row[name]:,}" for name in list(row)[2:])]
        for row in counts
        if row["prefix"] == longest
    ],
)

# %% [markdown]
# Full recompute makes K and V of the same size, but drops them after each step.
#
# ### 8.3 The paths agree
#
# A fast wrong answer is worth nothing: all paths' logits are held against one plain pass over
# prefix and continuation before the clock starts.


# %%
def path_error(name, path, prefix):
    """Largest logit error of a path; raises if it is more than rounding."""
    expected, _ = decoders["float32"](example(prefix + STEPS))
    logits = torch.as_tensor(path()[0])
    wanted = expected[:, :prefix] if name == "prefill" else expected[:, prefix:]
    assert logits.shape == wanted.shape, (name, logits.shape, wanted.shape)
    return check_logits(logits, wanted, "float32")


path_errors = {
    (name, prefix): path_error(name, path, prefix)
    for prefix in PREFIXES
    for name, path in paths[prefix].items()
}
print(f"largest logit error of {len(path_errors)} paths: {max(path_errors.values()):.2e}")

# %% [markdown]
# ### 8.4 The clock
#
# One thread in PyTorch and one in NumPy's matrix products, float32, evaluation mode, inference
# mode. Each prefix has 3 rounds of warm-up and 15 of measurement; a round runs every path once,
# and the order moves on by one between rounds, so that none is always measured first. PyTorch,
# transformers and NumPy take turns in the same rounds: what slows the machine down for a while
# slows all of them. All samples are kept.

# %% tags=["timing"]
WARMUPS, SAMPLES = 3, 15


def measure(paths):
    """Milliseconds of each run of each path, in measured order."""
    names, samples = list(paths), {name: [] for name in paths}
    for i in range(-WARMUPS, SAMPLES):
        start = i % len(names)
        for name in names[start:] + names[:start]:
            started = time.perf_counter_ns()
            paths[name]()
            elapsed = time.perf_counter_ns() - started
            if i >= 0:
                samples[name].append(round(elapsed / 1e6, 4))
    return samples


samples = {prefix: measure(paths[prefix]) for prefix in PREFIXES}

# %% [markdown]
# ## 9 Raw results, a table and a figure
#
# The samples go into `results/cpu_timing.json` with everything needed to judge them. Tables and
# figures below are made from that file, not from variables.

# %% tags=["timing"]
protocol = {
    "model": {**vars(config), "parameters": n_parameters, "seed": 0},
    "dtype": "float32",
    "batch_size": 1,
    "mode": "eval, inference_mode",
    "prefixes": list(PREFIXES),
    "continuation_steps": STEPS,
    "warmups": WARMUPS,
    "samples": SAMPLES,
    "order": "every path once a round; the order is rotated by one path between rounds",
    "percentiles": "numpy.percentile, linear interpolation",
    "clock": "time.perf_counter_ns around one whole path, in milliseconds",
    "kv_bytes": "K and V in use after the path's last call; full recompute drops them each step",
}


def result_row(count):
    """One row of the file: counts, agreement and times of a path after a prefix."""
    key = count["path"], count["prefix"]
    times = samples[count["prefix"]][count["path"]]
    p50, p95 = np.percentile(times, [50, 95]).round(4).tolist()
    return {
        **count,
        "max_logit_error": path_errors[key],
        "p50_ms": p50,
        "p95_ms": p95,
        "samples_ms": times,
    }


results = {
    "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
    "environment": environment,
    "protocol": protocol,
    "correctness": {
        "equivalence": equivalence,
        "transformers": others,
        "ragged": ragged,
        "broken": broken,
        "sdpa": sdpa,
        "error_curve": curve,
    },
    "rows": [result_row(count) for count in counts],
}
with Path("results/cpu_timing.json").open("w") as file:
    file.write(json.dumps(results, indent=1) + "\n")

# %% [markdown]
# ### 9.1 Times
#
# Milliseconds for 16 tokens after the prefix: p50 / p95, for `prefill` the p50. The ratios are
# of the p50s; "last only : cached" is the fair one. First what a cache saves, in PyTorch alone.

# %%
stored = json.loads(Path("results/cpu_timing.json").read_text())
by_path = {(row["path"], row["prefix"]): row for row in stored["rows"]}
prefixes = stored["protocol"]["prefixes"]
CONTINUATIONS = {
    "full recompute": "full_recompute",
    "last only": "full_recompute_last_only",
    "cached, concat": "cached_concat",
    "cached, static": "cached_static",
}


def table_row(prefix):
    """One line of the timing table."""
    rows = {path: by_path[path, prefix] for path in ("prefill", *CONTINUATIONS.values())}
    p50 = {path: row["p50_ms"] for path, row in rows.items()}
    return [
        prefix,
        f"{p50['prefill']:.3f}",
        *(f"{p50[path]:.3f} / {rows[path]['p95_ms']:.3f}" for path in CONTINUATIONS.values()),
        f"{p50['full_recompute'] / p50['cached_concat']:.2f}",
        f"{p50['full_recompute_last_only'] / p50['cached_concat']:.2f}",
        rows["cached_concat"]["kv_bytes"] // 1024,
    ]


ratios = ["full : cached", "last only : cached"]
table(
    ["prefix", "prefill", *CONTINUATIONS, *ratios, "K/V KiB"],
    [table_row(prefix) for prefix in prefixes],
)
machine = stored["environment"]
print(f"{machine['cpu']}, {machine['threads']} thread, {machine['os']}")
print(f"Python {machine['python']}, torch {machine['torch']}, {stored['timestamp']}")

# %%
fair, cached = (
    by_path[path, prefixes[-1]] for path in ("full_recompute_last_only", "cached_concat")
)
display(
    Markdown(
        f"After {fair['prefix']} tokens the cached path projects "
        f"{fair['projected'] / cached['projected']:.1f} times fewer positions, and is "
        f"{fair['p50_ms'] / cached['p50_ms']:.1f} times as fast. A count is not a speed-up."
    )
)

# %% [markdown]
# Then the cached step alone, the same 16 tokens in other code. Each column computes the same
# logits from the same weights, so the differences are the cost of getting to the arithmetic.

# %%
IN_OTHER_CODE = {
    "PyTorch, concat": "cached_concat",
    "transformers": "cached_transformers",
    "NumPy, concat": "numpy_concat",
    "NumPy, static": "numpy_static",
    "NumPy, fast": "numpy_fast",
}


def other_row(prefix):
    """One line of the second timing table."""
    rows = [by_path[path, prefix] for path in IN_OTHER_CODE.values()]
    first, *_, fast = (row["p50_ms"] for row in rows)
    times = [f"{row['p50_ms']:.3f} / {row['p95_ms']:.3f}" for row in rows]
    return [prefix, *times, f"{fast / first:.2f}"]


table(
    ["cached, prefix", *IN_OTHER_CODE, "fast : PyTorch"],
    [other_row(prefix) for prefix in prefixes],
)
p50s = {name: by_path[path, prefixes[-1]]["p50_ms"] for name, path in IN_OTHER_CODE.items()}
shares = [f"{name} {ms / p50s['PyTorch, concat']:.2f}" for name, ms in p50s.items()]
print(f"after {prefixes[-1]} tokens, PyTorch with concatenation = 1: {', '.join(shares[1:])}")

# %% [markdown]
# **Read this with the tables.**
#
# - `full_recompute` projects the vocabulary for every position of the prefix, which no sensible
#   implementation does. `full_recompute_last_only` takes that handicap away; compare with it.
# - A p95 of 15 samples lies between the two slowest of them. It says how much this run jittered,
#   and nothing about the tail latency of a service.
# - Nothing here is a GPU speed-up, a time to first token, or a statement about any serving
#   engine. The model is tiny, so the fixed cost of calling PyTorch weighs far more here than
#   in a large one.
# - For the same reason the second table doesn't rank libraries. transformers makes masks, checks
#   arguments and serves hundreds of models; a step of this model is too small to hide that. In a
#   large model the matrix products take nearly all of the time, in every column.
# - The prefix is read before the clock starts. A user waits for `prefill` as well.
# - Your machine will differ. The shape should survive: recompute grows with the prefix, the
#   cached paths hardly do.
#
# ### 9.2 All samples
#
# What to notice: on the log scale the cached paths stay level while both recomputes climb, and
# the spread of a path's marks is the noise to hold any difference against.

# %%
RECOMPUTE, CACHED, PREFILL = "#0f8a68", "#2f73b7", "#57616e"
WHAT_A_CACHE_SAVES = {  # path: colour, marker, filled
    "full_recompute": (RECOMPUTE, "o", True),
    "full_recompute_last_only": (RECOMPUTE, "o", False),
    "cached_concat": (CACHED, "^", True),
    "cached_static": (CACHED, "^", False),
    "prefill": (PREFILL, "x", True),
}
THE_CACHED_STEP = {
    "cached_concat": (CACHED, "^", True),
    "cached_transformers": (CACHED, "D", False),
    "numpy_concat": (CACHED, "s", True),
    "numpy_static": (CACHED, "s", False),
    "numpy_fast": (CACHED, "+", True),
}


def draw_samples(axes, place, path, style):
    """The samples of one path, a strip for each prefix with a tick at its p50."""
    colour, marker, filled = style
    for group, prefix in enumerate(prefixes):
        row, centre = by_path[path, prefix], group + (place - 2) * 0.16
        axes.scatter(
            centre + np.linspace(-0.05, 0.05, len(row["samples_ms"])),
            row["samples_ms"],
            s=18,
            color=colour,
            facecolors=colour if filled else "none",
            marker=marker,
            linewidths=0.8,
            label=path if group == 0 else None,
        )
        axes.hlines(row["p50_ms"], centre - 0.07, centre + 0.07, color="black", zorder=3)


def show_samples(styles):
    """A strip plot of some of the paths."""
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    for place, (path, style) in enumerate(styles.items()):
        draw_samples(axes, place, path, style)
    axes.set(yscale="log", ylabel="milliseconds", xlabel="tokens in the prefix")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xticks(range(len(prefixes)), prefixes)
    axes.grid(axis="y", alpha=0.3)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    longest = prefixes[-1]
    medians = [f"{by_path[name, longest]['p50_ms']:.1f} ms for {name}" for name in styles]
    show(
        figure,
        f"Strip plot of samples on a log scale. After {longest} tokens the median is "
        f"{', '.join(medians)}.",
    )


show_samples(WHAT_A_CACHE_SAVES)

# %% [markdown]
# The cached step in other code:

# %%
show_samples(THE_CACHED_STEP)

# %% [markdown]
# ### 9.3 The error of each position
#
# What to notice: the cached decoder's error doesn't pile up as the cache grows. A step reads K
# and V that were computed once, so no rounding error is fed back into them.

# %%
curve = stored["correctness"]["error_curve"]
errors, unit = np.array(curve["max_logit_error"]), curve["rounding_unit"]
first_half, second_half = (half.mean() for half in np.split(errors, 2))
figure, axes = plt.subplots(figsize=(8, 2.8), layout="constrained")
axes.plot(errors * 1e6, ".", markersize=4, color=CACHED)
axes.axhline(unit * 1e6, color=PREFILL, linestyle="--")
axes.text(len(errors), unit * 1e6, " one unit\n of rounding", va="center")
axes.set(xlabel="position", ylabel="largest logit error, 1e-6", xlim=(-2, len(errors)))
axes.set_ylim(bottom=0)
show(
    figure,
    f"Largest float32 logit error of each of {len(errors)} positions, cached token by token "
    f"against a plain pass: at most {errors.max():.1e}. The mean is {first_half:.1e} in the first "
    f"half and {second_half:.1e} in the second.",
)
assert second_half < 2 * first_half, "the error grows with the position"
print(f"mean error: {first_half:.1e} in the first half, {second_half:.1e} in the second")
print(f"largest: {errors.max():.1e} = {errors.max() / unit:.1f} units of rounding at the top logit")

# %% [markdown]
# ## 10 A decoder that has something to forget
#
# All errors above are numbers. What do they do to what a model says? The next decoder has the
# same two layers, run by the same NumPy code, but somebody trained it: `python build.py train`,
# a few minutes on one thread. It reads little stories and says where things are. Its weights come
# with `kvproof`.
#
# The story below is read in two calls: first the history, then a chunk with the question. Only the
# second call has the mistake. What to notice: each next word is a good end of the sentence. Under
# the top-left mask it is Ivy who is in the tent, and nobody asked for her; and the largest error
# of all belongs to a right answer.

# %%
from kvproof import story

story_params, story_config = story.load_story_decoder("float64")
n_past, n_new = 12, 6
text = story.example_story(n_past + n_new)
expected = kvproof.forward(story_params, [text], story_config)[:, n_past:]
print(story.render(text[:n_past]), "|", story.render(text[n_past:]))

SECOND_CALL = {
    "right": {},
    "top-left mask": {"mask": kvproof.top_left_mask},
    "no mask": {"mask": kvproof.open_mask},
    "positions restart": {"positions": kvproof.restarted_positions},
}
said, off_by = {}, {}
for name, mistake in SECOND_CALL.items():
    empty = kvproof.new_cache(story_config, dtype="float64")
    _, past = kvproof.decode(story_params, [text[:n_past]], empty, story_config)
    logits, _ = kvproof.decode(story_params, [text[n_past:]], past, story_config, **mistake)
    said[name] = story.render([logits[0, -1].argmax()])
    off_by[name] = np.abs(logits - expected).max()
table(
    ["second call", "the next word", "largest logit error"],
    [[name, said[name], f"{off_by[name]:.1e}"] for name in SECOND_CALL],
)
assert said["right"] == story.render([expected[0, -1].argmax()]) == "cave."
assert said["top-left mask"] == "tent.", "the wrong mask has forgotten nothing"
assert said[max(off_by, key=off_by.get)] == said["right"]

# %% [markdown]
# One story is an anecdote. The table counts over a thousand fresh ones, each read in calls of
# which all but the first have the mistake; then the decoder writes 14 words, one by one and
# without it, and its answer is among them. **before** and **inside** split the answers by where
# the fact was read: before the first wrong call, or in one. In **through** the wrong call goes on
# to "In the" and gives the answer itself. Shares are percentages with their standard errors.
# `of-8` are calls of eight words; `last-8` is one call of the last eight, after all others in one.

# %%
from kvproof.experiments.recall import find

measured = json.loads(Path("results/story.json").read_text())


def percent(share):
    """A share and its standard error in percent, if there is anything to share out."""
    return f"{100 * share.value:.1f} ± {100 * share.standard_error:.1f}" if share.of else "–"


def recall_row(rows, calls, mistake="none", **how):
    """One line of a table, from the stored counts."""
    found = find(rows, calls, mistake, **how)
    shares = found.answers, found.before, found.inside, found.through, found.grammatical
    name = f"{'right' if mistake == 'none' else mistake}, {calls}"
    return [name, *map(percent, shares), f"{found.max_logit_error:.1e}"]


CASES = [
    *(("one-call",), ("word-by-word",), ("last-8",), ("of-8",)),
    *(("last-8", "top-left"), ("last-24", "top-left"), ("of-8", "top-left")),
    *(("last-8", "open"), ("of-8", "open"), ("last-8", "restarted"), ("of-8", "restarted")),
    *(("last-8", "lost-token"), ("of-8", "lost-token")),
]
header = ["cache, calls", "answers", "before", "inside", "through", "grammar", "logits off by"]
answer_in_call = [
    recall_row(measured["rows"], "last-8", mistake, up_to_answer=True)
    for mistake in ("top-left", "open", "restarted", "lost-token")
]
table(header, [*(recall_row(measured["rows"], *case) for case in CASES), *answer_in_call])
chances = measured["prompts"]["chance"].items()
print("by chance:", ", ".join(f"{name} {100 * share:.0f} %" for name, share in chances))
right = [find(measured["rows"], calls) for calls in ("one-call", "word-by-word", "last-8", "of-8")]
assert min(one.answers.value for one in right) >= 0.995, "a right cache has forgotten something"
assert find(measured["rows"], "of-8", "top-left").answers.value < 0.5

# %% [markdown]
# **Read this with the table.**
#
# - The top-left mask leaves the decoder fluent and forgetful. Whoever reads its text sees nothing
#   wrong, unless they know the story.
# - Without a mask, or with a token lost, logits are off by more than ten and most answers are
#   right all the same. So neither fluency nor answers are a test of a cache; every logit is.
# - That the grammar survives is a choice made in training: in a quarter of the texts keys were
#   hidden at random (key dropout). The next cell shows the same decoder trained without.
# - It is a tiny model of a tiny language. How much a large one forgets, these shares don't say.

# %%
without = measured["without_key_dropout"]["rows"]
table(
    header,
    [
        recall_row(without, "of-8"),
        recall_row(without, "of-8", "top-left"),
        recall_row(without, "of-8", "top-left", every_call=True),
    ],
)
