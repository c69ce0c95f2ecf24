"""State of the whole process, shared by both functions: clocks, random numbers, threads, child processes."""

from __future__ import annotations

import _thread
import builtins
import gc
import operator
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from perfmagic.base.imported import sim_loaded, torch_if_imported
from perfmagic.capture.same_work.callees import of_its_library

# Our own references, taken before any compared function runs.
NOW_NS, SLEEP, CPU_NS = time.perf_counter_ns, time.sleep, time.process_time_ns


# Functions that time, wait or compare: replaced ones would change what is measured.

_CLOCKS = ("perf_counter", "perf_counter_ns", "time", "time_ns", "monotonic", "monotonic_ns", "process_time", "sleep")
_OF_DEVICES = ("synchronize", "Event", "Stream", "current_stream")
_OF_TENSORS = ("__matmul__", "__mul__", "__add__", "clone", "cpu", "numpy", "to", "copy_", "item", "__eq__", "__bool__")


class Replaced:
    """Detects replaced functions of modules, and restores them."""

    def __init__(self) -> None:
        self._some = [(owner, name, _own(owner, name)) for owner, name in _timing()]
        self._all = [(owner, {**vars(owner)}) for owner in _owners()]

    def timing(self) -> str:
        """The first timing or comparing function that has been replaced; "" for none. It is restored."""
        found = ""
        for owner, name, was in self._some:
            if _own(owner, name) is not was:
                delattr(owner, name) if was is None else setattr(owner, name, was)
                found = found or f"{_called(owner)}.{name}"
        return found

    def anything(self) -> str:
        """The first replaced attribute of the modules that both functions compute with; "" for none."""
        for owner, was in self._all:
            now = vars(owner)
            if all(map(operator.is_, was.values(), map(now.get, was))):
                continue
            for name, value in was.items():
                if (other := now.get(name)) is value or of_its_library(value, other) or _of_torch(value, other):
                    continue
                if callable(value) and not name.startswith("_abc_"):
                    with suppress(AttributeError, TypeError):
                        setattr(owner, name, value)
                    return f"{_called(owner)}.{name}"
        return ""


def _of_torch(was: Any, function: Any) -> bool:
    """Whether it is a wrapper by torch: its compiler wraps some functions on its first call."""
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None) or ()
    return (
        code is not None
        and any(cell.cell_contents is was for cell in cells)
        and Path(getattr(torch_if_imported(), "__file__", "") or "-").parent in Path(code.co_filename).parents
    )


def _own(owner: Any, name: str) -> Any:
    """An owner's own attribute; None if it is inherited or missing."""
    return owner.__dict__.get(name)


def _called(owner: Any) -> str:
    return owner.__name__ if not isinstance(owner, type) else f"{owner.__module__}.{owner.__qualname__}"


def _timing() -> list[tuple[Any, str]]:
    torch, pm = torch_if_imported(), sys.modules.get("perfmagic")
    found: list[tuple[Any, str]] = [(time, name) for name in _CLOCKS]
    found += [(np, "allclose"), (np, "array_equal"), *((pm, name) for name in ("synchronize",) if pm is not None)]
    if torch is None or not hasattr(torch, "Tensor"):
        return found
    for module in filter(None, (torch.cuda, getattr(torch, "sim", None), getattr(torch, "accelerator", None))):
        found += [(module, name) for name in _OF_DEVICES]
        event = getattr(module, "Event", None)
        found += [(event, name) for name in ("elapsed_time", "record", "synchronize", "query") if event is not None]
    found += [(torch.Tensor, name) for name in _OF_TENSORS]
    return [*found, (torch, "equal"), (torch, "allclose"), (torch, "isclose")]


def _owners() -> list[Any]:
    torch = torch_if_imported()
    owners: list[Any] = [builtins, np, np.linalg, gc]
    owners += [module for name, module in sys.modules.items() if name.startswith("perfmagic.") and module is not None]
    if torch is not None and hasattr(torch, "Tensor"):
        owners += [torch, torch.Tensor, torch.nn.functional, torch.linalg, torch.nn.Module, torch.nn.Linear]
        owners += [module for name in ("_TensorBase", "_C") if (module := getattr(torch._C, name, None))]
    return [owner for owner in owners if hasattr(owner, "__dict__")]


# Random numbers: the same for both, and restored afterwards.


class RandomState:
    """Seeds the generators of torch, numpy and Python before a call, and restores them."""

    def __init__(self) -> None:
        import random

        self._random, self._was, self._numpy = random, random.getstate(), np.random.get_state()  # noqa: NPY002
        self._host = getattr(torch_if_imported(), "default_generator", None)
        self._host_was = None if self._host is None else self._host.get_state()
        self._devices_were = [(each, each.get_rng_state_all()) for each in _devices_that_draw()]
        self._given_back = False

    def set(self, seed: int) -> None:
        """Seed all generators. torch.manual_seed() takes 5 ms more, for devices that are not in use."""
        self._random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002 - what the user's functions draw from
        if self._host is not None:
            self._host.manual_seed(seed)
        for each in _devices_that_draw():
            each.manual_seed_all(seed)

    def close(self) -> None:
        """Restore the generators; harmless when repeated."""
        if self._given_back:
            return
        self._given_back = True
        self._random.setstate(self._was)
        np.random.set_state(self._numpy)  # noqa: NPY002
        if self._host is not None:
            self._host.set_state(self._host_was)
        for each, states in self._devices_were:
            each.set_rng_state_all(states)


def _devices_that_draw() -> list[Any]:
    torch = torch_if_imported()
    if torch is None or not hasattr(torch, "cuda"):
        return []
    return [*([torch.sim] if sim_loaded() else []), *([torch.cuda] if torch.cuda.is_initialized() else [])]


# Threads and processes that keep running.


own_threads = [0]  # that watch a comparison (perfmagic.capture.bench.limit)


def n_threads() -> int:
    """Threads that Python has started, those without a Thread object too."""
    return max(_thread._count() + 1, len(threading.enumerate()))


def threads_cpu_ns() -> dict[int, int]:
    """CPU time in ns of each Python thread but this one, by the kernel's thread id; empty where it is not Linux.

    A thread may end at any moment, and pthread_getcpuclockid() reads freed memory then. The clock is built from the id
    instead, and one that has ended is an error. Source: CPUCLOCK_SCHED of linux/posix-timers_types.h, clock_getres(2).
    """
    if sys.platform != "linux":
        return {}
    me, taken = threading.get_native_id(), {}
    for thread in threading.enumerate():
        if thread.native_id not in (None, me):
            with suppress(OSError):
                taken[thread.native_id] = time.clock_gettime_ns((~thread.native_id << 3) | 6)
    return taken


def children() -> set[str]:
    """Running child processes of this process, if the system lists them."""
    found: set[str] = set()
    with suppress(OSError):
        for task in Path("/proc/self/task").iterdir():
            with suppress(OSError):
                found.update((task / "children").read_text().split())
    return {pid for pid in found if not _is_zombie(pid)}


def _is_zombie(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:1] == ["Z"]
    except OSError:
        return True


def more(after: Mapping[int, int], before: Mapping[int, int]) -> int:
    """The largest CPU time that one thread took in between, in ns."""
    return max((ns - before.get(thread, ns) for thread, ns in after.items()), default=0)
