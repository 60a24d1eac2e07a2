"""The order of the checks, the verdict, and what to say about what was left out."""

import numbers
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import numpy as np

from kvproof.checking import battery
from kvproof.checking.arrays import distance
from kvproof.checking.cases import Case, Observation, Op, Result, feeds, run
from kvproof.checking.diagnose import diagnose, diagnosis_of_full
from kvproof.checking.messages import Message
from kvproof.checking.names import CaseId, Check, Stage
from kvproof.checking.probes import Probes
from kvproof.checking.reference import judge
from kvproof.checking.report import (
    PREAMBLE,
    Alternative,
    Finding,
    Influence,
    Report,
    snippet,
    unknown,
)
from kvproof.checking.rounding import Rounding
from kvproof.checking.shrink import shrink
from kvproof.checking.subject import (
    UNLOCKS,
    NotSupported,
    OutOfTime,
    Refused,
    Row,
    Subject,
    Trouble,
)
from kvproof.checking.verdict import Facts, Verdict
from kvproof.kinds import Kind

LONGEST_ALARM = 1e8
"""Seconds, some years: systems refuse alarms that are much later."""

Cases = Callable[[Subject, np.random.Generator], battery.Cases]

STAGES: dict[Stage, tuple[Check, Cases]] = {
    Stage.FEEDING: (Check.LOG, battery.feeding),
    Stage.BATCH: (Check.ROW, battery.batches),
    Stage.PADDING: (Check.ROW, battery.padded),
    Stage.OPERATIONS: (Check.OPS, battery.operations),
    Stage.SECOND_USE: (Check.REP, battery.second_use),
}
"""What its findings are found by, and its cases.  A stage whose predecessor fails isn't run: its
cases would fail for the same reason."""


def check(
    decoder: Any,
    seed: int = 0,
    budget_s: float = 30.0,
    gold: Callable[[Any], Any] | None = None,
    progress: Callable[[Message], None] | None = None,
) -> Report:
    """Is this decoder's cache right?  If not: the smallest failing case, and the likely mistake.

    The decoder has ``vocab_size``, ``max_length`` (the longest text that it takes) and two methods:
    ``full(tokens)``, int (B, T) -> logits (B, T, V) without a cache, and ``step(tokens, cache)``,
    int (B, C) and a cache or None -> (logits (B, C, V), cache), which goes on from there.  Arrays
    of NumPy, PyTorch, JAX or anything else that turns into arrays.  What else it offers lets the
    checker look at more, and ``Report.not_checked`` says what that would be.

    Args:
        decoder: the object to check.
        seed: of the random texts; the same seed gives the same report.
        budget_s: seconds after which the checker stops and says how far it came.
        gold: ``gold(tokens)`` -> logits (B, T, V) of another implementation with the same weights,
            for mistakes that ``full`` and ``step`` share.
        progress: is told what comes next; ``str()`` of it is English.

    Returns:
        The report.  No exception of the decoder gets through; it becomes a finding.

    Raises:
        ValueError: ``budget_s`` isn't positive.

    Example:
        >>> class Decoder:
        ...     vocab_size, max_length = 97, 32
        ...     params = kvproof.init_params(kvproof.REFERENCE)
        ...     def full(self, tokens):
        ...         return kvproof.forward(self.params, tokens, kvproof.REFERENCE)
        ...     def step(self, tokens, cache):
        ...         if cache is None:
        ...             cache = kvproof.new_cache(kvproof.REFERENCE, len(tokens))
        ...         return kvproof.decode(self.params, tokens, cache, kvproof.REFERENCE)
        >>> kvproof.check(Decoder()).ok
        True
        >>> class Forgetful(Decoder):
        ...     def step(self, tokens, cache):
        ...         return self.full(tokens), "nothing"
        >>> report = kvproof.check(Forgetful())
        >>> print(report.findings[0].evidence[0])
        the logits are those of the chunk alone: step ignores its cache
        >>> print(report.findings[0].case)
        tokens 0 0; feed 1, feed 1
    """
    if not _is_positive(budget_s):
        raise ValueError(f"budget_s must be more than 0 seconds, got {budget_s!r}")
    start = time.monotonic()
    checker = _Checker(seed, progress)
    try:
        with _alarm(min(float(budget_s), LONGEST_ALARM)), np.errstate(all="ignore"):
            checker.check(decoder, start + budget_s, gold)
    except OutOfTime:
        checker.out_of_time(budget_s)
    except Trouble as trouble:
        checker.findings.append(unknown(Check.LOG, trouble.message))
    except NotSupported as missing:
        sentence = Message("trouble.not-implemented", member=missing.member)
        checker.findings.append(unknown(Check.LOG, sentence))
    return checker.report(type(decoder).__name__, time.monotonic() - start)


