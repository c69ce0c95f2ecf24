"""A timeline as a document: all that any face draws, immutable and without pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.cell_time import ITS_EXTENT, THE_CELL
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.replay.told import told_trust
from perfmagic.analysis.timeline.syncs import syncs
from perfmagic.trace.columns import NONE, HostKind
from perfmagic.trace.model import Trace, devices_label
from perfmagic.trace.short_names import shown_names
from perfmagic.view.timeline.critical import critical_path_shares, path_lane
from perfmagic.view.timeline.device_lanes import device_group
from perfmagic.view.timeline.host_lanes import cell_lane, host_ops_lanes, launch_lane
from perfmagic.view.timeline.lanes import CellLane, DeviceGroup, Flag, HostOpsLane, LaunchLane, PathLane, Share

FEW_OPS = 64  # up to so many ops a picture can be read op by op


@dataclass(frozen=True)
class Header:
    """The first line of a timeline.

    total_ns: the window drawn.  device_label: what ran; a simulated device says so, and its pace.  n_ops: device ops.
    n_host_ops: operators on the host.  busy_frac: how busy the device was, of several the busiest.  busy_of: what that
    is a share of, "the cell" or, of a file, "its extent".  n_devices: that executed ops.  queue_max: the deepest queue.
    memory_peak: the most bytes allocated on one device, 0 where that is not recorded.
    """

    total_ns: int
    device_label: str
    n_ops: int
    n_host_ops: int
    busy_frac: float
    busy_of: str
    n_devices: int
    queue_max: int
    simulated: bool
    memory_peak: int = 0

    @property
    def parts(self) -> tuple[str, ...]:
        """The line in pieces, the total first."""
        if not self.n_ops:
            return units.duration(self.total_ns), self.device_label, units.plural(self.n_host_ops, "operator")
        return (
            units.duration(self.total_ns),
            self.device_label,
            units.plural(self.n_ops, "device op"),
            self.busy,
            f"queue ≤ {units.count(self.queue_max)}",
            *([f"peak {units.size(self.memory_peak)}"] if self.memory_peak else []),
        )

    @property
    def busy(self) -> str:
        """How busy, of what: "busy 96 % of the cell", "busiest device busy 50 % of its extent"."""
        which = "busiest device " if self.n_devices > 1 else ""
        return f"{which}busy {units.percent(self.busy_frac)} of {self.busy_of}"

    @property
    def sentence(self) -> str:
        return " · ".join(self.parts)


@dataclass(frozen=True, eq=False)
class TimelineDoc:
    """What was queued and what was executed, ready to be drawn.

    start_ns, end_ns: the window.  names: as they are read, by their number in the trace.  cell: None where there are no
    line marks.  threads: operators in flame order.  groups: one a device.  trust: how far the record can be believed,
    in sentences, notes of the capture among them.  failure: "" or how the cell ended.
    returned_ns: when the cell's last line gave control back, None for files.  path: what the critical path of the whole
    run consists of, empty where the record does not say.  path_lane: where in time, None where it does not.
    """

    start_ns: int
    end_ns: int
    header: Header
    findings: tuple[Finding, ...]
    names: tuple[str, ...]
    cell: CellLane | None
    threads: tuple[HostOpsLane, ...]
    launches: LaunchLane | None
    groups: tuple[DeviceGroup, ...]
    flags: tuple[Flag, ...]
    trust: tuple[str, ...]
    failure: str
    returned_ns: int | None
    origin: str
    path: tuple[Share, ...] = ()
    path_lane: PathLane | None = None

    @property
    def span_ns(self) -> int:
        return self.end_ns - self.start_ns

    @property
    def few_ops(self) -> bool:
        return 0 < self.header.n_ops <= FEW_OPS


def timeline_doc(
    trace: Trace,
    found: Sequence[Finding],
    *,
    device: int | None = None,
    start_ns: int | None = None,
    end_ns: int | None = None,
    comm_names: str | None = None,
) -> TimelineDoc:
    """What a timeline of a trace shows.

    found: from perfmagic.analysis.findings.  device: only this one; all by default.  start_ns, end_ns: the window; the
    trace's own by default, widened to hold every device op.  comm_names: a regular expression that says which kernels
    are communication, None for the default rule.
    """
    start, end = _window(trace, start_ns, end_ns)
    whole = (start_ns, end_ns) == (None, None)
    devices = [d for d in trace.device_ids if device is None or d == device]
    groups = tuple(device_group(trace, d, start, end, comm_names) for d in devices)
    return TimelineDoc(
        start_ns=start,
        end_ns=end,
        header=_header(trace, groups, start, end),
        findings=tuple(f for f in found if device is None or f.device in (None, NONE, device)),
        names=shown_names(trace),
        cell=cell_lane(trace, start, end),
        threads=host_ops_lanes(trace, start, end),
        launches=launch_lane(trace, syncs(trace), start, end),
        groups=groups,
        flags=_flags(trace, groups),
        trust=told_trust(trace, comm_names).sentences,
        failure=_failure(trace),
        returned_ns=trace.meta.returned_ns,
        origin=trace.meta.origin,
        path=critical_path_shares(trace, comm_names) if whole else (),
        path_lane=path_lane(trace, comm_names) if whole else None,
    )


def _window(trace: Trace, start_ns: int | None, end_ns: int | None) -> tuple[int, int]:
    """The window asked for; by default the trace's own, widened to all device ops, at least 1 ns long."""
    ops = trace.ops
    start = int(ops.start_ns.min(initial=trace.meta.start_ns)) if start_ns is None else start_ns
    # a last op without length is inside too: the window is half-open
    last = max(int(ops.end_ns.max(initial=trace.meta.end_ns)), int(ops.start_ns.max(initial=start)) + 1)
    end = last if end_ns is None else end_ns
    return start, max(end, start + 1)


