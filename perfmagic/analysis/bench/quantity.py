"""One measured time: its samples, and their statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from perfmagic.numerics import stats


@dataclass(frozen=True)
class Mode:
    """One of the two values that bimodal samples keep to.

    median_s: of its samples, in seconds.  frac: of all samples.
    """

    median_s: float
    frac: float


@dataclass(frozen=True)
class Quantity:
    """One measured time, in seconds: its samples in the order taken, and their statistics.

    low_s, high_s: 95 % confidence interval of the median within this run, None below 6 samples; autocorrelation above 0
    widens it.  outliers: how many samples lie beyond Tukey's outer fences (3 IQR); they count in every statistic.
    autocorrelation: at lag 1, of ranks, -1 to 1.  drift_frac: from the first sample to the last, as a fraction of the
    median, 0 where it is not significant.  modes: the two of bimodal samples, else ().  run_medians_s: of
    each whole run, () for a single one.
    """

    samples_s: tuple[float, ...]
    median_s: float
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
    def restored(cls, saved: Mapping[str, Any] | None, run_starts: Sequence[int] = ()) -> Quantity | None:
        """The quantity from its JSON: its statistics are computed anew from the samples."""
        return cls.of(saved["samples_s"], run_starts) if saved else None

    @property
    def n(self) -> int:
        """The number of samples."""
        return len(self.samples_s)

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
