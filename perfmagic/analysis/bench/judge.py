"""The verdict on two benchmarks: faster, slower, same, unclear or not comparable, and the reason.

A difference beyond the interval is a verdict at any number of samples that can carry one. Where there is none, the
reason names what is missing and what would help. Source: docs/measuring.md, "Comparing".
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from perfmagic.analysis.bench.same_work import Check, checks_of, reason_of, to_be_known
from perfmagic.analysis.bench.warnings import Advice
from perfmagic.analysis.verdict import DEVICE_BOUND_FRAC
from perfmagic.base.kinds import HOST_MEASURED, HOST_SPREAD
from perfmagic.base.language import chained, counted, phrase
from perfmagic.base.numerics.stats import (
    BAND,
    BAND_SEPARATE,
    BAND_SEPARATE_HOST,
    FEWEST_99,
    chance_of_parting,
    fewest_of_each,
    judged,
    ratio,
    ratio_interval,
)
from perfmagic.base.options import called
from perfmagic.base.units import NBSP, percent, significant, within
from perfmagic.predict.ratio import describe_layouts, ratio_range, times_by_op

if TYPE_CHECKING:
    from perfmagic.analysis.bench.quantity import Quantity
    from perfmagic.analysis.bench.result import BenchSummary
    from perfmagic.base.numerics.stats import Float64

# The verdict on two benchmarks of which a GPU's model gave the times of one or of both.


def host_measured(result: BenchSummary) -> bool:
    """Whether the host of a predicted benchmark was Python's own time, which has noise."""
    return HOST_MEASURED in result.device_label


def predicted_ratio(baseline: BenchSummary, other: BenchSummary, quantity: str) -> tuple[float, float] | None:
    """Between what the ratio of two times lies, above 1 where the other is faster; None if both were measured.

    On one GPU the model's error of an operator is the same in both, where both have a recorded run. Two GPUs: the
    error of a ratio of two predictions, as of a replay on another GPU. Against a measurement, or if only one host is
    measured, the host's error counts, too: the host may take the time.
    """
    models = [result.predicted_for for result in (baseline, other)]
    known = [model for model in models if model is not None]
    if not known:
        return None
    before_s, after_s = (result.quantities[quantity].median_s for result in (baseline, other))
    ratio = before_s / after_s if after_s else 0.0
    spread = max(model.spread for model in known)
    runs = [result.record.trace if result.record is not None else None for result in (baseline, other)]
    is_host_alike = len(known) == 2 and host_measured(baseline) == host_measured(other)
    if is_host_alike and models[0] == models[1] and runs[0] is not None and runs[1] is not None:
        low, high = ratio_range(times_by_op(runs[0]), times_by_op(runs[1]), spread)
        return min(low, ratio), max(high, ratio)
    off = spread if is_host_alike else max(spread, HOST_SPREAD)
    return ratio / off, ratio * off


def layouts_of_predicted(baseline: BenchSummary, other: BenchSummary) -> str:
    """That layouts differ, of which a model knows nothing; "" where they do not, and without recorded runs."""
    runs = [result.record.trace if result.record is not None else None for result in (baseline, other)]
    names = baseline.name or phrase("the baseline"), other.name or phrase("the other")
    return "" if runs[0] is None or runs[1] is None else describe_layouts(runs[0], runs[1], names)


def why_of_predicted(baseline: BenchSummary, other: BenchSummary, verdict: str) -> str:
    """What a verdict rests on where a model gave times, or why it is unclear."""
    if verdict == "unclear":
        return phrase("the difference is within the error of the model: only recordings can tell")
    if baseline.predicted_for is None or other.predicted_for is None:
        return phrase("a prediction against a measurement: the ratio has the errors of GPU and host")
    if host_measured(baseline) != host_measured(other):
        return phrase("both predicted, the host of one measured and of the other counted: the ratio has its error")
    if baseline.predicted_for != other.predicted_for:
        return phrase("predicted for two GPUs: the ratio has the model's error")
    return phrase("both predicted: the same operators have the same error in both")


# What besides the code may make the difference between two benchmarks, and what to do about it.

