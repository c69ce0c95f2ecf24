"""One session of torch's profiler: opened, ended in time, read.

torch has one session at a time. The thread that begins it must end it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from perfmagic.base import units
from perfmagic.base.errors import CaptureError, TraceError
from perfmagic.base.free_memory import available_bytes, own_bytes
from perfmagic.capture.devices import torch_private
from perfmagic.capture.devices.backends import active_backends
from perfmagic.capture.devices.profiled import note_profiled, profiled_before
from perfmagic.capture.owner import Owner, shielded
from perfmagic.capture.recording.host import file_in_new_folder, wait_for_threads
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Trace

# A thread that watches whether a recording still fits into memory.

INTERVAL_S = 0.5
FASTEST_BYTES_PER_S = 150e6  # what recording can take: 0.21 kB × 0.5 M operators a second, half as much again
JOIN_S = 2.0  # the end of a recording cannot be interrupted: a device that hangs must not block it
ENDED_PER_LIVE = 15  # 12 by the figures above, and a margin for the rest of the process


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


class Session:
    """Records from open() until the owner it was given closes; notes say what ended it sooner.

    cuda: whether CUDA's own activity is recorded.  shapes: whether shapes and types of operators' inputs are.
    ended_ns: when it ended before that, by perf_counter_ns.
    """

    def __init__(self, torch: Any, *, cuda: bool, memory: bool = False, shapes: bool = False) -> None:
        self.notes: list[str] = []
        self.ended_ns: int | None = None
        self._torch, self._cuda = torch, cuda
        self._recorded: Trace | None = None
        self._thread = threading.get_ident()
        self._profile = _Profile(cuda=cuda, memory=memory, shapes=shapes)
        self._others = torch_private.OtherProfiles(self._give_way)
        self._guard = MemoryGuard(self._end_for_memory)

    def open(self, owner: Owner) -> None:
        """Begin to record; the owner takes everything. Raises CaptureError where another profiler is active."""
        if torch_private.profiler_enabled():
            raise CaptureError(
                "another profiler is active in this process, and torch records for one at a time",
                hint="end the other profiler (torch.profiler, %%timeline, TensorBoard) before this cell",
            )
        os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # torch 2.13 else prints two lines into the cell
        if not profiled_before():
            _warm_up(self._torch, cuda=self._cuda)
        owner.acquire(self._profile)
        note_profiled()
        owner.acquire(self._others)
        owner.acquire(self._guard)

    def read(self) -> Trace | None:
        """What it recorded, once the owner has closed; None where that is nothing."""
        if self._profile.ended is not None:
            ended, self._profile.ended = self._profile.ended, None
            self._recorded = _read_profile(ended)
        return self._recorded

    def end_early(self, reason: str) -> None:
        """Record no more, from any thread, and keep what there is; reason: why, to follow "recorded until …: "."""
        if self.ended_ns is not None or not self._profile.is_open():
            return
        self._wait_for_devices()
        if self._profile.is_open() and torch_private.pause_profile():  # it may have ended meanwhile
            self.ended_ns = time.perf_counter_ns()
            self.notes.append(reason)

    def _give_way(self) -> None:
        """Another profiler is about to open: left open, ours would be emptied by it, and our end would end theirs."""
        if not self._profile.is_open():
            return
        reason = "the cell opened a profiler of its own, and torch has one at a time: the rest is in its result"
        if threading.get_ident() == self._thread:
            self._wait_for_devices()
            shielded(self._profile.give_back)
            self.read()
        else:  # only the thread that began a session can end it: what it held is lost to the other one
            self._profile.abandon()
        if self.ended_ns is None:
            self.ended_ns = time.perf_counter_ns()
            self.notes.append(reason)

    def _end_for_memory(self, grown_bytes: int) -> None:
        self.end_early(
            f"by then the process had grown by {units.size(grown_bytes)}, and the profiler takes up to "
            f"{ENDED_PER_LIVE} times that to end; record fewer steps (perfmagic.timeline(active=…))"
        )

    def _wait_for_devices(self) -> None:
        """Records of ops still queued would be missing."""
        for backend in active_backends():
            backend.synchronize()


class _Profile:
    """torch's low-level profiler as a resource.  ended: the profile that has ended and was not read yet.

    options: those of torch_private.open_profile().
    """

    def __init__(self, **options: bool) -> None:
        self._options = options
        self._open: Any = None
        self.ended: Any = None

    def is_open(self) -> bool:
        return self._open is not None

    def acquire(self) -> None:
        self._open = torch_private.open_profile(**self._options)
        self._open.__enter__()

    def give_back(self) -> None:
        if self._open is not None and torch_private.end_profile(self._open, wait_for_threads):
            self.ended = self._open
        self._open = None

    def abandon(self) -> None:
        """Leave it to another profiler, which has taken torch's one session."""
        self._open = None


def _warm_up(torch: Any, *, cuda: bool) -> None:
    """The first session loads CUPTI and allocates buffers; let that happen around an op of our own."""
    owner = Owner()
    with owner, owner:
        owner.acquire(_Profile(cuda=cuda, all_threads=False))
        if cuda and torch.cuda.is_initialized():
            torch.zeros(1, device="cuda")
            torch.cuda.synchronize()
        else:
            torch.zeros(1)


def _read_profile(profile: Any) -> Trace | None:
    """What an ended profile recorded; None where that is nothing (a cell without an operator)."""
    owner = Owner()
    with owner, owner:
        path = file_in_new_folder(owner)
        torch_private.save_profile(profile, str(path))
        data = path.read_bytes()
    try:
        return read_trace(data, origin="cell", links=True)
    except TraceError:  # what the reader says of a file without a single record
        return None
