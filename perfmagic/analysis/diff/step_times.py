"""How long whole steps took in two timelines, and how well their ratio is known: what a gate decides by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from perfmagic.analysis.diff.side import Side
from perfmagic.analysis.timeline.steps import CUT_FRAC, stands_out
from perfmagic.base.numerics.stats import Float64, ratio_interval
from perfmagic.predict.ratio import ratio_range, times_by_op
from perfmagic.trace.json_form import JsonForm, one_of

MEASURED, COMPUTED, PREDICTED = "measured", "computed", "predicted"


@dataclass(frozen=True)
class StepTimes(JsonForm):
    """How long whole steps took in both.

    a_ns: of each step in the first: its lap, or on the CPU alone its length; in ns. Of ranks the longest of all.
    b_ns: of each step in the second; likewise in ns.
    marked: whether both mark steps; else each has the whole recording as one.
    how: whether the times were measured, computed by a virtual clock, or predicted for a GPU.
    ratio: how many times as long a step is in the second: of the medians, of computed times of the means.
    ratio_low: lower end of its 95 % confidence interval, of predictions of what the model leaves open; None where the
    steps are too few to tell.
    ratio_high: its upper end; None where the steps are too few to tell.
    """

    a_ns: tuple[int, ...]
    b_ns: tuple[int, ...]
    marked: bool
    how: Annotated[str, one_of(MEASURED, COMPUTED, PREDICTED)]
    ratio: float
    ratio_low: float | None
    ratio_high: float | None


def step_times(first: Mapping[int, Side], second: Mapping[int, Side], median: int) -> StepTimes:
    """The times of whole steps of two jobs, by rank; of one trace each, that is its only rank.

    median: the rank whose record says how the times came about.
    """
    sides = first[median], second[median]
    steps = [_of_job(ranks) for ranks in (first, second)]
    marked = all(steps)
    if not marked:
        steps = [(max(side.facts.whole_ns for side in ranks.values()),) for ranks in (first, second)]
    a, b = (np.array(ns, np.float64) for ns in steps)
    how = _how(*sides)
    middle = np.median if how == MEASURED else np.mean
    ratio = float(middle(b) / middle(a)) if middle(a) > 0 else 0.0
    low, high = _interval(sides, a, b, how, ratio) or (None, None)
    return StepTimes(steps[0], steps[1], marked, how, ratio, low, high)


def _of_job(ranks: Mapping[int, Side]) -> tuple[int, ...]:
    """Each step that all ranks have, as long as in the rank that took longest."""
    of_ranks = [_whole_steps(side) for side in ranks.values()]
    common = sorted(set.intersection(*map(set, of_ranks)))
    return tuple(max(steps[number] for steps in of_ranks) for number in common)


def _whole_steps(side: Side) -> dict[int, int]:
    """The length of each step by its number, without those that the records hold only in part.

    A lap is what a step takes the device, as Python may run ahead of it; the first step has none. On the CPU alone it
    is the length on the host, without a first step that stands out.
    """
    whole = [step for step in side.steps if step.unrecorded_ns <= CUT_FRAC * step.duration_ns]
    if any(step.n_ops for step in whole):
        return {step.number: step.lap_ns for step in whole if step.lap_ns is not None}
    if stands_out(np.array([step.duration_ns for step in whole], np.int64)):
        whole = whole[1:]
    return {step.number: step.duration_ns for step in whole}


def _how(first: Side, second: Side) -> str:
    infos = first.info, second.info
    if any(info is None or not info.virtual or info.host_measured for info in infos):
        return MEASURED
    return PREDICTED if any(info is not None and info.predicted for info in infos) else COMPUTED


def _interval(sides: tuple[Side, Side], a: Float64, b: Float64, how: str, ratio: float) -> tuple[float, float] | None:
    """What the ratio may be; None where too few steps were measured, or one took no time."""
    if how == MEASURED:
        return ratio_interval(a, b, interleaved=False)
    if ratio <= 0:
        return None
    info = sides[0].info
    if how == COMPUTED or ratio == 1 or info is None or info.predicted is None:
        return ratio, ratio
    low, high = ratio_range(times_by_op(sides[1].trace), times_by_op(sides[0].trace), info.predicted.spread)
    return min(low, ratio), max(high, ratio)
