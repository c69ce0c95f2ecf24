"""The devices there are, and whether a body uses them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from perfmagic.base.errors import OptionError
from perfmagic.capture.devices.backends import Backend
from perfmagic.trace.model import DeviceInfo


class Devices:
    """The asynchronous devices that may hold work of the body."""

    def __init__(self, active: Callable[[], tuple[Backend, ...]]) -> None:
        self._active = active
        self.backends: tuple[Backend, ...] = ()
        self.infos: tuple[DeviceInfo, ...] = ()

    def refresh(self) -> None:
        """Ask again which devices are in use: the body may have started one."""
        active = self._active()
        if [b.kind for b in active] != [b.kind for b in self.backends]:  # keeps a backend's calibration
            self.backends = active
            self.infos = tuple(info for backend in active for info in backend.infos())

    def synchronize(self) -> None:
        """Wait until all of them are idle."""
        for backend in self.backends:
            backend.synchronize()

    def progress(self) -> int | None:
        """A number that grows with everything queued on any of them, None where one does not report it."""
        each = [backend.progress() for backend in self.backends]
        known = [n for n in each if n is not None]
        return sum(known) if each and len(known) == len(each) else None

    def memory_bytes(self) -> tuple[int, int] | None:
        """Bytes allocated on all of them now, and the peak since reset_peak_memory; None where one does not report."""
        each = [backend.memory_bytes() for backend in self.backends]
        known = [value for value in each if value is not None]
        if not each or len(known) < len(each):
            return None
        return sum(now for now, _ in known), sum(peak for _, peak in known)

    def progress_by_device(self) -> dict[DeviceInfo, int | None]:
        """The same number of each device."""
        return {info: backend.progress(info.index) for backend in self.backends for info in backend.infos()}

    def reset_peak_memory(self) -> None:
        """Start a new peak."""
        for backend in self.backends:
            backend.reset_peak_memory()

    def with_events(self) -> Backend | None:
        """The first one that can time on the device, None where none can."""
        return next((b for b in self.backends if b.has_events()), None)

    def cuda_indices(self) -> tuple[int, ...]:
        """The CUDA and ROCm devices among them."""
        return tuple(info.index for info in self.infos if info.kind in ("cuda", "rocm"))


class DeviceUse:
    """Whether the body queues work on the devices, by what is queued there before and after its first call.

    launches: of one call, None where the devices do not report it.  worked: the devices that the first call gave
    something, and those that do not report it.
    """

    def __init__(self, devices: Devices) -> None:
        self.devices = devices
        self.launches: int | None = None
        self._idle = False
        self._queued: int | None = None  # before the first call, then after it
        self._before: dict[tuple[str, int], int | None] = {}  # the first call, by kind and index of the device
        self.worked: tuple[DeviceInfo, ...] = ()

    @property
    def works(self) -> bool:
        """Whether a device works for the body; assumed of devices that do not report what is queued."""
        return bool(self.devices.backends) and not self._idle

    @property
    def idle(self) -> bool:
        """Whether there are devices, and the body queued nothing on them."""
        return self._idle

    def before_first_call(self) -> None:
        """Note what has been queued so far."""
        self._queued = self.devices.progress()
        self._before = {(info.kind, info.index): n for info, n in self.devices.progress_by_device().items()}

    def after_first_call(self) -> None:
        """See what the call has queued, on devices that it started as well; waits for nothing."""
        self.devices.refresh()  # the body may have imported torch or started a device
        queued, after = self._queued, self.devices.progress()
        self._idle = queued is not None and after == queued
        self.launches = after - (queued or 0) if after is not None else None
        self._queued = after
        by_device = self.devices.progress_by_device()
        self.worked = tuple(
            info for info, n in by_device.items() if n is None or n != self._before.get((info.kind, info.index), 0)
        )

    def look_again(self) -> None:
        """A later call may have come to a device that the first call left alone."""
        self.devices.refresh()
        if self._idle and self.devices.progress() != self._queued:
            self._idle, self.worked = False, self.devices.infos


# Cold caches: what the body's last call left in them is overwritten before the next call.

UNKNOWN_CACHE_BYTES = 64 * 2**20  # larger than the last-level cache of any desktop; servers report theirs
_SYSFS = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def host_cache_bytes() -> int:
    """Size of the largest cache of this machine's first core, UNKNOWN_CACHE_BYTES where it is not reported."""
    sizes = [_bytes(file) for file in _SYSFS.glob("index*/size")]
    largest = max(sizes, default=0)
    if largest:
        return largest
    try:
        size_bytes = os.sysconf("SC_LEVEL3_CACHE_SIZE")  # glibc; elsewhere ValueError or -1
    except (AttributeError, ValueError, OSError):
        size_bytes = 0
    return size_bytes if size_bytes > 0 else UNKNOWN_CACHE_BYTES


