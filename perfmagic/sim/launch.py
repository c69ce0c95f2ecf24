"""Launching: an op goes into a stream's queue, behind what it depends on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

from perfmagic.base.clock import HOST, VIRTUAL, at_work, now_ns
from perfmagic.base.kinds import Hazard, KernelTime, OpKind
from perfmagic.base.user_lines import is_main_in_backward
from perfmagic.sim import torch_private
from perfmagic.sim.beside import BESIDE, hold_beside, spend_beside
from perfmagic.sim.device import check_usable, current, current_lane, is_main_thread, lane_of, main_lane, sim_device
from perfmagic.sim.log import LOG
from perfmagic.sim.queues import Body, Job, Lane, next_correlation
from perfmagic.sim.streams import Event, Stream
from perfmagic.sim.tensor import Buffer, Ref
from perfmagic.sim.values import VALUES
from perfmagic.sim.values.rule import is_kept, leave_out, new_memory
from perfmagic.sim.virtual import spend, waited


def launch_lane(device_index: int, refs: Sequence[Ref]) -> tuple[Lane, bool]:
    """The lane an op goes to, and whether it belongs to a backward pass.

    torch runs backward on its own threads, each op on the stream of its forward op. Here that is the stream of its
    first input, unless that input came from other ranks, on a stream without ops. Ops that a hook queues on another
    stream are the user's: the engine does not order them.
    """
    if not torch_private.in_backward() or (device_index in current.lanes and not is_main_thread()):
        return current_lane(device_index), False
    writer = refs[0].buffer.writer if refs else None
    if writer is None or writer.meets_ranks:
        return current_lane(device_index), True
    if device_index not in current.lanes and writer.lane.device.index == device_index:
        return lane_of(sim_device(device_index), writer.lane.stream_id), True
    return current_lane(device_index), True


@at_work
def sleep(seconds: float) -> None:
    """Queue an op that occupies the current stream for that time and does nothing."""
    check_usable()
    queue_op(current_lane(), "sleep", OpKind.KERNEL, None, (), (), least_s=seconds)


def queue_op(
    lane: Lane,
    name: str,
    kind: OpKind,
    body: Body | None,
    reads: Sequence[Buffer],
    writes: Sequence[Buffer],
    *,
    call: str = "simLaunchKernel",
    size_bytes: int = -1,
    least_s: float | None = None,
    direct: bool = False,
    in_backward: bool = False,
    meets_ranks: bool = False,
    start_ns: int = 0,
    hold_s: float = 0.0,
    model: KernelTime | None = None,
) -> Job:
    """Launch: queue an op behind the writers of what it uses and the readers of what it writes.

    reads: buffers used, those written in place among them.  least_s: instead of the device's pace.
    model: what the device's model says, where it has one.
    start_ns: when the call began, if before now.  hold_s: keep the host in the call until this long after start_ns.
    """
    if model is not None:
        HOST.advance(round(model.host_ns))
        if BESIDE:
            spend_beside(model)
        least_s = model.kernel_ns / 1e9
    elif VIRTUAL:
        spend("operator")
    start_ns = start_ns or now_ns()
    job = Job(lane, name, body, kind)
    job.size_bytes, job.direct = size_bytes, direct
    job.engine = "compute" if model is not None and model.fills_device else ""
    job.beside = () if model is None else model.others
    job.in_backward, job.meets_ranks = in_backward, meets_ranks
    if in_backward and (is_main_thread() or _is_main_in(torch_private.backward_id())):
        job.joined = main_lane(lane.device.index)
    pace = lane.device.pace
    job.least_s = least_s if least_s is not None else (pace(name, kind, size_bytes) if pace else 0.0)
    _order(job, lane, reads, writes)
    lane.commit(job, reads, writes)
    if hold_s:
        hold_ns = round(hold_s * 1e9)
        # at most hold_s: start_ns may be from another clock
        rest_ns = min(hold_ns, max(0, start_ns + hold_ns - now_ns()))
        if waited(rest_ns):
            hold_beside(name, kind, size_bytes, start_ns, rest_ns)
        else:
            lane.device.closing.wait(rest_ns / 1e9)
    if LOG.recording:
        LOG.add_launch(start_ns, now_ns(), call, job.correlation, torch_private.autograd_numbers())
    return job


@lru_cache(maxsize=8)
def _is_main_in(backward_id: int) -> bool:
    """Whether the main thread waits for a backward pass; checked once per pass, because it reads a stack."""
    return backward_id != -1 and is_main_in_backward()


def _order(job: Job, lane: Lane, reads: Sequence[Buffer], writes: Sequence[Buffer]) -> None:
    """Make a job wait for ops of other streams that use its memory. A real device would not wait: `raced` notes them.

    Two ops that use different parts of one buffer count as using the same memory. So writers and readers do not wait
    for each other if one of them communicates with other ranks: a rank's send could wait for its own receive, a
    deadlock.

    Where torch has the future of a writer, the stream waits for the writer here, as torch would make it.
    """
    after: list[Job] = []
    changed = set(writes) if writes else ()
    for buffer in reads:
        writer = buffer.writer
        if writer is not None and writer.lane is not lane:
            if not writer.done and writer.ends_future and lane.seen.get(writer.lane, 0) < writer.correlation:
                Event.of_job(writer).wait(Stream.of_lane(lane))
                job.correlation = next_correlation()  # launched after that wait
            kind = Hazard.WRITE_AFTER_WRITE if buffer in changed else Hazard.READ_AFTER_WRITE
            _hold(job, lane, writer, kind, after)
        if buffer in changed:
            for reader in list(buffer.readers.values()):
                if reader.lane is not lane and not (job.meets_ranks or reader.meets_ranks):
                    _hold(job, lane, reader, Hazard.WRITE_AFTER_READ, after)
    job.after = tuple(after)


def _hold(job: Job, lane: Lane, earlier: Job, kind: Hazard, after: list[Job]) -> None:
    if not earlier.ended or not earlier.done or BESIDE:  # done on one GPU, it may not be on another
        after.append(earlier)
    # autograd orders the streams of a backward pass, and its caller's stream after it, but no others
    joined = earlier.joined
    if job.raced or job.in_backward or (earlier.in_backward and joined in (None, lane)):
        return
    if not any(_is_behind(lane, each, earlier.correlation) for each in (earlier.lane, joined) if each is not None):
        job.raced = earlier.correlation, kind


def _is_behind(lane: Lane, other: Lane, correlation: int) -> bool:
    """Whether a stream, or the host, has waited for another stream at least up to a launch."""
    return max(lane.seen.get(other, 0), other.device.host_seen.get(other, 0)) >= correlation


def resize(ref: Ref) -> None:
    """Free the memory of a tensor and of all its views, or allocate it again; in stream order, like any op.

    Raises torch.OutOfMemoryError if it no longer fits.
    """
    __tracebackhide__ = True
    buffer, held = ref.buffer, ref.buffer.held()
    if held is None:
        return
    lane, _ = launch_lane(buffer.device_index, [ref])
    job = Job(lane, "resize", None)
    job.in_backward = True  # not a race: an allocator waits for no stream
    _order(job, lane, [buffer], [buffer])
    if buffer.freed:
        held.again = sim_device(buffer.device_index).memory.allocate(buffer.spec.storage_bytes, lane.stream_id)
        job.body = partial(_fill_anew, buffer)
    else:
        held.free()
        job.body = partial(_empty, buffer)
    buffer.freed = not buffer.freed
    if not VIRTUAL:
        lane.commit(job, [buffer], [buffer])
        return
    lane.settle()
    for earlier in job.after:
        earlier.settle()
    job.body()


def _empty(buffer: Buffer) -> None:
    buffer.base, buffer.error = None, RuntimeError("its memory was freed by untyped_storage().resize_(0), as FSDP does")


def _fill_anew(buffer: Buffer) -> None:
    buffer.base, buffer.error, buffer.missing, buffer.odd = None, None, False, False
    if not VALUES.active or is_kept(buffer):
        buffer.base = new_memory(buffer)
    else:
        leave_out((buffer,))