def _is_positive(number: Any) -> bool:
    return isinstance(number, numbers.Real) and float(number) > 0


def assert_cache_matches(
    decoder: Any,
    seed: int = 0,
    budget_s: float = 30.0,
    gold: Callable[[Any], Any] | None = None,
) -> None:
    """For a test: nothing happens if ``check`` finds nothing.

    Args:
        decoder: the object to check.
        seed: of the random texts.
        budget_s: seconds; a check that needs more fails.
        gold: another implementation's ``full``.

    Raises:
        AssertionError: something is wrong, or the budget is used up; the message is the report.
        ValueError: ``budget_s`` isn't positive.

    Example:
        >>> class Decoder:
        ...     vocab_size, max_length = 97, 32
        ...     params = kvproof.init_params(kvproof.REFERENCE)
        ...     def full(self, tokens):
        ...         return kvproof.forward(self.params, tokens, kvproof.REFERENCE)
        ...     def step(self, tokens, cache):
        ...         if cache is None:
        ...             cache = kvproof.new_cache(kvproof.REFERENCE, len(tokens))
        ...         mask = kvproof.top_left_mask
        ...         return kvproof.decode(self.params, tokens, cache, kvproof.REFERENCE, mask)
        >>> try:
        ...     kvproof.assert_cache_matches(Decoder())
        ... except AssertionError as error:
        ...     print(str(error).splitlines()[3])
        MASK-TOPLEFT: the causal mask is pinned to the top left corner and hides the past
    """
    report = check(decoder, seed, budget_s, gold)
    if not report.ok or not report.complete:
        raise AssertionError(str(report))


@dataclass
class _Extent:
    """How far the cases of a stage went."""

    longest: int = 0
    widest: int = 0
    error: float = 0.0
    """The largest of all."""
    margin: float = np.inf
    """Between the two largest logits of ``full``, the least of all."""

    def add(self, result: Result) -> None:
        """One more case."""
        self.error = max(self.error, result.error)
        for call in result.observations:
            self.longest = max(self.longest, len(call.histories[0]))
            self.widest = max(self.widest, call.logits.shape[1])
            if call.expected.shape[-1] > 1:
                top = np.partition(call.expected, -2, axis=-1)[..., -2:]
                self.margin = min(self.margin, float(np.ptp(top, axis=-1).min()))


