"""A gate for CI: is the second of two results slower than the first by more than a limit?"""

from __future__ import annotations

from dataclasses import dataclass

from perfmagic.analysis.bench.compare import CompareSummary
from perfmagic.analysis.bench.machine import is_computed, other_machine
from perfmagic.analysis.diff.diff import TraceDiff
from perfmagic.analysis.diff.step_times import MEASURED, StepTimes
from perfmagic.base.language import chained, phrase
from perfmagic.base.numerics.stats import BAND_SEPARATE, fewest_of_each
from perfmagic.base.units import count, duration, percent_known, signed_percent

NOT_SLOWER, SLOWER, UNCLEAR, NOT_COMPARABLE = "not slower", "slower", "unclear", "not comparable"
LEVEL = 0.95  # of the interval


@dataclass(frozen=True)
class Gate:
    """What a gate says.

    verdict: not slower, slower, unclear or not comparable.  sentence: with times, change and reason, in one line.
    """

    verdict: str
    sentence: str

    @property
    def status(self) -> int:
        """The exit status: 0, also where it is unclear; 1 for slower; 2 for not comparable."""
        return {SLOWER: 1, NOT_COMPARABLE: 2}.get(self.verdict, 0)


@dataclass(frozen=True)
class _Change:
    """A time before and now, and between what their ratio lies; None where nothing bounds it.

    times: both, in words.  basis: what they rest on.  exact: whether they were computed, so that equal code takes
    equally long.  too_few: what to do where nothing bounds the ratio.  least: the ratio of the quickest of both, where
    it is known.
    """

    times: str
    ratio: float
    interval: tuple[float, float] | None
    basis: str
    exact: bool
    too_few: str
    least: float | None = None


def gate_steps(diff: TraceDiff, limit: float) -> Gate:
    """Whether whole steps of the second take longer by more than the limit, a fraction."""
    if diff.not_comparable:
        return _refused(diff.not_comparable)
    steps = diff.step_times
    names = {"a": diff.a.name, "b": diff.b.name}
    times = {name: duration(_middle(ns, steps)) for name, ns in (("before", steps.a_ns), ("now", steps.b_ns))}
    if steps.marked:
        words = phrase("a step takes {now} in {b}, {before} in {a}", **times, **names)
    else:
        words = phrase("the recording takes {now} in {b}, {before} in {a}", **times, **names)
    low, high = steps.ratio_low, steps.ratio_high
    interval = None if low is None or high is None else (low, high)
    exact = steps.how != MEASURED
    least = None if exact or not steps.marked else min(steps.b_ns) / max(1, min(steps.a_ns))
    change = _Change(words, steps.ratio, interval, _basis(steps), exact, _too_few(steps), least)
    return _judged(change, limit)


def gate_benchmarks(comparison: CompareSummary, limit: float) -> Gate:
    """Whether the second of two benchmarks takes longer by more than the limit, a fraction."""
    (found,), (baseline, other) = comparison.comparisons, comparison.results
    if why := found.not_comparable or other_machine(baseline, other):
        return _refused(why)
    times = {"now": duration(found.name_s * 1e9), "before": duration(found.baseline_s * 1e9)}
    names = {"a": found.baseline, "b": found.name, "quantity": phrase(found.quantity)}
    words = phrase("a call takes {now} in {b}, {before} in {a} ({quantity})", **times, **names)
    bounds = found.ratio_low or 0.0, found.ratio_high or 0.0
    interval = (1 / bounds[1], 1 / bounds[0]) if min(bounds) > 0 else None
    n = [each.quantities[found.quantity].n for each in (baseline, other)]
    basis = phrase("{n} and {other} samples", n=count(n[0]), other=count(n[1]))
    ratio = 1 / found.ratio if found.ratio else 0.0
    return _judged(_Change(words, ratio, interval, basis, is_computed(baseline, other), found.why), limit)


def _refused(why: str) -> Gate:
    return Gate(NOT_COMPARABLE, phrase("not comparable: {why}", why=why))


def _judged(change: _Change, limit: float) -> Gate:
    verdict, why = _verdict(change, limit)
    shown = signed_percent(change.ratio - 1)
    if change.interval and change.interval[0] < change.interval[1]:
        low, high = (signed_percent(end - 1) for end in change.interval)
        shown = phrase("{change} [{low}, {high}]", change=shown, low=low, high=high)
    words = phrase(
        "{times}: {change}, the limit is {limit}", times=change.times, change=shown, limit=percent_known(limit)
    )
    said = {
        NOT_SLOWER: phrase("not slower: {words}", words=words),
        SLOWER: phrase("slower: {words}", words=words),
        UNCLEAR: phrase("unclear, which passes: {words}", words=words),
    }
    return Gate(verdict, chained("{a}; {b}", (said[verdict], change.basis, why)))


def _verdict(change: _Change, limit: float) -> tuple[str, str]:
    """The verdict, and why it is unclear.

    Two recordings of one program differ, each by its own: below that no limit fails. Where the quickest steps differ by
    less, the machine may have been busy: of equal recordings beside eight other jobs that spares half of those that
    would fail (benchmarks/results/bench_verdicts.md).
    """
    if change.interval is None:
        return UNCLEAR, change.too_few
    low, high = change.interval
    if high <= 1 + limit:
        return NOT_SLOWER, ""
    if low <= 1 + limit:
        return UNCLEAR, phrase("the interval contains the limit")
    if low <= 1 + BAND_SEPARATE and not change.exact:
        return UNCLEAR, phrase("two runs of one program differ by up to {band}", band=percent_known(BAND_SEPARATE))
    if change.least is not None and change.least <= 1 + limit:
        return UNCLEAR, phrase("the quickest steps differ by less than the limit: the machine may have been busy")
    return SLOWER, ""


def _middle(times_ns: tuple[int, ...], steps: StepTimes) -> float:
    """The time that the ratio is of: the median of measured steps, the mean of computed ones."""
    ordered, n = sorted(times_ns), len(times_ns)
    return sum(ordered) / n if steps.how != MEASURED else (ordered[(n - 1) // 2] + ordered[n // 2]) / 2


def _basis(steps: StepTimes) -> str:
    if not steps.marked:
        return phrase("no steps are marked in both")
    n, other = len(steps.a_ns), len(steps.b_ns)
    return phrase("{n} and {other} steps", n=count(n), other=count(other))


def _too_few(steps: StepTimes) -> str:
    """What would tell how far two recordings differ."""
    if not steps.marked:
        return phrase("one run each does not show how far two differ: mark steps, with prof.step()")
    return phrase("that is too few to tell: record {n} or more whole steps of each", n=count(fewest_of_each(LEVEL)))
