"""The stream that a thread queues on, on each device."""

from __future__ import annotations

import threading

from perfmagic.capture.devices.sim.device import SimDevice, current_index, sim_device
from perfmagic.capture.devices.sim.jobs import Job
from perfmagic.capture.devices.sim.lanes import Lane


class _Current(threading.local):
    """The stream a thread has chosen on each device."""

    def __init__(self) -> None:
        self.lanes: dict[int, Lane] = {}


current = _Current()


def lane_of(device: SimDevice, number: int) -> Lane:
    """The lane of a device by its number, made when first asked for; 0 is the default stream."""
    lane = device.lanes.get(number)
    return device.lanes.setdefault(number, Lane(device, number)) if lane is None else lane


def current_lane(device_index: int | None = None) -> Lane:
    """The lane this thread queues on, of a device or of the current one. Each thread has its own, as with CUDA."""
    index = current_index() if device_index is None else device_index
    lane = current.lanes.get(index)
    return lane_of(sim_device(index), 0) if lane is None else lane


def choose_lane(lane: Lane | None, index: int) -> None:
    """Have this thread queue on a lane of a device; None: on the device's default stream."""
    if lane is None:
        current.lanes.pop(index, None)
    else:
        current.lanes[index] = lane


def order_behind(lane: Lane, mark: Job) -> None:
    """Note that what lane is given from now on comes after a mark of another stream, and what that one came after."""
    for other, correlation in (*mark.seen.items(), (mark.lane, mark.correlation)):
        lane.seen[other] = max(lane.seen.get(other, 0), correlation)
