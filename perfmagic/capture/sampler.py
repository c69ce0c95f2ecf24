"""One body's samples and what happens before each, outside the clock."""

from __future__ import annotations

import time
from collections.abc import Callable

from perfmagic.capture import quiet
from perfmagic.capture.caches import CudaCache, HostCaches
from perfmagic.capture.device import Backend, torch_if_imported
from perfmagic.capture.spec import BenchSpec
from perfmagic.capture.stopwatch import Devices, Reading, SpanReading, Steps, Stopwatch
from perfmagic.trace.samples import Condition, Plain


class Sampler:
    """Takes samples of one body.

    heard: called before every sample, for whoever shows how far it has come.
    """

    def __init__(
        self,
        spec: BenchSpec,
        devices: Devices,
        watch: Stopwatch,
        *,
        heard: Callable[[], None] | None,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        self.spec, self.devices, self.watch = spec, devices, watch
        self.conditions: list[Condition] = []
        self.caches: HostCaches | CudaCache | None = None
        self._heard, self._rest = heard, rest

    def note(self, kind: str, **values: Plain) -> None:
        """Say a condition, once."""
        found = Condition(kind, values)
        if found not in self.conditions:
            self.conditions.append(found)

    def make_cold(self, *, device_works: bool) -> None:
        """From now on every sample finds cold caches, where that is asked for: the device's where the body uses it."""
        if not self.spec.cold or self.caches is not None:
            return
        cuda = [info.index for info in self.devices.infos if info.kind in ("cuda", "rocm")]
        torch = torch_if_imported()
        if device_works and cuda and torch is not None:
            self.caches = CudaCache(torch, torch.cuda.current_device())
        else:
            self.caches = HostCaches()

    def before(self) -> None:
        """Garbage collected where due, inputs reset, rested, devices idle, caches cold."""
        if self._heard is not None:
            self._heard()
        quiet.collect_when_due()
        if self.spec.setup_each is not None:
            self.spec.setup_each()
        if self.spec.cooldown_s:
            self.devices.synchronize()
            self._rest(self.spec.cooldown_s)
        if self.caches is not None:
            self.caches.overwrite()
        self.devices.synchronize()

    def sample(self, k: int, *, untimed: int = 0, ready: Callable[[], None] | None = None) -> Steps[Reading]:
        """One sample of *returns* and *done* of k calls.

        untimed: calls right before it.  ready: called when all is prepared, outside the clock.
        """
        self.before()
        if ready is not None:
            ready()
        return (yield from self.watch.sample(k, untimed))

    def span(self, backend: Backend, k: int, backlog_s: float) -> Steps[SpanReading]:
        """One sample of the device span of k calls; the caches are overwritten behind the backlog where it is cold."""
        self.before()
        caches = self.caches.overwrite if isinstance(self.caches, CudaCache) else None
        return (yield from self.watch.span(backend, k, backlog_s, behind=caches))
