"""Launching: an op goes into a stream's queue, behind what it depends on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from perfmagic.capture.devices import torch_private
from perfmagic.capture.devices.sim.chosen import current, current_lane, lane_of
from perfmagic.capture.devices.sim.clock import now_ns
from perfmagic.capture.devices.sim.device import check_usable, sim_device
from perfmagic.capture.devices.sim.jobs import Body, Job, next_correlation
from perfmagic.capture.devices.sim.lanes import Lane
from perfmagic.capture.devices.sim.log import LOG
from perfmagic.capture.devices.sim.streams import Event, Stream
from perfmagic.capture.devices.sim.tensor import Buffer, Ref
from perfmagic.trace.columns import CallKind, OpKind


def launch_lane(device_index: int, refs: Sequence[Ref]) -> tuple[Lane, bool]:
    """The lane an op goes to, and whether it belongs to a backward pass.

    torch runs backward on threads of its own, each op on the stream of its forward op: here, of what it reads first.
    """
    if not torch_private.in_backward():
        return current_lane(device_index), False
    writer = refs[0].buffer.writer if refs else None
    if device_index not in current.lanes and writer is not None and writer.lane.device.index == device_index:
        return lane_of(sim_device(device_index), writer.lane.stream_id), True
    return current_lane(device_index), True


def sleep(seconds: float) -> None:
    """Queue an op that occupies the current stream for so long and does nothing."""
    check_usable()
    queue_op(current_lane(), "sleep", OpKind.KERNEL, None, (), (), least_s=seconds)


def queue_op(
    lane: Lane,
    name: str,
    kind: OpKind,
    body: Body | None,
    reads: Iterable[Buffer],
    writes: Iterable[Buffer],
    *,
    call: str = "simLaunchKernel",
    size_bytes: int = -1,
    least_s: float | None = None,
    direct: bool = False,
    in_backward: bool = False,
    start_ns: int = 0,
    hold_s: float = 0.0,
) -> Job:
    """Launch: queue an op behind the writers of what it uses.

    reads: buffers used, those written in place among them.  least_s: instead of the device's pace.
    start_ns: when the call began, if before now.  hold_s: keep the host in the call until so long after start_ns.
    """
    start_ns = start_ns or now_ns()
    job = Job(lane, name, body, kind)
    job.size_bytes, job.direct, job.in_backward = size_bytes, direct, in_backward
    pace = lane.device.pace
    job.least_s = least_s if least_s is not None else (pace(name, kind, size_bytes) if pace else 0.0)
    _order(job, lane, reads)
    lane.commit(job, writes)
    if hold_s:
        lane.device.closing.wait(max(0.0, hold_s - (now_ns() - start_ns) / 1e9))
    if LOG.recording:
        LOG.add_call(start_ns, now_ns(), CallKind.LAUNCH, call, job.correlation)
        LOG.add_node(job.correlation, start_ns, *torch_private.autograd_numbers())
    return job


def _order(job: Job, lane: Lane, reads: Iterable[Buffer]) -> None:
    """Hold a job behind writers on other streams. A real device would read what it finds: `raced` says of whom.

    Of a writer whose future torch was given, torch would have the stream wait as soon as it uses the result.
    """
    after = []
    for buffer in reads:
        writer = buffer.writer
        if writer is None or writer.lane is lane:
            continue
        if not writer.done:
            after.append(writer)
            if writer.ends_future and lane.seen.get(writer.lane, 0) < writer.correlation:
                Event.of(writer).wait(Stream._of(lane))
                job.correlation = next_correlation()  # launched after that wait
        # autograd orders the streams of a backward pass itself, so its ops race with nobody
        if not (job.in_backward or writer.in_backward):
            known = max(lane.seen.get(writer.lane, 0), writer.lane.device.host_seen.get(writer.lane, 0))
            if known < writer.correlation:
                job.raced = job.raced or writer.correlation
    job.after = tuple(after)
