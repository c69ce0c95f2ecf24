"""Joining rows of different tables: an op to its launch, an instant to a line; what a call does, by its name."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np

from perfmagic.trace.columns import NO_LINE, NONE, CallKind, Int8, Int32, Int64, LineMarks


def launch_rows(op_correlation: Int64, call_correlation: Int64, call_kind: Int8) -> Int64:
    """The row of the call that queued each op, NONE where the record has none; shape of op_correlation.

    Joined by the correlation id, among launches first and other calls only where no launch carries the id (older files
    name driver calls freely). Of several calls with one id the first wins; one launch may have many ops (graphs).
    Source: docs/words.md, "launch"; ids of op rows use another number space and must not be passed here.
    """
    rows = np.flatnonzero(call_correlation != NONE)
    if not len(rows) or not len(op_correlation):
        return np.full(len(op_correlation), NONE, np.int64)
    not_launch = (call_kind[rows] != CallKind.LAUNCH).astype(np.int64)
    rows = rows[np.lexsort((rows, not_launch, call_correlation[rows]))]
    ids = call_correlation[rows]
    at = np.minimum(np.searchsorted(ids, op_correlation, side="left"), len(ids) - 1)
    matched = (ids[at] == op_correlation) & (op_correlation != NONE)
    return np.where(matched, rows[at], NONE)


def lines_at(marks: LineMarks, at_ns: Int64) -> Int32:
    """The innermost marked line running at each instant, NO_LINE outside the cell; shape of at_ns.

    By time, not by thread: launches made for the cell by autograd's threads count to the line that waits for them.
    """
    return _at(marks, marks.line, at_ns)


def layer_lines_at(marks: LineMarks, at_ns: Int64) -> Int32:
    """The line a picture counts each instant to, NO_LINE outside the cell; shape of at_ns. See layer_lines."""
    return _at(marks, layer_lines(marks), at_ns)


def layer_lines(marks: LineMarks) -> Int32:
    """For each mark the line a picture shows: a statement that passes each of its lines once (a `with`, an `if`) is
    shown line by line, one that comes back to a line (a loop) as a whole: by the one line of its body, as findings and
    the critical path name it, or by its first line where the body has several.
    """
    shown = marks.line.copy()
    if not len(marks):
        return shown
    begins = [0, *(np.flatnonzero(marks.top_line[1:] != marks.top_line[:-1]) + 1).tolist()]
    for begin, end in pairwise([*begins, len(marks)]):
        lines = marks.line[begin:end]
        runs = 1 + int(np.count_nonzero(lines[1:] != lines[:-1]))
        if runs > len(np.unique(lines)):
            body = np.unique(lines[lines != marks.top_line[begin]])
            shown[begin:end] = body[0] if len(body) == 1 else marks.top_line[begin]
    return shown


def _at(marks: LineMarks, values: Int32, at_ns: Int64) -> Int32:
    if not len(marks):
        return np.full(len(at_ns), NO_LINE, np.int32)
    row = np.searchsorted(marks.at_ns, at_ns, side="right") - 1
    return np.where(row >= 0, values[np.maximum(row, 0)], NO_LINE).astype(np.int32)


# Which forward a backward belongs to: both carry the number of one autograd node.


def forward_rows(number: Int64, at_ns: Int64, wanted: Int64, before_ns: Int64) -> Int64:
    """For each wanted number the row of the latest forward with that number that began before; NONE without one.

    number, at_ns: of the forwards.  wanted, before_ns: of the backwards. Each thread counts for itself, so that a
    number may come twice: the latest is taken.
    """
    order = np.lexsort((at_ns, number))
    number, at_ns = number[order], at_ns[order]
    low = np.searchsorted(number, wanted, side="left")
    high = np.searchsorted(number, wanted, side="right")
    forward = np.full(len(wanted), NONE, np.int64)
    for i in np.flatnonzero(high > low).tolist():
        at = int(low[i]) + int(np.searchsorted(at_ns[low[i] : high[i]], before_ns[i], side="left")) - 1
        if at >= low[i]:
            forward[i] = order[at]
    return forward


# What the name of a CUDA or HIP runtime or driver call says: what it does, and whether it waits.

# First match wins. Read in the runtime and driver headers of CUDA 12.8 and ROCm 6.4.
_CALL_KINDS = (
    (re.compile(r"Launch(?!HostFunc)|Memcpy|Memset"), CallKind.LAUNCH),
    (re.compile(r"Synchronize"), CallKind.SYNC),
    (re.compile(r"StreamWait(?:Event|Value)"), CallKind.WAIT),
    (re.compile(r"EventRecord"), CallKind.RECORD),
    (re.compile(r"Malloc|Free|HostAlloc|Host(?:Unr|R)egister|Mem(?:Alloc|Create|Release|Map|Unmap)"), CallKind.MEMORY),
)
_RUNTIME_NAME = re.compile(r"(?:cuda|cu|hip|hsa_)")

_BLOCKING_COPY = re.compile(r"^(?:cuda|hip|cu)Memcpy(?!.*(?:Async|DtoD|Peer))")

_WAITS_FOR_ALL = re.compile(r"^(?:cuda|hip)DeviceSynchronize|^(?:cu|hip)CtxSynchronize")


def is_blocking_copy(name: str) -> bool:
    """Whether a runtime or driver call is a copy between host and device that returns only when it is done.

    cudaMemcpy, cuMemcpyDtoH, and HIP's hipMemcpyWithStream, which is what .item() calls there.
    """
    return _BLOCKING_COPY.match(name) is not None


def waits_for_all(name: str) -> bool:
    """Whether a runtime or driver call waits for all the streams of a device."""
    return _WAITS_FOR_ALL.match(name) is not None


def call_kind(name: str) -> CallKind:
    """What a CUDA or HIP runtime or driver call does, by its name."""
    if _RUNTIME_NAME.match(name):
        for pattern, kind in _CALL_KINDS:
            if pattern.search(name):
                return kind
    return CallKind.OTHER