CLOCKS_DIFFER_FRAC = 0.02  # docs/measuring.md, "Comparing": beyond it no verdict from time alone
_MACHINE = ("system", "machine", "cores")  # of an environment: results that differ there are of two machines


def unlike(baseline: BenchSummary, other: BenchSummary) -> str:
    """The first such difference and the remedy, in words; empty where there is none."""
    return incomparable(baseline, other) or _clocks(baseline, other)


def incomparable(baseline: BenchSummary, other: BenchSummary) -> str:
    """The first that no further sample cures: another device, another machine, caches cold in one alone."""
    return _devices(baseline, other) or _machines(baseline, other) or _caches(baseline, other)


def _devices(baseline: BenchSummary, other: BenchSummary) -> str:
    if baseline.device_label == other.device_label:
        return ""
    first, second = (result.device_label or phrase("the CPU") for result in (baseline, other))
    return phrase(
        "measured on different devices, {first} and {second}: measure both on one", first=first, second=second
    )


def _machines(baseline: BenchSummary, other: BenchSummary) -> str:
    machines = [[result.environment.get(key) for key in _MACHINE] for result in (baseline, other)]
    if machines[0] == machines[1] or not baseline.environment or not other.environment:
        return ""
    first, second = (" ".join(str(part) for part in machine) for machine in machines)
    return phrase(
        "measured on different machines, {first} cores and {second} cores: measure both on one",
        first=first,
        second=second,
    )


def _caches(baseline: BenchSummary, other: BenchSummary) -> str:
    if bool(baseline.cold_bytes) == bool(other.cold_bytes):
        return ""
    cold = Advice(baseline).option("cold", True)
    return phrase(
        "one was measured with cold caches, the other with warm ones: measure both with {option}, or both without",
        option=cold,
    )


def _clocks(baseline: BenchSummary, other: BenchSummary) -> str:
    mhz = _clocks_mhz(baseline, other)
    if mhz is None:
        return ""
    return phrase(
        "the GPU ran at {first} and at {second}: its clock alone may make the difference; interleave them, or lock the"
        " clock with nvidia-smi -lgc",
        first=f"{mhz[0]:.0f}",
        second=f"{mhz[1]:.0f}{NBSP}MHz",
    )


def _clocks_mhz(baseline: BenchSummary, other: BenchSummary) -> tuple[float, float] | None:
    """The median clocks of the first GPU that ran at different ones, in MHz."""
    for first in baseline.clocks:
        for second in other.clocks:
            if first.device == second.device:
                mhz = float(np.median(first.sm_mhz)), float(np.median(second.sm_mhz))
                if abs(mhz[0] - mhz[1]) > CLOCKS_DIFFER_FRAC * max(mhz):
                    return mhz
    return None


# Comparing benchmarks from separate runs: run-to-run variation widens the interval of the ratio.

# Other work follows the host's speed more or less than the loop does: adding up numbers took 5 % more of it on a host
# that was slower by a factor of 1.4, which is a seventh of that factor's logarithm.
BEYOND = 0.25


@dataclass(frozen=True)
class SeparateRuns:
    """An interval of the ratio of two benchmarks from separate runs, above 1 where the other is faster.

    of_samples: from the samples of both alone.  low, high: the same, widened for run-to-run variation.
    host_speed: how many times as fast the host was during the other, None where that does not matter or is not known.
    runs: whole runs of each.  band_frac: a change within it is "same".
    """

    of_samples: tuple[float, float]
    low: float
    high: float
    host_speed: float | None
    runs: tuple[int, int]
    band_frac: float