class _Checker:
    def __init__(self, seed: int, progress: Callable[[Message], None] | None) -> None:
        self.rng = np.random.default_rng(seed)
        self.say = progress or (lambda _: None)
        self.complete = True
        self.fed = False
        """The feeding of one sequence was checked."""
        self.findings: list[Finding] = []
        self.checked: list[Message] = []
        self.not_checked: list[Message] = []
        self.notes: list[Message] = []
        self.noise = self.tolerance = self.still = self.most = self.scale = 0.0
        self.subject: Subject | None = None

    def check(self, decoder: Any, deadline: float, gold: Callable[[Any], Any] | None) -> None:
        subject = self.subject = Subject(decoder, deadline)
        self.say(Message("progress.full"))
        reference = judge(subject, self.rng)
        self.noise, self.tolerance = reference.noise, reference.tolerance
        self.still, self.most, self.scale = reference.still, reference.most, reference.scale
        self.notes += reference.notes
        if reference.finding is not None:
            self.findings.append(reference.finding)
        if reference.finding is not None or reference.shows_nothing:
            self._leave_out(STAGES)
            return
        self.checked.append(Message("checked.full-rows" if reference.rows else "checked.full"))
        stages = list(STAGES)
        for index, stage in enumerate(stages, start=1):
            if not self._run_stage(subject, stage):
                self._leave_out(stages[index:])
                break
        self._look_inside(subject)
        self._crop_beyond_the_end(subject)
        self._padded_full(subject)
        self._compare_with_gold(subject, gold)

    def _leave_out(self, stages: Iterable[Stage]) -> None:
        self.not_checked += [Message("not-checked.stage", stage=stage.message) for stage in stages]

    def _run_stage(self, subject: Subject, stage: Stage) -> bool:
        """Run its cases and say what is wrong; whether to go on with the next one."""
        if stage is Stage.PADDING and not subject.has("supports_padding"):
            return True
        self.say(stage.message)
        results, seen = self._run_cases(subject, STAGES[stage][1])
        if not results:
            return True
        # What step returns may be coarser than what full does.
        allowed = min(Rounding(subject.dtype, self.scale).allowed, self.most)
        self.tolerance = max(self.tolerance, allowed)
        said = {"stage": stage.message, "cases": len(results), "error": seen.error}
        if stage is Stage.FEEDING:
            self.fed = True
            extent = {"longest": seen.longest, "widest": seen.widest}
            self.checked.append(Message("checked.feeding", **said, **extent))
            self._say_what_is_out_of_reach(subject, seen)
        else:
            self.checked.append(Message("checked.stage", **said))
        if not any(result.wrong(self.tolerance) for result in results.values()):
            return True
        return self._condemn(subject, stage, results)

    def _run_cases(self, subject: Subject, cases: Cases) -> tuple[dict[CaseId, Result], _Extent]:
        """The result of each case that can be run, and how far they went together."""
        results: dict[CaseId, Result] = {}
        seen = _Extent()
        for name, case in cases(subject, self.rng):
            if not battery.within(subject, case):
                continue
            try:
                result = run(subject, case)
            except NotSupported as missing:
                unsupported = {"case": name.message, "member": missing.member}
                self.not_checked.append(Message("not-checked.unsupported", **unsupported))
                continue
            except Refused as stop:
                said = Message("not-checked.refused", case=name.message, refused=stop.message)
                self.not_checked.append(said)
                continue
            seen.add(result)
            if result.refused is not None and not case.may_refuse:
                said = Message("not-checked.refused-end", case=name.message, refused=result.refused)
                self.not_checked.append(said)
            results[name] = result if result.wrong(self.tolerance) else result.without_logits()
        return results, seen

    def _condemn(self, subject: Subject, stage: Stage, results: dict[CaseId, Result]) -> bool:
        """Say what is wrong; whether to go on, as it was nothing but rounding on purpose."""
        check = STAGES[stage][0]
        wrong = {name: r for name, r in results.items() if r.wrong(self.tolerance)}
        worst = max(np.inf if r.trouble else r.error for r in wrong.values())
        self.say(Message("progress.search", wrong=len(wrong), all=len(results)))
        try:
            finding = self._finding(subject, stage, results, wrong)
            if (finding.check, finding.kind) == (Check.TOL, Kind.UNKNOWN):
                self.notes.append(Message("note.lossy", error=worst, budget=self.tolerance))
                self.tolerance = max(self.tolerance, min(2 * worst, self.most))
                return True
        except OutOfTime:
            why = Message("fails.budget")
            self._found(subject, _undiagnosed(subject, check, wrong, self.tolerance, why), worst)
            raise
        except (Trouble, NotSupported, Refused) as stop:
            why = Message("fails.stopped", stopped=stop.args[0])
            finding = _undiagnosed(subject, check, wrong, self.tolerance, why)
        self._found(subject, finding, worst)
        return False

    def _say_what_is_out_of_reach(self, subject: Subject, seen: _Extent) -> None:
        """Longer texts and chunks, and greedy texts, which may differ without a mistake."""
        if seen.longest < subject.max_length:
            extent = {"longest": seen.longest, "widest": seen.widest}
            self.not_checked.append(Message("not-checked.longer", **extent))
        if seen.margin <= 2 * self.tolerance:
            ties = {"margin": seen.margin, "tolerance": self.tolerance}
            self.notes.append(Message("note.ties", **ties))

    def _finding(
        self,
        subject: Subject,
        stage: Stage,
        results: dict[CaseId, Result],
        wrong: dict[CaseId, Result],
    ) -> Finding:
        first = _simplest(wrong)
        full_disturbs = self._full_disturbs(subject, first.case)
        smallest = self._smallest(subject, first, full_disturbs)
        probes = Probes(subject, self.tolerance, self.still)
        facts = Facts(probes, results, first, smallest, self.most)
        verdict = diagnosis_of_full() if full_disturbs else diagnose(facts, stage)
        bad = smallest.first_bad(self.tolerance)
        best, *others = verdict.ranking
        counted_only = bad is None and smallest.trouble is None
        layer = {} if verdict.layer is None else {"layer": verdict.layer}
        draws = stage is Stage.FEEDING and smallest.trouble is None
        return Finding(
            kind=best.kind,
            check=Check.BOOK if counted_only else verdict.check or STAGES[stage][0],
            case=smallest.case,
            max_abs_error=smallest.error,
            tolerance=self.tolerance,
            first_bad=_where(bad, self.tolerance) | layer,
            alternatives=tuple(others[:4]),
            evidence=_said(best.why, *_evidence(facts, verdict)),
            snippet=_snippet(subject, smallest, self.tolerance, full_disturbs),
            confidence=best.confidence,
            influence=_influence(facts) if draws else None,
        )

    def _smallest(self, subject: Subject, first: Result, full_disturbs: bool) -> Result:
        """What shrinking makes of a result; the same if it depends on what ran before."""
        # A wrong count is easier to have than a wrong logit, and says less.
        needs_logits = first.first_bad(self.tolerance) is not None

        def again(case: Case) -> Result:
            if full_disturbs:
                subject.forget()
            return run(subject, case)

        def fails(case: Case) -> bool:
            if not battery.within(subject, case):
                return False
            try:
                result = again(case)
            except (NotSupported, Refused):
                return False
            by_logits = result.first_bad(self.tolerance) is not None
            return by_logits if needs_logits else result.wrong(self.tolerance)

        smallest = again(shrink(first.case, fails))
        return smallest if smallest.wrong(self.tolerance) else first

    def _full_disturbs(self, subject: Subject, case: Case) -> bool:
        """Whether a case is wrong only if ``full`` is asked between its calls."""
        if run(subject, case).wrong(self.tolerance):
            return False
        subject.forget()
        return run(subject, case).wrong(self.tolerance)

    def _found(self, subject: Subject, finding: Finding, error: float) -> None:
        """Keep a finding, with a doubt if its largest error may still be rounding."""
        doubt = None
        if self.tolerance < error < np.inf:
            doubt = Message("note.sharp-lossy")
            if not subject.lossy:
                doubt = Rounding(subject.dtype, self.scale).doubt(error)
        if doubt is not None:
            said = *finding.evidence, doubt
            confidence = min(finding.confidence, 0.5)
            finding = replace(finding, evidence=said, confidence=confidence, doubtful=True)
        self.findings.append(finding)

    def _compare_with_gold(self, subject: Subject, gold: Callable[[Any], Any] | None) -> None:
        if gold is None:
            self.not_checked.append(Message("not-checked.gold"))
            return
        text = battery.texts(subject, self.rng, 1, min(battery.SHORTEST, subject.longest))
        difference = subject.compare(gold, text[0])
        self.checked.append(Message("checked.gold", error=difference))
        if not difference <= min(10 * max(self.tolerance, self.still), self.most):
            finding = _unlike_gold(subject, text[0], difference, self.tolerance)
            self._found(subject, finding, difference)

    def _look_inside(self, subject: Subject) -> None:
        """Whether a diagnosis could use what ``keys_values`` gives; it never condemns."""
        if self.findings or not subject.has("keys_values"):
            return
        try:
            subject.reset()
            _, cache = subject.step(np.zeros((1, 1), np.int64), None)
            subject.keys_values(cache)
        except Trouble as trouble:
            self.notes.append(Message("note.keys-values", trouble=trouble.message))
        except NotSupported:
            self.not_checked.append(Message("not-checked.keys-values"))

    def _crop_beyond_the_end(self, subject: Subject) -> None:
        """It may raise, or change nothing; it may not count what was never fed."""
        if self.findings or not subject.has("crop"):
            return
        n = min(3, subject.longest)
        go_on = feeds([1] if n < subject.longest else [])
        text = battery.texts(subject, np.random.default_rng(n), 1, n + len(go_on))
        case = Case(text, (*feeds([n]), Op("crop", n + 2), *go_on))
        try:
            result = run(subject, case)
        except NotSupported as missing:
            self.not_checked.append(Message("not-checked.crop-beyond", member=missing.member))
            return
        except Refused:
            return
        if result.wrong(self.tolerance):
            sentence = Message("operations.crop-beyond", length=n + 2, n=n)
            finding = Finding(
                kind=Kind.ROLLBACK,
                check=Check.BOOK,
                case=case,
                max_abs_error=result.error,
                tolerance=self.tolerance,
                evidence=_said(sentence, result.trouble, result.ledger),
                snippet=_snippet(subject, result, self.tolerance),
                confidence=0.8,
            )
            self._found(subject, finding, np.inf if result.trouble else result.error)

    def _padded_full(self, subject: Subject) -> None:
        """Whether ``full`` takes padding as it says: each row must be as it is alone."""
        if self.findings or not subject.has("supports_padding"):
            return
        n = min(6, subject.longest)
        lengths = n, max(n - 3, 1), max(n - 5, 1)
        rows = battery.texts(subject, np.random.default_rng(n), 3, n)
        try:
            batch = subject.full(np.array(rows), lengths)
        except NotSupported:
            self.not_checked.append(Message("not-checked.full-padded"))
            return
        except Trouble as trouble:
            self.findings.append(
                _padded_unlike_alone(rows, lengths, np.inf, self.tolerance, trouble.message)
            )
            return
        error = 0.0
        for row, text, length in zip(batch, rows, lengths, strict=True):
            alone = subject.recompute(text[-length:])
            error = max(error, float(distance(row[-length:], alone).max()))
        self.checked.append(Message("checked.full-padded", error=error))
        if error > self.tolerance:
            sentence = Message("full.padded")
            finding = _padded_unlike_alone(rows, lengths, error, self.tolerance, sentence)
            self._found(subject, finding, error)

    def out_of_time(self, budget_s: float) -> None:
        self.complete = False
        self.not_checked.append(Message("not-checked.budget", budget=float(budget_s)))
        subject = self.subject
        if subject is not None and time.monotonic() - subject.since > budget_s / 2:
            said = {"member": subject.calling, "budget": float(budget_s)}
            self.findings.append(unknown(Check.LOG, Message("trouble.hangs", **said)))

    def report(self, name: str, seconds: float) -> Report:
        subject = self.subject
        if subject is not None:
            self.not_checked += [
                Message(f"unlocks.{member}") for member in UNLOCKS if not subject.has(member)
            ]
        return Report(
            name,
            self.fed and not self.findings,
            tuple(sorted(self.findings, key=lambda finding: -finding.confidence)),
            tuple(self.checked),
            tuple(self.not_checked),
            tuple(self.notes),
            self.noise,
            self.tolerance,
            "unknown" if subject is None else subject.dtype,
            0 if subject is None else subject.n_calls,
            seconds,
            self.complete,
        )


