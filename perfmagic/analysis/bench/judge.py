"""The verdict on two benchmarks: faster, slower, same or unclear, and the reason.

A difference beyond the interval is a verdict at any number of samples that can carry one. Where there is none, the
reason names what is missing and what would help. Source: docs/measuring.md, "Comparing".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmagic.analysis.bench.advice import Advice
from perfmagic.analysis.bench.comparable import unlike
from perfmagic.analysis.bench.separate_runs import SeparateRuns, separate_runs
from perfmagic.flags import called
from perfmagic.numerics.ratio import (
    BAND,
    FEWEST_99,
    chance_of_parting,
    fewest_of_each,
    judged,
    ratio,
    ratio_interval,
)
from perfmagic.units import NBSP, percent, plural, significant, within

if TYPE_CHECKING:
    from perfmagic.analysis.bench.quantity import Quantity
    from perfmagic.analysis.bench.result import BenchSummary
    from perfmagic.numerics.stats import Float64

# separate runs: memory layout and clocks move the medians of two runs by about as much (docs/measuring.md, "Comparing";
# measured between two processes, and runs of one process lie no closer)
BAND_SEPARATE = 0.03
# what the empty loop and two readings of the clock take at least, 0.11 to 0.35 µs (docs/measuring.md, "Preparation"):
# what is subtracted for them is no more certain than that
CLOCK_S = 0.1e-6
# what the loop around a call adds is subtracted, and is no surer than about this in a run of its own: 0.5 ns off beside
# timeit (benchmarks/results/bench_accuracy.md). Interleaved bodies share one such figure.
LOOP_S = 1e-9
LEVEL, SURE_LEVEL = 0.95, 0.99  # of the interval that is shown, and of the one that interleaved samples need


@dataclass(frozen=True)
class Judgement:
    """A verdict with its reason.

    ratio: how many times as fast, 0 where one takes no time.  interval: 95 % confidence interval of the ratio, None
    where the samples are too few.  band_frac: a change within it is "same".  note: as in Comparison.
    """

    verdict: str
    why: str
    ratio: float
    interval: tuple[float, float] | None
    band_frac: float
    interleaved: bool
    note: str = ""


def judge(baseline: BenchSummary, other: BenchSummary, quantity: str) -> Judgement:
    """Whether the other is faster than the baseline.  quantity: by name, of those that both have."""
    interleaved = bool(baseline.round_id) and baseline.round_id == other.round_id
    if interleaved:
        return _of_interleaved(baseline, other, quantity)
    first, second = baseline.quantities[quantity], other.quantities[quantity]
    runs = separate_runs(baseline, other, quantity)
    interval = None if runs is None else (runs.low, runs.high)
    verdict, why = _obstacle(baseline, other, (first, second), interval), ""
    if verdict:
        verdict, why = "unclear", verdict
    elif runs is not None and interval is not None:
        verdict = judged(interval, BAND_SEPARATE)
        why = (
            _unclear_runs(runs, baseline) if verdict == "unclear" else f"{_runs_in_words(runs)}; {_band(BAND_SEPARATE)}"
        )
    samples = np.array(second.samples_s), np.array(first.samples_s)
    return Judgement(verdict, why, ratio(*samples, interleaved=False), interval, BAND_SEPARATE, False)


def _of_interleaved(baseline: BenchSummary, other: BenchSummary, quantity: str) -> Judgement:
    first, second = baseline.quantities[quantity], other.quantities[quantity]
    samples = np.array(second.samples_s), np.array(first.samples_s)
    interval = ratio_interval(*samples, interleaved=True, level=LEVEL)
    why = _obstacle(baseline, other, (first, second), interval)
    if why or interval is None:
        verdict = "unclear"
    else:
        verdict, why = _interleaved_verdict(baseline, samples, interval)
    note = ""
    if interval and second.median_s and not interval[0] <= first.median_s / second.median_s <= interval[1]:
        note = "both changed during the run: the ratio comes from neighbouring samples, not from the two medians"
    return Judgement(verdict, why, ratio(*samples, interleaved=True), interval, BAND, True, note)


def _interleaved_verdict(
    baseline: BenchSummary, samples: tuple[Float64, Float64], interval: tuple[float, float]
) -> tuple[str, str]:
    """The verdict and why.

    Sampling ends when the verdict is clear, so the data are inspected repeatedly: "faster" and "slower" need 99 %.
    """
    verdict, n = judged(interval, BAND), min(map(len, samples))
    if verdict == "unclear":
        return verdict, f"the 95{NBSP}% interval crosses the band of {within(BAND)}: {Advice(baseline).longer(n)}"
    if verdict == "same":
        return verdict, f"interleaved; {_band(BAND)}"
    sure = ratio_interval(*samples, interleaved=True, level=SURE_LEVEL)
    if sure is None:
        enough = Advice(baseline).option("samples", str(fewest_of_each(SURE_LEVEL)))
        return (
            "unclear",
            f"nearly {verdict}: {plural(n, 'sample')} of each reach 95{NBSP}%, not 99{NBSP}%: {enough} or more",
        )
    if judged(sure, BAND) == verdict:
        return verdict, f"interleaved; {_band(BAND)}"
    if n < FEWEST_99 and sure[0] <= 1 <= sure[1]:
        enough = Advice(baseline).option("samples", str(FEWEST_99))
        reason = f"{plural(n, 'sample')} of each overlap, and so few prove a difference only if they do not"
        return "unclear", f"nearly {verdict}: {reason}: {enough} or more"
    reason = f"the 99{NBSP}% interval crosses the band of {within(BAND)}"
    return "unclear", f"nearly {verdict}: {reason}: {Advice(baseline).longer(n)}"


def _obstacle(
    baseline: BenchSummary,
    other: BenchSummary,
    quantities: tuple[Quantity, Quantity],
    interval: tuple[float, float] | None,
) -> str:
    """Why there can be no verdict, and what to do; empty where there can."""
    difference = unlike(baseline, other)
    if difference:
        return difference
    if interval is None:
        return _no_interval(baseline, quantities)
    calls = min(baseline.calls_per_sample, other.calls_per_sample)
    moved_s = abs(quantities[0].median_s - quantities[1].median_s)
    separate = not baseline.round_id or baseline.round_id != other.round_id
    if judged(interval, BAND) in ("faster", "slower"):
        if moved_s * calls < CLOCK_S:
            return "the difference is smaller than the clock's own cost: let one call do more work"
        if separate and calls > 1 and moved_s < LOOP_S:
            return "the difference is smaller than the loop around a call is known: let one call do more work"
    return ""


def _no_interval(baseline: BenchSummary, quantities: tuple[Quantity, Quantity]) -> str:
    counts = [q.n for q in quantities]
    chance = chance_of_parting(*counts)
    if chance <= 1 - LEVEL:
        return "one of them takes less time than the clock can resolve: let one call do more work"
    enough = Advice(baseline).option("samples", str(fewest_of_each(SURE_LEVEL)))
    have = (
        f"{plural(counts[0], 'sample')} of each" if counts[0] == counts[1] else f"{counts[0]} and {counts[1]} samples"
    )
    if chance >= 1:
        return f"{have} prove no difference: {enough} or more"
    return f"{have} prove no difference, as chance alone separates them in {percent(chance)} of cases: {enough} or more"


def _unclear_runs(runs: SeparateRuns, baseline: BenchSummary) -> str:
    """What makes a difference between separate runs uncertain, and what to do."""
    reason = _uncertain(runs) or f"the interval crosses the band of {within(BAND_SEPARATE)}"
    repeat = "" if min(runs.runs) > 1 else f", or repeat each with {Advice(baseline).option('runs', '5')}"
    return f"{reason}: interleave them, with {called(baseline.magic, 'bench --vs')}{repeat}"


def _uncertain(runs: SeparateRuns) -> str:
    """What makes a difference uncertain that the samples alone would prove; empty where they would not."""
    if judged(runs.of_samples, BAND_SEPARATE) == "unclear":
        return ""
    speed = runs.host_speed
    if speed is not None and not 1 / (1 + BAND_SEPARATE) <= speed <= 1 + BAND_SEPARATE:
        during, times = ("second", speed) if speed > 1 else ("first", 1 / speed)
        return f"a fixed loop beside the samples ran {significant(times, 3)} times as fast during the {during} of them"
    return "their whole runs overlap" if max(runs.runs) > 1 else ""


def _runs_in_words(runs: SeparateRuns) -> str:
    first, second = runs.runs
    return f"{plural(first, 'separate run')} each" if first == second else f"{first} and {second} separate runs"


def _band(frac: float) -> str:
    return f"{within(frac)} counts as the same"
