"""The ratio of two benchmarks taken one after the other: what their samples do not know widens its interval.

Samples of one run say how well its median is known, and nothing about the run before. Two things tell of it: whole runs
where the user took several (--runs), and a fixed loop beside the samples, which the host's speed moves as well.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmagic.analysis.verdict import DEVICE_BOUND_FRAC
from perfmagic.numerics.ratio import ratio_interval

if TYPE_CHECKING:
    from perfmagic.analysis.bench.result import BenchResult
    from perfmagic.numerics.stats import Float64


# Other work follows the host's speed more or less than the loop does: adding up numbers took 5 % more of it where the
# host was slower by a factor of 1.4, which is a seventh of that factor's logarithm.
BEYOND = 0.25


@dataclass(frozen=True)
class Apart:
    """An interval of the ratio, above 1 where the other is faster; None where there is none of the samples.

    of_samples: as far as the samples of both know it.  low, high: it and what else was seen.
    host_speed: how many times as fast the host was during the other, None where that does not matter or is not known.
    runs: whole runs of each.
    """

    of_samples: tuple[float, float]
    low: float
    high: float
    host_speed: float | None
    runs: tuple[int, int]


def apart(baseline: BenchResult, other: BenchResult, quantity: str) -> Apart | None:
    """The interval for two benchmarks that did not take turns; None where their samples are too few for one.

    Where the host does the work it reaches over the ratio of the times and that of the times in loops of the host, and
    a quarter of what lies between the two beyond that: a loop tells only about how much slower other work is. It
    reaches from the slowest run of the one to the fastest of the other: of equal code, four runs each are parted in one
    case of 35 (2 of the 70 orders of eight), three in one of 10.
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
    return Apart(of_samples, min(reached), max(reached), host_speed, (len(runs[0]), len(runs[1])))


def _loops(result: BenchResult, quantity: str, n: int) -> Float64:
    """What the reference loop took beside each of n samples; empty where the host is not what makes the quantity long.

    Where readings and samples do not go together (calls in a row have none of their own) the median stands for all.
    """
    busy_frac = 0.0 if result.verdict is None else result.verdict.busy_frac
    device_bound = busy_frac >= DEVICE_BOUND_FRAC and not result.simulated
    if quantity == "span" or (quantity != "returns" and device_bound):
        return np.empty(0, np.float64)
    loops = np.array(result.reference_s, np.float64)
    if not len(loops) or loops.min() <= 0:
        return loops[:0]
    return loops if len(loops) == n else np.full(n, np.median(loops))
