"""One measured time: its samples, and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perfmagic.numerics import stats


@dataclass(frozen=True)
class Quantity:
    """One measured time, in seconds: its samples in the order taken, and what they say.

    low_s, high_s: 95 % interval of the median within this run, None below 6 samples.  far_out: samples beyond three IQR
    (kept in all numbers).  autocorrelation: of a sample with the one before; above 0 the interval is wider for it.
    levels: the two values samples keep to, as (median in seconds, share of samples), () for one.  run_medians_s: of
    each whole run, () for a single one.
    """

    samples_s: tuple[float, ...]
    median_s: float
    low_s: float | None
    high_s: float | None
    min_s: float
    iqr_s: float
    far_out: int
    autocorrelation: float
    drift_frac: float
    levels: tuple[tuple[float, float], ...] = ()
    run_medians_s: tuple[float, ...] = ()

    @classmethod
    def of(cls, samples_s: Sequence[float] | stats.Samples, run_starts: Sequence[int] = ()) -> Quantity | None:
        """The quantity these samples measure, None without any.  run_starts: the sample each whole run began with."""
        samples = np.asarray(samples_s, np.float64)
        if not len(samples):
            return None
        low, high = stats.median_interval(samples) or (None, None)
        return cls(
            samples_s=tuple(samples.tolist()),
            median_s=float(np.median(samples)),
            low_s=low,
            high_s=high,
            min_s=float(samples.min()),
            iqr_s=stats.iqr(samples),
            far_out=int(stats.beyond_fence(samples).sum()),
            autocorrelation=stats.autocorrelation(samples),
            drift_frac=stats.drift_frac(samples),
            levels=stats.levels(samples),
            run_medians_s=tuple(float(np.median(run)) for run in np.split(samples, run_starts[1:]) if len(run))
            if len(run_starts) > 1
            else (),
        )

    @property
    def n(self) -> int:
        return len(self.samples_s)

    @property
    def widened(self) -> float:
        """How many times wider the interval is for the autocorrelation; 1 for independent samples."""
        return stats.widening(self.autocorrelation)

    @cached_property
    def far_out_samples(self) -> tuple[bool, ...]:
        """For each sample whether it is far out: drawn hollow."""
        return tuple(stats.beyond_fence(np.array(self.samples_s)).tolist())
