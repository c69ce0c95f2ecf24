"""Everything a trace says in numbers, ready for JSON: the classes are the keys, and their docstrings describe them.

`python -m tests.schemas` writes docs/report.schema.json from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np

from perfmagic.analysis.findings.answer import Answers
from perfmagic.analysis.findings.find import Finding, findings
from perfmagic.analysis.ranks.finding import CollectiveOfRanks, PipelineStage, RankFinding, RankStat
from perfmagic.analysis.replay.prediction import full_trust
from perfmagic.analysis.timeline.activity import StreamStat, Syncs, memory_curve, streams, syncs
from perfmagic.analysis.timeline.collectives import CollectiveStat, collectives, missing_metadata
from perfmagic.analysis.timeline.copies import CopyStat, copies
from perfmagic.analysis.timeline.device_operators import (
    Achieved,
    CategoryTime,
    DeviceOperator,
    TensorCoreShare,
    achieved,
    category_times,
    device_operators,
    tensor_core_share,
)
from perfmagic.analysis.timeline.idle import CAUSES, IdleGaps, idle_gaps
from perfmagic.analysis.timeline.kernels import KernelStat, kernels
from perfmagic.analysis.timeline.lines import LineStat, function_lines, lines
from perfmagic.analysis.timeline.operators import AnnotationStat, OperatorStat, operators, user_annotations
from perfmagic.analysis.timeline.overlap import ClassOverlap, Partition, breakdown, overlap_matrix
from perfmagic.analysis.timeline.phases import Phase, phase_headline, phases
from perfmagic.analysis.timeline.queueing import LaunchBound, QueueStat, delays, launch_bound, queues
from perfmagic.analysis.timeline.steps import Step, steps
from perfmagic.analysis.timeline.trust import Trust
from perfmagic.base.language import translated
from perfmagic.predict.gpus import Peaks, peaks_of
from perfmagic.trace.columns import NONE, DeviceOps, Int64, OpKind, Remark
from perfmagic.trace.json_form import JsonForm, one_of
from perfmagic.trace.model import DeviceInfo, Trace
from perfmagic.trace.names import comm_kernel_names
from perfmagic.trace.rows import Rows, RowT

SCHEMA_VERSION = 3  # raised by what changes the meaning of a key, or takes one away
WORST_STRETCHES = 50
LONGEST_GAPS = 20
PERCENTILES = {"min_ns": 0, "median_ns": 50, "p90_ns": 90, "p99_ns": 99, "max_ns": 100}

DeviceNumber = Annotated[str, msgspec.Meta(pattern="^[0-9]+$")]


class DeviceRows(Rows[RowT]):
    """A table of one device; the key above it says which."""

    left_out = ("device",)


class OperatorRows(Rows[RowT]):
    """Operators of all threads, whatever the shapes of their inputs."""

    left_out = ("thread", "shape")


@dataclass(frozen=True)
class TracedDevice:
    """A device that the record names.

    index: the number of the device, as in `devices`.
    kind: what it is.
    label: the name for people; a simulated or predicted device always says so.
    pace: how a simulated device was paced, in words; empty for real devices.
    predicted: whether a GPU's model gave its times, and nothing was measured.
    spread: the factor within which four of five predicted times of a whole run lie; null where none is predicted.
    """

    index: int
    kind: Annotated[str, one_of("cuda", "rocm", "sim", "cpu", "unknown")]
    label: str
    pace: str
    predicted: bool = False
    spread: float | None = None

    @classmethod
    def of(cls, device: DeviceInfo) -> TracedDevice:
        """A device of a trace."""
        predicted = device.predicted
        spread = None if predicted is None else predicted.spread
        return cls(device.index, device.kind, device.label, device.pace, predicted is not None, spread)


@dataclass(frozen=True)
class ReportMeta:
    """Where the trace is from.

    origin: cell, block, or the file's name.
    start_ns: the window's start.
    end_ns: the window's end.
    returned_ns: when the cell's last line gave control back to Python; None for files.
    rank: the rank; None where not known.
    world_size: ranks in the job, a count; None where not known.
    torch_version: the version of torch that recorded it; empty where not known.
    failed: the exception that ended the cell, in words; empty for none.
    devices: devices that the record names.
    """

    origin: str
    start_ns: int
    end_ns: int
    returned_ns: int | None
    rank: int | None
    world_size: int | None
    torch_version: str
    failed: str
    devices: tuple[TracedDevice, ...]


@dataclass(frozen=True)
class Queued:
    """How long ops were queued, summed over the ops.

    in_call_ns: until the launch call returned.
    behind_ns: after that, until the op before on the stream ended.
    waiting_ns: the rest, in ns: for another stream or the launch itself.
    """

    in_call_ns: int
    behind_ns: int
    waiting_ns: int


@dataclass(frozen=True)
class Distribution:
    """How a time is distributed over the ops with a launch record.

    A percentile of n sorted values is the one nearest to rank p · (n − 1). All are None where there are no ops.

    mean_ns: the mean.
    min_ns: the least.
    median_ns: the median.
    p90_ns: the 90th percentile.
    p99_ns: the 99th percentile.
    max_ns: the most.
    """

    mean_ns: float | None
    min_ns: int | None
    median_ns: int | None
    p90_ns: int | None
    p99_ns: int | None
    max_ns: int | None


@dataclass(frozen=True)
class Launch:
    """How ops and the calls that launched them fit together.

    n_with_launch: ops with a launch record.
    n_without_launch: ops without one.
    n_before_launch: ops that start before their launch call.
    n_before_return: ops that start before their launch call returned.
    n_ops_by_call: by the name of the call: ops that it launched.
    call_to_start: from the start of the call to the start of the op.
    return_to_start: from the return of the call to the start of the op.
    """

    n_with_launch: int
    n_without_launch: int
    n_before_launch: int
    n_before_return: int
    n_ops_by_call: dict[str, int]
    call_to_start: Distribution
    return_to_start: Distribution


@dataclass(frozen=True)
class LaunchBoundTotals:
    """Stretches in which the device waited for each launch.

    n_stretches: stretches.
    n_ops: ops in them.
    busy_ns: when those executed.
    lost_ns: the gaps between those.
    stretches: those that lost the most, at most 50.
    """

    n_stretches: int
    n_ops: int
    busy_ns: int
    lost_ns: int
    stretches: DeviceRows[LaunchBound]


@dataclass(frozen=True)
class IdleByCause:
    """Idle time of a device by its cause; the parts add up to its `idle_ns`.

    in_python: nothing was queued and Python was running, or it launched ops one by one that ran immediately, in ns.
    in_call: nothing was queued and Python was in a call of the runtime or driver for 50 µs or longer, in ns.
    launching: an op was on its way, in ns.
    between_ops: the next op was queued already and started within 10 µs, in ns.
    blocked: Python was in a blocking call, and nothing was queued or the copy it asked for had not begun, in ns.
    other_device: nothing was queued, and Python waited while another device executed, in ns.
    other_stream: queued, and held by a recorded stream wait, in ns.
    unexplained: queued, and the record does not say why it did not run, in ns.
    """

    in_python: int
    in_call: int
    launching: int
    between_ops: int
    blocked: int
    other_device: int
    other_stream: int
    unexplained: int


@dataclass(frozen=True)
class Gap:
    """An idle gap: no op of the device executed.

    start_ns: its start.
    length_ns: its length.
    cause: the largest part of it.
    line: the line of the cell that Python was on for most of it; 0 for none.
    host_op: the operator that most of its time for Python passed in; None where none ran.
    """

    start_ns: int
    length_ns: int
    cause: Annotated[str, one_of(*CAUSES)]
    line: int
    host_op: str | None


@dataclass(frozen=True)
class Idle:
    """Idle time, by what the device waited for.

    by_cause_ns: by its cause; adds up to `idle_ns` of the device.
    n_gaps: idle gaps.
    longest: the longest gaps, at most 20.
    """

    by_cause_ns: IdleByCause
    n_gaps: int
    longest: tuple[Gap, ...]


@dataclass(frozen=True)
class Blocking:
    """The calls that blocked Python for one thing that asked for them.

    asked_by: who asked, as people write it: .item().
    n_asked: how often they asked, a count: findings say it. One operator may make several calls.
    n_calls: blocking calls.
    blocked_ns: how long they blocked Python, summed.
    busy_ns: how long the device was busy meanwhile, summed.
    lines: lines of the cell that asked.
    """

    asked_by: str
    n_asked: int
    n_calls: int
    blocked_ns: int
    busy_ns: int
    lines: tuple[int, ...]


@dataclass(frozen=True)
class DeviceMemory:
    """What was allocated on the device.

    peak_bytes: the most allocated.
    peak_at_ns: when that was.
    peak_line: the line of the cell that ran then; 0 for none.
    reserved_max_bytes: the most taken from the device; 0 where the record does not say.
    """

    peak_bytes: int
    peak_at_ns: int
    peak_line: int
    reserved_max_bytes: int


@dataclass(frozen=True)
class DeviceReport:
    """All totals of one device.

    label: the name for people; a simulated device always says so.
    n_ops: device ops.
    n_kernels: kernels among them.
    n_copies: copies among them.
    n_memsets: memsets among them.
    extent_ns: from the first op's start to the last op's end.
    busy_ns: when at least one op executed.
    busy_frac: the share of the device's extent in which it was busy; a live timeline of a cell, and its verdict,
    give the share of the cell.
    idle_ns: the rest of the extent.
    head_ns: from the window's start to the first op; not idle time.
    tail_ns: from the last op to the window's end; not idle time.
    ops_total_ns: the summed duration of all ops; more than `busy_ns` where ops run at once.
    compute_ns: when at least one kernel that computes executed.
    communication_ns: when at least one kernel of a communication library executed.
    copy_ns: when at least one copy executed.
    memset_ns: when at least one memset executed.
    exposed_communication_ns: the part of `communication_ns` that did not overlap with compute.
    exposed_copy_ns: the part of `copy_ns` that did not overlap with compute.
    overlap_compute_communication_ns: when compute and communication executed at once.
    overlap_compute_copy_ns: when compute and a copy executed at once.
    overlap_communication_copy_ns: when communication and a copy executed at once.
    partition: the extent, each instant once.
    concurrency_ns: by k: how long exactly k streams were executing; adds up to the extent.
    streams: the streams, the busiest first.
    queues: the queue of each stream that had one, by the stream's number.
    queued: how long ops were queued, summed over the ops.
    launch: how ops and the calls that launched them fit together.
    launch_bound: stretches in which the device waited for each launch.
    idle: idle time, by what the device waited for.
    categories: device time by what it was for, the longest first; adds up to ops_total_ns.
    device_operators: device time by operator, the longest first.
    operators_note: what the record lacks for that table; empty for nothing.
    achieved: what it computed and moved in all.
    peaks: what it can do at most; None where that is not known.
    kernels: kernels by name, the largest summed duration first.
    tensor_cores: how much of the kernels' summed duration was on tensor cores, by the kernels' names.
    copies: copies by kind, the largest summed duration first.
    collectives: collective operations, the largest summed duration first.
    overlaps: each pair of classes that occur.
    memory: what was allocated on the device; None where the record does not say.
    notes: what a reader of these tables should know.
    """

    label: str
    n_ops: int
    n_kernels: int
    n_copies: int
    n_memsets: int
    extent_ns: int
    busy_ns: int
    busy_frac: float
    idle_ns: int
    head_ns: int
    tail_ns: int
    ops_total_ns: int
    compute_ns: int
    communication_ns: int
    copy_ns: int
    memset_ns: int
    exposed_communication_ns: int
    exposed_copy_ns: int
    overlap_compute_communication_ns: int
    overlap_compute_copy_ns: int
    overlap_communication_copy_ns: int
    partition: Partition
    concurrency_ns: dict[int, int]
    streams: DeviceRows[StreamStat]
    queues: DeviceRows[QueueStat]
    queued: Queued
    launch: Launch
    launch_bound: LaunchBoundTotals
    idle: Idle
    categories: DeviceRows[CategoryTime]
    device_operators: DeviceRows[DeviceOperator]
    operators_note: str
    achieved: Achieved
    peaks: Peaks | None
    kernels: DeviceRows[KernelStat]
    tensor_cores: TensorCoreShare
    copies: DeviceRows[CopyStat]
    collectives: DeviceRows[CollectiveStat]
    overlaps: DeviceRows[ClassOverlap]
    memory: DeviceMemory | None
    notes: tuple[Remark, ...]


@dataclass(frozen=True)
class Report(JsonForm):
    """Everything a trace says in numbers: `python -m perfmagic report --json`, `TimelineResult.to_dict()`.

    Times are integers in nanoseconds since the trace's instant 0. Shares are fractions of 1. Line 1 is the magic.

    schema_version: raised by what changes the meaning of a key, or takes one away.
    meta: where the trace is from.
    devices: by the number of the device: its totals.
    operators: operators by name, the longest on the host first.
    annotations: marks of the user by name, the longest on the host first.
    lines: what each line of the cell cost, in order; none of a file.
    steps: training steps, in order.
    steps_note: the laps of the steps in words, and steps that the records hold only in part; empty for neither.
    phases: prefill and decode of an LLM server, the longest first; none where it annotated no step.
    phases_note: why a figure of the phases is missing; empty where none is.
    phase_headline: the phases in one sentence; empty without any.
    syncs: calls that blocked Python, by who asked for them, the longest in sum first.
    comm_names: the expression by which kernels count as communication; None for the built-in rule.
    communication_kernels: names of the kernels that count as communication.
    answers: what to do, the most first.
    findings: sentences with numbers.
    trust: how far the record can be believed.
    rank_findings: what several files say together; only in a report on several files.
    rank_table: a row for each rank of the jobs among several files; only in a report on several files.
    rank_answers: what to do about each of these jobs; only in a report on several files.
    rank_collectives: what each kind and size moved, of all jobs; only in a report on several files.
    rank_pipelines: a row for each stage of each pipeline of these jobs; only in a report on several files.
    """

    optional = ("rank_findings", "rank_table", "rank_answers", "rank_collectives", "rank_pipelines")

    schema_version: Annotated[int, one_of(SCHEMA_VERSION)]
    meta: ReportMeta
    devices: dict[DeviceNumber, DeviceReport]
    operators: OperatorRows[OperatorStat]
    annotations: Rows[AnnotationStat]
    lines: Rows[LineStat]
    steps: Rows[Step]
    steps_note: str
    phases: Rows[Phase]
    phases_note: str
    phase_headline: str
    syncs: tuple[Blocking, ...]
    comm_names: str | None
    communication_kernels: tuple[str, ...]
    answers: Answers
    findings: tuple[Finding, ...]
    trust: Trust
    rank_findings: tuple[RankFinding, ...] | None = None
    rank_table: Rows[RankStat] | None = None
    rank_answers: tuple[Answers, ...] | None = None
    rank_collectives: Rows[CollectiveOfRanks] | None = None
    rank_pipelines: Rows[PipelineStage] | None = None


def report(trace: Trace, comm_names: str | None = None) -> dict[str, Any]:
    """All totals of a trace by device, its findings and its trust counts.

    Times are int ns, shares fractions; device numbers are text, as JSON has it. Source: docs/report.schema.json.
    """
    from perfmagic.analysis.findings.answers import find_answers  # by a report alone, not by each timeline

    marked, served = steps(trace, comm_names), phases(trace)
    return Report(
        schema_version=SCHEMA_VERSION,
        meta=_meta(trace),
        devices={str(device): _device_report(trace, device, comm_names) for device in trace.device_ids},
        operators=OperatorRows(operators(trace), OperatorStat),
        annotations=user_annotations(trace),
        lines=Rows((*lines(trace), *function_lines(trace)), LineStat),
        steps=marked,
        steps_note=translated(marked.note),
        phases=served,
        phases_note=translated(served.note),
        phase_headline=translated(phase_headline(served)),
        syncs=_syncs(syncs(trace)),
        comm_names=comm_names,
        communication_kernels=comm_kernel_names(trace, comm_names),
        answers=translated(find_answers(trace, comm_names)),
        findings=translated(findings(trace, comm_names=comm_names)),
        trust=full_trust(trace, comm_names),
    ).to_dict()


def _device_report(trace: Trace, device: int, comm_names: str | None) -> DeviceReport:
    """The totals of one device."""
    rows = trace.ops.device == device
    ops = trace.ops.select(rows)
    parts = breakdown(trace, device, comm_names)
    by_operator = device_operators(trace, device, comm_names)
    note = missing_metadata(trace, device, comm_names)
    return DeviceReport(
        label=trace.device_info(device).label,
        n_ops=len(ops),
        n_kernels=int((ops.kind == OpKind.KERNEL).sum()),
        n_copies=int((ops.kind == OpKind.MEMCPY).sum()),
        n_memsets=int((ops.kind == OpKind.MEMSET).sum()),
        extent_ns=parts.extent_ns,
        busy_ns=parts.busy_ns,
        busy_frac=parts.busy_frac,
        idle_ns=parts.idle_ns,
        head_ns=parts.head_ns,
        tail_ns=parts.tail_ns,
        ops_total_ns=int((ops.end_ns - ops.start_ns).sum()),
        compute_ns=parts.compute_ns,
        communication_ns=parts.communication_ns,
        copy_ns=parts.copy_ns,
        memset_ns=parts.memset_ns,
        exposed_communication_ns=parts.exposed_communication_ns,
        exposed_copy_ns=parts.exposed_copy_ns,
        overlap_compute_communication_ns=parts.compute_communication.overlap_ns,
        overlap_compute_copy_ns=parts.compute_copy.overlap_ns,
        overlap_communication_copy_ns=parts.communication_copy.overlap_ns,
        partition=parts.partition,
        concurrency_ns=parts.concurrency_ns,
        streams=_of_device(streams(trace, device)),
        queues=_of_device(queues(trace, device)),
        queued=Queued(**delays(trace).sums_ns(rows)),
        launch=_launch(trace, ops),
        launch_bound=_launch_bound(launch_bound(trace, device)),
        idle=_idle(trace, idle_gaps(trace, device)),
        categories=_of_device(category_times(trace, device, comm_names)),
        device_operators=_of_device(by_operator),
        operators_note=translated(by_operator.note),
        achieved=achieved(trace, device, comm_names),
        peaks=peaks_of(trace.device_info(device)),
        kernels=_of_device(kernels(trace, device, comm_names)),
        tensor_cores=tensor_core_share(trace, device, comm_names),
        copies=_of_device(copies(trace, device)),
        collectives=_of_device(collectives(trace, device, comm_names)),
        overlaps=_of_device(overlap_matrix(trace, device, comm_names)),
        memory=_memory(trace, device),
        notes=(translated(note),) if note else (),
    )


def _of_device(rows: Rows[RowT]) -> DeviceRows[RowT]:
    return DeviceRows(rows, rows.of)


def _meta(trace: Trace) -> ReportMeta:
    meta = trace.meta
    return ReportMeta(
        origin=meta.origin,
        start_ns=meta.start_ns,
        end_ns=meta.end_ns,
        returned_ns=meta.returned_ns,
        rank=meta.rank,
        world_size=meta.world_size,
        torch_version=meta.torch_version,
        failed=meta.failed,
        devices=tuple(map(TracedDevice.of, meta.devices)),
    )


def _launch(trace: Trace, ops: DeviceOps) -> Launch:
    matched = ops.launch != NONE
    rows, start = ops.launch[matched], ops.start_ns[matched]
    delay, latency = start - trace.calls.start_ns[rows], start - trace.calls.end_ns[rows]
    return Launch(
        n_with_launch=int(matched.sum()),
        n_without_launch=int((~matched).sum()),
        n_before_launch=int((delay < 0).sum()),
        n_before_return=int((latency < 0).sum()),
        n_ops_by_call=_calls(trace, rows),
        call_to_start=_distribution(delay),
        return_to_start=_distribution(latency),
    )


def _calls(trace: Trace, rows: Int64) -> dict[str, int]:
    names, n = np.unique(trace.calls.name[rows], return_counts=True)
    return {trace.names[names[i]]: int(n[i]) for i in np.argsort(-n, kind="stable")}


def _distribution(values_ns: Int64) -> Distribution:
    ordered = np.sort(values_ns)
    last = len(ordered) - 1
    if last < 0:
        return Distribution(None, None, None, None, None, None)
    ranked = {key: int(ordered[round(p / 100 * last)]) for key, p in PERCENTILES.items()}
    return Distribution(mean_ns=round(int(ordered.sum()) / len(ordered), 1), **ranked)


def _launch_bound(stretches: Rows[LaunchBound]) -> LaunchBoundTotals:
    """The sums over all stretches, and those that lost the most time."""
    worst = sorted(stretches, key=lambda stretch: -stretch.lost_ns)[:WORST_STRETCHES]
    return LaunchBoundTotals(
        n_stretches=len(stretches),
        n_ops=sum(stretch.n_ops for stretch in stretches),
        busy_ns=sum(stretch.busy_ns for stretch in stretches),
        lost_ns=sum(stretch.lost_ns for stretch in stretches),
        stretches=DeviceRows(worst, LaunchBound),
    )


def _idle(trace: Trace, gaps: IdleGaps) -> Idle:
    longest = np.argsort(-gaps.length_ns, kind="stable")[:LONGEST_GAPS]
    rows = (
        Gap(
            start_ns=int(gaps.start_ns[row]),
            length_ns=int(gaps.length_ns[row]),
            cause=gaps.cause(row),
            line=int(gaps.line[row]),
            host_op=trace.names[gaps.host_op[row]] if gaps.host_op[row] != NONE else None,
        )
        for row in longest.tolist()
    )
    return Idle(by_cause_ns=IdleByCause(**gaps.by_cause_ns), n_gaps=len(gaps), longest=tuple(rows))


def _syncs(blocking: Syncs) -> tuple[Blocking, ...]:
    """The blocking calls by who asked for them, the longest in sum first."""
    table = []
    for asked_by in np.unique(blocking.asked_by).tolist():
        rows = np.flatnonzero((blocking.asked_by == asked_by) & ~blocking.after_cell)
        row = Blocking(
            asked_by=blocking.askers[asked_by],
            n_asked=blocking.n_asked(rows),
            n_calls=len(rows),
            blocked_ns=int(blocking.blocked_ns[rows].sum()),
            busy_ns=int(blocking.busy_ns[rows].sum()),
            lines=tuple(sorted({int(line) for line in blocking.line[rows] if line > 0})),
        )
        table.append(row)
    return tuple(sorted((row for row in table if row.n_calls), key=lambda row: -row.blocked_ns))


def _memory(trace: Trace, device: int) -> DeviceMemory | None:
    curve = memory_curve(trace, device)
    if curve is None:
        return None
    return DeviceMemory(curve.peak_bytes, curve.peak_at_ns, curve.peak_line, curve.reserved_max_bytes)
