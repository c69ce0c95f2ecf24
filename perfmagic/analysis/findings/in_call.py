"""The finding "calls into the driver", that held Python while the device had nothing to do, and its sentence."""

from __future__ import annotations

import re

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts, listed, sentences
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.places import on_call_lines
from perfmagic.analysis.timeline.pauses import long_calls
from perfmagic.numerics.intervals import Intervals, covered_ns, intersect, total_ns
from perfmagic.trace.columns import Int64

NAMED = 3  # calls that the sentence names
_LAUNCH = re.compile(r"launch", re.IGNORECASE)
# cuModuleLoadData, cuLibraryLoadData, hipModuleLoad; cudaFuncGetAttributes loads the kernel too
_LOAD = re.compile(
    r"(?:module|library|func|kernel).*(?:load|get)|(?:load|get).*(?:module|library|func|kernel)", re.IGNORECASE
)
_MEMORY = re.compile(r"malloc|free|alloc|mem(?:create|map|unmap|setaccess|address)", re.IGNORECASE)
_LAZY = (
    "The first launch of a kernel loads its code: run the cell once before recording, "
    "or set CUDA_MODULE_LOADING=EAGER to load all at the start"
)
_ALLOCATE = (
    "The allocator asks the driver for memory in the first steps: run them before recording; where it goes on, "
    "PYTORCH_ALLOC_CONF=expandable_segments:True or constant shapes avoid it"
)
# the allocator frees only what it must, to find room; a library such as cuDNN or cuBLAS calls cudaFree as it starts
_FREE = re.compile(r"^(?:cuda|hip|cuMem|hipMem)Free(?!Async)")
_START = (
    "Most of its time is one call, as when CUDA or a library such as cuDNN starts: run the cell once before recording, "
    "and do not empty the allocator's cache behind it"
)
_RETRY = (
    "The allocator gave memory back to find room: torch.cuda.memory_stats()['num_alloc_retries'] counts it; "
    "smaller batches, or PYTORCH_ALLOC_CONF=expandable_segments:True, avoid it"
)


def in_call(facts: Facts, free: Intervals) -> list[Finding]:
    """Time in which the device had nothing to do because Python was held in runtime or driver calls.

    Source of the settings: CUDA C++ Programming Guide, "Lazy Loading"; PyTorch, "CUDA semantics", memory management.
    """
    where = intersect(facts.cell_time.causes.in_call, free)
    cost_ns = total_ns(where)
    if cost_ns < facts.notable_ns:
        return []
    rows, held_ns = _calls_in(facts, where)
    names, code = np.unique(facts.trace.calls.name[rows], return_inverse=True)
    sums = np.bincount(code, weights=held_ns, minlength=len(names)).astype(np.int64)
    order = np.argsort(-sums, kind="stable").tolist()
    words = [_one(facts, rows[code == i], held_ns[code == i]) for i in order[:NAMED]]
    more = len(order) - NAMED
    words += [units.plural(more, "other call")] if more > 0 else []
    lines = np.unique(facts.trace.calls.line[rows])
    longest = held_ns[code == order[0]]
    held = f"{facts.the_device} had nothing to do while Python was in {listed(words)}{on_call_lines(facts, rows, 3)}"
    return [
        Finding(
            rule="in_call",
            cost_ns=cost_ns,
            cause=f"{units.duration(cost_ns)} in calls into the driver",
            detail=f": {sentences(held)}",
            lines=tuple(int(n) for n in lines[:3] if n > 0),
            start_ns=int(where[0, 0]),
            end_ns=int(where[-1, 1]),
            device=facts.device,
            advice=_advice(facts.trace.names[names[order[0]]], longest),
            where=where,
        )
    ]


def _calls_in(facts: Facts, where: Intervals) -> tuple[Int64, Int64]:
    """The long calls that reach into some time, and how long each does; the outer one where calls nest."""
    calls, rows = facts.trace.calls, long_calls(facts.trace)
    held = covered_ns(where, calls.start_ns[rows], calls.end_ns[rows])
    rows, held = rows[held > 0], held[held > 0]
    reached = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(calls.end_ns[rows])[:-1]))[: len(rows)]
    outer = calls.start_ns[rows] >= reached
    return rows[outer], held[outer]


def _one(facts: Facts, rows: Int64, held_ns: Int64) -> str:
    """One call in words: "cudaLaunchKernel for 626 ms (×12, the longest 102 ms)"."""
    name = facts.trace.names[facts.trace.calls.name[rows[0]]]
    times = f" (×{units.count(len(rows))}, the longest {units.duration(int(held_ns.max()))})" if len(rows) > 1 else ""
    return f"{name} for {units.duration(int(held_ns.sum()))}{times}"


def _advice(name: str, held_ns: Int64) -> str:
    """What to do about the call that held Python longest; nothing for one of which nothing is known.

    held_ns: how long each call of that name did.
    """
    if _LAUNCH.search(name) or _LOAD.search(name):
        return _LAZY
    if _FREE.match(name):
        start = f"{name}: {_START[0].lower()}{_START[1:]}"
        return start if 2 * int(held_ns.max()) > int(held_ns.sum()) else _RETRY
    return _ALLOCATE if _MEMORY.search(name) else ""
