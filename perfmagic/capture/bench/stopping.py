"""When to stop: warm-up, the samples of one body, the passes of a comparison. One class each, fed one value at a time.

None of them looks at a clock: the time spent comes with each value, so a test can replay any run.
Source of rules and figures: docs/measuring.md, "First call and warm-up" and "Comparing".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from perfmagic.base.language import counted, phrase
from perfmagic.base.numerics import stats
from perfmagic.base.numerics.stats import BAND, FEWEST_99, judged, ratio_interval
from perfmagic.base.units import NBSP, duration_s, given_s, percent_known
from perfmagic.trace.samples import Float64

AGREE_FRAC = 0.2  # two first calls agree: compile, autotune and graph warm-up differ by far more (docs/measuring.md)
LONGER = 1.2  # times the time that was given: from here on it is no longer said to have been kept
WARM_UP_S = 0.2
WARM_UP_CAP_S = 2.0
QUARTILES_AGREE_FRAC = 0.05  # pyperf, calibration of warm-ups: |Q1|, |Q3| ≤ 5 %, MAD ≤ 10 %
MAD_AGREES_FRAC = 0.10
MAD_NEEDS = 8  # a median distance from fewer values says little: then the quartiles alone decide

CAP_S = 10.0
CHECK_EVERY = 16
CHECKS_PER_DOUBLING = 16  # later checks lie n / 16 apart, so that checking never costs more than sampling
STABLE_CHECKS = 8  # noise figures that must agree; nvbench stdrel asks for 64 of its own, one a sample
STABLE_FRAC = 0.05  # nvbench stdrel_criterion: relative deviation of the last noise figures from the newest
STABLE_AFTER_S = 0.5  # nvbench min-time

DECIDE_S = 10.0  # length of a comparison whose verdict stays unclear, warm-up included
MOST_S = 60.0  # its length where the verdict still lacks samples: nobody wants a longer comparison
FIRST_LOOK = 20  # samples of each: below it an interval says little
MORE_FRAC = 0.25  # re-check after 25 % more samples: each check is a chance of a false alarm
# Some 20 looks at 95 % each call 2 to 3 % of equal bodies different; at 99.9 % hardly any, and a true 5 % is found
# after twice as many samples (benchmarks/bench_coverage.py, "looked at").
SURE_LEVEL = 0.999


def agree(a: float, b: float, frac: float) -> bool:
    """Whether two values differ by no more than this share of the larger."""
    return abs(a - b) <= frac * max(abs(a), abs(b))


def fewest_samples(call_s: float) -> int:
    """How many samples a call of this length needs at least: 20, 10 from 50 ms on, 3 from 0.5 s on."""
    if call_s < 0.05:
        return 20
    return 10 if call_s < 0.5 else 3


class WarmUp:
    """Says when repeated calls have settled: two successive halves of at least 0.1 s each agree, or 2 s are over.

    Also where the medians oscillate: calls that warm up move one way, and noise does not end with more warm-up.
    """

    def __init__(self) -> None:
        self.settled = False
        self.spent_s = 0.0
        self._half_start_s = 0.0
        self._before: list[float] = []
        self._now: list[float] = []
        self._medians: list[float] = []  # of the halves

    @property
    def finished(self) -> bool:
        return self.settled or self.spent_s >= WARM_UP_CAP_S

    def add(self, call_s: float, spent_s: float) -> None:
        """Take the time of one call; spent_s: since warm-up began."""
        self._now.append(call_s)
        self.spent_s = spent_s
        if spent_s - self._half_start_s < WARM_UP_S / 2:
            return
        self._medians.append(float(np.median(self._now)))
        self.settled = bool(self._before) and (_halves_agree(self._before, self._now) or _turned(self._medians[-3:]))
        self._before, self._now, self._half_start_s = self._now, [], spent_s

    def typical_s(self) -> float:
        """Median of the newest values, 0.0 where there are none: what a call costs now."""
        newest = self._now or self._before
        return float(np.median(newest)) if newest else 0.0


def _halves_agree(before: Sequence[float], now: Sequence[float]) -> bool:
    a, b = np.asarray(before), np.asarray(now)
    quartiles = zip(stats.quartiles(a), stats.quartiles(b), strict=True)
    if not all(agree(x, y, QUARTILES_AGREE_FRAC) for x, y in quartiles):
        return False
    return min(len(a), len(b)) < MAD_NEEDS or agree(stats.mad(a), stats.mad(b), MAD_AGREES_FRAC)


def _turned(medians: Sequence[float]) -> bool:
    """Whether three medians went down and up, or up and down."""
    return len(medians) == 3 and (medians[1] - medians[0]) * (medians[2] - medians[1]) < 0


FEWEST_EQUAL = 3  # the first of a body may allocate what later ones use again


class StoppingRule:
    """Says when one body has enough samples, and in words why.

    wanted: the exact number of samples, whatever the time. Without it the first of these decides: the 95 % confidence
    interval of every median is within rel; the noise no longer changes; the time is spent; the cap is reached, which
    waives the minimum number of samples. Intervals and noise are looked at every 16 samples, later every n / 16.
    repeatable: times are computed, so that a few equal samples say what all would.
    """

    def __init__(
        self,
        *,
        wanted: int | None = None,
        fewest: int | None = None,
        most: int = 10_000,
        rel: float = 0.01,
        time_s: float = 2.0,
        repeatable: bool = False,
    ) -> None:
        self.reason: str = ""
        self._repeatable = repeatable
        self._wanted, self._fewest, self._most = wanted, fewest, most
        self._rel, self._time_s, self._cap_s = rel, time_s, max(CAP_S, time_s)
        self._rows: list[tuple[float, ...]] = []
        self._next_check = 0
        self._noise: list[float] = []

    @property
    def finished(self) -> bool:
        return bool(self.reason)

    def add(self, row: tuple[float, ...], spent_s: float) -> None:
        """Take one sample of every quantity, in seconds a call; spent_s: since sampling began."""
        self._rows.append(row)
        if not self.finished:  # enough stays enough: of interleaved bodies one is sure before another
            self.reason = self._reason(len(self._rows), spent_s)

    def _reason(self, n: int, spent_s: float) -> str:
        if self._wanted is not None:
            return (
                counted(n, "took the {n} sample asked for", "took the {n} samples asked for")
                if n >= self._wanted
                else ""
            )
        if self._repeatable and n >= FEWEST_EQUAL and len({*self._rows[-FEWEST_EQUAL:]}) == 1:
            return phrase("stopped as samples are equal on a virtual clock")
        if n >= self._most:
            return counted(
                n,
                "stopped at the maximum of {n} sample{reached}",
                "stopped at the maximum of {n} samples{reached}",
                reached=self._reached(),
            )
        if spent_s >= self._cap_s:
            return phrase("stopped at the cap of {time}{reached}", time=given_s(self._cap_s), reached=self._reached())
        if n < self._least():
            return ""
        if spent_s >= self._time_s:
            return phrase("stopped after {time}{reached}", time=self._time_words(n, spent_s), reached=self._reached())
        return self._check(n, spent_s) if n >= self._next_check else ""

    def _time_words(self, n: int, spent_s: float) -> str:
        """The time that was given, or what it took where the minimum number of samples takes longer."""
        if n > self._least() or spent_s < LONGER * self._time_s:
            return given_s(self._time_s)
        spent = duration_s(spent_s)
        return counted(n, "{time} at the minimum of {n} sample", "{time} at the minimum of {n} samples", time=spent)

    def _least(self) -> int:
        if self._fewest is not None:
            return self._fewest
        return fewest_samples(sum(max(row) for row in self._rows[:CHECK_EVERY]) / len(self._rows[:CHECK_EVERY]))

    def _check(self, n: int, spent_s: float) -> str:
        self._next_check = n + max(CHECK_EVERY, n // CHECKS_PER_DOUBLING)
        columns = self._columns()
        half_width = max(stats.relative_half_width(c) for c in columns)
        if half_width <= self._rel:
            within = f"±{NBSP}{percent_known(self._rel)}"
            return phrase("stopped when the confidence interval was within {within}", within=within)
        self._noise.append(max(stats.noise_frac(c) for c in columns))
        if spent_s >= STABLE_AFTER_S and self._noise_is_stable() and math.isfinite(half_width):
            return phrase("stopped when the noise was stable{reached}", reached=self._reached())
        return ""

    def _noise_is_stable(self) -> bool:
        newest = self._noise[-1]
        if len(self._noise) < STABLE_CHECKS or not math.isfinite(newest):
            return False
        squares = [(noise - newest) ** 2 for noise in self._noise[-STABLE_CHECKS:]]
        return math.sqrt(sum(squares) / len(squares)) <= STABLE_FRAC * newest

    def _reached(self) -> str:
        """How well the medians are known now, as " (± 2.7 %)"; empty where there is no interval."""
        half_width = max(stats.relative_half_width(c) for c in self._columns())
        return f" (±{NBSP}{percent_known(half_width)})" if math.isfinite(half_width) else ""

    def _columns(self) -> list[stats.Float64]:
        return [np.asarray(column, np.float64) for column in zip(*self._rows, strict=True)]


class ComparisonRule:
    """Says when interleaved bodies have been compared for long enough, and in words why.

    When each is sure to be faster, slower or the same as the first; or after time_s, or after 60 s where even that gave
    too few samples for a verdict.  band: changes within it do not count.
    """

    def __init__(self, *, band: float = BAND, time_s: float = DECIDE_S) -> None:
        self.reason: str = ""
        self._band, self._time_s = band, time_s
        self._passes = 0
        self._look_at = FIRST_LOOK

    @property
    def finished(self) -> bool:
        return bool(self.reason)

    def add(self, samples: Callable[[], Sequence[Float64]], spent_s: float) -> None:
        """One pass through all bodies has ended.

        samples: gives all samples of each body, asked for only when they are looked at.  spent_s: with warm-up, which
        is part of what somebody waits for.
        """
        self._passes += 1
        if self._passes == self._look_at:
            self._look_at += max(2, int(self._passes * MORE_FRAC))
            first, *others = samples()
            if all(self._clear(other, first) for other in others):
                self.reason = phrase("stopped when the comparison was clear")
                return
        if spent_s >= (MOST_S if self._passes < FEWEST_99 else self._time_s):
            self.reason = phrase("stopped after {time}{reached}", time=duration_s(spent_s), reached="")

    def _clear(self, other: Float64, first: Float64) -> bool:
        """Whether it is sure now, also when it is looked at again and again."""
        interval = ratio_interval(other, first, interleaved=True)
        if interval is not None and judged(interval, self._band) == "same":
            return True
        sure = ratio_interval(other, first, interleaved=True, level=SURE_LEVEL)
        return sure is not None and judged(sure, self._band) in ("faster", "slower")