def _snippet(
    subject: Subject, result: Result, tolerance: float, full_disturbs: bool = False
) -> str:
    bad = result.first_bad(tolerance)
    text = snippet(result.case, bad, tolerance, full_disturbs)
    if bad is not None and subject.limit < np.inf and np.abs(bad.expected).max() > subject.limit:
        text += f"\n# (logits beyond {subject.limit:.3g} were compared by their logarithms)"
    counted = bad is None and result.ledger
    return f"{text}\nprint(decoder.length(cache))  # {result.ledger}" if counted else text


def _simplest(wrong: Mapping[CaseId, Result]) -> Result:
    """The failure that says most: wrong numbers before a call that raised, then the smallest."""
    return min(wrong.values(), key=lambda one: (one.trouble is not None, one.case.size))


def _said(*sentences: Message | None) -> tuple[Message, ...]:
    """Those that there are."""
    return tuple(sentence for sentence in sentences if sentence is not None)


def _undiagnosed(
    subject: Subject, check: Check, wrong: dict[CaseId, Result], tolerance: float, why: Message
) -> Finding:
    """What is certain before a failure is understood."""
    first = _simplest(wrong)
    return Finding(
        kind=Kind.UNKNOWN,
        check=check,
        case=first.case,
        max_abs_error=first.error,
        tolerance=tolerance,
        first_bad=_where(first.first_bad(tolerance), tolerance),
        evidence=_said(first.trouble, Message("fails.cases", cases=_titles(wrong)), why),
        snippet=_snippet(subject, first, tolerance),
        confidence=0.5,
    )


