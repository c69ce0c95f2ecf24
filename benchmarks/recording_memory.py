"""What a recorded operator costs in memory: while the profiler runs, and when the recording is ended and read.

    python benchmarks/recording_memory.py [operators]

Prints one line; perfmagic.capture.recording.session ends a recording by these figures. Linux, torch.
"""

import resource
import sys
import time

import torch

from perfmagic.capture.owner import Owner
from perfmagic.capture.recording import session as memory_guard
from perfmagic.capture.recording.session import Session


def main() -> None:
    """Record a loop of additions on the CPU, five operators each."""
    additions = int(sys.argv[1]) // 5 if len(sys.argv) > 1 else 200_000
    x = torch.ones(4)
    owner = Owner()
    with owner:
        Session(torch, cuda=False).open(owner)  # the first session allocates what all share
    before_bytes = memory_guard.own_bytes()
    session = Session(torch, cuda=False)
    with owner:
        session.open(owner)
        for _ in range(additions):
            x + 1
        live_bytes = memory_guard.own_bytes() - before_bytes
        start_s = time.perf_counter()
    trace = session.read()
    spent_s = time.perf_counter() - start_s
    assert trace is not None
    n = len(trace.host_ops)
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before_bytes
    print(
        f"{n:,} operators: {live_bytes / n:.0f} B each while recording, {peak_bytes / n:.0f} B each at the peak of "
        f"ending and reading ({peak_bytes / live_bytes:.1f} times as much), which took {spent_s / n * 1e6:.1f} µs each"
    )


if __name__ == "__main__":
    main()
