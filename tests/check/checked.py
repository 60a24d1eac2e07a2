"""What the checker says of decoders that others wrote: the table in docs/CHECKED.md.

Write it anew with ``PYTHONPATH=py .venv/bin/python -m tests.check.checked``.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from tests.check.strangers import LLAMA, lit_gpt, x_transformers
from tests.check.tiny_models import model

from kvproof.adapters import CacheName, transformers
from kvproof.checking import Report, check

PAGE = Path(__file__).resolve().parents[2] / "docs" / "CHECKED.md"
MARKERS = ("<!-- table -->\n", "<!-- end of the table -->\n")
HEADER = (
    "| decoder | cache | verdict | smallest failing case | error | allowed | s |\n"
    "|---|---|---|---|---|---|---|\n"
)


@dataclass(frozen=True)
class Entry:
    """One decoder that is checked."""

    library: str
    decoder: str
    cache: str
    make: Callable[[], Any]

    @property
    def name(self) -> str:
        """Unique."""
        return f"{self.library}: {self.decoder}, {self.cache}"


def _of_transformers(name: str, cache: CacheName, told: str = "") -> Entry:
    label = f"{name.removesuffix('ForCausalLM').removesuffix('LMHeadModel')}{told}"
    return Entry("transformers", label, cache, lambda: transformers(model(name), cache))


def _of_x_transformers(told: str, only_new: bool = False, **options: Any) -> Entry:
    passed = "new tokens passed" if only_new else "all tokens passed"
    return Entry("x-transformers", told, passed, lambda: x_transformers(only_new, **options))


def _of_litgpt(told: str, tell_end: bool = True, **config: Any) -> Entry:
    passed = "with input_pos_maxp1" if tell_end else "without input_pos_maxp1"
    return Entry("litgpt", told, passed, lambda: lit_gpt(tell_end, **config))


NO_TABLE: dict[str, Any] = {"use_abs_pos_emb": False}
WINDOW: dict[str, Any] = {"sliding_window_size": 6}

ENTRIES = (
    *(
        _of_transformers(name, cache, told)
        for name, told in (
            ("LlamaForCausalLM", ", 4 heads on 2"),
            ("GPT2LMHeadModel", ""),
            ("BloomForCausalLM", ", ALiBi"),
            ("MistralForCausalLM", ", window 6"),
            ("Gemma3ForCausalLM", ", window 6 in every second layer"),
            ("Qwen2ForCausalLM", ", window 6 in every second layer"),
        )
        for cache in ("dynamic", "static")
    ),
    _of_transformers("LlamaForCausalLM", "recording", ", 4 heads on 2"),
    _of_transformers("MistralForCausalLM", "recording", ", window 6"),
    _of_transformers("GPT2LMHeadModel", "fp8"),
    _of_transformers("LlamaForCausalLM", "fp8", ", 4 heads on 2"),
    _of_transformers("GPTNeoForCausalLM", "dynamic", ", window 6 in every second layer"),
    _of_transformers("GPTNeoForCausalLM", "static", ", window 6 in every second layer"),
    _of_transformers("Phi3ForCausalLM", "dynamic", ", longrope"),
    _of_transformers("JambaForCausalLM", "dynamic", ", every second layer a Mamba"),
    _of_x_transformers("learned positions"),
    _of_x_transformers("learned positions", only_new=True),
    _of_x_transformers("rotary", wrapper=NO_TABLE, rotary_pos_emb=True),
    _of_x_transformers("rotary, 4 heads on 2", True, rotary_pos_emb=True, attn_kv_heads=2),
    _of_x_transformers("ALiBi", wrapper=NO_TABLE, alibi_pos_bias=True),
    _of_x_transformers(
        "ALiBi, flash", True, wrapper=NO_TABLE, alibi_pos_bias=True, attn_flash=True
    ),
    _of_x_transformers("T5 bias", wrapper=NO_TABLE, rel_pos_bias=True),
    _of_x_transformers("scaled sinusoids", wrapper={"scaled_sinu_pos_emb": True}),
    _of_x_transformers(
        "rotary, 3 memory keys", wrapper=NO_TABLE, rotary_pos_emb=True, attn_num_mem_kv=3
    ),
    _of_x_transformers("rotary, shifted tokens", rotary_pos_emb=True, shift_tokens=1),
    _of_x_transformers("data-dependent ALiBi", wrapper=NO_TABLE, attn_data_dependent_alibi=True),
    _of_litgpt("GPT-NeoX, a quarter rotary", rotary_percentage=0.25),
    _of_litgpt("Llama, 4 heads on 2", **LLAMA),
    _of_litgpt("Llama, 4 heads on 2", tell_end=False, **LLAMA),
    _of_litgpt("Llama, window 6", sliding_window_indices=[1, 1], **WINDOW, **LLAMA),
    _of_litgpt(
        "Llama, window 6 in every second layer", sliding_window_indices=[1, 0], **WINDOW, **LLAMA
    ),
    _of_litgpt("Llama, capped scores", attention_logit_softcapping=50.0, **LLAMA),
    _of_litgpt("Llama, capped scores", False, attention_logit_softcapping=50.0, **LLAMA),
)


@cache
def report_on(entry: Entry) -> Report:
    """The report, made once in a process."""
    return check(entry.make(), seed=0, budget_s=120)


@dataclass(frozen=True)
class Line:
    """A line of the table, as it is compared."""

    decoder: str
    cache: str
    verdict: str
    case: str
    error: str
    allowed: str
    seconds: str

    @classmethod
    def of(cls, entry: Entry) -> "Line":
        """From a fresh report."""
        report = report_on(entry)
        decoder, seconds = f"{entry.library}: {entry.decoder}", f"{report.seconds:.1f}"
        if report.ok:
            return cls(decoder, entry.cache, "right", "", "", f"{report.tolerance:.1g}", seconds)
        finding = report.findings[0]
        error = f"{finding.max_abs_error:.2g}" if finding.max_abs_error else ""
        case = "" if finding.case is None else ", ".join(map(str, finding.case.ops))
        padded = finding.case is not None and finding.case.lengths is not None
        return cls(
            decoder,
            entry.cache,
            f"{finding.kind} ({finding.check})",
            f"{case}{', padded' if padded else ''}",
            error,
            f"{report.tolerance:.1g}",
            seconds,
        )

    @classmethod
    def parse(cls, line: str) -> "Line":
        """From the page."""
        return cls(*(cell.strip() for cell in line.strip().strip("|").split("|")))

    def __str__(self) -> str:
        return "| " + " | ".join(vars(self).values()) + " |"


def lines_of_the_page() -> list[Line]:
    """As they stand in docs/CHECKED.md."""
    table = PAGE.read_text().split(MARKERS[0])[1].split(MARKERS[1])[0]
    return [Line.parse(line) for line in table.splitlines() if line.startswith("| ")][1:]


def versions() -> str:
    """Of everything that took part."""
    names = ("torch", "transformers", "x-transformers", "litgpt", "numpy")
    return ", ".join(f"{name} {metadata.version(name).partition('+')[0]}" for name in names)


def main() -> None:
    """Write the table and the versions into the page."""
    before, rest = PAGE.read_text().split(MARKERS[0])
    after = rest.split(MARKERS[1])[1]
    lines = []
    for entry in ENTRIES:
        lines.append(str(Line.of(entry)))
        print(lines[-1], file=sys.stderr)
    table = f"Versions: {versions()}.\n\n{HEADER}" + "\n".join(lines) + "\n"
    PAGE.write_text(before + MARKERS[0] + table + MARKERS[1] + after)


if __name__ == "__main__":
    main()
