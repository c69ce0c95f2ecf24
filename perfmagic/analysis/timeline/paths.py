"""Charging time and ops to every line of the user's that was on the stack: cell, function, function it called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmagic.trace.columns import NO_LINE, NONE, Bool, Int32, Int64, constant
from perfmagic.trace.model import Trace, once_per_trace
from perfmagic.trace.paths import NOWHERE, Paths

# Charging time and ops to every line of the user's that was on the stack: cell, function, function it called.


@dataclass(frozen=True, eq=False)
class Sites:
    """The lines of functions that ran, each once, in order of their function's first call and then of their number.

    function, line: of each.  begin, site: the sites on path i are site[begin[i] : begin[i + 1]], a line that recursion
    comes back to once.
    """

    function: Int32
    line: Int32
    begin: Int64
    site: Int64

    def __len__(self) -> int:
        return len(self.line)

    def charged(self, path: Int64, value: npt.NDArray[Any]) -> Int64:
        """The sum of some values, each of a path, for every site on it; shape of line."""
        of_path = np.zeros(len(self.begin) - 1, np.int64)
        np.add.at(of_path, path, value)
        sums = np.zeros(len(self), np.int64)
        np.add.at(sums, self.site, np.repeat(of_path, np.diff(self.begin)))
        return sums

    def rows_on(self, path: Int64) -> tuple[Int64, Int64]:
        """Some rows, each of a path, once for every site on it: the site, and the row."""
        n = np.diff(self.begin)[path]
        row = np.repeat(np.arange(len(path)), n)
        at = np.arange(len(row)) - np.repeat(np.cumsum(n) - n, n) + self.begin[path][row]
        return self.site[at], row


@once_per_trace
def sites(trace: Trace) -> Sites:
    """The lines of functions that a trace knows; none where lines were not followed."""
    paths = trace.paths
    if paths is None:
        none = np.zeros(0, np.int64)
        return Sites(none.astype(np.int32), none.astype(np.int32), np.zeros(2, np.int64), none)
    known = sorted(set(zip(paths.function.tolist()[1:], paths.line.tolist()[1:], strict=True)))
    number = {key: i for i, key in enumerate(known)}
    on: list[tuple[int, ...]] = [()]
    for row in range(1, len(paths)):  # callers come first
        own = number[int(paths.function[row]), int(paths.line[row])]
        above = on[int(paths.parent[row])]
        on.append(above if own in above else (*above, own))
    return Sites(
        function=np.array([f for f, _ in known], np.int32),
        line=np.array([n for _, n in known], np.int32),
        begin=np.concatenate(([0], np.cumsum([len(some) for some in on]))),
        site=np.array([site_on_path for some in on for site_on_path in some], np.int64),
    )


@once_per_trace
def op_paths(trace: Trace) -> Int64:
    """The path each device op was launched on, NOWHERE where that is not known; shape of ops."""
    launch = trace.ops.launch
    if trace.paths is None or not len(trace.calls):
        return constant(len(launch), NOWHERE, np.int64)
    return np.where(launch != NONE, call_paths(trace)[launch], NOWHERE)


@once_per_trace
def call_paths(trace: Trace) -> Int64:
    """The path each call was made on, NOWHERE where that is not known; shape of calls."""
    paths = trace.paths
    if paths is None:
        return constant(len(trace.calls), NOWHERE, np.int64)
    start = trace.calls.start_ns
    inside = paths.followed(start) & (start < _end_ns(trace))
    return np.where(inside, paths.at(trace.calls.thread, start), NOWHERE)


@dataclass(frozen=True, eq=False)
class OnPath:
    """When threads were on which path; arrays of equal length, times in ns."""

    path: Int64
    thread: Int64
    start_ns: Int64
    end_ns: Int64


@once_per_trace
def on_paths(trace: Trace) -> OnPath:
    """The time of every thread with lines of the user's, cut wherever its path changed."""
    if trace.paths is None or not trace.paths.by_thread:
        none = np.zeros(0, np.int64)
        return OnPath(none, none, none, none)
    end = _end_ns(trace) if trace.paths.until_ns == NONE else trace.paths.until_ns
    parts = [_stretches(trace.paths, thread, trace.meta.start_ns, end) for thread in trace.paths.by_thread]
    return OnPath(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _stretches(paths: Paths, thread: int, start_ns: int, end_ns: int) -> tuple[Int64, Int64, Int64, Int64]:
    marks = paths.by_thread[thread]
    begin = np.clip(marks.at_ns, start_ns, end_ns)
    after = np.append(begin[1:], end_ns)
    kept = np.flatnonzero((after > begin) & (marks.path != NOWHERE))
    return marks.path[kept], np.full(len(kept), thread), begin[kept], after[kept]


def _end_ns(trace: Trace) -> int:
    return trace.meta.end_ns if trace.meta.returned_ns is None else trace.meta.returned_ns


# The device ops of a line's backward: queued by `backward()`, and charged beside the line of their forward.


@dataclass(frozen=True, eq=False)
class BackwardRows:
    """Ops by the lines that their forward operator was on, less those that were queued on the same line.

    site, row: of a line of a function (Sites), and a row of ops.  cell_line: of the
    forward operator, shape of ops, NO_LINE where there is none or where the op is the line's own.
    """

    site: Int64
    row: Int64
    cell_line: Int32

    def of_site(self, site: int) -> Int64:
        """Rows of ops, rising."""
        return np.sort(self.row[self.site == site])

    def of_cell_line(self, line: int) -> Int64:
        """Rows of ops, rising."""
        return np.flatnonzero(self.cell_line == line)


@once_per_trace
def backward_rows(trace: Trace) -> BackwardRows:
    """The backward of every line; none where the record has no sequence numbers of autograd's."""
    path = forward_paths(trace)
    known = sites(trace)
    site, row = known.rows_on(path)
    other = ~_on_own_path(known, op_paths(trace)[row], site)
    line = np.zeros(len(path), np.int32)
    if trace.paths is not None:
        line = np.where(path != NOWHERE, trace.paths.cell_line[path], NO_LINE)
    return BackwardRows(site[other], row[other], np.where(line == trace.ops.line, NO_LINE, line).astype(np.int32))


@once_per_trace
def forward_paths(trace: Trace) -> Int64:
    """The path that the forward operator of each op of a backward was on, NOWHERE for other ops; shape of ops."""
    path = np.full(len(trace.ops), NOWHERE, np.int64)
    known = np.flatnonzero(trace.ops.forward_ns != NONE)
    if trace.paths is not None and len(known):
        path[known] = trace.paths.at(trace.ops.forward_thread[known], trace.ops.forward_ns[known])
    return path


def _on_own_path(known: Sites, path: Int64, site: Int64) -> Bool:
    """Whether each site lies on a path; shape of both."""
    n = max(len(known), 1)
    pairs = np.repeat(np.arange(len(known.begin) - 1), np.diff(known.begin)) * n + known.site
    return np.isin(path * n + site, pairs)
