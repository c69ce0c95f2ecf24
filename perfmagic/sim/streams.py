"""Streams and events, as torch.cuda has them, and how the host waits for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from perfmagic.base.clock import at_work, now_ns
from perfmagic.base.errors import DeviceError
from perfmagic.base.kinds import CallKind
from perfmagic.sim import device as devices
from perfmagic.sim.log import LOG
from perfmagic.sim.queues import Job, Lane, NotComputedError
from perfmagic.sim.virtual import spend

# The host waits, as calls the log shows.


@at_work
def wait_for_job(job: Job, call: str) -> None:
    """Block the host until a job is done, as a logged call; then raise what failed on the device."""
    __tracebackhide__ = True
    start_ns = now_ns()
    try:
        job.wait()
        spend("wait")
    finally:
        if LOG.recording:
            LOG.add_call(start_ns, now_ns(), CallKind.SYNC, call, job.correlation)
            LOG.add_host_wait(start_ns, job.lane.device.index, job.lane.stream_id, job.correlation)
    device = job.lane.device
    device.host_saw_job(job)
    if job.direct and job.error is not None:
        raise job.error.with_traceback(None)  # its frames are of the stream's thread, not of the user's call
    device.raise_failure()
    if job.error is not None:
        raise NotComputedError(job.error) from job.error


@at_work
def wait_for_lane(lane: Lane, call: str) -> None:
    """Block the host until a stream is done, as a logged call; then raise what failed on the device."""
    __tracebackhide__ = True
    devices.check_usable()
    _drain((lane,), call)
    lane.device.raise_failure()


def synchronize(device: Any = None) -> None:
    """Block until all streams of a device are done; raises what failed on it, once."""
    __tracebackhide__ = True
    wait_for_devices((devices.sim_device(devices.device_of(device)),))


@at_work
def wait_for_devices(owners: Sequence[devices.SimDevice]) -> None:
    """Block until all streams of some devices are done, as one logged call; raises what failed on one, once."""
    __tracebackhide__ = True
    devices.check_usable()
    _drain([lane for owner in owners for lane in owner.lanes.values()], "simDeviceSynchronize")
    for owner in owners:
        owner.raise_failure()


def _drain(lanes: Sequence[Lane], call: str) -> None:
    start_ns = now_ns()
    seen = [(lane, lane.last_correlation) for lane in lanes]
    waited_for = [ordered for lane in lanes for ordered in list(lane.seen.items())]
    try:
        for lane in lanes:
            lane.drain()
        spend("wait")
    finally:
        if LOG.recording:
            LOG.add_call(start_ns, now_ns(), CallKind.SYNC, call, -1)
            for lane, correlation in seen:
                LOG.add_host_wait(start_ns, lane.device.index, lane.stream_id, correlation)
    for lane, correlation in (*waited_for, *seen):
        lane.device.host_saw(lane, correlation)


def order_behind(lane: Lane, mark: Job) -> None:
    """Note that later jobs of a lane come after a mark of another stream, and after all that it waited for."""
    for other, correlation in (*mark.seen.items(), (mark.lane, mark.correlation)):
        lane.seen[other] = max(lane.seen.get(other, 0), correlation)


POOL_STREAMS = 32  # side streams of a device; Stream() hands them out in turn, as torch.cuda does


class Stream:
    """A queue of device work: its ops run in order, beside those of other streams. As torch.cuda.Stream.

    priority is accepted and changes nothing.
    """

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        devices.check_usable()
        owner = devices.sim_device(devices.device_of(device))
        number = 1 + next(owner.stream_turns) % POOL_STREAMS
        self._lane = devices.lane_of(owner, number)
        self.priority = priority

    @classmethod
    def of_lane(cls, lane: Lane) -> Stream:
        """The stream that a lane stands behind."""
        stream = cls.__new__(cls)
        stream._lane, stream.priority = lane, 0
        return stream

    @property
    def stream_id(self) -> int:
        return self._lane.stream_id

    @property
    def device(self) -> torch.device:
        return torch.device("sim", self._lane.device.index)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other._lane is self._lane

    def __hash__(self) -> int:
        return hash(self._lane)

    def __repr__(self) -> str:
        return f"<torch.sim.Stream device={self.device} id={self.stream_id} (simulated device)>"

    def synchronize(self) -> None:
        """Block until all that was queued here is done; raises what failed on the device."""
        wait_for_lane(self._lane, "simStreamSynchronize")

    @at_work
    def query(self) -> bool:
        """Whether everything is done."""
        spend("event")
        self._lane.settle()
        if self._lane.unfinished():
            return False
        for lane, correlation in (*self._lane.seen.items(), (self._lane, self._lane.last_correlation)):
            lane.device.host_saw(lane, correlation)
        return True

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event here, a new one if none is given."""
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Make later work of this stream wait for the event."""
        event.wait(self)

    def wait_stream(self, other: Stream) -> None:
        """Make later work of this stream wait for all that is queued on the other stream now."""
        self.wait_event(other.record_event())


class Event:
    """A mark in a stream, as torch.cuda.Event. Nothing waits for a mark that was never recorded."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self.enable_timing = enable_timing
        self._job: Job | None = None

    @classmethod
    def of_job(cls, job: Job) -> Event:
        """The mark that a job is done."""
        event = cls()
        event._job = job
        return event

    @at_work
    def record(self, stream: Stream | None = None) -> None:
        """Record the mark on a stream, after all that is queued there; on the current one if none is given."""
        devices.check_usable()
        lane = stream._lane if stream else devices.current_lane()
        start_ns = now_ns()
        job = Job(lane, "event", None)
        lane.commit(job)
        self._job = job
        if LOG.recording:
            LOG.add_call(start_ns, now_ns(), CallKind.RECORD, "simEventRecord", job.correlation)

    @at_work
    def wait(self, stream: Stream | None = None) -> None:
        """Make a stream wait for the mark; the current one if none is given."""
        devices.check_usable()
        lane = stream._lane if stream else devices.current_lane()
        mark = self._job
        if mark is None:
            return
        start_ns = now_ns()
        job = Job(lane, "wait", None)
        job.after = (mark,) if mark.lane is not lane else ()
        lane.commit(job)
        order_behind(lane, mark)
        if LOG.recording:
            LOG.add_call(start_ns, now_ns(), CallKind.WAIT, "simStreamWaitEvent", job.correlation)
            LOG.add_wait(
                start_ns, job.correlation, lane.device.index, lane.stream_id,
                mark.lane.stream_id, mark.correlation, mark.lane.device.index,
            )  # fmt: skip

    @at_work
    def query(self) -> bool:
        """Whether the device has reached the mark."""
        if self._job is None:
            return True
        spend("event")
        done = self._job.done
        if done:
            self._job.lane.device.host_saw_job(self._job)
        return done

    def synchronize(self) -> None:
        """Block until the device reaches the mark; raises what failed on the device."""
        devices.check_usable()
        if self._job is not None:
            wait_for_job(self._job, "simEventSynchronize")

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds of the device between this mark and a later one. Raises RuntimeError where CUDA does."""
        if not (self.enable_timing and end_event.enable_timing):
            raise RuntimeError("elapsed_time needs two events made with enable_timing=True")
        first, last = self._job, end_event._job
        if first is None or last is None:
            raise RuntimeError("elapsed_time needs two events that were recorded")
        if not (first.done and last.done):
            raise RuntimeError("the device has not reached both events yet; synchronize() first")
        if bool(first.until_ns) != bool(last.until_ns):
            raise DeviceError("one of the two events is of the real clock, the other of the virtual one")
        return (last.done_ns - first.done_ns) / 1e6

    def __repr__(self) -> str:
        return f"<torch.sim.Event recorded={self._job is not None} (simulated device)>"


def current_stream(device: Any = None) -> Stream:
    """The stream this thread queues on."""
    devices.check_usable()
    return Stream.of_lane(devices.current_lane(devices.device_of(device)))


def default_stream(device: Any = None) -> Stream:
    """The stream a thread queues on that has chosen none."""
    devices.check_usable()
    return Stream.of_lane(devices.lane_of(devices.sim_device(devices.device_of(device)), 0))


def set_stream(stream: Stream) -> None:
    """Make this thread queue on a stream, and work on its device, from now on."""
    devices.choose_lane(stream._lane, stream._lane.device.index)
    devices.choose(stream._lane.device.index)


class stream:  # noqa: N801 - the name torch.cuda gives it
    """Queue on a stream, and work on its device, inside a with block; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self._stream = stream

    def __enter__(self) -> Stream | None:
        if self._stream is not None:
            index = self._stream._lane.device.index
            self._before = (devices.current_index(), index, devices.current.lanes.get(index))
            set_stream(self._stream)
        return self._stream

    def __exit__(self, *exc_info: object) -> None:
        if self._stream is not None:
            device, index, lane = self._before
            devices.choose_lane(lane, index)
            devices.choose(device)