def separate_runs(baseline: BenchSummary, other: BenchSummary, quantity: str) -> SeparateRuns | None:
    """The interval for two benchmarks from separate runs; None where they have too few samples for one.

    If the host does the work, it covers the ratio of the times, and that of times in units of host loops. It extends
    beyond the second by a quarter of their distance: other work does not follow the loop exactly. It
    also reaches from the slowest run of the one to the fastest of the other: of equal code, all four runs of the one
    are slower or all are faster in one case of 35 (2 of the 70 orders of eight), three runs in one of 10.
    """
    quantities = first, second = baseline.quantities[quantity], other.quantities[quantity]
    samples = np.array(first.samples_s), np.array(second.samples_s)
    runs = [measured.run_medians_s or (measured.median_s,) for measured in quantities]
    of_samples = ratio_interval(samples[1], samples[0], interleaved=False)
    if of_samples is None or not all(map(all, runs)):
        return None
    reached = [*of_samples]
    loops = [_loops(baseline, quantity, first.n), _loops(other, quantity, second.n)]
    host_speed, of_host = None, min(map(len, loops)) > 0
    if of_host and baseline.environment.get("python") == other.environment.get("python"):
        host_speed = float(np.median(loops[0]) / np.median(loops[1]))
        in_loops = ratio_interval(samples[1] / loops[1], samples[0] / loops[0], interleaved=False) or ()
        reached += [*in_loops, *(end / host_speed**BEYOND for end in in_loops)]
    if max(map(len, runs)) > 1:
        reached += [before / after for before, after in itertools.product(*runs)]
    band_frac = BAND_SEPARATE_HOST if of_host else BAND_SEPARATE
    return SeparateRuns(of_samples, min(reached), max(reached), host_speed, (len(runs[0]), len(runs[1])), band_frac)


def _loops(result: BenchSummary, quantity: str, n: int) -> Float64:
    """The time of the reference loop beside each of n samples; empty where the host does not determine the quantity.

    Calls in a row have no readings of their own: then the median stands for all.
    """
    busy_frac = 0.0 if result.verdict is None else result.verdict.busy_frac
    device_bound = busy_frac >= DEVICE_BOUND_FRAC and not result.simulated
    if quantity == "span" or (quantity != "returns" and device_bound):
        return np.empty(0, np.float64)
    loops = np.array(result.reference_s, np.float64)
    if not len(loops) or loops.min() <= 0:
        return loops[:0]
    return loops if len(loops) == n else np.full(n, np.median(loops))


# what the empty loop and two readings of the clock take at least, 0.11 to 0.35 µs (docs/measuring.md, "Preparation"):
# what is subtracted for them is no more certain than that
CLOCK_S = 0.1e-6
# what the loop around a call adds is subtracted, and is no surer than about this in a run of its own: 0.5 ns off beside
# timeit (benchmarks/results/bench_accuracy.md). Interleaved bodies share one such figure.
LOOP_S = 1e-9
LEVEL, SURE_LEVEL = 0.95, 0.99  # of the interval that is shown, and of the one that interleaved samples need
# From 20 samples on they need more: of 400 equal pairs on a busy machine 99 % calls up to 4 different. The same level
# ends sampling early (capture/bench/spec.py).
MANY, MANY_LEVEL = 20, 0.999


@dataclass(frozen=True)
class Judgement:
    """A verdict with its reason.

    ratio: how many times as fast, 0 where one takes no time.  interval: 95 % confidence interval of the ratio, None
    where the samples are too few.  band_frac: a change within it is "same".  note: as in Comparison.
    checks: what was found of the work of both.
    """

    verdict: str
    why: str
    ratio: float
    interval: tuple[float, float] | None
    band_frac: float
    interleaved: bool
    note: str = ""
    checks: tuple[Check, ...] = ()


def judge(baseline: BenchSummary, other: BenchSummary, quantity: str, names: tuple[str, str]) -> Judgement:
    """Whether the other is faster than the baseline, if it does the same.

    quantity: by name, of those that both have.  names: of both, for sentences.
    """
    checks = checks_between(baseline, other, names)
    reason = reason_of(checks)
    if reason is not None:
        return Judgement("not comparable", reason, 0.0, None, BAND, True, checks=checks)
    found = _of_times(baseline, other, quantity)
    note = chained("{a}; {b}", (found.note, to_be_known(checks) if found.verdict == "faster" else ""))
    return replace(found, note=note, checks=checks)


def checks_between(baseline: BenchSummary, other: BenchSummary, names: tuple[str, str]) -> tuple[Check, ...]:
    """What was found where both were measured together, of the one that was not the first of them."""
    if not baseline.round_id or baseline.round_id != other.round_id:
        return ()
    if other.checks:
        return checks_of(other.checks, *names)
    return checks_of(baseline.checks, names[1], names[0])


