"""The queue model of a cell: n ops, t1 to launch one, t2 to execute one, t3 until Python knows that all is done.

Launch i ends at i · t1; its op starts then, or when the op before it ends. Of equal ops the last one therefore ends at
t1 + (n − 1) · max(t1, t2) + t2. Where t2 ≥ t1 that is t1 + n · t2, where t1 > t2 it is n · t1 + t2.
Source: docs/measuring.md, "The queue model".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from perfmagic.base.language import counted, phrase, translated
from perfmagic.base.numerics import intervals
from perfmagic.base.units import duration_s
from perfmagic.trace.columns import CallKind
from perfmagic.trace.json_form import Count, Seconds
from perfmagic.trace.model import Trace
from perfmagic.trace.samples import BenchRecord

FORMULA = "t1 + (n − 1) · max(t1, t2) + t2 + t3"
_SYNC_SHARE = 0.1  # of returns spent in waiting calls: above it returns is not the time of launching
_MISFIT_FRAC = 0.25  # of done: ops or launches that are not alike; a recorded run alone is off by less


@dataclass(frozen=True)
class QueueModel:
    """The queue model t1 + (n - 1) max(t1, t2) + t2 + t3 of the recorded run.

    n: ops, a count.
    t1_s: to launch one.
    t2_s: to execute one.
    t3_s: until Python knows that all are done.
    measured_s: what the run took.
    caveat: why it may not hold; empty where nothing is known.
    """

    n: Count
    t1_s: Seconds
    t2_s: Seconds
    t3_s: Seconds
    measured_s: Seconds
    caveat: str = ""

    def __str__(self) -> str:
        return translated(self.sentence)

    @property
    def predicted_s(self) -> float:
        """FORMULA: launching and executing overlap."""
        return self.t1_s + (self.n - 1) * self.pace_s + self.t2_s + self.t3_s

    @property
    def pace_s(self) -> float:
        """max(t1, t2): from one op to the next, as the slower of the two ends allows."""
        return max(self.t1_s, self.t2_s)

    @property
    def sequential_s(self) -> float:
        """n · (t1 + t2 + t3): Python waits for each op."""
        return self.n * (self.t1_s + self.t2_s + self.t3_s)

    @property
    def sentence(self) -> str:
        """The model with its numbers, in one line."""
        model = phrase(
            "{ops}: t1 = {t1} to launch, t2 = {t2} to execute, t3 = {t3} at the end; {formula} = {predicted}, measured"
            " {measured}; if Python waited for each op {sequential}",
            ops=counted(self.n, "{n} op", "{n} ops"),
            t1=duration_s(self.t1_s),
            t2=duration_s(self.t2_s),
            t3=duration_s(self.t3_s),
            formula=FORMULA,
            predicted=duration_s(self.predicted_s),
            measured=duration_s(self.measured_s),
            sequential=duration_s(self.sequential_s),
        )
        return phrase("{model} ({caveat})", model=model, caveat=self.caveat) if self.caveat else model


def queue_model_of(record: BenchRecord, trace: Trace) -> QueueModel | None:
    """The queue model of a cell; None without device ops, on several queues, or without samples of *done*.

    t1 = returns / n comes from the samples. t2 = device busy / n and t3 = end of the final synchronise - end of the
    last op. Both come from the recorded run: the profiler does not change device times.
    """
    n = len(trace.ops)
    n_queues = len(np.unique(np.stack((trace.ops.device, trace.ops.stream)), axis=1).T)
    if n_queues != 1 or not len(record.done_s):
        return None
    executed_ns = sum(busy_ns(trace, device) for device in trace.device_ids)
    tail_ns = max(0, trace.meta.end_ns - int(trace.ops.end_ns.max()))
    model = QueueModel(
        n=n,
        t1_s=float(np.median(record.returns_s)) / n,
        t2_s=executed_ns / n / 1e9,
        t3_s=tail_ns / 1e9,
        measured_s=float(np.median(record.done_s)),
    )
    return replace(model, caveat=_caveat(trace, model))


def busy_ns(trace: Trace, device: int) -> int:
    """How long a device executed at least one op."""
    rows = trace.ops.device == device
    return intervals.total_ns(intervals.union(trace.ops.start_ns[rows], trace.ops.end_ns[rows]))


def _caveat(trace: Trace, model: QueueModel) -> str:
    if _waits_itself(trace):
        return phrase("the cell waits for the device itself, so t1 includes waiting")
    if abs(model.predicted_s - model.measured_s) > _MISFIT_FRAC * model.measured_s:
        return phrase("it is more than a quarter off: the model is of equal ops, launched evenly")
    return ""


def _waits_itself(trace: Trace) -> bool:
    """Whether a good part of *returns* was spent in synchronising calls."""
    returned_ns = trace.meta.returned_ns
    if returned_ns is None:
        return False
    syncs = trace.calls.select(trace.calls.kind == CallKind.SYNC)
    inside = intervals.clip(intervals.union(syncs.start_ns, syncs.end_ns), trace.meta.start_ns, returned_ns)
    return intervals.total_ns(inside) > _SYNC_SHARE * (returned_ns - trace.meta.start_ns)
