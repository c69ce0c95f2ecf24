"""Whether anything still runs after a call has returned and was waited for: devices, threads, other streams."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from perfmagic.base.clock import reader, virtual_clock
from perfmagic.base.imported import sim_loaded, torch_if_imported
from perfmagic.capture.same_work.process import NOW_NS, SLEEP, children, more, n_threads, own_threads, threads_cpu_ns
from perfmagic.trace.samples import Condition

SETTLE_S = 0.04  # how long everything must be quiet
QUIET_S, QUIET_CAP_S = 0.02, 1.0  # before the first call
THREAD_NS = 4_000_000  # CPU time of a thread that keeps working; a kernel's own threads take less than 1 ms
UNJOINED_NS = 100_000  # waiting for an idle CUDA device takes 5 to 10 µs


def not_quiet(progress: Callable[[], int | None]) -> str | None:
    """What runs before the first call: device work, or threads that could not be attributed to a function later.

    Waits up to 1 s for a moment without either.
    """
    from_ns = NOW_NS()
    while True:
        queued, threads = progress(), threads_cpu_ns()
        SLEEP(QUIET_S)
        late = progress() != queued
        if not late and more(threads_cpu_ns(), threads) <= THREAD_NS * QUIET_S / SETTLE_S:
            return None
        if NOW_NS() - from_ns > QUIET_CAP_S * 1e9:
            return "not quiet" if late else "threads busy"


def is_unjoined(synchronize: Callable[[], None]) -> bool:
    """Whether devices still work after the caller's own stream is done. Call it when a function has returned."""
    torch: Any = torch_if_imported()
    if sim_loaded():
        torch.sim.current_stream().synchronize()
        if virtual_clock() is None:
            from perfmagic import sim

            return any(device.in_flight for device in sim.devices_in_use())
    elif torch is not None and hasattr(torch, "cuda") and torch.cuda.is_initialized():
        torch.cuda.current_stream().synchronize()
    else:
        return False
    clock_ns = reader()
    start_ns = clock_ns()
    synchronize()
    return clock_ns() - start_ns > UNJOINED_NS


def goes_on(progress: Callable[[], int | None], before: Collection[int]) -> list[Condition]:
    """What runs in a moment when nothing should.  before: threads that existed before any function ran."""
    queued, threads = progress(), threads_cpu_ns()
    if queued is None and n_threads() - own_threads[0] == 1 and not children():  # nothing could run
        return []
    SLEEP(SETTLE_S)
    found = []
    if (now := progress()) != queued:
        found.append(Condition("late work", {"n": (now or 0) - (queued or 0)}))
    after = threads_cpu_ns()
    busy_ns = more(after, threads)
    if more({thread: ns for thread, ns in after.items() if thread in before}, threads) > THREAD_NS:
        found.append(Condition("threads busy"))
    elif busy_ns > THREAD_NS:
        found.append(Condition("late thread", {"busy_s": busy_ns / 1e9, "of_s": SETTLE_S}))
    return found
