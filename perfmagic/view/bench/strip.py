"""Samples in the order taken, on a scale of the usual ones; outliers at the edge, with their value in words.

One outlier would flatten all other samples. So the scale spans the samples inside Tukey's outer fences; what lies
beyond is drawn at the edge and said. No number leaves it out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic import units
from perfmagic.analysis.bench.result import Quantity
from perfmagic.numerics.stats import Float64


@dataclass(frozen=True)
class Strip:
    """A scale for samples. low_s, high_s: what it spans, in seconds.  above, below: the outliers beyond it, sorted."""

    low_s: float
    high_s: float
    above: tuple[float, ...]
    below: tuple[float, ...]

    @classmethod
    def of(cls, quantity: Quantity) -> Strip:
        """The scale of one quantity."""
        low_s, high_s = quantity.usual_range_s
        samples = sorted(quantity.samples_s)
        return cls(low_s, high_s, tuple(s for s in samples if s > high_s), tuple(s for s in samples if s < low_s))

    @property
    def room_s(self) -> float:
        """What the scale spans, never 0."""
        return (self.high_s - self.low_s) or self.high_s or 1.0

    def y(self, seconds: float, top: float, height: float) -> float:
        """The place of a time between top + height (low) and top (high); what lies beyond is at the edge."""
        frac = (seconds - self.low_s) / self.room_s
        return top + height - max(0.0, min(1.0, frac)) * height

    def ys(self, quantity: Quantity, top: float, height: float) -> Float64:
        """The places of all samples."""
        return np.array([self.y(s, top, height) for s in quantity.samples_s], np.float64)


def beyond_in_words(above: tuple[float, ...], below: tuple[float, ...] = ()) -> str:
    """How many samples a scale leaves out, and how far they go: "3 outliers up to 9.30 ms"; empty without any.

    above, below: their times in seconds, sorted.
    """
    parts = []
    if above:
        parts.append(f"{units.plural(len(above), 'outlier')} {_reach(above, 'up to', above[-1])}")
    if below:
        parts.append(f"{units.plural(len(below), 'outlier')} {_reach(below, 'down to', below[0])}")
    return ", ".join(parts)


def _reach(beyond: tuple[float, ...], words: str, end_s: float) -> str:
    return f"{words if len(beyond) > 1 else 'at'} {units.duration_s(end_s)}"
