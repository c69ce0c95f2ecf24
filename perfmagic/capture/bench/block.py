"""A block timed once: when Python returned from it, and when the devices had finished."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perfmagic.base import units
from perfmagic.base.clock import reader, virtual_clock
from perfmagic.base.errors import CaptureError
from perfmagic.base.language import Words, counted, phrase, say
from perfmagic.capture.devices.backends import Backend, active_backends
from perfmagic.trace.host_limits import shared_cores
from perfmagic.trace.model import DeviceInfo


class Benchmark:
    """Time a block of code once, and print two times: when Python returned, and when the devices finished.

        with perfmagic.Benchmark("50 products"):
            for _ in range(50):
                y = x.mm(x)

    prints "50 products: Python returned after 1.02 ms, the device finished after 31.4 ms". It first waits for work that
    was queued before the block, so as not to count it. CUDA does not report whether the block used it: then it prints
    "the device was idle after 31.4 ms". It measures one run, first-time costs included: %%syncbench repeats a cell and
    gives confidence intervals.

    returned_s, done_s: both times in seconds, once the block has ended; done_s is never the smaller.
    """

    def __init__(self, label: str = "") -> None:
        self.label = label
        self.returned_s = self.done_s = 0.0
        self._queued: dict[tuple[str, int], int | None] = {}  # before the block, by device; None: not reported

    def __enter__(self) -> Benchmark:  # noqa: PYI034 - Self needs Python 3.11
        backends = active_backends()
        for backend in backends:
            backend.synchronize()
        self._queued = {
            (backend.kind, info.index): backend.progress(info.index) for backend in backends for info in backend.infos()
        }
        self._read_ns = reader()
        self._start_ns = self._read_ns()
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        self.returned_s = self._since_s()
        backends = active_backends()
        for backend in backends:
            backend.synchronize()
        self.done_s = self._since_s()
        if failed is None:
            refuse_changed_clock(self._read_ns)
            for line in self._lines(backends):
                print(line)  # noqa: T201 - its purpose

    def _since_s(self) -> float:
        return (self._read_ns() - self._start_ns) / 1e9

    def _lines(self, backends: Sequence[Backend]) -> list[str]:
        worked = [info for backend in backends for info in backend.infos() if self._works(backend, info.index)]
        return [self._sentence(backends, worked), *(remark.words for remark in shared_cores(worked))]

    def _sentence(self, backends: Sequence[Backend], worked: Sequence[DeviceInfo]) -> str:
        """How long the block took, in words; of devices no more than they report."""
        returned = phrase("Python returned after {time}", time=units.duration_s(self.returned_s))
        words = phrase("{returned}; no device was in use", returned=returned)
        if backends and not worked:
            devices = _name(_infos(backends))
            words = phrase("{returned}; nothing was queued on {devices}", returned=returned, devices=devices)
        elif backends:
            done = phrase("finished after {time}", time=units.duration_s(self.done_s))
            if any(self._unreported(backend) for backend in backends):
                done = counted(
                    len(worked), "was idle after {time}", "were idle after {time}", time=units.duration_s(self.done_s)
                )
            words = phrase("{returned}, {devices} {done}", returned=returned, devices=_name(worked), done=done)
        return say("{label}: {words}", label=self.label, words=words) if self.label else words.in_language()

    def _works(self, backend: Backend, index: int) -> bool:
        """Whether the block queued something on a device; assumed if the device does not report what is queued."""
        after = backend.progress(index)
        return after is None or after != self._queued.get((backend.kind, index), 0)

    def _unreported(self, backend: Backend) -> bool:
        """Whether it is unknown if the block used a device: it was in use before, and reports nothing."""
        return backend.progress() is None and backend.kind in (kind for kind, _ in self._queued)


def refuse_changed_clock(begun: Callable[[], int]) -> None:
    """Raise CaptureError where the clock is no longer the one that a measurement began with.  begun: its reader()."""
    if reader() != begun:
        message = "the clock changed between real and virtual time during the measurement"
        raise CaptureError(message, hint="call perfmagic.device(clock=…) before it")


def _infos(backends: Sequence[Backend]) -> list[DeviceInfo]:
    return [info for backend in backends for info in backend.infos()]


def _name(infos: Sequence[DeviceInfo]) -> Words:
    name = phrase("the device") if len(infos) == 1 else counted(len(infos), "{n} device", "{n} devices")
    if not any(info.simulated for info in infos):
        return name
    predicted = next((info.predicted for info in infos if info.predicted), None)
    if predicted is not None:
        return phrase("{devices} (predicted for {gpu})", devices=name, gpu=predicted.gpu)
    if virtual_clock() is None:
        return phrase("{devices} (simulated)", devices=name)
    return phrase("{devices} (simulated, virtual clock)", devices=name)
