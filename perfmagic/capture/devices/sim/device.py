"""The simulated devices: what each has, what failed on it, and the life of the process around it."""

from __future__ import annotations

import atexit
import itertools
import os
import sys
import threading
from collections import deque
from typing import Any

import torch

from perfmagic.capture.devices.sim.jobs import Job, Queue, first_line
from perfmagic.capture.devices.sim.lanes import Lane
from perfmagic.capture.devices.sim.log import LOG
from perfmagic.capture.devices.sim.memory import Memory
from perfmagic.capture.devices.sim.pace import PaceFunction
from perfmagic.errors import CommunicationError, DeviceError

NAME = "sim"
FIRST_DEVICES = 2  # what two devices at once need; perfmagic.devices(n) makes more
MOST_DEVICES = 16  # each has threads of its own
SWITCH_INTERVAL_S = 5e-5  # else a stream's thread waits up to 5 ms for the interpreter before its op starts
_EXIT_WAIT_S = 60.0  # for the one op that runs while the process ends


class SimDevice:
    """One device: its streams, its pace, its failures."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.lanes: dict[int, Lane] = {}
        self.stream_turns = itertools.count()
        self.pace: PaceFunction | None = None
        self.errors: deque[tuple[str, BaseException]] = deque()
        self.host_seen: dict[Queue, int] = {}  # up to which launch of a stream the host has waited
        self.closing = threading.Event()
        self.memory = Memory(index)

    def host_saw(self, lane: Queue, correlation: int) -> None:
        """The host knows that a stream has done everything up to a launch."""
        seen = lane.device.host_seen
        seen[lane] = max(seen.get(lane, 0), correlation)

    def host_saw_job(self, job: Job) -> None:
        """The host knows that a job, and what it was ordered behind, is done."""
        for lane, correlation in (*job.seen.items(), (job.lane, job.correlation)):
            self.host_saw(lane, correlation)

    def raise_failure(self) -> None:
        """Raise the first failure since the last time this was asked, and forget the others that followed from it."""
        if not self.errors:
            return
        name, error = self.errors.popleft()
        self.errors.clear()
        if isinstance(error, CommunicationError):  # it says what failed, and why
            raise error.with_traceback(None)
        raise DeviceError(
            f"{name} failed on the simulated device: {first_line(error)}",
            hint="it was queued on an earlier line; a device reports at the first call that waits for it",
        ) from error


class _Chosen(threading.local):
    """The device a thread works on where it names none, as with CUDA."""

    index = 0


_devices: dict[int, SimDevice] = {}
_state = {"forked": False}
_chosen = _Chosen()


def sim_device(index: int) -> SimDevice:
    """The device of that index. Raises DeviceError for one that does not exist."""
    device = _devices.get(index)
    if device is None:
        raise DeviceError(
            f"sim:{index} does not exist: there are {len(_devices)} simulated devices, "
            f"sim:0 to sim:{len(_devices) - 1}",
            hint=f"perfmagic.devices({index + 1}) makes more"
            if 0 <= index < MOST_DEVICES
            else f"there can be {MOST_DEVICES}",
        )
    return device


def make_devices(n: int) -> None:
    """Have at least so many devices. Raises DeviceError for more than there can be."""
    if n > MOST_DEVICES:
        raise DeviceError(f"{n} simulated devices were asked for; there can be {MOST_DEVICES}")
    pace = _devices[0].pace if _devices else None
    capacity = _devices[0].memory.capacity if _devices else None
    for index in range(len(_devices), n):
        _devices[index] = SimDevice(index)
        _devices[index].pace = pace
        _devices[index].memory.limit(capacity.total_bytes if capacity else 0)
        LOG.memories.append(_devices[index].memory)


def memory_of(device: Any = None) -> Memory:
    """The memory of a device, counted up to now."""
    return sim_device(device_of(device)).memory.settle()


def in_use() -> list[int]:
    """The indices of devices that were given something; the first one's if none was."""
    return [device.index for device in all_devices() if device.lanes] or [0]


def device_count() -> int:
    """How many simulated devices there are."""
    return len(_devices)


def current_index() -> int:
    """The device this thread works on where it names none."""
    return _chosen.index


def choose(index: int) -> None:
    """Work on a device from now on, in this thread. Raises DeviceError for one that does not exist."""
    _chosen.index = sim_device(index).index


def all_devices() -> list[SimDevice]:
    """Every device, by index."""
    return [_devices[i] for i in sorted(_devices)]


def device_of(device: Any) -> int:
    """The index meant by None or "sim" (the current device), a number, "sim:1" or a torch.device.

    Raises DeviceError for another kind of device.
    """
    if device is None:
        return _chosen.index
    if isinstance(device, int):
        return device
    device = torch.device(device)
    if device.type != NAME:
        raise DeviceError(f"expected a simulated device, got {device}", hint='its name is "sim"')
    return _chosen.index if device.index is None else int(device.index)


def check_usable() -> None:
    """Raise DeviceError in a process that was forked after sim was loaded: its streams have no threads there."""
    if _state["forked"]:
        raise DeviceError(
            f"the simulated device cannot be used in a forked process (pid {os.getpid()})",
            hint='use CPU tensors there, or start the process with multiprocessing.get_context("spawn")',
        )


def forked() -> bool:
    """Is this process a fork of one that had loaded sim?"""
    return _state["forked"]


def _note_fork() -> None:
    _state["forked"] = True


def progress() -> int:
    """A number that grows with every launch on any device: the sum of the lanes' latest correlation ids."""
    return sum(lane.last_correlation for device in all_devices() for lane in list(device.lanes.values()))


def in_flight() -> int:
    """Launches queued or running, on all devices."""
    return sum(len(lane.jobs) for device in all_devices() for lane in list(device.lanes.values()))


def _close() -> None:
    """End of the process: drop what is queued, let the running op end (a thread inside a kernel would abort it)."""
    if _state["forked"]:
        return
    lanes = [lane for device in all_devices() for lane in list(device.lanes.values())]
    for device in all_devices():
        device.closing.set()
    for lane in lanes:
        lane.ring()
    for lane in lanes:
        if lane.thread is not None:
            lane.thread.join(_EXIT_WAIT_S)


def create_devices() -> None:
    """Make the first devices and tie all to the life of the process. Done once."""
    make_devices(FIRST_DEVICES)
    sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL_S))
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_note_fork)
    atexit.register(_close)