def _of_times(baseline: BenchSummary, other: BenchSummary, quantity: str) -> Judgement:
    interleaved = bool(baseline.round_id) and baseline.round_id == other.round_id
    interval = predicted_ratio(baseline, other, quantity)
    if interval is not None:
        if host_measured(baseline) or host_measured(other):
            interval = _with_noise(interval, baseline, other, quantity)
        verdict = judged(interval, BAND)
        ends = np.array([baseline.quantities[quantity].median_s]), np.array([other.quantities[quantity].median_s])
        why = why_of_predicted(baseline, other, verdict)
        note = layouts_of_predicted(baseline, other)
        return Judgement(verdict, why, ratio(ends[1], ends[0], interleaved=False), interval, BAND, interleaved, note)
    if interleaved:
        return _of_interleaved(baseline, other, quantity)
    if reason := incomparable(baseline, other):
        return Judgement("not comparable", reason, 0.0, None, BAND_SEPARATE, False)
    first, second = baseline.quantities[quantity], other.quantities[quantity]
    runs = separate_runs(baseline, other, quantity)
    interval = None if runs is None else (runs.low, runs.high)
    band_frac = BAND_SEPARATE if runs is None else runs.band_frac
    verdict, why = _obstacle(baseline, other, (first, second), interval), ""
    if verdict:
        verdict, why = "unclear", verdict
    elif runs is not None and interval is not None:
        verdict = judged(interval, band_frac)
        why = (
            _unclear_runs(runs, baseline)
            if verdict == "unclear"
            else phrase("{a}; {b}", a=_describe_runs(runs), b=_band(band_frac))
        )
    samples = np.array(second.samples_s), np.array(first.samples_s)
    return Judgement(verdict, why, ratio(*samples, interleaved=False), interval, band_frac, False)


def _with_noise(
    interval: tuple[float, float], baseline: BenchSummary, other: BenchSummary, quantity: str
) -> tuple[float, float]:
    """The interval of a ratio of predictions, wider by what the samples leave open; too few leave all open."""
    interleaved = bool(baseline.round_id) and baseline.round_id == other.round_id
    samples = [np.array(each.quantities[quantity].samples_s) for each in (other, baseline)]
    noise = ratio_interval(samples[0], samples[1], interleaved=interleaved, level=LEVEL)
    if noise is None:
        return 0.0, math.inf
    middle = ratio(samples[0], samples[1], interleaved=interleaved)
    return interval[0] * min(1.0, noise[0] / middle), interval[1] * max(1.0, noise[1] / middle)


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
    near = 1 + 1e-9  # where all samples are equal the interval is a point, off by what floats round
    low, high = (interval[0] / near, interval[1] * near) if interval else (0.0, math.inf)
    if second.median_s and not low <= first.median_s / second.median_s <= high:
        note = phrase(
            "both changed during the run: the ratio comes from neighbouring samples, not from the two medians"
        )
    return Judgement(verdict, why, ratio(*samples, interleaved=True), interval, BAND, True, note)


def _interleaved_verdict(
    baseline: BenchSummary, samples: tuple[Float64, Float64], interval: tuple[float, float]
) -> tuple[str, str]:
    """The verdict and why.

    Sampling ends when the verdict is clear, so the data are inspected repeatedly: "faster" and "slower" need 99 %, or
    99.9 % where there are enough samples.
    """
    verdict, n = judged(interval, BAND), min(map(len, samples))
    if verdict == "unclear":
        return verdict, phrase("{a}: {b}", a=_crosses(LEVEL, BAND), b=Advice(baseline).longer(n))
    if verdict == "same":
        return verdict, phrase("interleaved; {band}", band=_band(BAND))
    level = SURE_LEVEL if n < MANY else MANY_LEVEL
    sure = ratio_interval(*samples, interleaved=True, level=level)
    if sure is None:
        enough = Advice(baseline).option("samples", str(fewest_of_each(SURE_LEVEL)))
        return "unclear", counted(
            n,
            "nearly {verdict}: {n} sample of each reach {low}, not {high}: {enough} or more",
            "nearly {verdict}: {n} samples of each reach {low}, not {high}: {enough} or more",
            verdict=phrase(verdict),
            low=percent(LEVEL),
            high=percent(SURE_LEVEL),
            enough=enough,
        )
    if judged(sure, BAND) == verdict:
        return verdict, phrase("interleaved; {band}", band=_band(BAND))
    if n < FEWEST_99 and sure[0] <= 1 <= sure[1]:
        enough = Advice(baseline).option("samples", str(FEWEST_99))
        overlap = counted(
            n,
            "{n} sample of each overlap; so few prove a difference only without overlap",
            "{n} samples of each overlap; so few prove a difference only without overlap",
        )
        return "unclear", _nearly(verdict, overlap, phrase("{enough} or more", enough=enough))
    return "unclear", _nearly(verdict, _crosses(level, BAND), Advice(baseline).longer(n))


