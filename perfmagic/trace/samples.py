"""The raw record of a benchmark: every sample in the order it was taken, before any statistics."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from perfmagic.trace.json_form import Amount, Count, Int64Number, Ns, Real, Seconds
from perfmagic.trace.model import DeviceInfo, Trace

SESSION = secrets.token_hex(6)  # of this process: medians of two processes differ by more than those of one

Float64 = npt.NDArray[np.float64]
Plain: TypeAlias = str | Int64Number | Real | bool | None


@dataclass(frozen=True)
class Condition:
    """Something about how a benchmark was taken that its reader should know; perfmagic.analysis.bench words it.

    kind: what it is, by name.
    values: the numbers and texts of it, by name.
    """

    kind: str
    values: Mapping[str, Plain] = field(default_factory=dict)


@dataclass(frozen=True)
class ClockRecord:
    """What one GPU's clock did, as NVML tells.

    device: the GPU's number.
    sm_mhz: of the multiprocessors at each reading, in MHz.
    temperature_c: at the last reading, in degrees Celsius.
    power_w: at the last reading, in watts.
    limited_by: what held the clock down, in NVML's words.
    other_processes: processes beside this one, a count.
    """

    device: Count
    sm_mhz: tuple[Count, ...]
    temperature_c: Int64Number
    power_w: Real
    limited_by: tuple[str, ...] = ()
    other_processes: Count = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Taken:
    """How a benchmark was taken: what its raw record and its result both say.

    failed: the exception or interrupt that ended it early; empty for none.
    magic: the magic that took it; empty where a function did.
    warmed_up: whether calls were made to warm it up.
    code: source text of what was measured.
    setup: source text of the set-up code.
    taken_unix_ns: when it was begun, in ns since 1970.
    session: of the process that took it.
    round_id: shared by benchmarks whose samples were interleaved; empty for one taken alone.
    calls_per_sample: calls in a sample of returns, a count.
    queued_calls: calls back to back in queued, a count; 0 for none.
    run_starts: the sample each whole run began with; empty for a single run.
    reference_s: beside each sample, what a loop took that is the same in all benchmarks.
    cold_bytes: written over the caches before each sample; 0 for warm caches.
    cold_of: which caches.
    flop: floating-point operations of one call; None where unsaid.
    moved_bytes: moved by one call; None where unsaid.
    held_bytes: allocated on the devices before one call; None where none counts.
    peak_bytes: the most during it; None where none counts.
    clocks: of the GPUs, where NVML reports them.
    settings: the options it was taken with, by keyword.
    environment: what it was taken on, by name.
    checks: whether it does the work of the first of its round, a fact each; empty if it was not checked.
    """

    failed: str = ""
    magic: str = ""
    warmed_up: bool = True
    code: str = ""
    setup: str = ""
    taken_unix_ns: Ns = 0
    session: str = ""
    round_id: str = ""
    calls_per_sample: Count = 1
    queued_calls: Count = 0
    run_starts: tuple[Count, ...] = ()
    reference_s: tuple[Seconds, ...] = ()
    cold_bytes: Count = 0
    cold_of: str = ""
    flop: Amount | None = None
    moved_bytes: Amount | None = None
    held_bytes: Count | None = None
    peak_bytes: Count | None = None
    clocks: tuple[ClockRecord, ...] = ()
    settings: Mapping[str, Plain] = field(default_factory=dict)
    environment: Mapping[str, Plain] = field(default_factory=dict)
    checks: tuple[Condition, ...] = ()

    def taken(self) -> dict[str, Any]:
        """These fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(Taken)}


@dataclass(frozen=True, eq=False)
class BenchRecord(Taken):
    """What a benchmark measured.

    returns_s, done_s: pass 1, one value per sample, same samples; done_s is empty where no device was in use.
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
