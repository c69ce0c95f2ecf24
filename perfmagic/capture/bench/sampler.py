"""One sample of a body: what happens before it, outside the clock, and the reading."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from perfmagic.capture.bench import quiet
from perfmagic.capture.bench.body_loop import Phase
from perfmagic.capture.bench.caches import CudaCache, HostCaches, cuda_cache_bytes, host_cache_bytes
from perfmagic.capture.bench.device_use import Devices
from perfmagic.capture.bench.notes import Notes
from perfmagic.capture.bench.spec import BenchSpec
from perfmagic.capture.bench.stopwatch import Reading, SpanReading, Stopwatch
from perfmagic.capture.devices.backends import Backend, torch_if_imported


class Sampler:
    """Takes samples of one body.

    on_sample: called before every sample, for whoever shows the progress.
    """

    def __init__(
        self,
        spec: BenchSpec,
        devices: Devices,
        watch: Stopwatch,
        *,
        on_sample: Callable[[], None] | None,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        self.spec, self.devices, self.watch = spec, devices, watch
        self.caches: HostCaches | CudaCache | None = None
        self._on_sample, self._rest = on_sample, rest

    def make_cold(self, *, device_works: bool) -> None:
        """From now on every sample finds cold caches, where that is asked for: the device's where the body uses it."""
        if not self.spec.cold or self.caches is not None:
            return
        torch = self._cuda(device_works=device_works)
        self.caches = HostCaches() if torch is None else CudaCache(torch, torch.cuda.current_device())

    def note_what_fits(self, notes: Notes, moved_bytes: float, *, device_works: bool) -> None:
        """Note where warm caches hold all that a call moves: its rate is then not that of memory."""
        if self.caches is not None or any(info.simulated for info in self.devices.infos):
            return
        torch = self._cuda(device_works=device_works)
        if torch is None:
            name, cache_bytes = HostCaches.name, host_cache_bytes()
        else:
            name, cache_bytes = CudaCache.name, cuda_cache_bytes(torch, torch.cuda.current_device())
        if moved_bytes <= cache_bytes:
            notes.note("fits in caches", bytes=moved_bytes, cache_bytes=cache_bytes, name=name)

    def _cuda(self, *, device_works: bool) -> Any | None:
        """Torch, where the body works on a CUDA device."""
        return torch_if_imported() if device_works and self.devices.cuda_indices() else None

    def before(self) -> None:
        """Garbage collected where due, inputs reset, rested, devices idle, caches cold."""
        if self._on_sample is not None:
            self._on_sample()
        quiet.collect_when_due()
        if self.spec.setup_each is not None:
            self.spec.setup_each()
        if self.spec.cooldown_s:
            self.devices.synchronize()
            self._rest(self.spec.cooldown_s)
        if self.caches is not None:
            self.caches.overwrite()
        self.devices.synchronize()

    def sample(self, k: int, *, untimed: int = 0, ready: Callable[[], None] | None = None) -> Phase[Reading]:
        """One sample of *returns* and *done* of k calls.

        untimed: calls right before it.  ready: called when all is prepared, outside the clock.
        """
        self.before()
        if ready is not None:
            ready()
        return (yield from self.watch.sample(k, untimed))

    def span(self, backend: Backend, k: int, backlog_s: float) -> Phase[SpanReading]:
        """One sample of the device span of k calls; the caches are overwritten behind the backlog where it is cold."""
        self.before()
        caches = self.caches.overwrite if isinstance(self.caches, CudaCache) else None
        return (yield from self.watch.span(backend, k, backlog_s, behind=caches))
