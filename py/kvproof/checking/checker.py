"""The order of the checks, the verdict, and what to say about what was left out."""

import numbers
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kvproof.checking import battery
from kvproof.checking.alarm import alarm
from kvproof.checking.arrays import distance
from kvproof.checking.cases import Case, Op, Result, feeds, run
from kvproof.checking.diagnose import diagnose, diagnosis_of_full
from kvproof.checking.findings import (
    evidence,
    influence,
    padded_unlike_alone,
    sentences,
    simplest,
    snippet_of,
    undiagnosed,
    unlike_gold,
    where,
)
from kvproof.checking.messages import Message
from kvproof.checking.names import CaseId, Check, Stage
from kvproof.checking.probes import Probes
from kvproof.checking.reference import judge
from kvproof.checking.report import Finding, Report, unknown
from kvproof.checking.rounding import CLEARLY, EPS, MOST, Rounding
from kvproof.checking.shrink import shrink
from kvproof.checking.subject import (
    UNLOCKS,
    NotSupported,
    OutOfTime,
    Refused,
    Subject,
    Trouble,
)
from kvproof.checking.verdict import Facts
from kvproof.kinds import Kind

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
        with alarm(float(budget_s)), np.errstate(all="ignore"):
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
        AssertionError: something is wrong or in doubt, or the budget is used up; the message is
            the report.
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


