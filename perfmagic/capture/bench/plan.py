"""What is to be measured of one body, on what, and how many calls make a sample."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from perfmagic.capture.bench.clocks import Clocks, clocks_of
from perfmagic.capture.bench.quiet import other_load
from perfmagic.capture.bench.spec import BenchSpec
from perfmagic.capture.devices.backends import Backend, active_backends, torch_if_imported
from perfmagic.trace.model import Trace

# Without a device a sample is at least so long, of as many calls as that takes (docs/measuring.md): the clock and the
# loop are then below 0.1 % of it, and cold caches at its start cost half as much as in one of 1 ms.
SAMPLE_S = 2e-3
SHORTEST_CALL_S = 10e-9  # an empty body with its loop; bounds the calls of a sample
# What runs between two samples evicts the body from the caches: a sample took up to 30 µs longer for it, and some 5 µs
# after one call (benchmarks/bench_accuracy.py). So untimed calls come before the clock starts: so long, at least one.
UNTIMED_S = 0.2e-3
UNTIMED_BELOW_S = 10e-3  # longer calls lose less than 0.3 %


class Recording(Protocol):
    """One profiled run: perfmagic.capture.recording.recorder.Recorder."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> Trace:
        """Wait for the devices, end it and give what was recorded."""

    def give_back(self) -> None:
        """End it without a Trace, however far it came; harmless after stop(), and when called again."""


def _clocks(indices: tuple[int, ...]) -> Clocks | None:
    torch = torch_if_imported()
    return clocks_of(torch, indices) if torch is not None and indices else None


@dataclass(frozen=True)
class Host:
    """The clock and everything else outside the body that a measurement looks at; a test brings its own.

    backends: the devices in use.  load: load average above the number of cores, else 0.  rest: sleeps so many seconds.
    clocks: of the CUDA devices with these indices, None where nothing reports them.
    """

    clock_ns: Callable[[], int] = time.perf_counter_ns
    backends: Callable[[], tuple[Backend, ...]] = active_backends
    load: Callable[[], float] = other_load
    rest: Callable[[float], None] = time.sleep
    clocks: Callable[[tuple[int, ...]], Clocks | None] = _clocks


@dataclass(frozen=True)
class SampleSize:
    """How many calls a sample times, and how many untimed ones come right before it."""

    calls: int = 1
    untimed: int = 0


@dataclass(frozen=True)
class Plan:
    """What is to be measured of one body.

    spec: how it is to be taken.  synced: also the device span and, where profile is given, one recorded run for the
    verdict.  setup: runs once, before the first call.  profile: makes a Recording.
    """

    spec: BenchSpec
    synced: bool = False
    setup: Callable[[], object] | None = None
    profile: Callable[[], Recording] | None = None

    def several_calls(self, *, device_works: bool) -> bool:
        """Whether a sample may have several calls: nothing queues up and nothing has to be done between them."""
        return not device_works and self.spec.setup_each is None and not self.spec.cold

    def fills_samples(self, *, device_works: bool) -> bool:
        """Whether a sample has as many calls as it has room for."""
        return self.spec.calls is None and self.several_calls(device_works=device_works)

    def sample_size(self, call_s: float, *, device_works: bool) -> SampleSize:
        """The size of a sample of calls of this length, in seconds."""
        if not self.several_calls(device_works=device_works):
            return SampleSize()
        if self.spec.calls is not None:
            return SampleSize(self.spec.calls)
        shortest_s = max(call_s, SHORTEST_CALL_S)
        warm = self.spec.warmup != 0 and call_s < UNTIMED_BELOW_S
        return SampleSize(max(1, math.ceil(SAMPLE_S / shortest_s)), math.ceil(UNTIMED_S / shortest_s) if warm else 0)
