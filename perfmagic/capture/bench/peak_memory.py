"""The most memory that one call of a body needs on the devices."""

from __future__ import annotations

from perfmagic.capture.bench.device_use import DeviceUse


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
        if (found := self._use.devices.memory_bytes()) is not None:
            self._before = found[0]
            self._use.devices.reset_peak_memory()

    def stop(self) -> None:
        """Note the peak of the sample that has ended."""
        if (found := self._use.devices.memory_bytes()) is not None and self._before is not None:
            self.held_bytes, self.peak_bytes = self._before, found[1]
