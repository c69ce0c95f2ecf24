"""The simulated devices, which of them and which lane a thread works on, and the end of the process."""

from __future__ import annotations

import atexit
import itertools
import os
import sys
import threading
from collections import deque
from typing import Any

import torch

from perfmagic.base.clock import virtual_clock
from perfmagic.base.errors import CommunicationError, DeviceError
from perfmagic.sim import virtual
from perfmagic.sim.log import LOG
from perfmagic.sim.memory import Memory
from perfmagic.sim.pace import Model, PaceFunction, describe
from perfmagic.sim.queues import AtOnce, Job, Lane, first_line
from perfmagic.sim.torch_private import forget_background_streams

NAME = "sim"
ALIAS: list[str] = []  # what code of the user's calls the device meanwhile: "cuda" in a cell that was written for it
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
        self.model: Model | None = None  # the pace, where it is a GPU's model
        self.at_once: AtOnce = virtual.run
        self.engines_ns: dict[str, int] = {}  # on a virtual clock: until when an op takes all of one
        self.errors: deque[tuple[str, BaseException]] = deque()
        self.host_seen: dict[Lane, int] = {}  # up to which launch of a stream the host has waited
        self.closing = threading.Event()
        self.memory = Memory(index, self._advise)

    def _advise(self, total_bytes: int) -> str:
        """What to do on a GPU that is not there, where its own memory is the limit."""
        if self.model is None or self.model.memory_bytes != total_bytes:
            return ""
        larger = self.model.larger
        more = f"--on {larger}" if ALIAS else f'perfmagic.device("{larger}")'
        return f" A smaller batch or checkpointing needs less{f'; {more} has more' if larger else ''}."

    def keep_pace(self, pace: PaceFunction | None) -> None:
        """Take the times of ops from a pace from now on."""
        self.pace, self.model = pace, pace if isinstance(pace, Model) else None

    @property
    def in_flight(self) -> int:
        """Launches queued or running."""
        return sum(lane.unfinished() for lane in list(self.lanes.values()))

    @property
    def progress(self) -> int:
        """A number that grows with every launch: the sum of the lanes' latest correlation ids."""
        return sum(lane.last_correlation for lane in list(self.lanes.values()))

    @property
    def pace_description(self) -> str:
        """The pace in words ("paced: matmul ≥ 3 ms, copies 12 GB/s"), empty if there is none on the real clock."""
        return describe(self.pace, virtual=virtual_clock() is not None)

    def host_saw(self, lane: Lane, correlation: int) -> None:
        """The host knows that a stream has done everything up to a launch."""
        seen = lane.device.host_seen
        seen[lane] = max(seen.get(lane, 0), correlation)

    def host_saw_job(self, job: Job) -> None:
        """The host knows that a job is done, and all that the job waited for."""
        for lane, correlation in (*job.seen.items(), (job.lane, job.correlation)):
            self.host_saw(lane, correlation)

    def raise_failure(self) -> None:
        """Raise the first failure since the last call, and drop those that followed from it."""
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
    """Ensure at least n devices exist. Raises DeviceError for more than there can be."""
    if n > MOST_DEVICES:
        raise DeviceError(f"{n} simulated devices were asked for; there can be {MOST_DEVICES}")
    pace = _devices[0].pace if _devices else None
    capacity = _devices[0].memory.capacity if _devices else None
    if n > len(_devices) > 0:
        forget_background_streams()
    for index in range(len(_devices), n):
        _devices[index] = SimDevice(index)
        _devices[index].keep_pace(pace)
        _devices[index].memory.limit(capacity.total_bytes if capacity else 0)
        LOG.memories.append(_devices[index].memory)


def memory_of(device: Any = None) -> Memory:
    """The memory of a device, with its counters up to date."""
    return sim_device(device_of(device)).memory.settle()


def in_use() -> list[SimDevice]:
    """The devices that were given something; the first if none was."""
    return [device for device in all_devices() if device.lanes] or [sim_device(0)]


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
    device = meant(torch.device(device))
    if device.type != NAME:
        raise DeviceError(f"expected a simulated device, got {device}", hint='its name is "sim"')
    return _chosen.index if device.index is None else int(device.index)


def meant(device: torch.device) -> torch.device:
    """The device that is meant, where code of the user's calls ours by another name."""
    return torch.device(NAME, device.index or 0) if device.type in ALIAS else device


# The stream that a thread queues on, on each device.


_of_main: dict[int, Lane] = {}


class _Current(threading.local):
    """The stream a thread has chosen on each device."""

    def __init__(self) -> None:
        self.lanes = _of_main if is_main_thread() else {}


def is_main_thread() -> bool:
    """Whether the main thread asks."""
    return threading.get_ident() == threading.main_thread().ident


current = _Current()


def main_lane(device_index: int) -> Lane:
    """The lane that the main thread queues on, for whichever thread asks."""
    lane = _of_main.get(device_index)
    return lane_of(sim_device(device_index), 0) if lane is None else lane


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
    """Make this thread queue on a lane of a device; None for the device's default stream."""
    if lane is None:
        current.lanes.pop(index, None)
    else:
        current.lanes[index] = lane


def check_usable() -> None:
    """Raise DeviceError in a process that was forked after sim was loaded: its streams have no threads there."""
    if _state["forked"]:
        raise DeviceError(
            f"the simulated device cannot be used in a forked process (pid {os.getpid()})",
            hint='use CPU tensors there, or start the process with multiprocessing.get_context("spawn")',
        )


def forked() -> bool:
    """Whether this process is a fork of one that had loaded sim."""
    return _state["forked"]


def _note_fork() -> None:
    _state["forked"] = True


def _close() -> None:
    """End the lanes with the process. The running op ends first: a thread inside a kernel would abort the process."""
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
    """Make the first devices, and handle forks and the end of the process. Call only once."""
    make_devices(FIRST_DEVICES)
    sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL_S))
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_note_fork)
    atexit.register(_close)