def _header(trace: Trace, groups: tuple[DeviceGroup, ...], start_ns: int, end_ns: int) -> Header:
    host = trace.host_ops
    seen = (host.end_ns > start_ns) & (host.start_ns < end_ns) & (host.kind == HostKind.OP)
    busiest = max(groups, key=lambda group: group.busy_ns, default=None)
    return Header(
        total_ns=end_ns - start_ns,
        device_label=_device_label(trace, groups),
        n_ops=sum(g.n_ops for g in groups),
        n_host_ops=int(np.count_nonzero(seen)),
        busy_frac=busiest.busy_frac if busiest else 0.0,
        busy_of=ITS_EXTENT if trace.meta.returned_ns is None else THE_CELL,
        n_devices=len(groups),
        queue_max=max((g.queue_max for g in groups), default=0),
        simulated=trace.simulated,
        memory_peak=max((g.memory.peak_bytes for g in groups if g.memory is not None), default=0),
    )


def _device_label(trace: Trace, groups: tuple[DeviceGroup, ...]) -> str:
    infos = [trace.device_info(group.device) for group in groups] or trace.meta.devices
    label = devices_label(infos) or "no device"
    return f"predicted, not recorded: {label}" if trace.meta.predicted else label


def _flags(trace: Trace, groups: tuple[DeviceGroup, ...]) -> tuple[Flag, ...]:
    """The two moments of a small cell: Python had queued all of it, the device had done all of it."""
    launched = trace.ops.launch != NONE
    n_ops = sum(g.n_ops for g in groups)
    if trace.meta.returned_ns is None or not launched.any() or not 0 < n_ops <= FEW_OPS:
        return ()
    queued_ns = int(trace.launch_end_ns()[launched].max())
    finished_ns = int(trace.ops.end_ns.max())
    return Flag(queued_ns, "Python has queued everything"), Flag(finished_ns, "the device has finished")


def _failure(trace: Trace) -> str:
    meta = trace.meta
    if not meta.failed:
        return ""
    after_ns = (meta.end_ns if meta.returned_ns is None else meta.returned_ns) - meta.start_ns
    return f"the cell failed after {units.duration(after_ns)}: {meta.failed}"
