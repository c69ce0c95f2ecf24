"""Charging time and ops to every line of the user's that was on the stack: cell, function, function it called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmagic.analysis.timeline.syncs import syncs
from perfmagic.trace.columns import NONE, Int32, Int64
from perfmagic.trace.model import Trace
from perfmagic.trace.once import once_per_trace
from perfmagic.trace.paths import NOWHERE, Paths


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
        found = np.zeros(len(self), np.int64)
        np.add.at(found, self.site, np.repeat(of_path, np.diff(self.begin)))
        return found

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
        site=np.array([one for some in on for one in some], np.int64),
    )


@once_per_trace
def op_paths(trace: Trace) -> Int64:
    """The path each device op was launched on, NOWHERE where that is not known; shape of ops."""
    launch = trace.ops.launch
    found = np.zeros(len(launch), np.int64)
    if trace.paths is not None and len(trace.calls):
        calls = call_paths(trace)
        found = np.where(launch != NONE, calls[launch], NOWHERE)
    return found


@once_per_trace
def call_paths(trace: Trace) -> Int64:
    """The path each call was made on, NOWHERE where that is not known; shape of calls."""
    paths = trace.paths
    if paths is None:
        return np.zeros(len(trace.calls), np.int64)
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
    if trace.paths is None:
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


@once_per_trace
def sync_paths(trace: Trace) -> Int64:
    """The path of each blocking call; shape of syncs(trace)."""
    return call_paths(trace)[syncs(trace).call]


def _end_ns(trace: Trace) -> int:
    return trace.meta.end_ns if trace.meta.returned_ns is None else trace.meta.returned_ns
