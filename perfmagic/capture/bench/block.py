"""A block timed once: when Python came back from it, and when the devices had finished."""

from __future__ import annotations

import time
from typing import Any

from perfmagic import units
from perfmagic.capture.devices.backends import active_backends


class Benchmark:
    """Time a block of code once, and print two times: Python came back, the devices finished.

        with perfmagic.Benchmark("50 products"):
            for _ in range(50):
                y = x.mm(x)

    prints "50 products: Python returned after 1.02 ms, the device finished after 31.4 ms". What was queued before the
    block is waited for first, so that it is not counted. One run, with whatever happens only the first time in it:
    %%syncbench repeats a cell and says how sure it is.

    returned_s, done_s: both times in seconds once the block has ended; done_s is never less.
    """

    def __init__(self, label: str = "") -> None:
        self.label = label
        self.returned_s = self.done_s = 0.0

    def __enter__(self) -> Benchmark:  # noqa: PYI034 - Self needs Python 3.11
        for backend in active_backends():
            backend.synchronize()
        self._start_s = time.perf_counter()
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        self.returned_s = time.perf_counter() - self._start_s
        backends = active_backends()
        for backend in backends:
            backend.synchronize()
        self.done_s = time.perf_counter() - self._start_s
        if failed is None:
            print(self.sentence([info for backend in backends for info in backend.infos()]))  # noqa: T201 - its purpose

    def sentence(self, devices: list[Any]) -> str:
        """What the block took, in words.  devices: those that were waited for."""
        label = f"{self.label}: " if self.label else ""
        returned = units.duration_s(self.returned_s)
        if not devices:
            return f"{label}Python returned after {returned}; no device was in use"
        name = "the device" if len(devices) == 1 else f"{len(devices)} devices"
        simulated = " (simulated)" if any(device.simulated for device in devices) else ""
        return (
            f"{label}Python returned after {returned}, {name}{simulated} finished after {units.duration_s(self.done_s)}"
        )
