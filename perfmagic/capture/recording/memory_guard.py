"""A thread that watches whether a recording still fits into memory.

A recorded operator takes 0.21 kB while the profiler runs and 2.5 kB while the recording is ended and read
(benchmarks/recording_memory.py, torch 2.13 on the CPU). A cell that trains for ten minutes would end with a killed
kernel and everything in it lost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

INTERVAL_S = 0.5
FASTEST_BYTES_PER_S = 150e6  # what recording can take: 0.21 kB × 0.5 M operators a second, half as much again
JOIN_S = 2.0  # the end of a recording cannot be interrupted: a device that hangs must not block it
ENDED_PER_LIVE = 15  # 12 by the figures above, and a margin for the rest of the process
_KB = 1024


class MemoryGuard:
    """Calls `on_outgrown(grown_bytes)` once, when the process has grown so far that ending the recording may not fit.

    A resource: watches from acquire() to give_back(). Does nothing where the system does not report its memory
    (no /proc).
    """

    def __init__(self, on_outgrown: Callable[[int], None], interval_s: float = INTERVAL_S) -> None:
        self._on_outgrown, self._interval_s = on_outgrown, interval_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="perfmagic memory guard", daemon=True)

    def acquire(self) -> None:
        self._start_bytes, self._start_s = own_bytes(), time.monotonic()
        self._max_grown_bytes = available_bytes() // ENDED_PER_LIVE
        if self._start_bytes and self._max_grown_bytes:
            self._thread.start()

    def give_back(self) -> None:
        """Stop watching. Waits up to JOIN_S for a call of on_outgrown, which may itself wait for a device."""
        self._done.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(JOIN_S)

    def _watch(self) -> None:
        while not self._done.wait(self._interval_s):
            # more than the profiler can have taken in this time is the cell's own
            most = int((time.monotonic() - self._start_s) * FASTEST_BYTES_PER_S)
            grown = min(own_bytes() - self._start_bytes, most)
            if grown > self._max_grown_bytes:
                self._on_outgrown(grown)
                return


def own_bytes() -> int:
    """Memory of this process that is backed by no file, 0 where that is not known."""
    return _kb_of(Path("/proc/self/status"), "RssAnon:") * _KB


def available_bytes() -> int:
    """Memory that could still be had without swapping, 0 where that is not known."""
    return _kb_of(Path("/proc/meminfo"), "MemAvailable:") * _KB


def _kb_of(file: Path, key: str) -> int:
    try:
        rows = file.read_text().splitlines()
    except OSError:
        return 0
    return next((int(row.split()[1]) for row in rows if row.startswith(key)), 0)