def _bytes(file: Path) -> int:
    """The size in a file of sysfs, such as "32768K"; 0 where it cannot be read."""
    try:
        text = file.read_text("ascii").strip()
        return int(text[:-1]) * _UNITS[text[-1]]
    except (OSError, ValueError, KeyError, IndexError):
        return 0


INFINITY_CACHE_BYTES = 256 * 2**20  # of MI300X, behind its L2 caches; torch reports one of these alone


def cuda_cache_bytes(torch: Any, index: int) -> int:
    """Size of the caches of a CUDA device, UNKNOWN_CACHE_BYTES where torch does not report its L2."""
    size_bytes = int(getattr(torch.cuda.get_device_properties(index), "L2_cache_size", 0) or UNKNOWN_CACHE_BYTES)
    return max(size_bytes, INFINITY_CACHE_BYTES) if getattr(torch.version, "hip", None) else size_bytes


class HostCaches:
    """The processor's caches, which also serve the simulated device."""

    name = "the processor's caches"

    def __init__(self) -> None:
        self._buffer = np.empty(2 * host_cache_bytes() // 8, np.int64)
        self._buffer.fill(0)  # the system gives the memory now, not while the body's memory is measured
        self._round = 0

    @property
    def size_bytes(self) -> int:
        return self._buffer.nbytes

    def overwrite(self) -> None:
        """Fill the caches with something else."""
        self._round += 1
        self._buffer.fill(self._round)


class CudaCache:
    """The L2 caches of CUDA devices; written by a kernel on the current stream of each, in order with the rest."""

    name = "the GPU's L2 cache"

    def __init__(self, torch: Any, indices: Sequence[int]) -> None:
        self._buffers = [
            torch.empty(2 * cuda_cache_bytes(torch, index), dtype=torch.uint8, device=f"cuda:{index}")
            for index in indices
        ]

    @property
    def size_bytes(self) -> int:
        """Written on each of them, at most."""
        return max(int(buffer.numel()) for buffer in self._buffers)

    def overwrite(self) -> None:
        """Queue the overwriting."""
        for buffer in self._buffers:
            buffer.zero_()


def refuse_without_caches(infos: Sequence[DeviceInfo], wanted: str) -> None:
    """Raise OptionError where nothing can make the caches of some devices cold.  wanted: the option."""
    if any(info.virtual and not info.host_measured for info in infos):
        message = f"{wanted}: on a virtual clock times are computed, and no model of them has caches"
        raise OptionError(message, hint=f"leave out {wanted}, or measure on the real clock")
    foreign = [info.kind for info in infos if info.kind not in ("cuda", "rocm", "sim")]
    if foreign:
        message = f"{wanted}: how large the caches of {foreign[0]} are is not known"
        raise OptionError(message, hint=f"leave out {wanted}")


# The most memory that one call of a body needs on the devices.


class PeakMemory:
    """Watches samples until one of them reports its peak.

    Watching a sample resets the devices' own peak counters, which torch cannot set back.
    held_bytes, peak_bytes: allocated before the sample, and the most during it; None where the devices do not report.
    """

    def __init__(self, use: DeviceUse) -> None:
        self._use = use
        self._before: int | None = None
        self.held_bytes: int | None = None
        self.peak_bytes: int | None = None

    @property
    def wanted(self) -> bool:
        """Whether the next sample is to be watched."""
        return self.peak_bytes is None and self._use.works

    def start(self) -> None:
        """Note what is allocated; the devices track their peak from here on."""
        if (memory := self._use.devices.memory_bytes()) is not None:
            self._before = memory[0]
            self._use.devices.reset_peak_memory()

    def stop(self) -> None:
        """Note the peak of the sample that has ended."""
        if (memory := self._use.devices.memory_bytes()) is not None and self._before is not None:
            self.held_bytes, self.peak_bytes = self._before, memory[1]
