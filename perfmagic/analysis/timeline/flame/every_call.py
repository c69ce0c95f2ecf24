"""Every call with the path it is on: a flame graph of any time adds these up, also where nobody has the trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from perfmagic.analysis.timeline.flame.call_paths import (
    ends_inside,
    host_rows,
    labelled,
    recorded_threads,
    thread_label,
)
from perfmagic.base.numerics.intervals import coded
from perfmagic.trace.columns import NONE, HostOps, Int64
from perfmagic.trace.hoststack import nested
from perfmagic.trace.model import Trace


@dataclass(frozen=True, eq=False)
class EveryCall:
    """The paths of all threads, and the calls on each; call_paths() of any time follows from them, exactly.

    labels: the name and the kind of each label.
    parent, label: of each path. Callers come first; a thread has the parent NONE.
    path: of each row of trace.host_ops, NONE of rows that are in no flame graph.
    early_ns: how long before its end each of these rows stops counting, as the call around it ends.
    start_ns, end_ns, frame_path: of each frame or line, a thread after the other, by depth and start.
    left_out_ns: frames and lines up to this length are left out, and count as their caller's own time; 0: none.
    """

    labels: tuple[tuple[str, str], ...]
    parent: Int64
    label: Int64
    path: Int64
    early_ns: Int64
    start_ns: Int64
    end_ns: Int64
    frame_path: Int64
    left_out_ns: int


def every_call(trace: Trace, most_frames: int) -> EveryCall:
    """Which path is each call on? most_frames: of more frames and lines the shortest are left out."""
    threads = recorded_threads(trace)
    made = [host_rows(trace, thread) for thread in threads]
    left_out_ns = _length_left_out([table for table, _ in made], most_frames)
    paths = _Paths(trace, left_out_ns)
    for thread, (table, names) in zip(threads, made, strict=True):
        paths.add(thread, table, names)
    return paths.result()


def _length_left_out(tables: Sequence[HostOps], most_frames: int) -> int:
    """The length of the longest frame that is left out, so that most_frames remain at most; 0 where all do."""
    lengths = np.concatenate([(table.end_ns - table.start_ns)[table.value == NONE] for table in tables])
    if len(lengths) <= most_frames:
        return 0
    return int(np.partition(lengths, -most_frames - 1)[-most_frames - 1])


@dataclass
class _Paths:
    """Collects the paths and the calls of one thread after the other."""

    trace: Trace
    left_out_ns: int
    labels: dict[tuple[str, str], int] = field(default_factory=dict)
    parent: list[Int64] = field(default_factory=list)
    label: list[Int64] = field(default_factory=list)
    frames: list[tuple[Int64, ...]] = field(default_factory=lambda: [(np.zeros(0, np.int64),) * 3])
    n_paths: int = 0

    def __post_init__(self) -> None:
        n_rows = len(self.trace.host_ops)
        self.path, self.early_ns = np.full(n_rows, NONE, np.int64), np.zeros(n_rows, np.int64)

    def add(self, thread: int, table: HostOps, names: Sequence[str]) -> None:
        """Add a thread; one without calls is left out."""
        stack = nested(table)
        parent, end_ns = stack.parents(), ends_inside(stack, stack.parents())
        label, labels = labelled(table, names, len(self.trace.names))
        number = np.array([self._number(words) for words in labels], np.int64)[label]
        is_frame = table.value == NONE
        kept = ~is_frame | (table.end_ns - table.start_ns > self.left_out_ns)
        path = np.full(len(table) + 1, self.n_paths)  # the last one, of NONE, is the thread's
        for depth, level in enumerate(stack.levels.get(thread, ())):
            if not depth:
                self._new(np.array([NONE]), np.array([self._number(thread_label(self.trace, thread))]))
            path[level] = path[parent[level]]  # of those left out, their caller's
            rows = level[kept[level]]
            keys, group = coded(path[parent[rows]] * len(self.labels) + number[rows])
            path[rows] = self.n_paths + group
            self._new(keys // len(self.labels), keys % len(self.labels))
            own, frames = rows[~is_frame[rows]], rows[is_frame[rows]]
            self.path[table.value[own]] = path[own]
            self.early_ns[table.value[own]] = table.end_ns[own] - end_ns[own]
            self.frames.append((table.start_ns[frames], end_ns[frames], path[frames]))

    def result(self) -> EveryCall:
        start_ns, end_ns, frame_path = (_joined(column) for column in zip(*self.frames, strict=True))
        paths = tuple(self.labels), _joined(self.parent), _joined(self.label)
        return EveryCall(*paths, self.path, self.early_ns, start_ns, end_ns, frame_path, self.left_out_ns)

    def _number(self, words: tuple[str, str]) -> int:
        return self.labels.setdefault(words, len(self.labels))

    def _new(self, parent: Int64, label: Int64) -> None:
        """Number some more paths."""
        self.parent.append(parent)
        self.label.append(label)
        self.n_paths += len(parent)


def _joined(parts: Sequence[Int64]) -> Int64:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