def _titles(names: Iterable[CaseId]) -> list[Message]:
    return [name.message for name in names]


def _where(bad: Observation | None, tolerance: float) -> dict[str, int]:
    """The first wrong call, its first wrong position, and a row in which that is wrong."""
    if bad is None:
        return {}
    rows, columns = np.nonzero(bad.errors > tolerance)
    first = columns.argmin()
    position = bad.first_slot + int(columns[first])
    return {"operation": bad.op, "row": int(rows[first]), "position": position}


def _evidence(facts: Facts, verdict: Verdict) -> Iterator[Message | None]:
    """What speaks for the verdict."""
    smallest, wrong, results = facts.smallest, facts.wrong, facts.results
    yield smallest.trouble
    yield from verdict.evidence
    n_odd = sum(
        int((~np.isfinite(seen.logits) & (seen.logits != seen.expected)).sum())
        for seen in smallest.observations
    )
    if n_odd:
        yield Message("fails.not-finite", n=n_odd)
    yield smallest.ledger
    if len(wrong) < 6:
        yield Message("fails.cases", cases=_titles(wrong))
    else:
        yield Message("fails.many", n=len(wrong), all=len(results))
    if passing := [name for name in results if name not in wrong]:
        yield Message("fails.passes", cases=_titles(passing))