def _share_off(wrong: Iterable[Result], tolerance: float) -> float:
    """Of all positions in these cases; 0 if there are none."""
    off = [(seen.errors > tolerance).ravel() for one in wrong for seen in one.observations]
    return float(np.concatenate(off).mean()) if off else 0.0


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
        self.noise = self.tolerance = self.noise_floor = self.error_limit = self.scale = 0.0
        self.subject: Subject | None = None

    def check(self, decoder: Any, deadline: float, gold: Callable[[Any], Any] | None) -> None:
        subject = self.subject = Subject(decoder, deadline)
        self.say(Message("progress.full"))
        reference = judge(subject, self.rng)
        self.noise, self.tolerance = reference.noise, reference.tolerance
        self.noise_floor, self.error_limit, self.scale = (
            reference.noise_floor,
            reference.error_limit,
            reference.scale,
        )
        self.notes += reference.notes
        if reference.finding is not None:
            self.findings.append(reference.finding)
            if reference.finding.doubtful:  # the cache is held against more than may be rounding
                self.tolerance = max(self.tolerance, self._doubtful(subject))
        if self._is_wrong() or reference.shows_nothing:
            self._leave_out(STAGES)
            return
        if not self.findings:
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

    def _is_wrong(self) -> bool:
        """Beyond doubt."""
        return not all(finding.doubtful for finding in self.findings)

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
        allowed = min(Rounding(subject.dtype, self.scale).allowed, self.error_limit)
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
        """Say what is wrong; whether to go on: it is nothing but rounding on purpose, or may be
        rounding and is so small that more could be told from it.
        """
        check = STAGES[stage][0]
        wrong = self._wrong(results)
        worst = max(np.inf if r.trouble else r.error for r in wrong.values())
        doubtful = self._doubtful(subject)
        first = simplest(wrong)
        if worst > doubtful >= first.error > self.tolerance and not first.trouble:
            self.tolerance = doubtful  # what is named shall be the mistake, not rounding beside it
            wrong = self._wrong(results)
        self.say(Message("progress.search", wrong=len(wrong), all=len(results)))
        try:
            finding = self._finding(subject, stage, results, wrong)
            if (finding.check, finding.kind) == (Check.TOL, Kind.UNKNOWN):
                self.notes.append(Message("note.lossy", error=worst, budget=self.tolerance))
                self.tolerance = max(self.tolerance, min(2 * worst, self.error_limit))
                return True
        except OutOfTime:
            why = Message("fails.budget")
            finding = undiagnosed(subject, check, wrong, self.tolerance, why)
            self._found(subject, finding, worst, wrong.values())
            raise
        except (Trouble, NotSupported, Refused) as stop:
            why = Message("fails.stopped", stopped=stop.args[0])
            finding = undiagnosed(subject, check, wrong, self.tolerance, why)
            worst = np.inf if isinstance(stop, Trouble) else worst
        self._found(subject, finding, worst, wrong.values(), is_late=stage is not Stage.FEEDING)
        if worst <= doubtful and not self._is_wrong():
            self.tolerance = max(self.tolerance, doubtful)
            return True
        return False

    def _doubtful(self, subject: Subject) -> float:
        return min(Rounding(subject.dtype, self.scale).doubtful, self.error_limit)

    def _wrong(self, results: dict[CaseId, Result]) -> dict[CaseId, Result]:
        return {name: r for name, r in results.items() if r.wrong(self.tolerance)}

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
        first = simplest(wrong)
        full_disturbs = self._full_disturbs(subject, first.case)
        smallest = self._smallest(subject, first, full_disturbs)
        probes = Probes(subject, self.tolerance, self.noise_floor)
        facts = Facts(probes, results, first, smallest, self.error_limit)
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
            first_bad=where(bad, self.tolerance) | layer,
            alternatives=tuple(others[:4]),
            evidence=sentences(best.why, *evidence(facts, verdict)),
            snippet=snippet_of(subject, smallest, self.tolerance, full_disturbs),
            confidence=best.confidence,
            influence=influence(facts) if draws else None,
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

    def _found(
        self,
        subject: Subject,
        finding: Finding,
        error: float,
        wrong: Collection[Result] = (),
        is_late: bool = False,
    ) -> None:
        """Keep a finding, with a doubt if its largest error may still be rounding.

        Args:
            subject: the decoder.
            finding: what was found.
            error: the largest, inf for what is no number at all.
            wrong: the cases that fail, if a cache took part.
            is_late: they come after the feeding of one sequence.
        """
        is_number = finding.check is not Check.BOOK and self.tolerance < error < np.inf
        is_clear = False
        if subject.lossy or EPS[subject.dtype] > EPS["float32"]:
            is_late &= not self.findings
            is_clear = is_late and error > CLEARLY * self.error_limit
            is_clear |= _share_off(wrong, self.tolerance) > MOST
        doubt = None
        if is_number and not is_clear:
            doubt = Rounding(subject.dtype, self.scale).doubt(error)
            if wrong and subject.lossy:
                doubt = Message("note.sharp-lossy")
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
        # Another implementation may also differ in how it approximates, such as a GELU.
        limit = min(10 * max(self.tolerance, self.noise_floor), self.error_limit)
        if not difference <= limit:
            self._found(subject, unlike_gold(subject, text[0], difference, limit), difference)

    def _look_inside(self, subject: Subject) -> None:
        """Whether a diagnosis could use what ``keys_values`` gives; it never condemns."""
        if self._is_wrong() or not subject.has("keys_values"):
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
        if self._is_wrong() or not subject.has("crop"):
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
                evidence=sentences(sentence, result.trouble, result.ledger),
                snippet=snippet_of(subject, result, self.tolerance),
                confidence=0.8,
            )
            self._found(subject, finding, np.inf if result.trouble else result.error)

    def _padded_full(self, subject: Subject) -> None:
        """Whether ``full`` takes padding as it says: each row must be as it is alone."""
        if self._is_wrong() or not subject.has("supports_padding"):
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
                padded_unlike_alone(rows, lengths, np.inf, self.tolerance, trouble.message)
            )
            return
        error = 0.0
        for row, text, length in zip(batch, rows, lengths, strict=True):
            alone = subject.recompute(text[-length:])
            error = max(error, float(distance(row[-length:], alone).max()))
        self.checked.append(Message("checked.full-padded", error=error))
        if error > self.tolerance:
            sentence = Message("full.padded")
            finding = padded_unlike_alone(rows, lengths, error, self.tolerance, sentence)
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
            tuple(sorted(self.findings, key=lambda one: (one.doubtful, -one.confidence))),
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
