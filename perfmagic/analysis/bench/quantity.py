"""One measured time: its samples, and their statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from perfmagic.analysis.verdict import DEVICE_BOUND, DEVICE_BOUND_FRAC, HOST_BOUND, NOT_BUSY_KINDS
from perfmagic.base.language import phrase
from perfmagic.base.numerics import stats
from perfmagic.trace.json_form import Seconds, typed

LEAST_S = 1e-30  # rounding leaves no less of a difference of two times, and ratios of such stay finite


class _Saved(msgspec.Struct):
    samples_s: tuple[Seconds, ...]


# mean over median: n calls then take a quarter more or less than n medians. By the same ratio a step of a training loop
# stands out (docs/words.md, "lap")
FAR_MEAN = 1.25


def is_far(mean_s: float, median_s: float) -> bool:
    """Whether one of them is so much larger than the other that either alone misleads."""
    low_s, high_s = sorted((mean_s, median_s))
    return high_s > 0 and high_s >= FAR_MEAN * low_s


@dataclass(frozen=True)
class Mode:
    """One of the two values that bimodal samples keep to.

    median_s: the median of its samples.
    frac: the share of the samples that belong to it, 0 to 1.
    """

    median_s: float
    frac: float


@dataclass(frozen=True)
class Quantity:
    """One measured time: its samples, and their statistics.

    samples_s: every sample in the order taken.
    median_s: the median.
    mean_s: the mean, what one of many calls takes; far from the median where a few calls take much of the time.
    low_s: lower end of the 95 % confidence interval of the median within this run; None below 6 samples.
    Autocorrelation above 0 widens it.
    high_s: its upper end; None below 6 samples.
    min_s: the least sample.
    iqr_s: the width of the middle half.
    outliers: samples more than three IQR from the middle half, a count; they count in every statistic.
    autocorrelation: rank correlation of neighbouring samples, -1 to 1.
    drift_frac: from the first sample to the last, as a share of the median; 0 where not significant.
    modes: the two levels of bimodal samples, else empty.
    run_medians_s: the median of each whole run; empty for a single one.
    """

    samples_s: tuple[float, ...]
    median_s: float
    mean_s: float
    low_s: float | None
    high_s: float | None
    min_s: float
    iqr_s: float
    outliers: int
    autocorrelation: float
    drift_frac: float
    modes: tuple[Mode, ...] = ()
    run_medians_s: tuple[float, ...] = ()

    @classmethod
    def of(cls, samples_s: Sequence[float] | stats.Samples, run_starts: Sequence[int] = ()) -> Quantity | None:
        """The quantity that these samples measure, None without any.  run_starts: the first sample of each run."""
        samples = np.asarray(samples_s, np.float64)
        if not len(samples):
            return None
        low, high = stats.median_interval(samples) or (None, None)
        return cls(
            samples_s=tuple(samples.tolist()),
            median_s=float(np.median(samples)),
            mean_s=float(np.mean(samples)),
            low_s=low,
            high_s=high,
            min_s=float(samples.min()),
            iqr_s=stats.iqr(samples),
            outliers=int(stats.outliers(samples).sum()),
            autocorrelation=stats.autocorrelation(samples),
            drift_frac=stats.drift_frac(samples),
            modes=tuple(Mode(median_s, frac) for median_s, frac in stats.modes(samples)),
            run_medians_s=tuple(float(np.median(run)) for run in np.split(samples, run_starts[1:]) if len(run))
            if len(run_starts) > 1
            else (),
        )

    @classmethod
    def restored(cls, saved: Any, run_starts: Sequence[int] = ()) -> Quantity | None:
        """The quantity from its JSON, with statistics recomputed from the samples. Raises ValueError."""
        if saved is None:
            return None
        samples = typed(saved, _Saved).samples_s
        if any(0 < s < LEAST_S for s in samples):
            raise ValueError(f"a sample is {min(s for s in samples if s)} s")
        return cls.of(samples, run_starts)

    @property
    def n(self) -> int:
        """The number of samples."""
        return len(self.samples_s)

    @property
    def max_s(self) -> float:
        """The longest sample."""
        return max(self.samples_s)

    @property
    def mean_is_far(self) -> bool:
        """Whether the mean is 1.25 times the median or more, or the other way round: then one of them misleads."""
        return is_far(self.mean_s, self.median_s)

    @property
    def widened(self) -> float:
        """How many times wider the interval is for autocorrelation; 1 for independent samples."""
        return stats.widening(self.autocorrelation)

    @cached_property
    def is_outlier(self) -> tuple[bool, ...]:
        """For each sample whether it is an outlier: those are drawn hollow."""
        return tuple(stats.outliers(np.array(self.samples_s)).tolist())

    @cached_property
    def usual_range_s(self) -> tuple[float, float]:
        """The least and the largest sample that is no outlier, and both modes: the scale of a picture."""
        inside = [s for s, beyond in zip(self.samples_s, self.is_outlier, strict=True) if not beyond]
        shown = [*inside, *(mode.median_s for mode in self.modes)]
        return min(shown), max(shown)


# Who waited for whom in the samples, and whether that agrees with the verdict of the recorded run.

UNCLEAR = "bottleneck unclear"
LONGER_SPAN = 1.05  # of done, which the device span is a part of
# A span is measured with a full queue, a verdict without one: ops launched early also run closer together. A span of
# less than this fraction of done leaves the device idle for longer than that explains.
IDLE_SPAN = DEVICE_BOUND_FRAC - 0.1


@dataclass(frozen=True)
class Waits:
    """Who waited for whom in a typical sample, in seconds.

    done_s: until the device was done.  python_s: from the return of the cell's last line until then, which is how long
    Python waits if it synchronises.  device_s: how long the device was idle at most, with one device span of work; None
    where the span is not known.
    """

    done_s: float
    python_s: float
    device_s: float | None

    @classmethod
    def of(cls, returns: Quantity | None, done: Quantity | None, span: Quantity | None) -> Waits | None:
        """From the medians; None without *returns* or *done*.  span: None also where it leaves out streams."""
        if returns is None or done is None or done.median_s <= 0:
            return None
        device_s = None if span is None else max(0.0, done.median_s - span.median_s)
        return cls(done.median_s, max(0.0, done.median_s - returns.median_s), device_s)

    @property
    def span_frac(self) -> float | None:
        """The device span as a fraction of done."""
        return None if self.device_s is None else 1 - self.device_s / self.done_s


def contradiction(kind: str, waits: Waits | None) -> str:
    """What in the samples speaks against a kind of verdict; empty where nothing does.

    "python waits": host-bound, but Python waited for the device for longer than the device could wait for Python.
    "device busy": host-bound, but the device was busy.  "device idle": device-bound, but the device was idle.
    """
    if waits is None or kind not in (HOST_BOUND, DEVICE_BOUND):
        return ""
    frac = waits.span_frac
    if kind == DEVICE_BOUND:
        return "device idle" if frac is not None and frac < IDLE_SPAN else ""
    if frac is not None and frac >= DEVICE_BOUND_FRAC:
        return "device busy"
    # the device has all its work from when Python returns, so it can have waited only before
    before_s = waits.done_s - waits.python_s
    for_python_s = before_s if waits.device_s is None else min(before_s, waits.device_s)
    return "python waits" if waits.python_s > for_python_s else ""


def has_idle_device(kind: str) -> bool:
    """Whether a kind of verdict says that the device was not busy throughout."""
    return kind in NOT_BUSY_KINDS


def unconfirmed(kind: str) -> str:
    """What is said instead of a verdict that the samples contradict."""
    return phrase("the samples do not confirm the recorded run, which was {kind}", kind=phrase(kind))


def supported_kind(kind: str, waits: Waits | None, span: Quantity | None) -> str:
    """A kind of verdict where the samples do not contradict it, else "".

    span: the device span of the samples; longer than *done* it was measured on a slower machine, and neither is sure.
    """
    if waits is not None and span is not None and span.median_s > LONGER_SPAN * waits.done_s:
        return ""
    return "" if contradiction(kind, waits) else kind
