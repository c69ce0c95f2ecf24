"""One session of torch's profiler: opened, ended in time, read.

torch has one session at a time and ends it on the thread that began it.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from perfmagic import units
from perfmagic.capture.devices import torch_private
from perfmagic.capture.devices.backends import active_backends
from perfmagic.capture.devices.profiled import note_profiled, profiled_before
from perfmagic.capture.recording.memory_guard import ENDED_PER_LIVE, MemoryGuard
from perfmagic.errors import CaptureError, TraceError
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Trace


class Session:
    """Records from its making to close(); what ends it sooner is told in notes.

    cuda: whether CUDA's own activity is recorded.  ended_ns: when it ended before close(), by perf_counter_ns.
    Raises CaptureError where another profiler is active.
    """

    def __init__(self, torch: Any, *, cuda: bool, memory: bool = False) -> None:
        if torch_private.profiler_enabled():
            raise CaptureError(
                "another profiler is active in this process, and torch records for one at a time",
                hint="end the other profiler (torch.profiler, %%timeline, TensorBoard) before this cell",
            )
        os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # torch 2.13 else prints two lines into the cell
        if not profiled_before():
            _warm_up(torch, cuda)
        self.notes: list[str] = []
        self.ended_ns: int | None = None
        self._cuda = cuda
        self._recorded: Trace | None = None
        self._thread = threading.get_ident()
        self._profile: Any = torch_private.open_profile(cuda=cuda, memory=memory)
        self._profile.__enter__()
        note_profiled()
        self._stop_listening = torch_private.before_other_profile(self._give_way)
        self._guard = MemoryGuard(self._out_of_room)

    def close(self) -> Trace | None:
        """End the session, if nobody else has; None where nothing was recorded."""
        self._guard.stop()
        self._stop_listening()
        if self._profile is not None:
            profile, self._profile = self._profile, None
            self._recorded = _read_session(profile)
        return self._recorded

    def end_early(self, reason: str) -> None:
        """Record no more, from any thread, and keep what there is; reason: why, to follow "recorded until …: "."""
        if self.ended_ns is not None or self._profile is None:
            return
        self._wait_for_devices()
        if torch_private.pause_profile(cuda=self._cuda):
            self.ended_ns = time.perf_counter_ns()
            self.notes.append(reason)

    def _give_way(self) -> None:
        """Another profiler is about to open: left open, ours would be emptied by it, and our end would end theirs."""
        if self._profile is None:
            return
        reason = "the cell opened a profiler of its own, and torch has one at a time: the rest is in its result"
        if threading.get_ident() == self._thread:
            self._wait_for_devices()
            self.close()
        else:  # only the thread that began a session can end it: what it held is lost to the other one
            self._stop_listening()
            self._profile = None
        if self.ended_ns is None:
            self.ended_ns = time.perf_counter_ns()
            self.notes.append(reason)

    def _out_of_room(self, grown_bytes: int) -> None:
        self.end_early(
            f"by then the process had grown by {units.size(grown_bytes)}, and the profiler takes up to "
            f"{ENDED_PER_LIVE} times that to end; record fewer steps (perfmagic.timeline(active=…))"
        )

    def _wait_for_devices(self) -> None:
        """Records of ops still queued would be missing."""
        for backend in active_backends():
            backend.synchronize()


def _warm_up(torch: Any, cuda: bool) -> None:
    """The first session loads CUPTI and allocates buffers; let that happen around an op of our own."""
    profile = torch_private.open_profile(cuda=cuda, memory=False)
    profile.__enter__()
    try:
        if cuda and torch.cuda.is_initialized():
            torch.zeros(1, device="cuda")
            torch.cuda.synchronize()
        else:
            torch.zeros(1)
    finally:
        torch_private.end_profile(profile)


def _read_session(profile: Any) -> Trace | None:
    """End a session and read what it recorded; None where it recorded nothing (a cell without an operator)."""
    torch_private.end_profile(profile)
    handle, path = tempfile.mkstemp(prefix="perfmagic-", suffix=".json")
    os.close(handle)
    try:
        torch_private.save_profile(profile, path)
        return read_trace(Path(path).read_bytes(), origin="cell")
    except TraceError:  # what the reader says of a file without a single record
        return None
    finally:
        Path(path).unlink()
