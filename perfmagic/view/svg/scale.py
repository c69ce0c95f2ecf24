"""The time axis: from nanoseconds to pixels, and where its labels stand."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmagic import units


@dataclass(frozen=True)
class Scale:
    """Time [start_ns, end_ns) on [0, width_px); pixels are relative to the plot's left edge."""

    start_ns: int
    end_ns: int
    width_px: int

    @property
    def px_per_ns(self) -> float:
        return self.width_px / max(1, self.end_ns - self.start_ns)

    def x(self, at_ns: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Pixels of instants, held inside the plot."""
        offset = np.asarray(at_ns, np.float64) - self.start_ns
        return np.asarray(np.clip(offset * self.px_per_ns, 0.0, self.width_px))

    def x_of(self, at_ns: float) -> float:
        """The pixel of one instant, held inside the plot."""
        return min(float(self.width_px), max(0.0, (at_ns - self.start_ns) * self.px_per_ns))

    def columns_ns(self, column_px: int = 1) -> npt.NDArray[np.float64]:
        """The edges in time of the plot's pixel columns, shape (columns + 1,)."""
        return np.linspace(self.start_ns, self.end_ns, self.width_px // column_px + 1)


@dataclass(frozen=True)
class Tick:
    """One label of the axis, at so many ns after its start."""

    offset_ns: float
    text: str


def ticks(span_ns: float, width_px: float, least_gap_px: float = 100.0) -> tuple[Tick, ...]:
    """Round instants from 0 to span_ns, steps of 1, 2 or 5, at least so far apart, all in one unit."""
    if span_ns <= 0:
        return (Tick(0.0, units.duration_like(0.0, 1.0)),)
    step = _round_up(span_ns * least_gap_px / width_px)
    number = int(span_ns / step + 1e-9)
    # the unit of the largest label, but never one in which the step would need more than two decimals
    return tuple(
        Tick(i * step, units.duration_like(i * step, step, unit_of_ns=number * step or step)) for i in range(number + 1)
    )


def _round_up(raw_ns: float) -> float:
    power = 10.0 ** math.floor(math.log10(max(raw_ns, 1.0)))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= raw_ns * (1 - 1e-9))
