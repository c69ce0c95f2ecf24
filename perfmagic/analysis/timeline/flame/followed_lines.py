"""The lines that perfmagic followed, as rows of the host: the cell's, and inside them those of its functions."""

from __future__ import annotations

import numpy as np

from perfmagic.base.numerics.intervals import Intervals, union
from perfmagic.trace.columns import NO_LINE, NONE, HostKind, HostOps, Int64
from perfmagic.trace.model import Cell, Trace
from perfmagic.trace.paths import NOWHERE, Paths


def followed_lines(trace: Trace, thread: int) -> tuple[HostOps, tuple[str, ...]]:
    """Each stay on a line as a row of one thread, callers around what they called, and the names of these rows.

    Without followed functions the lines of the cell alone, which ran on its thread.
    """
    meta = trace.meta
    last_ns = meta.end_ns if meta.returned_ns is None else meta.returned_ns
    if trace.paths is None:
        marks = trace.marks
        levels = [np.where(marks.line == NO_LINE, NOWHERE, marks.line).astype(np.int64)]
        names = [_line_name(trace.cell, line) for line in range(int(marks.line.max(initial=0)) + 1)]
        return _stays(marks.at_ns, levels, last_ns, thread), tuple(names)
    paths = trace.paths
    own = paths.by_thread.get(thread)
    if own is None:
        return HostOps.make(), ()
    names = ["", *(_path_name(trace.cell, paths, row) for row in range(1, len(paths)))]
    last_ns = last_ns if paths.until_ns == NONE else min(last_ns, paths.until_ns)
    return _stays(own.at_ns, _callers(paths, own.path), last_ns, thread), tuple(names)


def _line_name(cell: Cell | None, line: int) -> str:
    text = cell.text(line) if cell else ""
    return f"line {line}: {text}" if text else f"line {line}"


def _path_name(cell: Cell | None, paths: Paths, row: int) -> str:
    function, line = paths.functions[paths.function[row]], int(paths.line[row])
    if function.is_cell:
        return _line_name(cell, line)
    text = function.text(line)
    return f"{function.name} ({function.file}:{line})" + (f": {text}" if text else "")


def _callers(paths: Paths, path: Int64) -> list[Int64]:
    """Of each path the outermost path that it is inside of, then the next, down to itself; NOWHERE below that."""
    depth = np.zeros(len(paths), np.int64)
    for row in range(1, len(paths)):  # callers come first
        depth[row] = depth[paths.parent[row]] + 1
    levels = [np.full(len(path), NOWHERE, np.int64) for _ in range(int(depth[path].max(initial=0)))]
    above = path.astype(np.int64)
    while (above != NOWHERE).any():
        for level in np.unique(depth[above[above != NOWHERE]]).tolist():
            here = depth[above] == level
            levels[level - 1][here] = above[here]
        above = paths.parent[above].astype(np.int64)
    return levels


def _stays(at_ns: Int64, levels: list[Int64], last_ns: int, thread: int) -> HostOps:
    """Rows from marks: each level's value holds until it changes, or what is around it does."""
    if not len(at_ns) or not levels:
        return HostOps.make()
    start, end, name = [], [], []
    end_ns = np.append(at_ns[1:], max(last_ns, int(at_ns[-1])))
    changed = np.arange(len(at_ns)) == 0
    for level in levels:
        changed = changed.copy()
        changed[1:] |= level[1:] != level[:-1]
        first = np.flatnonzero(changed)
        last = np.append(first[1:], len(at_ns)) - 1
        stays = level[first] != NOWHERE
        start.append(at_ns[first][stays])
        end.append(end_ns[last][stays])
        name.append(level[first][stays])
    n = sum(map(len, start))
    columns = {"start_ns": start, "end_ns": end, "name": name}
    joined = {key: np.concatenate(parts) for key, parts in columns.items()}
    fixed = {"kind": np.full(n, HostKind.PYTHON), "thread": np.full(n, thread)}
    return HostOps.make({**joined, **fixed})


def time_on_line(trace: Trace, line: int) -> Intervals:
    """When Python was on a line of the cell, or in what the line called."""
    marks, meta = trace.marks, trace.meta
    last_ns = meta.end_ns if meta.returned_ns is None else meta.returned_ns
    end_ns = np.append(marks.at_ns[1:], max(last_ns, int(marks.at_ns.max(initial=last_ns))))
    on = marks.line == line
    return union(marks.at_ns[on], end_ns[: len(on)][on])
