"""From the device ops of a backward to the operators of their forward, by the numbers that autograd gives its nodes.

torch.profiler writes the number of an operator's node, and on the rows of a backward the number of the node that runs.
Source: torch/csrc/autograd/profiler_kineto.cpp, "Sequence number" and "Fwd thread id"; docs/kineto.md.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from perfmagic.trace.backward import forward_rows
from perfmagic.trace.columns import NONE, Bool, Int64
from perfmagic.trace.kineto.parts import Columns
from perfmagic.trace.model import Trace

_DEEPEST = 64  # rows of a backward inside each other that are looked through


def with_forward(trace: Trace, host_ops: Columns, linked: Columns) -> Trace:
    """The trace whose ops know when, and on which thread, the operator of their forward began.

    host_ops, linked: columns of one length: start_ns, end_ns and thread; sequence and forward_thread.
    """
    sequence, thread = linked["sequence"], host_ops["thread"]
    numbered = sequence != NONE
    backward = np.flatnonzero(numbered & (linked["forward_thread"] > 0))
    forward = np.flatnonzero(numbered & (linked["forward_thread"] <= 0))
    launch = trace.ops.launch
    known = np.flatnonzero(launch != NONE)
    if not len(backward) or not len(forward) or not len(known):
        return trace
    calls = trace.calls
    inner = around(host_ops, backward, calls.thread[launch[known]], calls.start_ns[launch[known]])
    inside = inner != NONE
    rows, at = known[inside], inner[inside]
    found = forward_rows(sequence[forward], host_ops["start_ns"][forward], sequence[at], host_ops["start_ns"][at])
    has = found != NONE
    forward_ns, forward_thread = trace.ops.forward_ns.copy(), trace.ops.forward_thread.copy()
    forward_ns[rows[has]] = host_ops["start_ns"][forward[found[has]]]
    forward_thread[rows[has]] = thread[forward[found[has]]]
    for column in (forward_ns, forward_thread):
        column.flags.writeable = False
    return replace(trace, ops=replace(trace.ops, forward_ns=forward_ns, forward_thread=forward_thread))


def around(host_ops: Columns, rows: Int64, thread: Int64, at_ns: Int64) -> Int64:
    """The innermost of some rows that runs on each thread at each instant, NONE where none does; shape of at_ns."""
    found = np.full(len(at_ns), NONE, np.int64)
    for one in np.unique(thread).tolist():
        mine = rows[host_ops["thread"][rows] == one]
        mine = mine[np.argsort(host_ops["start_ns"][mine], kind="stable")]
        asked = np.flatnonzero(thread == one)
        last = np.searchsorted(host_ops["start_ns"][mine], at_ns[asked], side="right") - 1
        for _ in range(_DEEPEST):  # one that has ended may lie in one that has not
            open_: Bool = last >= 0
            row = mine[np.maximum(last, 0)] if len(mine) else np.zeros(len(last), np.int64)
            runs = open_ & (host_ops["end_ns"][row] > at_ns[asked]) if len(mine) else open_
            found[asked[runs]] = row[runs]
            asked, last = asked[open_ & ~runs], last[open_ & ~runs] - 1
            if not len(asked):
                break
    return found
