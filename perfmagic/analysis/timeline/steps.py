"""The training steps of a trace: how long each took on the host, and what it had the devices do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.timeline.overlap import CLASS_SETS, breakdown
from perfmagic.base import units
from perfmagic.base.language import chained, counted, phrase
from perfmagic.base.numerics.intervals import Intervals, covered_ns, merge, subtract, union, unions
from perfmagic.trace.columns import NONE, Int32, Int64
from perfmagic.trace.model import Trace, busy_intervals, once_per_trace
from perfmagic.trace.names import op_classes
from perfmagic.trace.rows import Rows

_STEP = re.compile(r"ProfilerStep#(\d{1,9})$")  # as torch.profiler names what lies between two calls of step()
STANDS_OUT_RATIO = 1.25  # to the median lap, as a rank's total to the median of the other ranks
FEWEST_LAPS = 3  # of two it is unknown which is the odd one
UNEVEN_FRAC = 0.05  # of a lap; less of a class of work is not worth a sentence
CUT_FRAC = 0.1  # of a step outside the records; a profiler needs some milliseconds at the edges of a step


@dataclass(frozen=True)
class Step:
    """A training step that torch.profiler marked.

    number: the step's number in its mark.
    start_ns: its start on the host.
    end_ns: its end on the host.
    busy_ns: when ops that it launched executed, whenever that was.
    compute_ns: when compute ops that it launched executed.
    communication_ns: when communication ops that it launched executed.
    copy_ns: when copies that it launched executed.
    window_busy_ns: when any device executed an op during its time on the host, whichever step launched it.
    n_ops: device ops that it launched.
    first_op_ns: the first start of those ops; None for none.
    last_op_ns: the last end of those ops; None for none.
    lap_ns: from the last op of the step before to its own last op; None where no step before launched any. Python may
    run ahead of the device, so that a step's time on the host is not the time it took.
    unrecorded_ns: what of its time on the host lies before the first record or after the last.
    duration_ns: from start to end.
    window_busy_frac: the share of its time on the host in which a device was busy.

    Source: docs/words.md, "step" and "lap".
    """

    number: int
    start_ns: int
    end_ns: int
    busy_ns: int
    compute_ns: int
    communication_ns: int
    copy_ns: int
    window_busy_ns: int
    n_ops: int
    first_op_ns: int | None
    last_op_ns: int | None
    lap_ns: int | None
    unrecorded_ns: int

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns

    @property
    def window_busy_frac(self) -> float:
        return self.window_busy_ns / self.duration_ns if self.duration_ns else 0.0


@dataclass(frozen=True)
class StepOut:
    """A step whose lap is much longer than the median lap.

    parts_ns: what its lap has more, or less, than the median of the other laps, by compute, communication alone, other
    work and idle: each instant of a lap belongs to one of them.
    """

    number: int
    start_ns: int
    end_ns: int
    lap_ns: int
    median_ns: float
    parts_ns: Mapping[str, float]


@once_per_trace
def steps(trace: Trace, comm_names: str | None = None) -> Rows[Step]:
    """The steps that torch.profiler marked, in order; none where the trace has no such marks.

    Marks of one number that overlap (several threads) are one step. Where steps of different numbers overlap, the
    earlier one ends where the later begins: no instant and no op counts twice.
    comm_names: what is communication, as in perfmagic.trace.names.op_classes.
    """
    number, start, end = _windows(trace)
    if not len(number):
        return Rows((), Step)
    rows, step = _launched(trace, start, end)
    n_ops, first, last = _extents(trace, rows, step, len(number))
    recorded = np.array([[trace.meta.start_ns, trace.meta.end_ns]], np.int64)
    columns = {
        "number": number,
        "start_ns": start,
        "end_ns": end,
        **_device_times(trace, rows, step, len(number), comm_names),
        "window_busy_ns": covered_ns(busy_intervals(trace), start, end),
        "n_ops": n_ops,
        "unrecorded_ns": end - start - covered_ns(recorded, start, end),
    }
    laps = _laps(last, n_ops)
    step_rows = [
        Step(
            **{name: int(values[i]) for name, values in columns.items()},
            first_op_ns=int(first[i]) if n_ops[i] else None,
            last_op_ns=int(last[i]) if n_ops[i] else None,
            lap_ns=laps[i],
        )
        for i in range(len(number))
    ]
    return Rows(step_rows, Step, note=_note(step_rows))


_OPTIMIZER = "Optimizer.step#"  # as torch names it in every record: the end of a step


def first_full_step(trace: Trace) -> tuple[int, int | None] | None:
    """When the first step began on the host that a record holds whole, and its number; None where no step is known.

    Step 0 warms up where it stands out from those behind it: it compiles, allocates, connects. Without marks a step is
    what lies between two ends of an optimizer's step: what comes before the first of these is no full step.
    """
    number, start, end = _windows(trace)
    recorded_ns = np.minimum(end, trace.meta.end_ns) - np.maximum(start, trace.meta.start_ns)
    whole = np.flatnonzero(recorded_ns >= (1 - CUT_FRAC) * (end - start))
    if len(whole) and number[whole[0]] == 0 and stands_out((end - start)[whole]):
        whole = whole[1:]
    if len(whole) or len(number):
        first = int(whole[0]) if len(whole) else 0
        return int(start[first]), int(number[first])
    ends_step = np.array([name.startswith(_OPTIMIZER) for name in trace.names], bool)[trace.host_ops.name]
    ends_ns = np.sort(trace.host_ops.end_ns[ends_step])
    return (int(ends_ns[0]), None) if len(ends_ns) > 1 else None


def stands_out(lengths_ns: Int64) -> bool:
    """Whether the first of some times is much longer than those behind it usually are."""
    return len(lengths_ns) >= FEWEST_LAPS and bool(lengths_ns[0] > STANDS_OUT_RATIO * np.median(lengths_ns[1:]))


def step_numbers(trace: Trace, at_ns: Int64) -> Int64:
    """The number of the step that each instant of the host lies in, NONE outside of all."""
    number, start, end = _windows(trace)
    if not len(number):
        return np.full(len(at_ns), NONE, np.int64)
    step = np.searchsorted(start, at_ns, side="right") - 1
    return np.where((step >= 0) & (at_ns < end[step]), number[step], NONE)


BEGUN_FRAC = 0.9  # of the time before an instant, in steps after the first


@once_per_trace
def begins_in_step(trace: Trace, until_ns: int) -> bool:
    """Whether a record begins in a step that others came before: what Python does there is done in each step."""
    number, start, end = _windows(trace)
    before_ns = until_ns - trace.meta.start_ns
    held_ns = (np.minimum(end, until_ns) - np.maximum(start, trace.meta.start_ns))[number > 0]
    return before_ns > 0 and int(np.maximum(held_ns, 0).sum()) >= BEGUN_FRAC * before_ns


def outstanding(trace: Trace, rows: Sequence[Step], comm_names: str | None = None) -> list[StepOut]:
    """The steps that took the device much longer than the median one, and by what; rows: from steps()."""
    laps = [(s.last_op_ns - s.lap_ns, s.last_op_ns) for s in rows if s.lap_ns is not None and s.last_op_ns is not None]
    lapping = [s for s in rows if s.lap_ns is not None]
    if len(laps) < FEWEST_LAPS:
        return []
    start, end = np.array(laps, np.int64).T
    lengths, median_ns = end - start, float(np.median(end - start))
    parts = _lap_parts(trace, start, end, comm_names)
    out = []
    for i in np.flatnonzero(lengths > STANDS_OUT_RATIO * median_ns).tolist():
        excess = {name: float(ns[i] - np.median(np.delete(ns, i))) for name, ns in parts.items()}
        out.append(StepOut(lapping[i].number, *laps[i], int(lengths[i]), median_ns, excess))
    return out


def _lap_parts(trace: Trace, start: Int64, end: Int64, comm_names: str | None) -> dict[str, Int64]:
    """What each lap was spent in; the parts add up to it."""
    compute, comm = _class(trace, "compute", comm_names), _class(trace, "communication", comm_names)
    known = merge(compute, comm)
    return {
        "compute": covered_ns(compute, start, end),
        "communication alone": covered_ns(subtract(comm, compute), start, end),
        "copies": covered_ns(subtract(busy_intervals(trace), known), start, end),
        "idle": end - start - covered_ns(busy_intervals(trace), start, end),
    }


def _note(rows: Sequence[Step]) -> str:
    """The laps in one line, the class of work of which one step has more, and what the records hold only in part."""
    laps = np.array([s.lap_ns for s in rows if s.lap_ns is not None])
    parts: list[str] = []
    if len(laps) >= FEWEST_LAPS:
        median, least, most = (units.duration(ns) for ns in (float(np.median(laps)), int(laps.min()), int(laps.max())))
        n = int((laps > STANDS_OUT_RATIO * np.median(laps)).sum())
        out = counted(n, "{n} step stands out", "{n} steps stand out") if n else phrase("no step stands out")
        parts.append(
            phrase(
                "From the last op of a step to that of the next: {median} in the median, {least} to {most}; {out}",
                median=median,
                least=least,
                most=most,
                out=out,
            )
        )
        parts += _uneven(rows, float(laps.max()))
    parts += [
        phrase(
            "The records hold {time} of the {whole} of step {n}",
            time=units.duration(s.duration_ns - s.unrecorded_ns),
            whole=units.duration(s.duration_ns),
            n=s.number,
        )
        for s in rows
        if s.unrecorded_ns > CUT_FRAC * s.duration_ns
    ]
    return chained("{a}. {b}", parts)


def _uneven(rows: Sequence[Step], longest_ns: float) -> list[str]:
    """Of each class of work the step that has much more of it than the median step, whether or not its lap shows it."""
    parts: list[str] = []
    for what, ns in (
        ("compute", [s.compute_ns for s in rows]),
        ("communication", [s.communication_ns for s in rows]),
        ("copies", [s.copy_ns for s in rows]),
    ):
        i, median = int(np.argmax(ns)), float(np.median(ns))
        if ns[i] > STANDS_OUT_RATIO * median and ns[i] - median > UNEVEN_FRAC * longest_ns:
            parts.append(
                phrase(
                    "Step {n} launched {time} of {what}, the median step {median}",
                    n=rows[i].number,
                    time=units.duration(ns[i]),
                    what=phrase(what),
                    median=units.duration(median),
                )
            )
    return parts


def _windows(trace: Trace) -> tuple[Int64, Int64, Int64]:
    """Number, start and end of each step, by start, disjoint."""
    host = trace.host_ops
    step = np.array([_STEP.match(name) is not None for name in trace.names], bool)
    marks = np.flatnonzero(step[host.name])  # PyTorch of 2021 recorded them as operators
    windows = []
    for name in np.unique(host.name[marks]).tolist():
        if match := _STEP.match(trace.names[name]):
            rows = marks[host.name[marks] == name]
            spans = union(host.start_ns[rows], host.end_ns[rows]).tolist()
            windows += [(start, end, int(match[1])) for start, end in spans]
    table = np.array(sorted(windows), np.int64).reshape(-1, 3)
    start, end, number = table.T
    end[:-1] = np.minimum(end[:-1], start[1:])
    return number, start, end


def _class(trace: Trace, what: str, comm_names: str | None) -> Intervals:
    return merge(*(breakdown(trace, device, comm_names).intervals[what] for device in trace.device_ids))


def _launched(trace: Trace, start_ns: Int64, end_ns: Int64) -> tuple[Int32, Int32]:
    """The ops that a step launched, rows of trace.ops, and of each the place of its step."""
    ops = trace.ops
    launched = np.flatnonzero(ops.launch != NONE).astype(np.int32)
    at = trace.calls.start_ns[ops.launch[launched]]
    step = np.searchsorted(start_ns, at, side="right") - 1
    inside = (step >= 0) & (at < end_ns[np.maximum(step, 0)])
    return launched[inside], step[inside].astype(np.int32)


def _extents(trace: Trace, rows: Int32, step: Int32, n: int) -> tuple[Int64, Int64, Int64]:
    """Of each of n steps the number of ops, their first start and last end."""
    first, last = np.full(n, np.iinfo(np.int64).max), np.full(n, np.iinfo(np.int64).min)
    np.minimum.at(first, step, trace.ops.start_ns[rows])
    np.maximum.at(last, step, trace.ops.end_ns[rows])
    return np.bincount(step, minlength=n), first, last


def _device_times(trace: Trace, rows: Int32, step: Int32, n: int, comm_names: str | None) -> dict[str, Int64]:
    """When ops of each of n steps executed, all and by class, in ns."""
    ops, classes = trace.ops, op_classes(trace, comm_names)[rows]
    sums = {}
    for name in ("busy", "compute", "communication", "copy"):
        of_class = np.isin(classes, CLASS_SETS[name]) if name in CLASS_SETS else slice(None)
        of_step, spans = unions(step[of_class], ops.start_ns[rows[of_class]], ops.end_ns[rows[of_class]])
        total = np.zeros(n, np.int64)
        np.add.at(total, of_step, spans[:, 1] - spans[:, 0])
        sums[f"{name}_ns"] = total
    return sums


def _laps(last: Int64, n_ops: Int64) -> list[int | None]:
    """How long after those of the steps before the last op of each step ended; None for the first one with ops."""
    laps: list[int | None] = []
    before: int | None = None
    for end, n in zip(last.tolist(), n_ops.tolist(), strict=True):
        laps.append(None if before is None or not n else max(0, end - before))
        if n:
            before = end if before is None else max(before, end)
    return laps
