"""The devices there are, and whether a body uses them."""

from __future__ import annotations

from collections.abc import Callable

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
        found = self._active()
        if [b.kind for b in found] != [b.kind for b in self.backends]:  # keeps a backend's calibration
            self.backends = found
            self.infos = tuple(info for backend in found for info in backend.infos())

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
        known = [one for one in each if one is not None]
        if not each or len(known) < len(each):
            return None
        return sum(now for now, _ in known), sum(peak for _, peak in known)

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

    launches: of one call, None where the devices do not report it.
    """

    def __init__(self, devices: Devices) -> None:
        self.devices = devices
        self.launches: int | None = None
        self._idle = False
        self._queued: int | None = None  # before the first call, then after it

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

    def after_first_call(self) -> None:
        """See what the call has queued, on devices that it started as well; waits for nothing."""
        self.devices.refresh()  # the body may have imported torch or started a device
        queued, after = self._queued, self.devices.progress()
        self._idle = queued is not None and after == queued
        self.launches = after - (queued or 0) if after is not None else None
        self._queued = after

    def look_again(self) -> None:
        """A later call may have come to a device that the first call left alone."""
        self.devices.refresh()
        if self._idle and self.devices.progress() != self._queued:
            self._idle = False
