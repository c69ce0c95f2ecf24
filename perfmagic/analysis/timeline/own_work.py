"""What a rank did itself between communicating: its own work by line or operator, from which a job is replayed.

The lane of a rank is what it does one after the other: it computes, runs Python, and waits for communication that
nothing overlaps. Its points are where it comes to a collective or message, where it has waited for one, and its end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.timeline.doings import Doing, Layer, Lines, lines_of
from perfmagic.analysis.timeline.overlap import Breakdown
from perfmagic.analysis.timeline.steps import Step
from perfmagic.base.numerics.intervals import Intervals
from perfmagic.base.numerics.packed import Columns
from perfmagic.trace.columns import NO_LINE, NONE, HostKind, Int64
from perfmagic.trace.model import Trace

COMES, JOINS, ENDS = 0, 1, 2  # what happens at a point
STARTS = -2  # the step of what is start-up
QUEUED_NS = 20_000  # between two ops of a stream: a longer gap is not that of a queue (typical launch latency 4-9 µs)
PYTHON, CORE = "Python", "waiting for a core"
_BACKWARD = "autograd::engine::evaluate_function"


RowsOf = Mapping[tuple[Doing | None, str], tuple[int, int]]


@dataclass(frozen=True, eq=False)
class Lane:
    """The points of a rank in their order, and its own work before each; ns of its own clock.

    points: `kind`, `op` (place in its communication, NONE at the end), `at`, `behind` (the op before on its stream if
    it was queued behind that one, else NONE).  pieces: `point`, `doing`, `step` (NONE: in none; STARTS), `ns`.
    doings: what `doing` counts.  began_ns: of the lane.  streams: whether compute overlapped communication.
    rows: by line (None: not known) and operator how often it was called, and the rows of its inputs added up, where
    shapes are recorded.
    knows_core: whether waiting for a core is known of each line.
    """

    began_ns: int
    points: Columns
    pieces: Columns
    doings: tuple[Doing, ...]
    streams: bool
    rows: RowsOf
    knows_core: bool


def lane_of(trace: Trace, parts: Breakdown, steps: Sequence[Step], comm: Columns, since_ns: int) -> Lane:
    """The lane of a rank.  parts: of the compared device.  comm: its communication, as perfmagic.analysis.ranks has it.

    since_ns: what is before that is start-up.
    """
    ops = trace.ops
    stream = ops.stream[comm["row"]].astype(np.int64) * (1 + len(trace.device_ids)) + ops.device[comm["row"]]
    exposed = parts.intervals["exposed_communication"]
    began_ns, ended_ns = _span(trace)
    points = _points(comm, stream, exposed, ended_ns)
    marked = np.array([(step.start_ns, step.end_ns, step.number) for step in steps], np.int64).reshape(-1, 3)
    at, waits_from = points["at"], points.pop("waits_from")
    began_ns = min(began_ns, int(at[0]))
    pieces, doings = _pieces(trace, (parts.device, comm["row"]), marked, (at, waits_from, began_ns, since_ns))
    hidden_ns = parts.communication_ns - parts.exposed_communication_ns
    streams = hidden_ns > parts.exposed_communication_ns // 10
    return Lane(began_ns, Columns(points), pieces, doings, streams, _rows(trace), bool(trace.marks.waited_ns.any()))


def _span(trace: Trace) -> tuple[int, int]:
    """From when to when a rank worked: of a cell that is the cell, of a file its records."""
    ops, meta = trace.ops, trace.meta
    of_cell = trace.cell is not None or meta.returned_ns is not None
    first_ns = meta.start_ns if of_cell else int(ops.start_ns.min(initial=meta.end_ns))
    return first_ns, int(ops.end_ns.max(initial=meta.end_ns))


def _points(comm: Columns, stream: Int64, exposed: Intervals, ended_ns: int) -> dict[str, Int64]:
    """The points with when each was reached, and of joins from when the lane only waited."""
    start, end, n = comm["start"], comm["end"], len(comm["start"])
    behind, came = _queued(comm, stream)
    inside = _row_at(exposed, end - 1)
    joins = np.flatnonzero(inside != NONE)
    rank_of_join = np.where(start[joins] < end[joins], 0, 2)
    columns = {
        "kind": np.concatenate((np.full(n, COMES), np.full(len(joins), JOINS), [ENDS])),
        "op": np.concatenate((np.arange(n), joins, [NONE])),
        "at": np.concatenate((came, end[joins], [max(ended_ns, int(end.max(initial=ended_ns)))])),
        "behind": np.concatenate((behind, np.full(len(joins) + 1, NONE))),
        "order": np.concatenate((np.full(n, 1), rank_of_join, [3])),
        "exposed_from": np.concatenate((came, exposed[inside[joins], 0] if len(joins) else [], [0])),
    }
    order = np.lexsort((columns["order"], columns["at"]))
    points = {name: np.asarray(column, np.int64)[order] for name, column in columns.items()}
    before = np.concatenate((points["at"][:1], points["at"][:-1]))
    waited = np.maximum(points.pop("exposed_from"), before)
    points["waits_from"] = np.where(points["kind"] == JOINS, np.minimum(waited, points["at"]), points["at"])
    del points["order"]
    return points


def _queued(comm: Columns, stream: Int64) -> tuple[Int64, Int64]:
    """Of each op the one that it was queued behind, NONE for none, and when its rank had come to it."""
    start, end, launched = comm["start"], comm["end"], comm["launched"]
    behind, came = np.full(len(start), NONE, np.int64), start.copy()
    for number in np.unique(stream).tolist():
        rows = np.flatnonzero(stream == number)
        before, own = rows[:-1], rows[1:]
        early = np.where(launched[own] != NONE, launched[own] < end[before], True)
        queued = early & (start[own] - end[before] <= QUEUED_NS) & (start[own] >= end[before])
        behind[own[queued]] = before[queued]
        ready = np.where(launched[own] != NONE, np.maximum(launched[own], start[before]), start[before])
        came[own[queued]] = np.minimum(ready, start[own])[queued]
    return behind, came


def _row_at(spans: Intervals, at: Int64) -> Int64:
    """Of each instant the row of disjoint, rising intervals that it lies in, NONE for none."""
    if not len(spans):
        return np.full(len(at), NONE, np.int64)
    row = np.searchsorted(spans[:, 0], at, side="right") - 1
    return np.where((row >= 0) & (at < spans[np.maximum(row, 0), 1]), row, NONE).astype(np.int64)


def _steps_at(at: Int64, marked: Int64) -> Int64:
    """The number of the step at each instant, NONE for none.  marked: start, end and number of each."""
    return np.append(marked[:, 2], NONE)[_row_at(marked[:, :2], at)]


# What the lane did at each instant: what the device computed, else what Python did.


def _pieces(
    trace: Trace, own_ops: tuple[int, Int64], marked: Int64, lane: tuple[Int64, Int64, int, int]
) -> tuple[Columns, tuple[Doing, ...]]:
    """How long what was done before each point, in which step.

    own_ops: the compared device, and the rows of trace.ops that communicate.  marked: see _steps_at.  lane: of each
    point when it was reached, and from when the lane waited for it; when the lane began, and until when it started up.
    """
    at, waits_from, began_ns, judged_ns = lane
    doings: dict[Doing, int] = {Doing(NO_LINE, PYTHON): 0}
    known = lines_of(trace)
    device, of_device, launched = _of_device(trace, *own_ops, known, doings)
    if known.layers and all(info.kind == "cpu" for info in trace.meta.devices):
        device = device[:0]  # what the CPU computed it did on a line, maybe without a core
    on_lines = ((spans, _numbered(known.doings, on, doings)) for spans, on in known.layers)
    layers = [*_of_cores(trace, doings), *on_lines]
    if not len(trace.marks):
        layers.append(_of_operators(trace, doings))
    spans = (device, *(where for where, _ in layers), marked[:, :2])
    edges = np.unique(np.concatenate((at, waits_from, *(each.ravel() for each in spans), [began_ns, judged_ns])))
    edges = edges[(edges >= began_ns) & (edges <= at[-1])]
    since, lengths = edges[:-1], np.diff(edges)
    point = np.searchsorted(at, since, side="right")
    on_device, doing = _row_at(device, since), np.zeros(len(since), np.int64)
    for where, numbers in reversed(layers):
        row = _row_at(where, since)
        doing = np.where(row != NONE, np.append(numbers, 0)[row], doing)
    doing = np.where(on_device != NONE, np.append(of_device, 0)[on_device], doing)
    step = _steps_at(np.where(on_device != NONE, np.append(launched, 0)[on_device], since), marked)
    step = np.where(since < judged_ns, STARTS, step)
    works = since < waits_from[point]
    keys, place = np.unique(np.stack((point, doing, step))[:, works], axis=1, return_inverse=True)
    sums = np.bincount(place.ravel(), weights=lengths[works], minlength=keys.shape[1]).astype(np.int64)
    return Columns(dict(zip(("point", "doing", "step", "ns"), (*keys, sums), strict=True))), tuple(doings)


def _of_device(
    trace: Trace, device: int, communication: Int64, known: Lines, doings: dict[Doing, int]
) -> tuple[Intervals, Int64, Int64]:
    """What the device computed and copied, one op at an instant, what it was, and when it was launched."""
    ops = trace.ops
    communicates = np.zeros(len(ops), bool)
    communicates[communication] = True
    rows = np.flatnonzero((ops.device == device) & ~communicates)
    spans = _one_at_a_time(ops.start_ns[rows], ops.end_ns[rows])
    lasts = spans[:, 1] > spans[:, 0]
    rows, spans = rows[lasts], spans[lasts]
    columns = (launching_lines(trace, rows, known), ops.name[rows], ops.forward_ns[rows] != NONE)
    keys, place = np.unique(np.stack(columns), axis=1, return_inverse=True)
    made = [_doing(trace, known.doings[line], name, bool(back)) for line, name, back in keys.T.tolist()]
    return spans, _numbered(made, place.reshape(-1), doings), trace.launch_start_ns(rows)


def launching_lines(trace: Trace, rows: Int64, known: Lines) -> Int64:
    """The number of the line that launched each op."""
    launch = trace.ops.launch[rows]
    thread = np.append(trace.calls.thread, NONE)[launch].astype(np.int64)
    return np.where(launch != NONE, known.at(thread, trace.launch_start_ns(rows)), 0)


def _of_cores(trace: Trace, doings: dict[Doing, int]) -> list[Layer]:
    """When Python waited for a core: of a line of the cell first what it did, then what it waited."""
    marks = trace.marks
    waits = np.diff(marks.waited_ns).clip(0)
    if not waits.any():
        return []
    ends = marks.at_ns[1:]
    spans = np.stack((np.maximum(marks.at_ns[:-1], ends - waits), ends), axis=1)
    spans = spans[(spans[:, 0] < ends) & (marks.line[:-1] > 0)]
    core = _numbered([Doing(NO_LINE, CORE)], np.zeros(len(spans), np.int64), doings)
    return [(spans, core)]


def _of_operators(trace: Trace, doings: dict[Doing, int]) -> Layer:
    """In which operator Python was, on the thread that has most."""
    host = trace.host_ops
    rows = np.flatnonzero(host.kind == HostKind.OP)
    if not len(rows):
        return np.zeros((0, 2), np.int64), np.zeros(0, np.int64)
    threads, counts = np.unique(host.thread[rows], return_counts=True)
    rows = rows[host.thread[rows] == threads[counts.argmax()]]
    spans = _one_at_a_time(host.start_ns[rows], host.end_ns[rows])
    lasts = spans[:, 1] > spans[:, 0]
    names, place = np.unique(host.name[rows[lasts]], return_inverse=True)
    return spans[lasts], _numbered([_doing(trace, None, name) for name in names.tolist()], place, doings)


def _one_at_a_time(start: Int64, end: Int64) -> Intervals:
    """Spans by their start without what an earlier one covers; some are empty then."""
    covered = np.maximum.accumulate(np.concatenate(([np.iinfo(np.int64).min], end)))[:-1]
    begin = np.minimum(np.maximum(start, covered), np.maximum(end, covered))
    return np.stack((begin, np.maximum(end, begin)), axis=1)


def _numbered(some: Sequence[Doing | None], which: Int64, doings: dict[Doing, int]) -> Int64:
    """Numbers of some doings, as numbers among all; 0 for none.  Those that nothing names are not added."""
    numbers = np.zeros(len(some), np.int64)
    for i in np.unique(which).tolist():
        doing = some[i]
        numbers[i] = doings.setdefault(doing, len(doings)) if doing else 0
    return numbers[which]


def _doing(trace: Trace, line: Doing | None, name: int, of_backward: bool = False) -> Doing:
    full = trace.names[name]
    phase = "backward" if of_backward or full.startswith(_BACKWARD) else ""
    return line._replace(phase=phase) if line else Doing(NO_LINE, full, phase)


_FIRST_DIMENSION = re.compile(r"\[\[(\d+), ")  # of an input with several: "[[32, 64], [64]]"
MOST_OPERATORS = 64  # of a rank, those with most rows


def _rows(trace: Trace) -> RowsOf:
    """By line and operator its calls with a first input of two dimensions or more, and how many rows these had."""
    host = trace.host_ops
    first = [_FIRST_DIMENSION.match(shape) for shape in trace.input_shapes]
    rows_of = np.array([int(found[1]) if found else 0 for found in first] + [0], np.int64)
    rows = np.where(host.shape != NONE, rows_of[host.shape], 0)
    kept = np.flatnonzero((rows > 0) & (host.kind == HostKind.OP))
    known = lines_of(trace)
    lines = known.at(host.thread[kept], host.start_ns[kept])
    keys, place, calls = np.unique(np.stack((lines, host.name[kept])), axis=1, return_inverse=True, return_counts=True)
    sums = np.bincount(place.ravel(), rows[kept], keys.shape[1]).astype(np.int64)
    most = np.argsort(-sums, kind="stable")[:MOST_OPERATORS].tolist()
    return {(known.doings[keys[0, i]], trace.names[keys[1, i]]): (int(calls[i]), int(sums[i])) for i in most}


def times_rows(own: RowsOf, others: Sequence[RowsOf], doing: Doing | None) -> float:
    """Of one rank, by the operators that all ranks call as often; 1 where there are none."""
    times = []
    for key, (n_calls, rows) in own.items():
        theirs = [of_rank[key][1] for of_rank in others if of_rank.get(key, (0, 0))[0] == n_calls]
        if len(theirs) == len(others) and _is_of(key, own, doing):
            times.append(rows / float(np.median(theirs)))
    return float(np.median(times or 1.0))


def _is_of(key: tuple[Doing | None, str], own: RowsOf, doing: Doing | None) -> bool:
    """Whether an operator belongs to some work. Which one launched a kernel without a line is not known: any may."""
    line, operator = key
    if doing is None or doing.line:
        return doing is None or (line is not None and line.is_on(doing))
    return operator == doing.name or not (doing.name in (PYTHON, CORE) or any(name == doing.name for _, name in own))
