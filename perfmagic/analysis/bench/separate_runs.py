"""Comparing benchmarks from separate runs: run-to-run variation widens the interval of the ratio.

The samples of one run say how well its median is known, and nothing about the run before. Two things tell of that:
whole runs, if the user took several (--runs), and a fixed loop beside the samples, which the host's speed slows too.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmagic.analysis.verdict import DEVICE_BOUND_FRAC
from perfmagic.numerics.ratio import ratio_interval

if TYPE_CHECKING:
    from perfmagic.analysis.bench.result import BenchSummary
    from perfmagic.numerics.stats import Float64


# Other work follows the host's speed more or less than the loop does: adding up numbers took 5 % more of it on a host
# that was slower by a factor of 1.4, which is a seventh of that factor's logarithm.
BEYOND = 0.25


@dataclass(frozen=True)
class SeparateRuns:
    """An interval of the ratio of two benchmarks from separate runs, above 1 where the other is faster.

    of_samples: from the samples of both alone.  low, high: the same, widened for run-to-run variation.
    host_speed: how many times as fast the host was during the other, None where that does not matter or is not known.
    runs: whole runs of each.
    """

    of_samples: tuple[float, float]
    low: float
    high: float
    host_speed: float | None
    runs: tuple[int, int]


def separate_runs(baseline: BenchSummary, other: BenchSummary, quantity: str) -> SeparateRuns | None:
    """The interval for two benchmarks from separate runs; None where they have too few samples for one.

    If the host does the work, it covers the ratio of the times and the ratio of the times measured in loops of the
    host, and extends beyond the second by a quarter of their distance: other work does not follow the loop exactly. It
    also reaches from the slowest run of the one to the fastest of the other: of equal code, all four runs of the one
    are slower or all are faster in one case of 35 (2 of the 70 orders of eight), three runs in one of 10.
    """
    quantities = first, second = baseline.quantities[quantity], other.quantities[quantity]
    samples = np.array(first.samples_s), np.array(second.samples_s)
    runs = [one.run_medians_s or (one.median_s,) for one in quantities]
    of_samples = ratio_interval(samples[1], samples[0], interleaved=False)
    if of_samples is None or not all(map(all, runs)):
        return None
    reached = [*of_samples]
    loops = [_loops(one, quantity, each.n) for one, each in zip((baseline, other), quantities, strict=True)]
    host_speed = None
    if len(loops[0]) and len(loops[1]) and baseline.environment.get("python") == other.environment.get("python"):
        host_speed = float(np.median(loops[0]) / np.median(loops[1]))
        in_loops = ratio_interval(samples[1] / loops[1], samples[0] / loops[0], interleaved=False) or ()
        reached += [*in_loops, *(end / host_speed**BEYOND for end in in_loops)]
    if max(map(len, runs)) > 1:
        reached += [before / after for before, after in itertools.product(*runs)]
    return SeparateRuns(of_samples, min(reached), max(reached), host_speed, (len(runs[0]), len(runs[1])))


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
