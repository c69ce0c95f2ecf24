"""What the samples of a benchmark leave behind: memory, and graphs that torch.compile has made."""

from __future__ import annotations

import gc
import sys
from contextlib import suppress

from perfmagic.capture.bench.device_use import Devices
from perfmagic.capture.bench.notes import Notes

GROWN_BYTES = 512  # a call; the grain of CUDA's allocator, and of the simulated one
HOST_GROWN_BYTES = 50_000_000  # of the process while it is sampled; allocators move by some MB


class Growth:
    """What has been added since look(), summed over the stretches that count."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._device_bytes = self._host_bytes = self._compiled = 0
        self._held: list[int] = []  # on the devices, after each stretch
        self.look()

    def look(self) -> None:
        """What is added from here on counts."""
        self._was = self._now()

    def add(self) -> None:
        """Count what has been added since look()."""
        now = self._now()
        device, host, compiled = (b - a for a, b in zip(self._was, now, strict=True))
        self._device_bytes, self._host_bytes = self._device_bytes + device, self._host_bytes + host
        self._compiled += compiled
        self._held.append(now[0])

    def tell(self, notes: Notes, calls: int) -> None:
        """Note what has grown during so many calls."""
        if self._compiled > 0:
            notes.note("recompiled", times=self._compiled)
        if calls < 3:
            return
        grown = float(self._device_bytes)
        if (stretches := len(self._held)) > 1:
            # memory that an interleaved body gives back each time does not grow: both assign one name
            grown = min(grown, (self._held[-1] - self._held[0]) * stretches / (stretches - 1))
        if grown / calls >= GROWN_BYTES:
            held = self._now()[0]
            gc.collect()  # what only waits for the collector is not kept by the cell
            grown -= held - self._now()[0]
        if grown / calls >= GROWN_BYTES:
            notes.note("memory grew", bytes_per_call=grown / calls, where="the device")
        elif self._host_bytes >= HOST_GROWN_BYTES:
            notes.note("memory grew", bytes_per_call=self._host_bytes / calls, where="the host")

    def _now(self) -> tuple[int, int, int]:
        memory = self._devices.memory_bytes()
        return memory[0] if memory is not None else 0, _peak_host_bytes(), _compilations()


def _peak_host_bytes() -> int:
    """The most memory this process has held, 0 where the system does not report it (Windows)."""
    with suppress(ImportError):
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return 0


def _compilations() -> int:
    if "torch._dynamo" not in sys.modules:
        return 0
    from perfmagic.capture.devices.torch_private import compilations

    return compilations()
