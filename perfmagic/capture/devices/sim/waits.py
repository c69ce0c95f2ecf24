"""The host waits for the device, as calls the log shows."""

from __future__ import annotations

from typing import Any

from perfmagic.capture.devices.sim.clock import now_ns
from perfmagic.capture.devices.sim.device import check_usable, device_of, sim_device
from perfmagic.capture.devices.sim.jobs import Job, NotComputedError
from perfmagic.capture.devices.sim.lanes import Lane
from perfmagic.capture.devices.sim.log import LOG
from perfmagic.trace.columns import CallKind


def wait_for_job(job: Job, call: str) -> None:
    """Block the host until a job is done, as a logged call; then raise what failed on the device."""
    __tracebackhide__ = True
    start_ns = now_ns()
    try:
        job.wait()
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


def wait_for_lane(lane: Lane, call: str) -> None:
    """Block the host until a stream is done, as a logged call; then raise what failed on the device."""
    __tracebackhide__ = True
    check_usable()
    _drain((lane,), call)
    lane.device.raise_failure()


def synchronize(device: Any = None) -> None:
    """Block until all streams of a device are done; raises what failed on it, once."""
    __tracebackhide__ = True
    check_usable()
    owner = sim_device(device_of(device))
    _drain(tuple(owner.lanes.values()), "simDeviceSynchronize")
    owner.raise_failure()


def _drain(lanes: tuple[Lane, ...], call: str) -> None:
    start_ns = now_ns()
    seen = [(lane, lane.last_correlation) for lane in lanes]
    try:
        for lane in lanes:
            lane.drain()
    finally:
        if LOG.recording:
            LOG.add_call(start_ns, now_ns(), CallKind.SYNC, call, -1)
            for lane, correlation in seen:
                LOG.add_host_wait(start_ns, lane.device.index, lane.stream_id, correlation)
    for lane, correlation in seen:
        lane.device.host_saw(lane, correlation)
