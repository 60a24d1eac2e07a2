"""The notebook: in step with its source, runs again, and its proof can fail."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

import kvproof
from kvsite.notebook import NOTEBOOKS, SOURCE, TIMING_TAG, execute, main, read_source
from kvsite.stages import Failure
from kvsite.timing import Results, Times, TimingRow, timing_rows


def tables(notebook: Any) -> dict[str, list[list[str]]]:
    """Markdown tables among the outputs: text of the header -> rows of cells."""
    found = {}
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            text = output.get("data", {}).get("text/markdown", "")
            if text.startswith("| "):
                rows = [
                    [part.strip() for part in line[1:-1].split("|")] for line in text.split("\n")
                ]
                found[" | ".join(rows[0])] = rows[2:]
    return found


def find_table(notebook: Any, beginning: str) -> list[list[str]]:
    (match,) = (rows for header, rows in tables(notebook).items() if header.startswith(beginning))
    return match


def cut_behind(notebook: Any, text: str) -> Any:
    """Drop what follows the first code cell that contains ``text``."""
    cells = notebook.cells
    last = next(i for i, c in enumerate(cells) if c.cell_type == "code" and text in c.source)
    notebook.cells = cells[: last + 1]
    return notebook


# --- The committed notebook ---------------------------------------------------------------------


def test_it_is_in_step_with_the_percent_script(committed: Any) -> None:
    def content(notebook: Any) -> list[tuple[str, str, str, dict[str, Any]]]:
        return [(c.id, c.cell_type, c.source, dict(c.metadata)) for c in notebook.cells]

    source = read_source(SOURCE)
    assert content(committed) == content(source)
    assert committed.metadata == source.metadata


def test_it_was_executed_from_top_to_bottom(committed: Any) -> None:
    code = [cell for cell in committed.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))


def test_its_outputs_hold_no_warning_and_no_local_path(
    committed: Any, local_path: re.Pattern[str]
) -> None:
    for cell in committed.cells:
        for output in cell.get("outputs", []):
            assert output.output_type != "error"
            assert output.get("name") != "stderr"
            assert not local_path.search(json.dumps(output))


def ratio(number: float) -> str:
    return f"{number:.2f}"


def both(times: Times) -> str:
    return f"{times.p50_ms:.3f} / {times.p95_ms:.3f}"


# Beginning of the header -> the cells after the first of each row.
TIMINGS: dict[str, Callable[[TimingRow], list[str]]] = {
    "prefix | prefill": lambda row: [
        f"{row.prefill.p50_ms:.3f}",
        *map(both, (row.full_recompute, row.last_only, row.cached_concat, row.cached_static)),
        ratio(row.full_over_cached),
        ratio(row.last_only_over_cached),
        f"{row.kv_kib:.0f}",
    ],
    "cached, prefix": lambda row: [
        *map(both, (row.cached_concat, row.transformers)),
        *map(both, (row.numpy_concat, row.numpy_static, row.numpy_fast)),
        ratio(row.fast_over_cached),
    ],
}


@pytest.mark.parametrize("header", TIMINGS)
def test_its_timing_tables_are_the_stored_ones(
    header: str, committed: Any, results: Results
) -> None:
    expected = [[str(row.prefix), *TIMINGS[header](row)] for row in timing_rows(results)]
    assert find_table(committed, header) == expected


def test_it_ran_in_the_stored_environment(committed: Any, results: Results) -> None:
    shown = dict(find_table(committed, " | this run"))
    assert shown == {name: str(value) for name, value in results["environment"].items()}


# --- Executed here ------------------------------------------------------------------------------


def output_types(cell: Any) -> list[str]:
    """Without stderr: at its first start on a machine Matplotlib says that it looks for fonts."""
    return [output.output_type for output in cell.outputs if output.get("name") != "stderr"]


def test_it_runs_again(executed: Any, committed: Any) -> None:
    for here, stored in zip(executed.cells, committed.cells, strict=True):
        if here.cell_type == "code" and TIMING_TAG not in here.metadata.get("tags", []):
            assert here.execution_count
            assert output_types(here) == output_types(stored)


def test_timing_cells_can_be_skipped(executed: Any, workspace: Path) -> None:
    skipped = [c for c in executed.cells if TIMING_TAG in c.metadata.get("tags", [])]
    assert len(skipped) == 2
    assert all(cell.execution_count is None for cell in skipped)
    stored = (NOTEBOOKS / "results" / "cpu_timing.json").read_text()
    assert (workspace / "results" / "cpu_timing.json").read_text() == stored


def test_the_broken_variants_are_those_of_kvproof(executed: Any) -> None:
    rows = {row[0]: row[1:] for row in find_table(executed, "variant | PyTorch | NumPy")}
    expected = kvproof.compare_masks(4, 2).top_left.max_abs_error
    assert float(rows["mask without offset"][0]) == pytest.approx(expected, abs=1e-11)
    assert all(float(row[0]) > 0.1 for row in rows.values())


def test_pytorchs_two_alignments_are_our_two_masks_here(executed: Any) -> None:
    rows = find_table(executed, "n_past, n_new | is_causal")
    for shape, flag_from_top_left, flag_from_offset, lower_right_from_offset in rows:
        assert max(float(flag_from_top_left), float(lower_right_from_offset)) < 1e-14
        assert (float(flag_from_offset) > 0.1) == (not shape.startswith("0,"))


# --- Sabotage -----------------------------------------------------------------------------------

# Name -> text of the notebook, what replaces it, what the checks must then say.
SABOTAGES = {
    "positions restart": (
        "positions=offset_positions",
        "positions=restarted_positions",
        "Tensor-likes are not close",
    ),
    "mask without offset": (
        "mask=offset_mask",
        "mask=top_left_mask",
        "Tensor-likes are not close",
    ),
    "no mask": ("attn_mask=visible", "attn_mask=None", "Tensor-likes are not close"),
    "layer 1's pair for layer 2": (
        "longer.append(pair)",
        "longer.append(longer[0] if cache and longer else pair)",
        "Tensor-likes are not close",
    ),
    "error just above rounding": (
        "return torch.cat(logits, dim=1), cache",
        "return torch.cat(logits, dim=1) * (1 + 4e-6), cache",
        "is above 2e-06",
    ),
    "plain decoder sees the future": (
        "visible = mask(n_past, n_new)",
        "visible = mask(n_past, n_new) | (cache is None and n_new == N_TOKENS)",
        "Tensor-likes are not close",
    ),
    "old cache written": (
        "        return ConcatPair(torch.cat([self.k, k], dim=2), torch.cat([self.v, v], dim=2))",
        "        longer = ConcatPair(torch.cat([self.k, k], 2), torch.cat([self.v, v], 2))\n"
        "        self.k.zero_()\n"
        "        return longer",
        "the call changed K",
    ),
}
# The same for sections 6.3 and 6.4.
LATER_SABOTAGES = {
    "another GELU in GPT-2": (
        'activation_function="gelu_new"',
        'activation_function="gelu"',
        "Tensor-likes are not close",
    ),
    "two weights of GPT-2 exchanged": (
        '"norm1.bias": "ln_1.bias"',
        '"norm1.bias": "ln_2.bias"',
        "Missing key(s) in state_dict",
    ),
    "GPT-2's cache of another text": (
        "logits, cache = feed(gpt2_step(model), tokens",
        "logits, cache = feed(gpt2_step(model), tokens.roll(1)",
        "Tensor-likes are not close",
    ),
    "positions count pads": (
        "(offset_positions(n_past, n_new) - padding).clamp(min=0)",
        "offset_positions(n_past, n_new)",
        "'row_errors'",
    ),
    "pads are read": ("& is_token | itself", "& (is_token | True)", "'row_errors'"),
    "a row sees the future": ("offset_mask(n_past, n_new) & is_token", "is_token", "'row_errors'"),
}


@pytest.fixture(scope="module")
def verdicts(workspace: Path) -> dict[str, str]:
    """What the checks of section 6 say of each sabotaged program, and of the untouched one."""
    notebook = cut_behind(read_source(SOURCE), "right_ragged = [")
    first = code_between(notebook, "## 5 ", "### 6.2 ")
    later = code_between(notebook, "### 6.3 ", None)
    cases = {"untouched": first, "untouched later": later}
    for program, sabotages in ((first, SABOTAGES), (later, LATER_SABOTAGES)):
        for name, (right, wrong, _) in sabotages.items():
            assert right in program, f"{right!r} isn't in the notebook"
            cases[name] = program.replace(right, wrong, 1)
    for program in cases.values():
        notebook.cells.append(
            nbformat.v4.new_code_cell(
                f"try:\n    exec({program!r}, dict(globals()))\n"
                "except (AssertionError, RuntimeError) as error:\n    print('caught:', error)\n"
                "else:\n    print('passed')"
            )
        )
    execute(notebook, workspace, timing=False)
    outputs = [  # a cell's text may arrive in several pieces
        "".join(output.get("text", "") for output in cell.outputs)
        for cell in notebook.cells[-len(cases) :]
    ]
    return dict(zip(cases, outputs, strict=True))


def code_between(notebook: Any, start: str, end: str | None) -> str:
    """The code from one heading to the next, without the comparison with NumPy."""
    stop = len(notebook.cells) if end is None else heading(notebook, end)
    return "\n".join(
        cell.source
        for cell in notebook.cells[heading(notebook, start) : stop]
        if cell.cell_type == "code" and "twin_errors" not in cell.source
    )


def heading(notebook: Any, text: str) -> int:
    """Index of the cell that begins with this heading."""
    return next(i for i, cell in enumerate(notebook.cells) if cell.source.startswith(text))


@pytest.mark.parametrize("name", ["untouched", "untouched later"])
def test_the_untouched_decoder_passes(name: str, verdicts: dict[str, str]) -> None:
    assert verdicts[name].endswith("passed\n")


@pytest.mark.parametrize("name", [*SABOTAGES, *LATER_SABOTAGES])
def test_the_equivalence_checks_catch(name: str, verdicts: dict[str, str]) -> None:
    assert "caught:" in verdicts[name]
    assert (SABOTAGES | LATER_SABOTAGES)[name][2] in verdicts[name]


def test_a_broken_decoder_stops_the_notebook(workspace: Path) -> None:
    notebook = cut_behind(read_source(SOURCE), "equivalence = [")
    for cell in notebook.cells:
        cell.source = cell.source.replace(*SABOTAGES["error just above rounding"][:2])
    with pytest.raises(Failure, match="AssertionError"):
        execute(notebook, workspace, timing=False)


def test_downloaded_alone_it_says_how_to_get_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)  # build.py has put the packages there
    notebook = cut_behind(read_source(SOURCE), "import kvproof")
    folder = tmp_path / "downloads"
    folder.mkdir()
    with pytest.raises(Failure, match="needs the package kvproof.*whole repository"):
        execute(notebook, folder, timing=False)


def test_the_command_without_timing_writes_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, workspace: Path
) -> None:
    script = workspace / "short.py"
    script.write_text("# %%\nprint('hello')\n")
    target = workspace / "short.ipynb"
    monkeypatch.setattr("kvsite.notebook.SOURCE", script)
    monkeypatch.setattr("kvsite.notebook.NOTEBOOKS", workspace)
    monkeypatch.setattr("kvsite.notebook.NOTEBOOK", target)
    monkeypatch.setattr("kvsite.notebook.ROOT", workspace)
    monkeypatch.setattr("kvsite.notebook.TRANSLATIONS", ())
    assert main(["--no-timing"]) == 0
    assert not target.exists()
    assert main([]) == 0
    assert json.loads(target.read_text())["cells"][0]["outputs"][0]["text"] == ["hello\n"]
    assert "short.ipynb written" in capsys.readouterr().err
