"""The raw record of a benchmark: every sample in the order it was taken, before any statistics."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from perfmagic.trace.model import DeviceInfo, Trace

SESSION = secrets.token_hex(6)  # of this process: medians of two processes differ by more than those of one

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BenchRecord:
    """What a benchmark measured.

    returns_s, done_s: pass 1, one value a sample, same samples; done_s is empty where no device was in use.
    span_s: pass 2 (device span), seconds a call, empty unless asked for and possible.
    first_calls_s: the first calls until two agreed, in order; the first one is shown apart.
    body_runs: how often the body really ran in all.  calls_per_sample: of pass 1; above 1 for short host bodies only.
    loop_overhead_s: a call, measured with an empty body, already subtracted.
    trace: the one profiled run the verdict rests on, None where there was none.
    session: of the process that took it.  round_id: shared by benchmarks whose samples were taken in turns.
    failed: the exception or interrupt that ended it early, in words; what was measured before is kept.
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
    failed: str = ""
    warnings: tuple[str, ...] = field(default=())
    code: str = ""
    options: str = ""
    taken_unix_ns: int = 0
    calls_per_sample: int = 1
    session: str = SESSION
    round_id: str = ""
