"""Unix time by a clock that never steps back."""

from __future__ import annotations

import time

_READINGS = 5


def unix_offset_ns() -> int:
    """Unix time minus perf_counter, from the closest of a few readings.

    Between two calls a process can lose its core, and time_ns can step by 15.6 ms.
    """
    best_gap_ns, best_offset_ns = 1 << 62, 0
    for _ in range(_READINGS):
        before_ns = time.perf_counter_ns()
        unix_ns = time.time_ns()
        after_ns = time.perf_counter_ns()
        if after_ns - before_ns < best_gap_ns:
            best_gap_ns = after_ns - before_ns
            best_offset_ns = unix_ns - (before_ns + after_ns) // 2
    return best_offset_ns


# The clock of the simulated device: monotonic, in unix nanoseconds.

OFFSET_NS = unix_offset_ns()


def now_ns() -> int:
    """Unix time in ns that never steps back: perf_counter_ns plus an offset taken once."""
    return time.perf_counter_ns() + OFFSET_NS