def _nearly(verdict: str, reason: str, advice: str) -> str:
    return phrase("nearly {verdict}: {reason}: {advice}", verdict=phrase(verdict), reason=reason, advice=advice)


def _crosses(level: float, band: float) -> str:
    share = f"{level * 100:g}{NBSP}%"
    return phrase("the {share} interval crosses the band of {band}", share=share, band=within(band))


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
            return phrase("the difference is smaller than the clock's own cost: let one call do more work")
        if separate and calls > 1 and moved_s < LOOP_S:
            return phrase(
                "the difference is smaller than the uncertainty of the loop around a call: let one call do more work"
            )
    return ""


def _no_interval(baseline: BenchSummary, quantities: tuple[Quantity, Quantity]) -> str:
    counts = [q.n for q in quantities]
    chance = chance_of_parting(*counts)
    if chance <= 1 - LEVEL:
        return phrase("one of them takes less time than the clock can resolve: let one call do more work")
    enough = Advice(baseline).option("samples", str(fewest_of_each(SURE_LEVEL)))
    have = phrase("{first} and {second} samples", first=counts[0], second=counts[1])
    if counts[0] == counts[1]:
        have = counted(counts[0], "{n} sample of each", "{n} samples of each")
    if chance >= 1:
        return phrase("{have} prove no difference: {enough} or more", have=have, enough=enough)
    return phrase(
        "{have} prove no difference, as chance alone separates them in {share} of cases: {enough} or more",
        have=have,
        share=percent(chance),
        enough=enough,
    )


def _unclear_runs(runs: SeparateRuns, baseline: BenchSummary) -> str:
    """What makes a difference between separate runs uncertain, and what to do."""
    band = within(runs.band_frac)
    reason = _uncertain(runs) or phrase("the interval crosses the band of {band}", band=band)
    magic = called(baseline.magic, "bench --vs")
    if min(runs.runs) > 1:
        return phrase("{reason}: interleave them, with {magic}", reason=reason, magic=magic)
    repeat = Advice(baseline).option("runs", "5")
    return phrase(
        "{reason}: interleave them, with {magic}, or repeat each with {option}",
        reason=reason,
        magic=magic,
        option=repeat,
    )


def _uncertain(runs: SeparateRuns) -> str:
    """What makes a difference uncertain that the samples alone would prove; empty where they would not."""
    if judged(runs.of_samples, runs.band_frac) == "unclear":
        return ""
    speed = runs.host_speed
    if speed is not None and not 1 / (1 + BAND_SEPARATE) <= speed <= 1 + BAND_SEPARATE:
        during, times = (phrase("second"), speed) if speed > 1 else (phrase("first"), 1 / speed)
        return phrase(
            "a fixed loop beside the samples ran {times} times as fast during the {during} of them",
            times=significant(times, 3),
            during=during,
        )
    return phrase("their whole runs overlap") if max(runs.runs) > 1 else ""


def _describe_runs(runs: SeparateRuns) -> str:
    first, second = runs.runs
    if first == second:
        return counted(first, "{n} separate run each", "{n} separate runs each")
    return phrase("{first} and {second} separate runs", first=first, second=second)


def _band(frac: float) -> str:
    return phrase("{band} counts as the same", band=within(frac))
