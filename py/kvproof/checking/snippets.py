"""Lines to paste that show what is wrong."""

from kvproof.checking.cases import TAKES_TOKENS, Case, Observation

PREAMBLE = """import numpy as np
def array(logits):  # tensors, too
    return np.asarray(logits.detach().double().cpu() if hasattr(logits, "detach") else logits)
def apart(one, other):  # equal infinities are no difference
    one, other = array(one), array(other)
    return np.abs(np.where(one == other, 0, one - other)).max()"""
"""What snippets begin with."""


def snippet(case: Case, seen: Observation | None, tolerance: float, with_full: bool = False) -> str:
    """Lines to paste after ``decoder = ...``: they run a case up to the call that is wrong.

    Args:
        case: what to do.
        seen: the call; None: there is none to compare, all of the case is run.
        tolerance: what a right cache stays below.
        with_full: call ``full`` between the calls.
    """
    ops = case.ops if seen is None else case.ops[: seen.op + 1]
    lines = [PREAMBLE, f"tokens = np.array({[list(row) for row in case.tokens]})"]
    lines.append("cache = None")
    start = 0
    first, second = case.rows or (case.batch_size, case.batch_size)
    n_rows, n_others = first, first  # of the cache that is fed, and of the second one
    lengths = case.lengths
    for op in ops:
        if op.action in TAKES_TOKENS:
            rows = ":" if n_rows == case.batch_size else f":{n_rows}"
            chunk = f"tokens[{rows}, {start}:{start + op.argument}]"
            n_others = n_rows if op.action != "feed" else n_others
            start += op.argument
            extra = "" if lengths is None else f", lengths=np.array({list(lengths)})"
            lengths = None
            lines += _call(op.action, op.argument, chunk, extra)
            if with_full:
                lines.append(f"decoder.full(tokens[:, :{start}])  # without it, all is right")
        elif op.action == "restart":
            lengths = op.argument
            n_rows, n_others = second, n_rows
            lines.append("branch, cache = cache, None  # a second request on the same object")
        elif op.action == "switch":
            n_rows, n_others = n_others, n_rows
            lines.append("cache, branch = branch, cache")
        elif op.action == "crop":
            lines.append(f"cache = decoder.crop(cache, {op.argument})")
        else:
            n_rows = len(op.argument)
            lines.append(f"cache = decoder.reorder(cache, np.array({list(op.argument)}))")
    return "\n".join(lines if seen is None else [*lines, *_comparison(seen, tolerance)])


def _call(action: str, n_new: int, chunk: str, extra: str) -> list[str]:
    if action == "feed":
        return [f"logits, cache = decoder.step({chunk}, cache{extra})"]
    if action == "branch" and not n_new:
        return ["branch = cache  # kept"]
    if action == "branch":
        return [f"logits, branch = decoder.step({chunk}, cache)"]
    if not n_new:
        return ["branch = decoder.fork(cache)"]
    return ["branch = decoder.fork(cache)", f"logits, branch = decoder.step({chunk}, branch)"]


def _comparison(seen: Observation, tolerance: float) -> list[str]:
    n_new = seen.logits.shape[1]
    return [
        f"for row, history in enumerate({[list(history) for history in seen.histories]}):",
        f"    n = min({n_new}, len(history))",
        "    expected = array(decoder.full(np.array([history])))[0]",
        "    print(row, apart(array(logits)[row, -n:], expected[-n:]))",
        f"# the largest is {seen.error:.3g}; a right cache stays below {tolerance:.1e}",
    ]
