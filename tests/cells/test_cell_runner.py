"""The cell runner in CPython: values, printing, tracebacks, limits."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from kvlab import cell_runner
from kvlab.cell_runner import CellResult

if TYPE_CHECKING:
    from tests.cells.conftest import Notebook

VALUES = '{"dtype": 1}'
"""Of a lab, as far as a mask asks for them."""
LINES = cell_runner.MAX_LINES
LINE_NUMBERS = "".join(f"{number}\n" for number in range(LINES))


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("6 * 7", "42"),
        ("x = 6\nx * 7", "42"),
        ("'text'", "'text'"),
        ("1; 2", "2"),
        ("x = 1", None),
        ("None", None),
        ("", None),
        ("# a remark", None),
        ("for i in range(3):\n    i", None),
        ("if True:\n    5", None),
    ],
)
def test_value_is_the_repr_of_the_last_expression(
    notebook: Notebook, source: str, value: str | None
) -> None:
    assert notebook.run(source) == CellResult(value=value)


def test_variables_stay_and_each_runner_has_its_own(notebook: Notebook) -> None:
    notebook.run("x = 41", 1)
    assert notebook.run("x + 1", 2).value == "42"
    assert "NameError: name 'x' is not defined" in type(notebook)().error("x")


def test_what_ran_before_an_error_stays(notebook: Notebook) -> None:
    notebook.error("x = 1\nraise ValueError")
    assert notebook.run("x").value == "1"


def test_a_candidate_is_asked_anew_after_a_cell_however_that_ended(notebook: Notebook) -> None:
    notebook.run(
        "import numpy as np\n"
        "from kvlab.candidate import draw\n"
        "width = 9\n"
        "def mask(n_past, n_new):\n"
        "    query, key = n_past + np.arange(n_new)[:, None], np.arange(n_past + n_new)\n"
        "    return (key <= query) & (key > query - width)\n"
        "draw(mask)"
    )
    before = notebook.runner.answer_candidate("blind", VALUES)
    assert notebook.runner.answer_candidate("blind", VALUES) == before
    notebook.error("width = 2\n1 / 0")
    assert notebook.runner.answer_candidate("blind", VALUES) != before


def test_top_level_await(notebook: Notebook) -> None:
    source = "import asyncio\nawait asyncio.sleep(0)\nawait asyncio.sleep(0, 'done')"
    assert notebook.run(source).value == "'done'"


def test_both_streams_keep_their_order(notebook: Notebook) -> None:
    notebook.run("import sys\nprint('a')\nprint('b', file=sys.stderr)\nprint('c')")
    assert notebook.written == [("stdout", "a\n"), ("stderr", "b\n"), ("stdout", "c\n")]


def test_lines_arrive_while_the_cell_runs(notebook: Notebook) -> None:
    notebook.runner._namespace["written"] = notebook.written
    notebook.run("print('first')\nseen = len(written)\nprint('second')")
    assert notebook.run("seen").value == "1"


def test_flush_sends_a_part_of_a_line(notebook: Notebook) -> None:
    notebook.run("print('a', end='', flush=True)\nprint('b')")
    assert notebook.written == [("stdout", "a"), ("stdout", "b\n")]


def test_the_end_of_a_run_sends_a_part_of_a_line(notebook: Notebook) -> None:
    notebook.run("print('no line end', end='')")
    assert notebook.text("stdout") == "no line end"


def test_the_real_streams_come_back(notebook: Notebook) -> None:
    streams = sys.stdout, sys.stderr
    notebook.run("print(1)")
    notebook.error("1 / 0")
    assert (sys.stdout, sys.stderr) == streams


def test_runtime_error_names_cell_line_and_source(notebook: Notebook) -> None:
    error = notebook.error("x = 1\n\nx / 0", 3)
    assert error.startswith('Traceback (most recent call last):\n  File "cell 3", line 3, in <mod')
    assert "    x / 0\n" in error
    assert error.endswith("ZeroDivisionError: division by zero")
    assert "cell_runner" not in error


def test_traceback_goes_through_the_cell_that_defined_the_function(notebook: Notebook) -> None:
    notebook.run("def halve(n):\n    return n / 0", 1)
    error = notebook.error("\nhalve(4)", 2)
    assert error.index('File "cell 2", line 2') < error.index('File "cell 1", line 2, in halve')
    assert "    return n / 0\n" in error


def test_error_after_an_await_has_no_frame_of_the_runner(notebook: Notebook) -> None:
    error = notebook.error("import asyncio\nawait asyncio.sleep(0)\n1 / 0")
    assert 'File "cell 1", line 3' in error
    assert "cell_runner" not in error


def test_cause_is_shown(notebook: Notebook) -> None:
    error = notebook.error(
        "try:\n    1 / 0\nexcept Exception as e:\n    raise KeyError('k') from e"
    )
    assert "direct cause" in error
    assert "line 2" in error
    assert "line 4" in error


def test_syntax_error_has_line_and_caret(notebook: Notebook) -> None:
    error = notebook.error("x = 1\ny = = 2\nz = 3", 2)
    assert error.splitlines() == [
        '  File "cell 2", line 2',
        "    y = = 2",
        "        ^",
        "SyntaxError: invalid syntax",
    ]


@pytest.mark.parametrize("source", ["x = 1\nreturn 5", "x = 1\nbreak", "x = 1\nyield 3"])
def test_errors_of_later_compiler_passes_show_their_line(notebook: Notebook, source: str) -> None:
    error = notebook.error(source, 4)
    assert 'File "cell 4", line 2' in error
    assert f"    {source.splitlines()[1]}\n" in error


def test_a_cell_with_a_syntax_error_runs_nothing(notebook: Notebook) -> None:
    notebook.error("print('ran')\nx = (")
    assert notebook.written == []


@pytest.mark.parametrize("source", ["x = 1\x00", "s = '\ud800'"])
def test_text_that_python_cannot_read_is_an_error_of_the_cell(
    notebook: Notebook, source: str
) -> None:
    assert "Error" in notebook.error(source)


@pytest.mark.parametrize(
    ("source", "last_line"),
    [
        ("import sys\nsys.exit(3)", "SystemExit: 3"),
        ("raise SystemExit", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_exit_ends_the_cell_and_not_the_runner(
    notebook: Notebook, source: str, last_line: str
) -> None:
    assert notebook.error(source).splitlines()[-1] == last_line
    assert notebook.run("1 + 1").value == "2"


def test_a_repr_that_raises_is_an_error_of_the_cell(notebook: Notebook) -> None:
    source = "class Bad:\n    def __repr__(self): raise OSError('no repr')\nBad()"
    assert notebook.error(source).endswith("OSError: no repr")


def test_endless_recursion_is_told_briefly(notebook: Notebook) -> None:
    error = notebook.error("def f(): return f()\nf()")
    assert "RecursionError" in error
    assert "more times" in error


def test_print_to_the_line_limit_is_not_cut(notebook: Notebook) -> None:
    notebook.run(f"for i in range({LINES}): print(i)")
    assert notebook.text("stdout") == LINE_NUMBERS
    assert notebook.text("notice") == ""


@pytest.mark.parametrize(
    ("source", "kept", "limit"),
    [
        (f"for i in range({LINES} + 5): print(i)", LINE_NUMBERS, "2,000 lines"),
        ("print('\\n'.join(str(i) for i in range(5000)))", LINE_NUMBERS, "2,000 lines"),
        ("print('x' * 10_000_000)", "x" * 100_000, "100,000 characters"),
        ("for _ in range(200): print('x' * 999)", f"{'x' * 999}\n" * 100, "100,000 characters"),
    ],
    ids=["many lines", "one text of many lines", "a huge line", "many long lines"],
)
def test_too_much_output_is_cut_and_that_is_said_once(
    notebook: Notebook, source: str, kept: str, limit: str
) -> None:
    notebook.run(source)
    assert notebook.text("stdout") == kept
    assert notebook.written[-1] == ("notice", f"output cut after {limit}")
    assert [kind for kind, _ in notebook.written].count("notice") == 1


def test_a_flood_becomes_few_messages(notebook: Notebook) -> None:
    result = notebook.run("for i in range(300_000): print('.', end='')\n'end'")
    assert result.value == "'end'"
    assert len(notebook.written) < 1_000


def test_limits_count_for_each_run(notebook: Notebook) -> None:
    notebook.run("print('x' * 10_000_000)")
    notebook.written.clear()
    notebook.run("print('again')")
    assert notebook.written == [("stdout", "again\n")]


def test_a_huge_value_and_a_huge_message_are_shortened(notebook: Notebook) -> None:
    value = notebook.run("'x' * 10_000_000").value
    assert value is not None
    assert len(value) < cell_runner.MAX_CHARACTERS + 100
    assert "9,900,002 characters left out" in value
    error = notebook.error("raise ValueError('x' * 10_000_000 + ' the end')")
    assert len(error) < cell_runner.MAX_CHARACTERS + 100
    assert error.startswith("Traceback")
    assert error.endswith("x the end")


def test_only_text_can_be_written(notebook: Notebook) -> None:
    error = notebook.error("import sys\nsys.stdout.write(5)")
    assert error.endswith("TypeError: write() argument must be str, not int")


def test_source_can_be_inspected(notebook: Notebook) -> None:
    notebook.run("def f():\n    return 'it'", 1)
    source = "import inspect\ninspect.getsource(f)"
    assert notebook.run(source, 2).value == repr("def f():\n    return 'it'\n")


def described(bundle: str) -> str:
    """A class whose objects describe themselves to notebooks."""
    return (
        "class Described:\n"
        "    def __repr__(self): return 'repr'\n"
        f"    def _repr_mimebundle_(self, **kwargs): return {bundle}\n"
    )


REPORT = cell_runner.REPORT
AMOUNTS = "{'findings': [{'noise': 0.69914, 'tolerance': 'inf'}]}"
WRITTEN = {"noise": 0.69914, "tolerance": "inf", "written": {"noise": "0.699", "tolerance": "∞"}}
BUNDLES = {
    "text": ("{'text/plain': 'words'}", "words", None),
    "nothing": ("{}", "repr", None),
    "report": (f"{{'text/plain': 'words', {REPORT!r}: {{'ok': True}}}}", "words", {"ok": True}),
    "report without text": (f"{{{REPORT!r}: [1.5, None]}}", "repr", [1.5, None]),
    "amounts": (f"{{{REPORT!r}: {AMOUNTS}}}", "repr", {"findings": [WRITTEN]}),
    "too long": (f"{{{REPORT!r}: 'x' * 200_000}}", "repr", None),
    "with metadata": ("({'text/plain': 'words'}, {})", "repr", None),
}


@pytest.mark.parametrize(("bundle", "value", "report"), BUNDLES.values(), ids=BUNDLES)
def test_a_value_may_describe_itself(
    notebook: Notebook, bundle: str, value: str, report: object
) -> None:
    result = notebook.run(f"{described(bundle)}Described()")
    assert (result.value, result.error) == (value, None)
    assert (json.loads(result.report) if result.report else None) == report


def test_a_class_and_a_failing_description_are_no_reports(notebook: Notebook) -> None:
    source = described("1 / 0")
    assert notebook.run(f"{source}Described").report is None
    assert notebook.error(f"{source}Described()").endswith("ZeroDivisionError: division by zero")
