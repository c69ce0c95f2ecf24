"""The raw record of a benchmark: every sample in the order it was taken, before any statistics."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from perfmagic.trace.model import DeviceInfo, Trace

SESSION = secrets.token_hex(6)  # of this process: medians of two processes differ by more than those of one

Float64 = npt.NDArray[np.float64]
Plain: TypeAlias = "str | int | float | bool | None"


@dataclass(frozen=True)
class Condition:
    """Something about how a benchmark was taken that its reader should know; perfmagic.analysis.bench words it."""

    kind: str
    values: Mapping[str, Plain] = field(default_factory=dict)


@dataclass(frozen=True)
class ClockRecord:
    """What one GPU's clock did while samples were taken, as NVML tells.

    sm_mhz: of the multiprocessors at each reading, the first before the samples and the last after them.
    temperature_c, power_w: at the last reading.  limited_by: what held the clock down at any reading, in NVML's words.
    other_processes: how many besides this one had work on it.
    """

    device: int
    sm_mhz: tuple[int, ...]
    temperature_c: int
    power_w: float
    limited_by: tuple[str, ...] = ()
    other_processes: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Taken:
    """How a benchmark was taken: what its raw record and its result both say.

    calls_per_sample: of *returns*; above 1 for short host bodies only.  queued_calls: back to back in *per call,
    queued*.  run_starts: the sample each whole run began with, () for a single run.
    reference_s: beside each sample, what a loop took that is the same in all benchmarks; () in files that lack it.
    cold_bytes: written over cold_of, which caches, before each sample; 0 for warm caches.
    flop, moved_bytes: of one call, as the user says, None where unsaid.
    held_bytes, peak_bytes: allocated on the devices before one call, and the most during it; None where none counts.
    clocks: of the GPUs, where NVML told them.
    session: of the process that took it.  round_id: shared by benchmarks whose samples were taken in turns, empty for
    one taken alone.
    magic: that took it, such as "%%bench"; "" where a function did.  warmed_up: calls were made to warm it up.
    failed: the exception or interrupt that ended it early, in words; what was measured before is kept.
    settings: how it was to be taken, environment: on what, both as plain values by name.
    """

    failed: str = ""
    magic: str = ""
    warmed_up: bool = True
    code: str = ""
    setup: str = ""
    taken_unix_ns: int = 0
    session: str = ""
    round_id: str = ""
    calls_per_sample: int = 1
    queued_calls: int = 0
    run_starts: tuple[int, ...] = ()
    reference_s: tuple[float, ...] = ()
    cold_bytes: int = 0
    cold_of: str = ""
    flop: float | None = None
    moved_bytes: float | None = None
    held_bytes: int | None = None
    peak_bytes: int | None = None
    clocks: tuple[ClockRecord, ...] = ()
    settings: Mapping[str, Plain] = field(default_factory=dict)
    environment: Mapping[str, Plain] = field(default_factory=dict)

    def taken(self) -> dict[str, Any]:
        """These fields by name."""
        return {one.name: getattr(self, one.name) for one in fields(Taken)}


@dataclass(frozen=True, eq=False)
class BenchRecord(Taken):
    """What a benchmark measured.

    returns_s, done_s: pass 1, one value a sample, same samples; done_s is empty where no device was in use.
    span_s: pass 2 (device span), seconds a call, empty unless asked for and possible.
    queued_s: per call, queued: seconds a call where queued_calls of them follow each other, empty unless asked for.
    first_calls_s: the first calls until two agreed, in order; the first one is shown apart.
    body_runs: how often the body really ran in all.  warmup_calls: before the samples, in all runs.
    loop_overhead_s: of *returns*, a call, measured with an empty body and subtracted; of the last run.
    trace: the one profiled run the verdict rests on, None where there was none.
    """

    name: str
    synced: bool
    returns_s: Float64
    done_s: Float64
    span_s: Float64
    first_calls_s: Float64
    warmup_calls: int
    body_runs: int
    loop_overhead_s: float
    span_calls_per_sample: int
    stopped_by: str
    devices: tuple[DeviceInfo, ...] = ()
    trace: Trace | None = None
    conditions: tuple[Condition, ...] = ()
    queued_s: Float64 = field(default_factory=lambda: np.empty(0, np.float64))