def _influence(facts: Facts) -> Influence | None:
    """In the first wrong call, if it is small enough to look at; else after four tokens."""
    seen = facts.first.first_bad(facts.tolerance)
    if seen is None:
        return None
    n_past, n_new = seen.first_slot, seen.logits.shape[1]
    if n_past + n_new > min(12, facts.probes.n):
        n_past, n_new = 4, 2
    found = facts.probes.influence(n_past, n_new)
    return None if found is None or found.seen == found.expected else found


def _unlike_gold(subject: Subject, text: Row, difference: float, tolerance: float) -> Finding:
    """Which kind is in both paths: heads that are mixed up, unless there is only one."""
    n_heads = subject.kv_heads()
    kind = Kind.HEAD_MAP if n_heads is None or n_heads > 1 else Kind.UNKNOWN
    case = Case((text,), feeds([len(text)]))
    others = Alternative(Kind.LOGIT_SHIFT, 0.1), Alternative(Kind.MASK_VALUE, 0.1)
    lines = (
        f"{PREAMBLE}\ntokens = np.array({[list(text)]})\n"
        "print(apart(decoder.full(tokens), gold(tokens)))"
    )
    return Finding(
        kind=kind,
        check=Check.GOLD,
        case=case,
        max_abs_error=difference,
        tolerance=tolerance,
        alternatives=others,
        evidence=(Message("full.gold"), Message("full.gold-heads")),
        snippet=lines,
        confidence=0.6,
    )


def _padded_unlike_alone(
    rows: tuple[Row, ...],
    lengths: tuple[int, ...],
    error: float,
    tolerance: float,
    sentence: Message,
) -> Finding:
    lines = (
        PREAMBLE,
        f"tokens, lengths = np.array({[list(row) for row in rows]}), np.array({list(lengths)})",
        "padded = array(decoder.full(tokens, lengths=lengths))",
        "for row, (text, n) in enumerate(zip(tokens, lengths)):  # all of these should be rounding",
        "    print(row, apart(padded[row, -n:], array(decoder.full(text[None, -n:]))[0]))",
    )
    others = Alternative(Kind.POS_PERROW, 0.3), Alternative(Kind.MASK_VALUE, 0.1)
    return Finding(
        kind=Kind.PAD_MASK,
        check=Check.ROW,
        case=Case(rows, feeds([len(rows[0])]), lengths),
        max_abs_error=error,
        tolerance=tolerance,
        alternatives=others,
        evidence=(sentence, Message("full.padded-itself")),
        snippet="\n".join(lines),
        confidence=0.6,
    )


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Interrupt a call that hangs, where there are alarms; elsewhere time is up between calls."""
    usable = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not usable:
        yield
        return

    def ring(_signum: int, _frame: FrameType | None) -> None:
        raise OutOfTime

    start = time.monotonic()
    before = signal.signal(signal.SIGALRM, ring)
    left = interval = 0.0  # of somebody else's alarm
    try:  # in two steps: it may ring while it is being taken back
        try:
            left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
        if left:
            rest = left - (time.monotonic() - start)
            signal.setitimer(signal.ITIMER_REAL, max(rest, 1e-6), interval)
