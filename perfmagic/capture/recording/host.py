"""What a recording has of its host: which run of it, by which clock, how long it had no core; a folder for a file.

All of it is the system's own word, on Linux; elsewhere it is left out, and clocks are compared by other means. Nothing
here needs torch.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from perfmagic.base.clock import VIRTUAL
from perfmagic.base.kinds import VIRTUAL_CLOCK
from perfmagic.capture.owner import Owner

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # one for each start of a kernel
THREADS = Path("/proc/self/task")
RUN_NS, RUN_S = 5_000_000, 0.2


def host_clock(base_unix_ns: int, offset_ns: int) -> dict[str, Any]:
    """The fields of a TraceMeta that let ranks of one host share a clock; none where the system does not tell.

    base_unix_ns: the trace's instant 0.  offset_ns: from perf_counter, which is the host's monotonic clock on Linux.
    On a virtual clock all hosts are one.
    """
    if VIRTUAL:
        return {"boot": VIRTUAL_CLOCK, "monotonic_base_ns": base_unix_ns}
    try:
        boot = hashlib.sha256(BOOT_ID.read_bytes()).hexdigest()[:16]
    except OSError:
        return {}
    return {"boot": boot, "monotonic_base_ns": base_unix_ns - offset_ns}


def waited_for_core_ns() -> int | None:
    """How long the threads that live now were ready to run and had no core, since they began; None where it is unknown.

    Source: proc(5), /proc/pid/schedstat, the second number.
    """
    waits_ns = list(_waits_ns())
    return sum(waits_ns) if waits_ns else None


def _waits_ns() -> Iterator[int]:
    with suppress(OSError):
        for thread in THREADS.iterdir():
            with suppress(OSError, ValueError, IndexError):  # it may have ended meanwhile
                yield int((thread / "schedstat").read_text("ascii").split()[1])


def thread_waits() -> Callable[[], int] | None:
    """What says how long this thread was ready to run and had no core, in ns; None where the system does not tell."""
    try:
        file = (THREADS / str(threading.get_native_id()) / "schedstat").open("rb", buffering=0)
    except OSError:
        return None

    def waited_ns() -> int:
        file.seek(0)
        return int(file.read(64).split()[1])

    return waited_ns


def wait_for_threads() -> None:
    """Wait until each other thread that runs, or could, has run for RUN_NS more or waits for something itself.

    By then it has left the operator of torch that it was in, unless that is a long one. Looks for 0.2 s at most, and
    returns at once where the system does not tell. Source: proc(5), the state in /proc/pid/stat and the first number of
    /proc/pid/schedstat.
    """
    deadline_s, until_ns = time.monotonic() + RUN_S, dict[str, int]()
    with suppress(OSError):
        for thread in os.listdir(THREADS):  # noqa: PTH208 - each call that opens a file gives up the GIL
            if time.monotonic() < deadline_s and (ran_ns := _running_ns(thread)) is not None:
                until_ns[thread] = ran_ns + RUN_NS
    until_ns.pop(str(threading.get_native_id()), None)
    for thread, ns in until_ns.items():
        while time.monotonic() < deadline_s and (ran_ns := _running_ns(thread)) is not None and ran_ns < ns:
            time.sleep(1e-3)


def _running_ns(thread: str) -> int | None:
    """How long a thread has run; None where it waits for something, or has ended."""
    with suppress(OSError, ValueError, IndexError):
        if (THREADS / thread / "stat").read_bytes().rpartition(b")")[2].split()[0] == b"R":
            return int((THREADS / thread / "schedstat").read_bytes().split()[0])
    return None


def cores() -> int | None:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def file_in_new_folder(owner: Owner) -> Path:
    """The path of a file that does not exist yet, alone in a folder that goes when the owner closes."""
    folder = _Folder()
    owner.acquire(folder)
    return folder.path / "trace.json"


class _Folder:
    """A new folder as a resource: an interrupt in tempfile.TemporaryDirectory() leaves one that is never removed."""

    path: Path

    def acquire(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="perfmagic-"))

    def give_back(self) -> None:
        if hasattr(self, "path"):
            shutil.rmtree(self.path, ignore_errors=True)  # Windows keeps a file that is open
