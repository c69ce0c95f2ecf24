"""The clock of the simulated device: monotonic, in unix nanoseconds."""

from __future__ import annotations

import time

from perfmagic.capture.devices.clock import unix_offset_ns

OFFSET_NS = unix_offset_ns()


def now_ns() -> int:
    """Unix time in ns that never steps back: perf_counter_ns plus an offset taken once."""
    return time.perf_counter_ns() + OFFSET_NS
